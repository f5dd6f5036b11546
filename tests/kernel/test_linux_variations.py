"""Seeded variations in a real kernel."""

import io
import tarfile

import pytest

from polypath import Study, selftests
from polypath.engines import Kind, LinuxEngine, draws_of, happened, run_script, variation
from polypath.results import run

# Two ends, netem and some programs.
SCRIPT = """
for n in 1 2; do ip netns add end$n; done
ip link add one netns end1 type veth peer name two netns end2
for n in 1:one 2:two; do
    ip -n end${n%:*} addr add 10.0.0.${n%:*}/24 dev ${n#*:}
    ip -n end${n%:*} link set ${n#*:} up
done
ip netns exec end1 tc qdisc add dev one root netem delay 5ms
ip netns exec end1 tc qdisc change dev one root netem delay 6ms
sleep 0.05
ip netns exec end1 ping -D -c 5 -i 0.2 10.0.0.2
date +%s.%N
"""


def varied(linux_kernel, tmp_path, text, draw=1):
    """What the script prints, and the folder with what varied."""
    script, out = tmp_path / "script", tmp_path / f"{text}-{draw}".replace(":", "-")
    tmp_path.mkdir(exist_ok=True)
    script.write_text(SCRIPT)
    vary = variation(text, draw).text(1) if text else ""
    status, said = run_script(script, kernel=linux_kernel.file, seed=1, out=out, timeout_s=120, vary=vary)
    assert (status, " 5 received" in said) == (0, True), said
    return said, out


def last(said):
    """When the script ended: seconds since the machine's start."""
    return float(said.splitlines()[-1]) - 1_735_689_600


@pytest.mark.parametrize("text", ["start", "jitter=30us", "slow", "start,jitter,slow"])
def test_a_varied_run_repeats_itself_and_another_draw_is_another(linux_kernel, tmp_path, text):
    plain, _ = varied(linux_kernel, tmp_path, "")
    first, second, other = (varied(linux_kernel, tmp_path / name, text, draw)[0] for name, draw in (("1", 1), ("2", 1), ("3", 2)))
    assert first == second
    assert len({plain, first, other}) == 3


def test_each_program_begins_up_to_so_much_later(linux_kernel, tmp_path):
    plain, _ = varied(linux_kernel, tmp_path, "")
    said, out = varied(linux_kernel, tmp_path, "start=2ms:1..40")
    drawn = draws_of(out)
    assert 12 < drawn["start"] <= 40
    lines = happened(out)
    assert len(lines) == drawn["start"] - 1, "the machine's own first program is draw 0"
    assert {line.split(": ")[1].split(",")[0] for line in lines} >= {"sh", "ip", "tc", "sleep", "ping", "date"}
    late = [_ms(line) for line in lines]
    assert 0 <= min(late) < 0.5 and 1.5 < max(late) < 2
    # Whoever waits for a tick of 4 ms may wait for another one.
    assert 0.5 * sum(late) < 1000 * (last(said) - last(plain)) < sum(late) + 4 * len(late)


def test_the_rest_of_a_smaller_part_is_as_it_was(linux_kernel, tmp_path):
    """A draw counts as much alone as among all: that is what a hunt relies on."""
    _, whole = varied(linux_kernel, tmp_path, "start=2ms:0..900")
    _, part = varied(linux_kernel, tmp_path, "start=2ms:5..6")
    (alone,) = happened(part)
    same = next(line for line in happened(whole) if line.startswith("start 5 "))
    assert alone.split(": ")[1] == same.split(": ")[1]


def test_netem_delays_each_packet_by_up_to_so_much_more_and_keeps_the_order(linux_kernel, tmp_path):
    said, out = varied(linux_kernel, tmp_path, "jitter=200us")
    assert draws_of(out)["jitter"] == 2, "one is set up, and changed once"
    times = [float(line.split("time=")[1].split()[0]) for line in said.splitlines() if "time=" in line][1:]
    assert all(6.0 <= time <= 6.21 for time in times)
    assert len(set(times)) > 2


def test_a_slow_machine_takes_time_for_what_the_kernel_does(linux_kernel, tmp_path):
    plain, _ = varied(linux_kernel, tmp_path, "")
    said, out = varied(linux_kernel, tmp_path, "slow=10us")
    drawn = draws_of(out)["slow"]
    assert drawn > 2000
    # 5 us each, and as much again for the one in a thousand that takes up to 10 ms.
    assert 3e-6 * drawn < last(said) - last(plain) < 30e-6 * drawn
    _, few = varied(linux_kernel, tmp_path, "slow=10us:100..140")
    lines = happened(few)
    assert len(lines) == 40
    assert any(" call " in line for line in lines) and any("page fault" in line for line in lines)


def _ms(line):
    text = line.rsplit(", ", 1)[1]
    unit = text.lstrip("0123456789.")
    return float(text.removesuffix(unit)) * {"ns": 1e-6, "us": 1e-3, "ms": 1.0}[unit]


@pytest.mark.usefixtures("linux_kernel")
def test_a_study_varies_too_and_keeps_such_runs_apart(tmp_path):
    hop = {"ends": ["c", "s"], "both": {"rate": "10mbit", "queue": "20packets", "delay": "10ms"}}
    study = Study.model_validate(
        {
            "name": "varied",
            "topology": {"nodes": {"c": None, "s": None}, "links": {"hop": hop}},
            "flows": {"f": {"client": "c", "server": "s", "transport": "tcp", "app": {"kind": "transfer", "size": "200kB"}}},
            "duration": "3s",
            "seeds": 2,
            "baselines": None,
        }
    )

    def times(engine, folder):
        return run(study, engine=engine, out=tmp_path / folder).runs["completion_s"].tolist()

    plain, slow = times(LinuxEngine(), "one"), times(LinuxEngine(variation("slow=200us")), "one")
    assert max(slow) > max(plain)
    assert slow[0] != slow[1], "each seed draws for itself"
    assert times(LinuxEngine(variation("slow=200us")), "two") == slow
    assert times(LinuxEngine(), "one") == plain


# As many a test does it: a program that is started and not waited for is there "in a while".
RACE = """#!/bin/sh
echo "ok 1 - begun"
touch /tmp/ready &
sleep 0.002
[ -e /tmp/ready ] && echo "ok 2 - ready in time" || echo "not ok 2 - ready in time"
wait
"""


def test_a_hunt_finds_the_one_program_whose_late_start_makes_a_test_fail(linux_kernel, tmp_path):
    archive = tmp_path / "tests.tar"
    with tarfile.open(archive, "w") as tar:
        entry = tarfile.TarInfo("net/x/race.sh")
        entry.size, entry.mode = len(RACE), 0o755
        tar.addfile(entry, io.BytesIO(RACE.encode()))
    suite = selftests.Suite("net/x", ("race.sh",), {}, archive, "race")
    runner = selftests.Runner(linux_kernel, tmp_path / "runs")
    job = selftests.Job(selftests.Test(suite, "race.sh"), 1)
    found = selftests.hunt(runner, job, Kind("start", 16_000_000), draws=8, workers=2)
    assert isinstance(found, selftests.Found)
    assert found.subtest == "ready in time"
    (what,) = found.what
    assert ": touch, " in what

    # By what is waited for it, or some more.
    assert 1.5 < _ms(what) < 4
    # And it is what replay shows.
    assert "not ok 2" in selftests.run_job(found.job, kernel=linux_kernel.file)[1]
