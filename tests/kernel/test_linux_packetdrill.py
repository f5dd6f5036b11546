"""Programs that poll get on in virtual time, and with that packetdrill."""

import packetdrill_player
import pytest
from packetdrill_player import HANDSHAKE

from polypath import selftests
from polypath.engines import run_script

TICK_MS = 4

# Each line asks again and again, without a sleep; "NAME MILLISECONDS" of virtual time that it took.
POLLS = """
import os, resource, select, signal, time

def monotonic():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)

def until(name, is_time):
    start = monotonic()
    while not is_time():
        pass
    print(name, (monotonic() - start) / 1e6)

def after(read, wanted):
    start = read()
    return lambda: read() >= start + wanted

def child():
    number = os.fork()
    if not number:
        time.sleep(0.02)
        os._exit(0)
    return number

until("times", after(lambda: os.times().elapsed, 0.05))
until("coarse", after(lambda: time.clock_gettime(6), 0.02))
until("processing", after(time.process_time, 0.02))
until("usage", after(lambda: resource.getrusage(resource.RUSAGE_SELF).ru_utime + resource.getrusage(resource.RUSAGE_SELF).ru_stime, 0.02))
ended = child()
until("wait", lambda: os.waitpid(ended, os.WNOHANG)[0] == ended)
mine, theirs = os.pipe()
if not os.fork():
    time.sleep(0.02)
    os.write(theirs, b"x")
    os._exit(0)
asked = select.epoll()
asked.register(mine)
until("epoll", lambda: asked.poll(0))
signal.signal(signal.SIGALRM, lambda *_: rung.append(1))
rung = []
signal.setitimer(signal.ITIMER_REAL, 0.02)
until("yield", lambda: os.sched_yield() or rung)
"""


def said_by(linux_kernel, folder, program, seed=1):
    """What a program in Python prints in a machine."""
    (folder / "program.py").write_text(program)
    (folder / "script").write_text(f"exec python3 {folder / 'program.py'}\n")
    status, said = run_script(folder / "script", kernel=linux_kernel.file, seed=seed, out=None, timeout_s=120, folders=(folder,))
    assert status == 0, said
    return said


def test_time_goes_by_for_a_program_that_polls(linux_kernel, tmp_path):
    said = said_by(linux_kernel, tmp_path, POLLS)
    took = {name: float(ms) for name, ms in (line.split() for line in said.splitlines())}
    assert list(took) == ["times", "coarse", "processing", "usage", "wait", "epoll", "yield"]
    # A clock of hundredths of a second, read in the middle of one.
    assert 40 < took.pop("times") < 50 + TICK_MS
    assert all(20 - TICK_MS < ms < 20 + 2 * TICK_MS for ms in took.values()), took
    assert said == said_by(linux_kernel, tmp_path, POLLS)


FEW = """
import os, time
def at(n):
    start = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    for _ in range(n):
        os.times()
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) - start
at(60)
print(at(0), at(60), at(100) > 1000)
"""


def test_who_asks_some_times_lets_no_time_go_by(linux_kernel, tmp_path):
    """What does not poll is as it was: 256 ns are what reading the clock before costs."""
    assert said_by(linux_kernel, tmp_path, FEW) == "256 256 True\n"


@pytest.fixture(scope="module")
def player():
    return packetdrill_player.player()


def program(folder, text):
    """A program that stands in for packetdrill."""
    file = folder / "stand-in"
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return file


def played(kernel, folder, player, families, seed=1):
    """Status and log of each script below a folder."""
    archives = folder / "archives"
    archives.mkdir(exist_ok=True)
    scripts = selftests.scripts_of(folder / "scripts", families, player, archives)
    return {job.test.name: selftests.run_job(job, kernel=kernel.file) for job in selftests.jobs(scripts, [seed])}


def scripts(folder, **texts):
    (folder / "scripts" / "deep").mkdir(parents=True)
    for name, text in texts.items():
        (folder / "scripts" / "deep" / f"{name}.pkt").write_text(text)


def test_a_script_is_played_where_it_lies_in_a_namespace_of_its_own(linux_kernel, tmp_path):
    scripts(tmp_path, a="`../common.sh`")
    (tmp_path / "scripts" / "common.sh").write_text("")
    stand_in = program(tmp_path, 'echo "$@"; pwd; ls ..; ip -br link show up; readlink /proc/self/ns/net /proc/1/ns/net')
    ((name, (status, log)),) = played(linux_kernel, tmp_path, stand_in, ["6"]).items()
    arguments, where, *files, lo, mine, first = log.splitlines()
    assert (name, status) == ("deep/a:6", 0)
    assert arguments.startswith("--send_omit_free --ip_version=ipv6 ") and arguments.endswith(" a.pkt")
    assert where.endswith("/deep")
    assert files == ["common.sh", "deep"]
    assert lo.split()[:2] == ["lo", "UNKNOWN"], "it is up, and alone"
    assert mine != first


MISFIT = "echo 'assertion len >= sizeof(struct _tcp_info) failed at code.c line 148' >&2; exit 1"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            MISFIT,
            r"stand-in is newer than Linux 6\.12\.\d+, whose struct tcp_info lacks fields that it reads: build packetdrill",
        ),
        ("echo no; exit 3", r"stand-in plays no script in the machine, so it is no packetdrill that works there: no$"),
    ],
)
def test_a_program_that_does_not_fit_is_refused(linux_kernel, tmp_path, text, sentence):
    with pytest.raises(selftests.SelftestError, match=sentence):
        selftests.check_player(program(tmp_path, text), linux_kernel)


def test_packetdrill_plays_scripts_as_linux_answers(linux_kernel, player, tmp_path):
    selftests.check_player(player, linux_kernel)
    late = HANDSHAKE.replace("+.01 < S.", "+1 > S 0:0(0) <mss 1460,nop,nop,sackOK,nop,wscale 7>\n+.01 < S.")
    scripts(tmp_path, handshake=HANDSHAKE, late=late, wrong=HANDSHAKE.replace("> F.", "> P."))
    found = played(linux_kernel, tmp_path, player, ["4", "mapped"])
    assert {name: status for name, (status, _) in found.items()} == {
        f"deep/{name}:{family}": int(name == "wrong") for name in ("handshake", "late", "wrong") for family in ("4", "mapped")
    }, found
    assert "wrong.pkt:10: error handling packet: live packet field" in selftests.fault_of(found["deep/wrong:4"][1])
    assert found == played(linux_kernel, tmp_path, player, ["4", "mapped"])
