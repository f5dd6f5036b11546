"""A send buffer smaller than the path needs holds the engines' sender as it holds an ordinary
program (specs/notes/small-send-buffer).
"""

import subprocess
import sys
from pathlib import Path

import pytest

from polypath import Study, run

PROGRAMS = Path(__file__).parents[2] / "specs" / "notes" / "small-send-buffer" / "programs.sh"


def study(**flow):
    """100 Mbit/s, 80 ms and a tcp_wmem of 100 kB, for eight seconds."""
    host = {"sysctl": {"net.ipv4.tcp_wmem": [4096, 16384, 100_000], "net.ipv4.tcp_rmem": [4096, 131_072, 60_000_000]}}
    cable = {"ends": ["c", "s"], "both": {"rate": "100mbit", "delay": "40ms", "queue": "10000packets"}}
    return Study.model_validate(
        {
            "name": "small-buffer",
            "topology": {"nodes": {"c": host, "s": host}, "links": {"cable": cable}},
            "flows": {"f": {"client": "c", "server": "s", "transport": "tcp", "cc": "cubic", **flow}},
            "duration": "8s",
            "baselines": None,
        }
    )


@pytest.mark.usefixtures("linux_kernel")
def test_the_engines_sender_gets_what_a_blocking_program_gets(tmp_path):
    job = tmp_path / "job.sh"
    job.write_text(f'CC=cubic SENDERS="blocks 262144,asks 131072" sh {PROGRAMS} 100000\n')
    command = [sys.executable, "-c", "from polypath.cli import main; main()", "linux", "exec", str(job)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    lines = [line.split() for line in said.splitlines() if line.startswith("cubic")]
    blocks, asks = (float(line[3]) for line in lines)
    ours = run(study(), engine="linux", out=tmp_path / "run").runs["goodput_receiver_mbps"].iloc[0]
    assert ours == pytest.approx(blocks, rel=0.1)
    assert asks < blocks / 3, "a program that asks for room before each write is held: that is how the two are told apart"
