"""DCTCP of both sources in a kernel."""

import subprocess
import sys
from pathlib import Path

import pytest

from polypath import Study, run

pytestmark = pytest.mark.usefixtures("linux_kernel")


def transfer(tmp_path, cc, kind):
    """The flow's congestion control, bytes sent in 5 s, and the window every 10 ms."""
    script = tmp_path / "job.sh"
    script.write_text(f"set -- {cc} {kind}\n{Path(__file__).with_name('dctcp.sh').read_text()}")
    command = [sys.executable, "-c", "from polypath.cli import main; main()", "linux", "exec", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    name, sent, windows = done.stdout.splitlines()[-3:]
    return name, int(sent), [int(window) for window in windows.split()]


@pytest.mark.parametrize("kind", ["marks", "plain"])
def test_both_sources_have_the_same_windows(tmp_path, kind):
    theirs = transfer(tmp_path, "dctcp", kind)
    ours = transfer(tmp_path, "pp_dctcp", kind)
    assert ours[1:] == theirs[1:]
    assert len(set(ours[2])) > 20
    # Without ECN the kernel's becomes a Reno of its own, ours the kernel's.
    assert (theirs[0], ours[0]) == (("dctcp", "pp_dctcp") if kind == "marks" else ("dctcp-reno", "reno"))


def test_a_flow_whose_server_does_not_agree_to_marks_is_one_of_reno(tmp_path):
    hop = {"ends": ["c", "s"], "both": {"rate": "10mbit", "queue": "20packets", "delay": "5ms"}}
    study = Study.model_validate(
        {
            "name": "unmarked",
            "topology": {"nodes": {"c": None, "s": {"sysctl": {"net.ipv4.tcp_ecn": 0}}}, "links": {"hop": hop}},
            "flows": {"f": {"client": "c", "server": "s", "transport": "tcp", "cc": "${cc}"}},
            "matrix": {"cc": ["dctcp@linux", "dctcp@polypath", "reno@linux"]},
            "duration": "4s",
            "measure": {"series": "10ms"},
            "baselines": None,
        }
    )
    results = run(study, engine="linux", out=tmp_path)
    windows = {cc: part["cwnd"].tolist() for cc, part in results.series.groupby("cc")}
    assert windows["dctcp@linux"] == windows["dctcp@polypath"]
    # The handshake's flags move the first packets by less than a sample, and so the losses by some.
    means = {cc: sum(each) / len(each) for cc, each in windows.items()}
    assert abs(means["dctcp@linux"] - means["reno@linux"]) < 0.5
    assert len(set(windows["dctcp@linux"])) > 10


def test_the_window_of_marked_flows_stays_near_the_path_and_does_not_halve(tmp_path):
    _, sent, windows = transfer(tmp_path, "pp_dctcp", "marks")
    steady = windows[200:]
    # 50 Mbit/s and 10 ms hold 42 segments; RED begins to mark at 20 more.
    assert min(steady) > 0.55 * max(steady)
    assert sent > 0.9 * 5 * 50e6 / 8
