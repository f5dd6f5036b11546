"""Which engine and kernel ran what."""

from typing import ClassVar

import pytest
from fake_engine import FakeEngine
from study_data import one_link, written

from polypath import StudyError
from polypath.engines import ENGINES
from polypath.linux import KernelError
from polypath.results import Results, execute, plan

FIELDS = {"kernel": '"${k}"', "matrix": '{k: ["6.1", "6.12"]}', "duration": "5s", "seeds": 1, "baselines": "null"}
STUDY = one_link("order", "{rate: 20mbit, queue: 100packets, delay: 10ms}", "transport: tcp, cc: cubic", **FIELDS)
VARIED = 'kernel: "${k}"\nmatrix: {k: ["6.1", "6.12"]}\n'


class Kernels(FakeEngine):
    """Runs kernels; which of them are there, a test says."""

    name = "linux"
    there: ClassVar[dict[str, str]] = {}

    def versions(self, kernel=None):
        return self._with

    def _with(self, kernel):
        if kernel not in self.there:
            raise KernelError(f'there is no kernel "{kernel}"; build it with: polypath linux build {kernel}')
        return f"{self.there[kernel]}+{self.version}"

    def kernels(self):
        return [None, *self.there]

    def left_out(self, cell, kernel=None):
        self._with(kernel or cell.setup.kernel)

    def check(self, cell, kernel=None):
        self._with(kernel or cell.setup.kernel)
        super().check(cell, kernel)

    def platform(self, cell, kernel=None):
        return f"{self.name} {kernel or cell.setup.kernel}"


class Simulator(FakeEngine):
    """Its hosts are modelled on kernels."""

    name = "sim"

    def modelled_kernels(self):
        return ["6.1", "6.12"]


class Machine(Kernels):
    """Runs the one kernel that this machine has."""

    name = "host"
    real_time = True
    runs = "6.1.0-1"

    @property
    def only_kernel(self):
        return self.runs

    def versions(self, kernel=None):
        return lambda _: f"{self.runs}.{self.version}"

    def kernels(self):
        return [self.runs]

    def left_out(self, cell, kernel=None):
        return None

    def check(self, cell, kernel=None):
        return None


@pytest.fixture(autouse=True)
def engines(monkeypatch):
    monkeypatch.setitem(ENGINES, "linux", Kernels)
    monkeypatch.setitem(ENGINES, "host", Machine)
    monkeypatch.setitem(ENGINES, "sim", Simulator)
    monkeypatch.setattr(Kernels, "there", {"6.12": "a"})


@pytest.fixture
def study(tmp_path):
    return written(tmp_path, STUDY)


def rows(results):
    return sorted(((row["engine"], row["kernel"]) for row in results.table("runs").to_pylist()), key=str)


def ran(study, out, engine, **more):
    return execute(plan(study, engine=engine, out=out, **more))


def test_a_run_on_a_kernel_is_in_the_tables_whatever_other_kernels_are_not_built(study, tmp_path):
    ran(study, tmp_path, "sim")
    assert rows(ran(study, tmp_path, "linux", only={"k": "6.12"})) == [("linux", "6.12"), ("sim", None), ("sim", None)]
    # Also where another engine writes the tables.
    assert rows(ran(study, tmp_path, "sim")) == [("linux", "6.12"), ("sim", None), ("sim", None)]


def test_the_order_of_kernels_changes_nothing(tmp_path):
    study = written(tmp_path, STUDY.replace('["6.1", "6.12"]', '["6.12", "6.1"]'))
    assert rows(ran(study, tmp_path, "linux", only={"k": "6.12"})) == [("linux", "6.12")]


def test_a_kernel_of_an_experiment_that_is_not_built_hides_no_other(tmp_path, monkeypatch):
    text = STUDY.replace(VARIED, 'experiments: {old: {kernel: "6.1"}, new: {kernel: "6.12", duration: 6s}}\n')
    study = written(tmp_path, text)
    assert rows(ran(study, tmp_path, "linux", only={"experiment": "new"})) == [("linux", "6.12")]
    monkeypatch.setattr(Kernels, "there", {"6.1": "b"})
    assert rows(ran(study, tmp_path, "linux", only={"experiment": "old"})) == [("linux", "6.1"), ("linux", "6.12")]


def test_a_run_of_one_experiments_kernel_is_none_of_another_that_asks_for_another_kernel(tmp_path):
    # The two differ in their kernel alone.
    study = written(tmp_path, STUDY.replace(VARIED, 'experiments: {old: {kernel: "6.1"}, new: {kernel: "6.12"}}\n'))
    results = ran(study, tmp_path, "linux", only={"experiment": "new"})
    assert [(row["experiment"], row["kernel"]) for row in results.table("runs").to_pylist()] == [("new", "6.12")]
    # Where it was asked to stand in for the other, it is.
    results = ran(study, tmp_path, "linux", only={"experiment": "old"}, kernel="6.12")
    both = {("old", "6.12"), ("new", "6.12")}
    assert {(row["experiment"], row["kernel"]) for row in results.table("runs").to_pylist()} == both
    # And stays it, whatever runs later.
    for engine in ("linux", "sim"):
        results = ran(study, tmp_path, engine, only={"experiment": "new"})
        assert {(row["experiment"], row["kernel"]) for row in results.table("runs").to_pylist() if row["engine"] == "linux"} == both


def test_what_a_removed_kernel_ran_stays_and_is_told(study, tmp_path, monkeypatch):
    monkeypatch.setattr(Kernels, "there", {"6.1": "b", "6.12": "a"})
    ran(study, tmp_path, "linux")
    monkeypatch.setattr(Kernels, "there", {})
    again = plan(study, engine="sim", out=tmp_path)
    assert again.notes[-2:] == (
        "linux 6.1 is not there any more; the rows of its finished runs stay in the tables",
        "linux 6.12 is not there any more; the rows of its finished runs stay in the tables",
    )
    assert rows(execute(again))[:2] == [("linux", "6.1"), ("linux", "6.12")]
    # The versions are kept, too, so that they are still there the next time.
    assert rows(ran(study, tmp_path, "sim"))[:2] == [("linux", "6.1"), ("linux", "6.12")]


def test_a_kernel_that_stood_in_for_the_studys_stays_when_it_is_removed(tmp_path, monkeypatch):
    study = written(tmp_path, STUDY.replace(VARIED, ""))
    ran(study, tmp_path, "linux", kernel="6.12")
    monkeypatch.setattr(Kernels, "there", {"mine": "c"})
    assert rows(ran(study, tmp_path, "linux", kernel="mine")) == [("linux", "6.12"), ("linux", "mine")]


def test_what_another_build_of_a_kernel_ran_leaves_the_tables_and_that_is_told(study, tmp_path, monkeypatch):
    ran(study, tmp_path, "linux", only={"k": "6.12"})
    monkeypatch.setattr(Kernels, "there", {"6.12": "b"})
    again = plan(study, engine="sim", out=tmp_path)
    sentence = "the rows of linux 6.12 that do not run again now leave the tables: they are of its version a+1, and now it has b+1"
    assert again.notes[-1] == sentence
    assert rows(execute(again)) == [("sim", None), ("sim", None)]


def test_what_this_machine_ran_with_another_kernel_stays(study, tmp_path, monkeypatch):
    study = written(tmp_path, STUDY.replace(VARIED, ""))
    ran(study, tmp_path, "host")
    monkeypatch.setattr(Machine, "runs", "6.1.0-2")
    assert rows(ran(study, tmp_path, "host")) == [("host", "6.1.0-1"), ("host", "6.1.0-2")]
    assert rows(ran(study, tmp_path, "sim")) == [("host", "6.1.0-1"), ("host", "6.1.0-2"), ("sim", None)]


def test_the_table_says_what_ran_each_row(study, tmp_path, polypath, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = ("--out", "R", "--no-report")
    code, out, _ = polypath("run", ".", "--engine", "linux", "--only", "k=6.12", *options)
    assert (code, "main, on linux 6.12" in out) == (0, True)
    code, out, _ = polypath("run", ".", "--engine", "sim", *options)
    assert (code, "linux 6.12" in out, " sim " in out) == (0, True, True)
    code, out, _ = polypath("compare", ".", "--only", "k=6.12", *options)
    assert (code, "sim agrees with linux 6.12" in out or "sim differs" in out) == (0, True), out
    _, shown, _ = polypath("show", "R/order")
    assert "linux 6.12" in shown


def test_an_experiment_that_one_engine_ran_alone_says_which(tmp_path, polypath, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = STUDY.replace(VARIED, "experiments: {one: {}, two: {duration: 6s}}\n")
    written(tmp_path, text)
    options = ("--out", "R", "--no-report")
    polypath("run", ".", "--engine", "sim", "--only", "experiment=one", *options)
    _, out, _ = polypath("run", ".", "--engine", "linux", "--kernel", "6.12", "--only", "experiment=two", *options)
    two, one = out.split("one  ", 1)
    assert ("linux 6.12 " in two, "sim " in two, "sim " in one) == (True, False, True), out


def test_kernels_as_the_studys_parameter_stay_apart_on_the_simulator(tmp_path, monkeypatch):
    """Beside another engine the simulator's two kernels are two platforms."""
    from polypath.report import comparison, material

    study = written(tmp_path, STUDY.replace('kernel: "${k}"', 'kernel: "${kernel}"').replace("matrix: {k:", "matrix: {kernel:"))
    monkeypatch.setattr(Kernels, "there", {"6.1": "b", "6.12": "a"})
    execute(plan(study, engine="sim", out=tmp_path))
    alone = material(Results.open(tmp_path / "order"))
    assert set(alone.runs["platform"]) == {"sim"}
    made = comparison(material(ran(study, tmp_path, "linux")))
    assert made.platforms == ["sim 6.1", "sim 6.12", "linux 6.1", "linux 6.12"]
    assert list(made.rows["n"]) == [1, 1, 1, 1]


def test_a_folder_without_a_finished_run_is_an_error(study, tmp_path, polypath, monkeypatch):
    def broken(scenario):
        raise ValueError("it does not work")

    with pytest.raises(StudyError, match="it does not work"):
        execute(plan(study, engine=Simulator(before=broken), out=tmp_path / "R"))
    monkeypatch.chdir(tmp_path)
    for command in ("show", "report"):
        code, out, err = polypath(command, "R/order")
        assert (code, out, err.count("holds no finished run")) == (2, "", 1)
