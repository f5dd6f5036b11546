"""The tunnel daemon and Linux's own GRE over FOU speak RFC 8086 with one another."""

import json
from pathlib import Path

import pytest
from requirement import lacking

from polypath import linux
from polypath.engines import _script

SCRIPT = Path(__file__).with_name("fou.sh")


def exchanged(tmp_path, program, kernel, **settings):
    """What was printed, what the daemon says of itself, and what the kernel counted at its end."""
    script = tmp_path / "job.sh"
    settings["P"] = str(program)
    script.write_text("".join(f"{name}='{value}'\n" for name, value in settings.items()) + SCRIPT.read_text())
    status, said = _script.run_script(script, kernel=kernel.file, seed=1, out=tmp_path, timeout_s=120)
    assert status == 0, said
    daemon, link = (json.loads((tmp_path / name).read_text()) for name in ("status.json", "link.json"))
    return said, daemon, link[0]["stats64"]


@pytest.mark.parametrize(
    ("gre", "key", "rule"),
    [("", "", "off"), ("key 7", "key = 7", "off"), ("ocsum", "", "off"), ("key 7 oseq iseq", "key = 7", "progress")],
    ids=["plain", "key", "checksum", "key-and-numbers"],
)
def test_linux_and_the_daemon_understand_one_another(tmp_path, linux_kernel, tunnel_daemon, gre, key, rule):
    said, status, link = exchanged(tmp_path, tunnel_daemon, linux_kernel, GRE=gre, KEY=key, RULE=rule, WORK="all")
    assert said.count("20 received") == 2
    assert "echoed" in said
    (path,) = status["paths"]
    # Every packet of the daemon reached the kernel's device, byte for byte.
    assert (link["rx"]["packets"], link["rx"]["bytes"], link["rx"]["errors"]) == (path["packets_sent"], path["bytes_sent"], 0)
    # The kernel had sent a packet before, and counts what it cuts later as one.
    assert path["packets_received"] >= link["tx"]["packets"] - 1
    assert sum(status["refused"].values()) == 0
    assert path["packets_received"] > 500


def test_another_key_is_refused_and_counted(tmp_path, linux_kernel, tunnel_daemon):
    said, status, link = exchanged(tmp_path, tunnel_daemon, linux_kernel, GRE="key 7", KEY="key = 8", RULE="off", WORK="ping")
    assert "0 received" in said and link["tx"]["packets"] >= 20
    assert status["refused"]["wrong_key"] >= 20
    assert status["paths"][0]["packets_received"] == 0


@pytest.mark.parametrize(("version", "cuts"), [("6.1", False), ("6.12", True)])
def test_a_kernel_that_does_not_cut_what_is_sent_has_it_one_by_one(tmp_path, tunnel_daemon, version, cuts):
    # Before Linux 6.11 UDP_SEGMENT needs a checksum offload; before 6.2 TUN has no USO.
    try:
        kernel = linux.find(version)
    except linux.KernelError as error:
        lacking("linux" if version == "6.12" else f"linux {version}", str(error))
    said, status, _ = exchanged(tmp_path, tunnel_daemon, kernel, GRE="", KEY="", RULE="off", WORK="all")
    assert "echoed" in said
    assert (status["paths"][0]["udp_segment"], status["daemon"]["offload_fallbacks"]) == (cuts, 0 if cuts else 1)
    assert status["tun_offload"] == ("TcpAndUdp" if cuts else "Tcp")
    assert status["daemon"]["unsendable"] == 0
