"""Kernels as far as they can be tested without building one."""

import json
import os
import threading
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from polypath import linux
from polypath.cli._app import build
from polypath.engines import LinuxEngine
from polypath.linux import KernelError, _build, _commands, _config, _edits, _features, _link, _source, _suites
from polypath.linux._recipe import FILE, FORMAT, Recipe
from polypath.study import Study, cells


@pytest.fixture(autouse=True)
def cache(own_cache):
    """An empty cache folder."""
    return linux.folder()


def put(cache, name, release, made_of="0" * 64, **values):
    """A kernel in the cache, its executable for the present cc/ included."""
    place = cache / f"{name}-{made_of[:12]}"
    place.mkdir(parents=True)
    fields = {"mptcp": "v1", "algorithms": ("reno",), "compile": ("false",), "compile_host": ("false",), "link": ("false",), **values}
    Recipe(name=name, release=release, made_of=made_of, format=FORMAT, **fields).save(place)
    file = place / f"linux-{_link.sources_hash(_link.sources())[:12]}"
    file.write_bytes(b"elf")
    file.with_suffix(".json").write_text(json.dumps({"key": f"key of {name}", "algorithms": ["pp_lia"]}))
    return place


def test_a_configuration_is_held_against_what_took_effect():
    lines = [line for line in _config.FRAGMENT.read_text().splitlines() if line and not line.startswith("#")]
    assert len(lines) == len(_config.options()) == len({option.name for option in _config.options()})
    assert all(option.value in {"y", "n"} or option.value.isdigit() for option in _config.options())
    assert "#" not in _config.fragment()
    assert _config.check(settled(), NAMES, "6.12.1") == []
    assert _config.check(settled(CONFIG_TCP_CONG_BBR="n", CONFIG_MPTCP="n"), NAMES, "5.4.1") == ["CONFIG_MPTCP", "CONFIG_TCP_CONG_BBR"]
    assert _config.check(settled(CONFIG_MPTCP="n"), NAMES - {"CONFIG_MPTCP"}, "5.4.1") == []
    for release, advice in (
        ("4.19.1", "take a release from 5.4 on"),
        ("7.12.1", r"this Polypath knows releases to 7\.3, so .*config must learn"),
    ):
        with pytest.raises(KernelError, match=rf"{release} has no CONFIG_UML_TIME_TRAVEL_SUPPORT, .* cannot use it: {advice}"):
            _config.check(settled(), NAMES - {"CONFIG_UML_TIME_TRAVEL_SUPPORT"}, release)


def settled(**changes):
    """A .config in which everything took effect, but for `changes`."""
    values = {**{option.name: option.value for option in _config.options()}, "CONFIG_HZ": str(_config.HZ), **changes}
    return "".join(f"{name}={value}\n" for name, value in values.items())


NAMES = {option.name for option in _config.options()}


@pytest.mark.parametrize("name", ["CONFIG_VETH", "CONFIG_HZ", "CONFIG_NET_SCH_NETEM"])
def test_what_did_not_take_effect_is_named(name):
    with pytest.raises(KernelError, match=rf"6\.12\.1 did not accept {name}\b"):
        _config.check(settled(**{name: "n"}), NAMES, "6.12.1")


@pytest.mark.parametrize(("release", "block"), [("5.4.188", True), ("5.14.21", True), ("5.15.1", False), ("6.12.117", False)])
def test_a_release_that_mounts_nothing_without_block_devices_gets_them(release, block):
    assert ("CONFIG_BLOCK=y\n" in _config.fragment("", release)) == block
    assert _config.fragment("", release).startswith(_config.fragment())


def test_options_of_a_tree_are_found(tmp_path):
    (tmp_path / "net").mkdir()
    (tmp_path / "net/Kconfig").write_text("menuconfig NET\n\tbool\nif NET\nconfig INET\n\tbool\n\t  a config of text\n")
    assert {"CONFIG_NET", "CONFIG_INET"} <= _config.known(tmp_path)


def test_edits_stay_out_of_the_network_and_change_what_they_name(tmp_path):
    assert all(edit.file.startswith("arch/") and edit.why for edit in _edits.EDITS)
    um = tmp_path / "arch/um"
    um.mkdir(parents=True)
    (um / "Kconfig").write_text("config HZ\n\tint\n\tdefault 100\n\nconfig NR_CPUS\n\tdefault 100\n")
    (um / "Makefile").write_text("ifdef CONFIG_64BIT\n\tKBUILD_CFLAGS += -mcmodel=large\nendif\n")
    (um / "kernel").mkdir()
    old, clean = "if (!pte_young(*pte)) {\n\t\t\tr = 0;\n\t\t\tw = 0;\n\t\t} else if (!pte_dirty(*pte))", "\n\t\t\tw = 0;\n"
    # Releases before 6.11 have it twice, once with braces.
    (um / "kernel/tlb.c").write_text(f"\t\t{old}{clean}\t\t{old} {{{clean}\t\t}}\n")
    assert set(_edits.apply(tmp_path, "6.12.1")) == {"arch/um/Kconfig", "arch/um/Makefile", "arch/um/kernel/tlb.c"}
    new = "if (!pte_young(*pte) || !pte_dirty(*pte))"
    assert (um / "kernel/tlb.c").read_text() == f"\t\t{new}{clean}\t\t{new} {{{clean}\t\t}}\n"
    assert (um / "Kconfig").read_text() == "config HZ\n\tint\n\tdefault 250\n\nconfig NR_CPUS\n\tdefault 100\n"
    assert "-mcmodel" not in (um / "Makefile").read_text()


def test_a_variant_has_ticks_of_its_own(tmp_path):
    assert (_config.hz(), _config.hz("selftests"), _config.hz("hz1000")) == (250, 250, 1000)
    (tmp_path / "arch/um").mkdir(parents=True)
    (tmp_path / "arch/um/Kconfig").write_text("config HZ\n\tint\n\tdefault 100\n")
    _edits.apply(tmp_path, "6.12.1", _config.hz("hz1000"))
    assert (tmp_path / "arch/um/Kconfig").read_text() == "config HZ\n\tint\n\tdefault 1000\n"
    # Where the configuration chooses.
    assert "CONFIG_HZ_1000=y\n" in _config.fragment("hz1000", "6.14.1")
    assert "CONFIG_HZ_1000" not in _config.fragment("hz1000", "6.12.1") + _config.fragment("selftests", "6.14.1")
    names = {option.name for option in _config.options(variant="hz1000")}
    whole = {**{option.name: option.value for option in _config.options(variant="hz1000")}, "CONFIG_HZ": "1000"}
    assert _config.check("".join(f"{name}={value}\n" for name, value in whole.items()), names, "6.12.1", "hz1000") == []
    with pytest.raises(KernelError, match=r"6\.12\.1 did not accept CONFIG_HZ of"):
        _config.check("".join(f"{name}={value}\n" for name, value in (whole | {"CONFIG_HZ": "250"}).items()), names, "6.12.1", "hz1000")


def tree(folder, version="6.12.7"):
    """A folder that looks like a kernel's sources."""
    major, minor, patch = version.split(".")
    (folder / "arch/um").mkdir(parents=True)
    (folder / "arch/um/Kconfig").write_text("")
    (folder / "Makefile").write_text(f"# SPDX\nVERSION = {major}\nPATCHLEVEL = {minor}\nSUBLEVEL = {patch}\nEXTRAVERSION =\nNAME = x\n")
    return folder


def silent(_):
    pass


def works(_):
    pass


def test_a_folder_is_copied_without_what_was_built_in_it_and_is_another_source_when_changed(tmp_path):
    folder = tree(tmp_path / "mine")
    (folder / ".config").write_text("CONFIG_X=y\n")
    (folder / "kernel").mkdir()
    for name in ("fork.c", "fork.o", ".fork.o.cmd"):
        (folder / "kernel" / name).write_text("")
    source = _source.resolve(str(folder), tmp_path, silent)
    copy = tmp_path / "copy"
    _source.unpack(source, copy)
    assert sorted(path.name for path in (copy / "kernel").iterdir()) == ["fork.c"]
    assert not (copy / ".config").exists()
    assert _source.release(copy) == "6.12.7"
    assert (folder / "kernel/fork.o").exists()
    before = _source.resolve(str(folder), tmp_path, silent).identity
    assert _source.resolve(str(folder), tmp_path, silent).identity == before
    (folder / "net.c").write_text("int x;\n")
    assert _source.resolve(str(folder), tmp_path, silent).identity != before


@pytest.mark.parametrize("what", ["nowhere/at/all", "6", "linux"])
def test_what_is_no_source_is_refused(what, tmp_path):
    with pytest.raises(KernelError, match=r"neither a release such as 6\.12 nor a folder or tarball"):
        _source.resolve(what, tmp_path, silent)


def test_what_holds_no_kernel_or_one_before_virtual_time_is_refused(tmp_path):
    with pytest.raises(KernelError, match="does not hold the sources of a Linux kernel"):
        _source.resolve(str(tmp_path), tmp_path, silent)
    with pytest.raises(KernelError, match=r"4\.19\.3 is too old"):
        _source.release(tree(tmp_path / "old", "4.19.3"))


def test_features_are_read_from_the_sources(tmp_path):
    header = tmp_path / "include/net/tcp.h"
    header.parent.mkdir(parents=True)
    header.write_text("struct rate_sample {\n\tu32 losses;\n};\n\tvoid (*cong_control)(struct sock *sk, const struct rate_sample *rs);\n")
    assert _features.defines(tmp_path, "") == []
    header.write_text(
        "struct rate_sample {\n\tu32  last_end_seq;\t/* x */\n};\n\tvoid (*cong_control)(struct sock *sk, u32 ack, int flag,\n"
    )
    assert _features.defines(tmp_path, "v1") == ["-DPP_KERNEL_MPTCP", "-DPP_KERNEL_LAST_END_SEQ", "-DPP_KERNEL_CONTROL_FLAGS"]
    header.write_text("\tvoid (*cwnd_event)(struct sock *sk, enum tcp_ca_event ev);\n\tvoid (*cwnd_event_tx_start)(struct sock *sk);\n")
    assert _features.defines(tmp_path, "") == ["-DPP_KERNEL_TX_START"]
    assert _features.mptcp(tmp_path, "CONFIG_MPTCP=y\n") == "v1"
    (tmp_path / "net/mptcp").mkdir(parents=True)
    (tmp_path / "net/mptcp/mptcp_ctrl.c").write_text("")
    assert _features.mptcp(tmp_path, "CONFIG_MPTCP=y\n") == "v0"
    assert _features.mptcp(tmp_path, "# CONFIG_MPTCP is not set\n") == ""
    folder = tmp_path / "net/ipv4"
    folder.mkdir(parents=True)
    table = 'static struct tcp_congestion_ops {0} __read_mostly = {{\n\t.init = x,\n\t.name\t\t= "{1}",\n}};\n'
    (folder / "tcp_dctcp.c").write_text(
        table.format("dctcp", "dctcp") + table.format("dctcp_reno", "dctcp-reno") + "tcp_register_congestion_control(&dctcp);"
    )
    (folder / "tcp_vegas.c").write_text(table.format("vegas", "vegas") + "tcp_register_congestion_control(&vegas);")
    (folder / "tcp_dctcp.o").write_text("")
    assert _features.algorithms(tmp_path) == ["dctcp"]


def test_an_out_of_tree_kernels_own_algorithms_are_listed_and_run_plain_tcp(cache):
    put(cache, "5.4.188-mptcp", "5.4.188", mptcp="v0", algorithms=("cubic", "lia", "reno"))
    shown = CliRunner().invoke(build(), ["list", "cc"], env={"COLUMNS": "200"}).output
    (row,) = (line for line in shown.splitlines() if line.startswith("│ lia "))
    assert [cell.strip() for cell in row.split("│")][-3:-1] == ["lia", "5.4.188-mptcp"]
    plain = {"name": "x", "flows": {"f": {"client": "a", "server": "b", "transport": "tcp", "cc": "cubic"}}}
    topology = {"nodes": {"a": None, "b": None}, "links": {"l": {"ends": ["a", "b"], "both": {"rate": "1mbit"}}}}
    (cell,) = cells(Study.model_validate({**plain, "topology": topology, "duration": "1s", "baselines": None}))
    assert LinuxEngine().left_out(cell, "5.4.188-mptcp") is None


def test_without_a_kernel_the_command_that_builds_it_is_named():
    for name, command in (
        ("6.12", "polypath linux build 6.12"),
        ("6.12-selftests", "polypath linux build 6.12 --variant selftests"),
        ("5.4.188-mptcp", "polypath linux build FOLDER, the folder with its sources"),
    ):
        with pytest.raises(KernelError, match=f'no kernel "{name}".*; build it with: {command}$'):
            linux.find(name)
    with pytest.raises(KernelError, match=r'there is no kernel "7\.0"; there are none yet$'):
        linux.remove("7.0")
    assert linux.installed() == []


def test_kernels_are_found_by_name_in_the_order_of_releases(cache):
    put(cache, "6.12", "6.12.117")
    place = put(cache, "6.1", "6.1.192")
    put(cache, "5.4.230-mptcp", "5.4.230", mptcp="v0")
    assert [kernel.name for kernel in linux.installed()] == ["5.4.230-mptcp", "6.1", "6.12"]
    assert (linux.find("5.4-mptcp").name, linux.find("5.4-mptcp").mptcp) == ("5.4.230-mptcp", 0)
    assert linux.is_there("5.4-mptcp")
    assert not linux.is_there("5.5-mptcp")
    kernel = linux.find("6.1")
    assert (kernel.release, kernel.key, kernel.algorithms, kernel.mptcp) == ("6.1.192", "key of 6.1", ("pp_lia", "reno"), 1)
    assert kernel.file.parent == place
    with pytest.raises(KernelError, match=r'did you mean "6\.1"'):
        linux.find("6.13")


def test_what_is_half_made_is_no_kernel(cache):
    put(cache, "6.12", "6.12.117").rename(cache / ".objects-x")
    (cache / "6.1-abc").mkdir()
    (cache / "5.10-abc").mkdir()
    (cache / "5.10-abc/recipe.json").write_text('{"name": "5.10"')
    assert linux.installed() == []


@pytest.mark.parametrize("format_", [None, FORMAT + 1])
def test_a_kernel_that_keeps_something_else_is_to_be_built_again(cache, format_):
    file = put(cache, "6.12", "6.12.117") / FILE
    found = json.loads(file.read_text())
    file.write_text(json.dumps({key: value for key, value in {**found, "format": format_}.items() if value is not None}))
    assert linux.installed() == []
    with pytest.raises(KernelError, match=r"build it with: polypath linux build 6\.12"):
        linux.find("6.12")


def test_what_nobody_compiles_in_any_more_goes_with_the_next_build(cache):
    for name in (".objects-alive", ".objects-old", ".objects-recent", ".objects-wanted"):
        (cache / name / "source").mkdir(parents=True)
        (cache / name / "lock").touch()
    with _commands.locked(cache / ".objects-alive" / "lock"):
        for name in (".objects-alive", ".objects-old", ".objects-wanted"):
            os.utime(cache / name / "lock", (time.time() - 8 * 24 * 3600,) * 2)
        _build._clean(cache, cache / ".objects-wanted")
        assert sorted(path.name for path in cache.iterdir()) == [".objects-alive", ".objects-recent", ".objects-wanted"]
    _build._clean(cache, cache / ".objects-wanted")
    assert sorted(path.name for path in cache.iterdir()) == [".objects-recent", ".objects-wanted"]


@pytest.fixture
def without_compiler(monkeypatch):
    """Building as it is, but for the tools that take minutes."""

    def harvest(tree, done, source, release, variant, made_of):
        of = {"sources": str(source.path), "identity": source.identity}
        put(done.parent / "made", source.name, release, made_of, variant=variant, **of).rename(done / "x")
        for file in (done / "x").iterdir():
            file.rename(done / file.name)
        return Recipe.load(done)

    monkeypatch.setattr(_build._tools, "require", lambda _: None)
    monkeypatch.setattr(_build, "_configure", lambda *_: ["CONFIG_TCP_CONG_BBR"])
    monkeypatch.setattr(_build, "try_algorithm", lambda *_: None)
    monkeypatch.setattr(_build, "_compile", lambda *_: None)
    monkeypatch.setattr(_build, "_harvest", harvest)


def test_what_a_vendors_makefile_wants_is_copied_after_all(cache, tmp_path, without_compiler, monkeypatch):
    folder = tree(tmp_path / "mine")
    driver = Path("drivers/clk/mediatek/clk.c")
    (folder / driver).parent.mkdir(parents=True)
    (folder / driver).write_text("")
    seen = []

    def compile_(place, release, variant, jobs, say):
        # What was compiled before is not compiled again.
        assert (place / "net.o").exists() == bool(seen)
        (place / "net.o").touch()
        seen.append((place / driver).exists())
        if not seen[-1]:
            raise KernelError(f"building Linux {release} failed:\nmake[3]: *** No rule to make target '{driver.with_suffix('.o')}'")

    monkeypatch.setattr(_build, "_compile", compile_)
    said = []
    linux.build(str(folder), prove=works, say=said.append)
    assert seen == [False, True]
    assert "it wants files that Polypath leaves out of its copy: copying everything" in said
    # From then on, the folder has them at once.
    (folder / "net.c").write_text("/* changed */")
    linux.build(str(folder), prove=works)
    assert seen == [False, True, True]


def test_a_tarball_that_is_copied_whole_after_all_keeps_what_was_compiled(tmp_path):
    driver = tree(tmp_path / "in" / "linux-6.12.7") / "drivers/clk/clk.c"
    driver.parent.mkdir(parents=True)
    driver.write_text("")
    _commands.run("tar", "-C", tmp_path / "in", "-czf", tmp_path / "linux.tar.gz", "linux-6.12.7", cwd=tmp_path, purpose="packing")
    source, copy = _source.resolve(str(tmp_path / "linux.tar.gz"), tmp_path, silent), tmp_path / "copy"
    _source.unpack(source, copy)
    (copy / "net.o").touch()
    (copy / "arch/um/Kconfig").write_text("edited\n")
    assert not (copy / "drivers/clk/clk.c").exists()
    _source.unpack(source, copy, whole=True)
    assert (copy / "drivers/clk/clk.c").exists()
    assert (copy / "net.o").exists()
    assert (copy / "arch/um/Kconfig").read_text() == "edited\n"


def test_a_changed_permission_reaches_the_copy(tmp_path):
    folder, copy = tree(tmp_path / "mine"), tmp_path / "copy"
    script = folder / "scripts/gcc-version.sh"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\n")
    script.chmod(0o644)
    before = _source.resolve(str(folder), tmp_path, silent)
    _source.unpack(before, copy)
    script.chmod(0o755)
    after = _source.resolve(str(folder), tmp_path, silent)
    assert after.identity != before.identity
    time_ns = (copy / "scripts/gcc-version.sh").stat().st_mtime_ns
    _source.unpack(after, copy)
    assert os.access(copy / "scripts/gcc-version.sh", os.X_OK)
    # Nothing is compiled for it.
    assert (copy / "scripts/gcc-version.sh").stat().st_mtime_ns == time_ns


def test_faults_of_a_compilation_are_told_at_once(cache, tmp_path, without_compiler, monkeypatch):
    folder, tried = str(tree(tmp_path / "mine")), []

    def compile_(place, *_):
        tried.append(place)
        raise KernelError("building Linux 6.12.7 failed:\nnet/a.c:1: error: expected ;")

    monkeypatch.setattr(_build, "_compile", compile_)
    with pytest.raises(KernelError, match="expected ;"):
        linux.build(folder, prove=works)
    assert len(tried) == 1
    assert not list(cache.glob(".lock-*"))

    def misfit(*_):
        raise KernelError(
            "compiling the congestion control balia for Linux 6.12.7 failed:\ncc/kernel/glue.c:71: error: TCP_ECN_OK undeclared"
        )

    monkeypatch.setattr(_build, "try_algorithm", misfit)
    monkeypatch.setattr(_build, "_compile", lambda *_: pytest.fail("the kernel was compiled"))
    with pytest.raises(KernelError, match="TCP_ECN_OK undeclared"):
        linux.build(folder, prove=works)


def test_a_lock_that_was_removed_meanwhile_is_taken_anew(tmp_path):
    file = tmp_path / "lock"
    seen, order = threading.Event(), []

    def second():
        with _commands.locked(file, seen.set, remove=True):
            order.append("second")
            assert file.exists()

    with _commands.locked(file, remove=True):
        thread = threading.Thread(target=second)
        thread.start()
        assert seen.wait(60)
        order.append("first")
    thread.join(60)
    assert order == ["first", "second"]
    assert not file.exists()


def test_a_folder_is_built_once_and_again_when_it_changed(cache, tmp_path, without_compiler):
    folder = tree(tmp_path / "mine")
    said = []
    first = linux.build(str(folder), prove=works, say=said.append)
    assert (first.name, first.release) == ("6.12.7", "6.12.7")
    assert any("comes without TCP_CONG_BBR" in line for line in said)
    assert linux.build(str(folder), prove=works, say=said.append) == first
    assert said[-1] == "kernel 6.12.7 is there already"
    (folder / "net.c").write_text("int x;\n")
    second = linux.build(str(folder), prove=works, say=said.append)
    assert linux.find("6.12.7").file == second.file != first.file
    # A study may still be running on it.
    assert first.file.exists()


def objects(cache):
    return sorted(cache.glob(".objects-*"))


@pytest.mark.parametrize("error", [KernelError("no"), KeyboardInterrupt()])
@pytest.mark.parametrize("step", ["compile", "prove"])
def test_what_goes_wrong_leaves_no_kernel_but_what_was_compiled(cache, tmp_path, without_compiler, monkeypatch, error, step):
    compiled = []

    def fail(*_):
        raise error

    def compile_(tree, *_):
        compiled.append((tree / "net.o").exists())
        (tree / "net.o").touch()
        if step == "compile":
            fail()

    monkeypatch.setattr(_build, "_compile", compile_)
    folder = tree(tmp_path / "mine")
    for _ in range(2):
        with pytest.raises(type(error)):
            linux.build(str(folder), prove=fail)
    assert compiled == [False, True]
    assert linux.installed() == []
    assert len(objects(cache)) == 1
    assert not (objects(cache)[0] / "done").exists()


def test_a_second_clone_of_a_release_takes_over_what_the_first_compiled(cache, tmp_path, without_compiler, monkeypatch):
    compiled = []

    def compile_(tree, *_):
        compiled.append((tree / "net.o").exists())
        (tree / "net.o").touch()

    monkeypatch.setattr(_build, "_compile", compile_)
    for name, version in [("before", "6.12.7"), ("after", "6.12.8"), ("newer", "7.3.4")]:
        linux.build(str(tree(tmp_path / name, version)), prove=works)
    assert compiled == [False, True, False]
    assert len(linux.installed()) == 3


def test_a_tarball_that_was_built_leaves_nothing_else(cache, tmp_path, without_compiler):
    tree(tmp_path / "in" / "linux-6.12.7")
    _commands.run("tar", "-C", tmp_path / "in", "-czf", tmp_path / "linux.tar.gz", "linux-6.12.7", cwd=tmp_path, purpose="packing")
    linux.build(str(tmp_path / "linux.tar.gz"), prove=works)
    assert objects(cache) == []


def test_a_kernel_is_proved_before_it_is_there(cache, tmp_path, without_compiler):
    proved = []

    def prove(kernel):
        assert linux.installed() == []
        proved.append(kernel)

    built = linux.build(str(tree(tmp_path / "mine")), name="mine", prove=prove)
    assert [kernel.name for kernel in proved] == [built.name] == ["mine"]
    assert linux.build(str(tmp_path / "mine"), name="mine", prove=prove) == built
    assert len(proved) == 1


def test_a_kernel_of_the_same_sources_is_taken_under_another_name(cache, tmp_path, without_compiler, monkeypatch):
    folder, other = str(tree(tmp_path / "mine")), str(tree(tmp_path / "other"))
    first = linux.build(folder, prove=works, variant="selftests")
    assert linux.build(folder, prove=works, name="ab-mine", variant="selftests", any_name=True) == first
    # Who asks for a name gets it, and other sources or another configuration are another kernel.
    assert linux.build(folder, prove=works, name="mine", variant="selftests").name == "mine-selftests"
    assert linux.build(other, prove=works, name="ab-other", variant="selftests", any_name=True).name == "ab-other-selftests"
    assert linux.build(folder, prove=works, name="plain", any_name=True).name == "plain"
    monkeypatch.setattr(_build, "_compile", lambda *_: pytest.fail("the kernel was compiled"))
    assert linux.build(folder, prove=works, variant="selftests", any_name=True) == first
    (tmp_path / "mine" / "net.c").write_text("/* changed */")
    with pytest.raises(pytest.fail.Exception):
        linux.build(folder, prove=works, variant="selftests", any_name=True)


def test_of_two_folders_of_one_release_each_gets_its_own_kernel(cache, tmp_path, without_compiler):
    folders = [str(tree(tmp_path / name)) for name in ("before", "after")]
    before, after = (linux.build(folder, prove=works) for folder in folders)
    assert (before.name, before.file.parent == after.file.parent) == (after.name, False)
    # The name means the kernel that was asked for last.
    for folder, kernel in zip(folders, (before, after), strict=True):
        assert linux.build(folder, prove=works) == kernel == linux.find(kernel.name)


def test_a_kernel_of_the_list_names_itself_and_its_tests(cache, tmp_path, without_compiler):
    folder = tree(tmp_path / "mine")
    (folder / linux.TESTS / "net").mkdir(parents=True)
    (folder / "include" / "uapi").mkdir(parents=True)
    built = linux.build(str(folder), prove=works, name="ab-mine", variant="selftests")
    for name in ("ab-mine", "ab-mine-selftests"):
        assert linux.build(name, prove=works, variant="selftests", any_name=True) == built
    with pytest.raises(KernelError, match="ab-mine is neither a release"):
        linux.build("ab-mine", prove=works, variant="hz1000", any_name=True)
    tests = linux.selftests("ab-mine", variant="selftests")
    assert tests == linux.selftests(str(folder))
    # They are those of the sources that it was built of.
    (folder / "net.c").write_text("/* changed */")
    assert linux.selftests("ab-mine", variant="selftests") == tests
    _commands.run("rm", "-r", tests, cwd=tmp_path, purpose="removing")
    with pytest.raises(KernelError, match="changed since kernel ab-mine-selftests was built: name the folder instead"):
        linux.selftests("ab-mine", variant="selftests")
    put(cache, "old-selftests", "6.12.7", variant="selftests")
    with pytest.raises(KernelError, match="old-selftests of an earlier Polypath does not say where its sources are"):
        linux.selftests("old", variant="selftests")


@pytest.mark.parametrize("name", ["6.12", "a/b", "-x", " "])
def test_what_is_no_name_of_a_kernel_is_refused(tmp_path, name):
    with pytest.raises(KernelError, match="a kernel cannot be called"):
        linux.build(str(tree(tmp_path / "mine")), name=name, prove=works)


def test_a_second_copy_of_a_folder_writes_what_changed(tmp_path):
    folder, copy = tree(tmp_path / "mine"), tmp_path / "copy"
    for name in ("same.c", "touched.c", "changed.c", "gone.c"):
        (folder / name).write_text("int x;\n")
    (folder / "link.h").symlink_to("same.c")

    def unpack():
        _source.unpack(_source.resolve(str(folder), tmp_path, silent), copy)

    unpack()
    (copy / "same.o").write_text("")
    old = {file.name: file.stat().st_mtime_ns for file in copy.glob("*.c")}
    (folder / "changed.c").write_text("int y;\n")
    (folder / "new.c").write_text("int z;\n")
    (folder / "gone.c").unlink()
    # A checkout writes the same contents at another time, or brings old times with it.
    os.utime(folder / "touched.c")
    os.utime(folder / "changed.c", (1, 1))
    unpack()
    assert sorted(file.name for file in copy.iterdir() if file.is_file()) == [
        "Makefile", "changed.c", "link.h", "new.c", "same.c", "same.o", "touched.c"
    ]  # fmt: skip
    assert (copy / "changed.c").read_text() == "int y;\n"
    assert (copy / "changed.c").stat().st_mtime_ns > old["changed.c"]
    assert all((copy / name).stat().st_mtime_ns == old[name] for name in ("same.c", "touched.c"))
    assert (copy / "link.h").is_symlink()


def test_an_interrupted_command_ends(tmp_path):
    def interrupt(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _commands.run("sh", "-c", "echo $$ >pid; echo line; exec sleep 1000", cwd=tmp_path, purpose="sleeping", on_line=interrupt)
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()


def test_kernels_are_listed_and_removed(cache):
    place = put(cache, "6.12", "6.12.117")
    linux.remove("6.12")
    assert not place.exists()
    assert not list(cache.glob(".removed*"))
    with pytest.raises(KernelError, match="there is no kernel"):
        linux.remove("6.12")
    runner = CliRunner()
    assert "polypath linux build 6.12" in runner.invoke(build(["linux"]), ["linux", "list"]).stdout
    put(cache, "6.12", "6.12.117")
    assert "6.12.117" in runner.invoke(build(["linux"]), ["linux", "list"]).stdout
    assert runner.invoke(build(["linux"]), ["linux", "remove", "6.12"]).exit_code == 0
    assert isinstance(runner.invoke(build(["linux"]), ["linux", "remove", "6.12"]).exception, KernelError)


def test_a_command_that_fails_or_lacks_its_program_says_so(tmp_path, monkeypatch):
    with pytest.raises(KernelError, match=r"(?s)compiling x failed:.*x\.c:1: error: no") as caught:
        _commands.run(
            "sh", "-c", "for i in 1 2 3 4; do echo line $i; done; echo 'x.c:1: error: no' >&2; exit 3", cwd=tmp_path, purpose="compiling x"
        )
    assert "line 1" not in str(caught.value)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(KernelError, match=r"^building: flex is missing: install the Debian package flex$"):
        _commands.run("flex", cwd=tmp_path, purpose="building")
    monkeypatch.setattr("polypath.linux._tools.missing", lambda *_: ["flex", "bison"])
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(KernelError, match="Debian packages flex bison: install them"):
        linux.build("6.12", prove=works)


def test_old_executables_go_and_recent_ones_stay(cache):
    place = put(cache, "6.12", "6.12.117")
    for age in range(5):
        for name in (f"linux-{age}", f"linux-{age}.json"):
            (place / name).write_text("")
            os.utime(place / name, (time.time() - age * 50_000,) * 2)
    _link._forget(place)
    assert sorted(path.name for path in place.glob("linux-?")) == ["linux-0", "linux-1"]


def test_a_link_compiles_only_what_no_earlier_one_has(cache, tmp_path, monkeypatch):
    cc = tmp_path / "cc"
    for folder, name in (("algs", "reno.c"), ("algs", "lia.c"), ("kernel", "glue.c"), ("include", "pp_cc.h")):
        (cc / folder).mkdir(parents=True, exist_ok=True)
        (cc / folder / name).write_text(name)
    monkeypatch.setenv("POLYPATH_CC", str(cc))
    place = put(cache, "6.12", "6.12.117", link=("link", "{objects}", "{output}"))
    for done in place.glob("linux-*"):
        done.unlink()
    commands = []

    def run(*words, **_):
        commands.append([str(word) for word in words])
        made = [Path(word) for word in commands[-1] if Path(word).suffix == ".o" or Path(word).name == "linux"]
        made[-1].touch()

    monkeypatch.setattr(_link, "run", run)

    def compiled():
        commands.clear()
        _link.link(Recipe.load(place))
        objects = {Path(word).name for words in commands if words[0] == "link" for word in words if word.endswith(".o")}
        return {Path(words[-1]).name for words in commands if "-o" in words}, objects

    first, all_objects = compiled()
    assert first == all_objects and {"cc_reno.o", "cc_lia.o", "host.o"} < first
    (cc / "algs" / "lia.c").write_text("changed")
    assert compiled() == ({"cc_lia.o"}, all_objects)
    (cc / "include" / "pp_cc.h").write_text("changed")
    assert compiled() == (all_objects, all_objects)
    for old in (place / "objects").iterdir():
        os.utime(old, (0, 0))
    _link._forget(place)
    assert not list((place / "objects").iterdir())


def test_without_the_sources_of_the_algorithms_the_place_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("POLYPATH_CC", str(tmp_path / "nowhere"))
    with pytest.raises(KernelError, match="POLYPATH_CC"):
        _link.sources()


SHOWN = """Package: linux-source-7.3
Version: 7.3~rc7-1~exp1
Size: 166042412

Package: linux-source-7.3
Version: 7.3.4-1~bpo13+1
Size: 166780612

Package: linux-source-6.12
Version: 6.12.117-1
Size: 150000000
"""
MADISON = """linux-source-7.3 | 7.4~rc1-1 | http://x/debian experimental/main amd64 Packages
linux-source-7.3 | 7.3.4-1~bpo13+1 | http://x/debian trixie-backports/main amd64 Packages
linux-source-6.12 | 6.12.117-1 | http://x/debian trixie/main amd64 Packages
linux-source-6.12 | 6.12.117-1 | http://x/debian trixie/main Sources
"""


@pytest.fixture
def suites(monkeypatch, tmp_path):
    """Programs of apt that know two kernels, and no suite testing; what they were asked."""
    asked = []

    def run(*command, cwd, purpose, env=None, **_):
        words = tuple(map(str, command))
        asked.append(words)
        if words[:2] == ("apt-cache", "search") and env is None:
            return ""
        if words[0] == "dpkg-deb":
            made = Path(words[3]) / "usr/src/linux-source-7.3.tar.xz"
            made.parent.mkdir(parents=True)
            made.write_bytes(b"sources")
            return ""
        assert env is not None or words[1] == "indextargets", "the machine's own apt is asked for its mirror alone"
        if words[1] == "indextargets":
            return "Debian-Security http://x/security/\nDebian http://x/debian/\n"
        if words[1] == "update":
            folder = Path(env["APT_CONFIG"]).parent
            for suite, codename in (("stable", "trixie"), ("stable-backports", "trixie-backports"), ("experimental", "rc-buggy")):
                (folder / f"lists/x_debian_dists_{suite}_InRelease").write_text(f"Suite: {suite}\nCodename: {codename}\n")
            if 'Packages::DefaultEnabled "false"' in (folder / "apt.conf").read_text():
                raise KernelError("the mirror has no suite testing")
        if words[1] == "download":
            (cwd / "x.deb").touch()
        text = {
            "search": "linux-source-7.3 - Linux\nlinux-source-6.12 - Linux\n",
            "show": SHOWN,
            "madison": MADISON.replace("7.4~rc1-1", "7.3~rc7-1~exp1"),
        }
        return text.get(words[1], "")

    monkeypatch.setattr(_source, "run", run)
    monkeypatch.setattr(_suites, "run", run)
    monkeypatch.setattr(_source, "_DEBIAN", tmp_path)
    monkeypatch.setattr(_source, "apt_get", lambda *_, **__: None)
    return asked


def test_a_release_that_this_machines_suites_lack_comes_from_another(tmp_path, suites):
    said = []
    source = _source.resolve("7.3", tmp_path / "cache", said.append)
    assert (source.name, source.path) == ("7.3", tmp_path / "cache/linux-source-7.3.tar.xz")
    assert said[-1] == "Debian's trixie-backports has linux-source-7.3 7.3.4-1~bpo13+1: fetching 167 MB; nothing is installed"
    assert ("apt-get", "download", "linux-source-7.3=7.3.4-1~bpo13+1") in suites
    lists = (tmp_path / "cache/suites/sources.list").read_text()
    assert [line.split()[-2] for line in lists.splitlines()] == ["trixie", "trixie-backports", "experimental"]
    suites.clear()
    with pytest.raises(KernelError, match=r"have Linux 9\.9 \(they have 6\.12, 7\.3\)"):
        _source.resolve("9.9", tmp_path / "cache", said.append)
    # The lists that were fetched answer at once.
    assert suites == [("apt-cache", "search", "--names-only", "^linux-source-9.9$")]


def test_a_mirror_that_cannot_be_reached_is_not_taken_for_one_without_suites(tmp_path, suites, monkeypatch):
    def run(*words, **_):
        if words[1] == "update":
            raise KernelError("E: Failed to fetch http://x/debian/dists/stable/InRelease  Could not connect")
        return "Debian http://x/debian/\n" if words[1] == "indextargets" else ""

    monkeypatch.setattr(_suites, "run", run)
    with pytest.raises(KernelError, match="Could not connect"):
        _source.resolve("7.3", tmp_path / "cache", print)
    assert not (tmp_path / "cache/suites/packages.json").exists()


def test_what_could_be_built_is_listed(cache, suites):
    put(cache, "6.12", "6.12.117")
    (cache / "sources").mkdir()
    (cache / "sources/linux-source-6.12.tar.xz").touch()
    shown = CliRunner().invoke(build(), ["linux", "list", "--available"], env={"COLUMNS": "120"}).output
    rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in shown.splitlines() if line.startswith("│")]
    assert rows == [
        ["6.12", "linux-source-6.12 6.12.117-1", "trixie", "nothing", "yes"],
        ["7.3", "linux-source-7.3 7.3.4-1~bpo13+1", "trixie-backports", "167 MB", "no"],
    ]
