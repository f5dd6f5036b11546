"""How much the tunnel carries between two namespaces of this machine, beside bare veth pairs and
another program's tunnel, in one run.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from . import TunnelError, program

# Addresses for measuring (RFC 2544, appendix C.2.2).
_OUTER = "198.18.{path}.{end}"
_INNER = "198.19.{number}.{end}"
_PAYLOAD = 1400 - 28
_PATHS = (1, 2)
_PATIENCE_S = 10.0
_WIREGUARD = "wireguard-go, one path"


def bench(seconds: float = 1.0, repeat: int = 3) -> dict[str, Any]:
    """Figures by what carried the traffic; of several runs, taken in turns, the medians.

    Each row: `tcp_bits_per_s`, UDP packets of 1400 bytes a second (`sent_per_s`, `received_per_s`,
    the highest rate without loss `lossless_per_s`), and `cpu_s_per_gb`: seconds of a processor that
    the tunnel's programs at both ends took for a gigabyte of TCP and UDP together. The row of
    wireguard-go has its `version`. A row whose program is not installed has a sentence, `missing`.
    Raises TunnelError where the machine does not let it.
    """
    if os.geteuid():
        raise TunnelError("measuring makes network namespaces: run it as root")
    kinds: dict[str, Callable[[_Pair, ExitStack], tuple[str, list[int]]]] = {
        "bare cable": _bare,
        "tunnel": lambda pair, stack: pair.tunnel(stack, encrypted=False),
        "tunnel, encrypted": lambda pair, stack: pair.tunnel(stack, encrypted=True),
    }
    rows: dict[str, Any] = {}
    lacks = [name for name in ("wireguard-go", "wg") if not shutil.which(name)]
    if lacks:
        rows[_WIREGUARD] = {"missing": f"{' and '.join(lacks)} not installed (Debian: wireguard-go wireguard-tools)"}
    else:
        kinds[_WIREGUARD] = lambda pair, stack: pair.wireguard(stack)
    samples: dict[str, list[dict[str, float]]] = {name: [] for name in kinds}
    for _ in range(repeat):
        for name, make in kinds.items():
            samples[name].append(_measured(make, seconds))
    rows |= {name: {key: statistics.median(run[key] for run in runs) for key in runs[0]} for name, runs in samples.items()}
    if not lacks:
        rows[_WIREGUARD]["version"] = _stdout_of("wireguard-go", "--version").split()[1]
    return {name: rows[name] for name in (*samples, *rows)}


def _measured(make: Callable[[_Pair, ExitStack], tuple[str, list[int]]], seconds: float) -> dict[str, float]:
    with _pair() as pair, ExitStack() as stack:
        address, processes = make(pair, stack)
        before = _processor_time(processes)
        words = ["measure", *pair.names, address, str(_PAYLOAD), str(seconds)]
        figures: dict[str, float] = json.loads(_stdout_of(str(program()), *words))
        carried = pair.bytes_at_server() / 1e9
        figures["cpu_s_per_gb"] = (_processor_time(processes) - before) / carried if carried else 0.0
        return figures


def _bare(pair: _Pair, _stack: ExitStack) -> tuple[str, list[int]]:
    return _OUTER.format(path=1, end=2), []


@contextmanager
def _pair() -> Iterator[_Pair]:
    with tempfile.TemporaryDirectory(prefix="polypath-tunnel-") as folder:
        pair = _Pair(Path(folder))
        try:
            pair.build()
            yield pair
        finally:
            pair.remove()


class _Pair:
    """Two namespaces joined by two veth pairs of 1500 bytes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names = [f"pptb{os.getpid()}{end}" for end in "ab"]

    def build(self) -> None:
        for name in self.names:
            _stdout_of("ip", "netns", "add", name)
            _stdout_of("ip", "-n", name, "link", "set", "lo", "up")
        for path in _PATHS:
            device = f"p{path}"
            ends = [["netns", name, "name", device] for name in self.names]
            _stdout_of("ip", "link", "add", f"{self.names[0]}{path}", "type", "veth", "peer", "name", f"{self.names[1]}{path}")
            for end, words in enumerate(ends):
                _stdout_of("ip", "link", "set", f"{self.names[end]}{path}", *words)
                self.at(end, "addr", "add", f"{_OUTER.format(path=path, end=end + 1)}/24", "dev", device)
                self.at(end, "link", "set", device, "up")

    def remove(self) -> None:
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)

    def at(self, end: int, *words: str) -> str:
        return _stdout_of("ip", "-n", self.names[end], *words)

    def inside(self, end: int, *words: str) -> str:
        return _stdout_of("ip", "netns", "exec", self.names[end], *words)

    def has(self, end: int, device: str) -> bool:
        return device in self.at(end, "link")

    def bytes_at_server(self) -> int:
        links = json.loads(self.at(1, "-j", "-s", "link"))
        return sum(link["stats64"]["rx"]["bytes"] for link in links if link["ifname"] in {f"p{path}" for path in _PATHS})

    def tunnel(self, stack: ExitStack, *, encrypted: bool) -> tuple[str, list[int]]:
        names = [f"{name}-tunnel" for name in self.names]
        keys = [_stdout_of(str(program()), "keygen", str(self.folder / f"{name}.key")).strip() for name in names] if encrypted else []
        for end, name in enumerate(names):
            near, other = end + 1, 2 - end
            text = f'name = "{name}"\n[tunnel]\ndevice = "ppt"\naddresses = ["{_INNER.format(number=1, end=near)}/24"]\n'
            text += f'peer = "{_INNER.format(number=1, end=other)}"\n'
            if encrypted:
                text += f'[encryption]\nprivate_key = "{name}.key"\npeer_public_key = "{keys[1 - end]}"\n'
            for path in _PATHS:
                outer = [_OUTER.format(path=path, end=which) for which in (near, other)]
                text += f'[[path]]\nlocal = "{outer[0]}"\nremote = "{outer[1]}"\n'
            file = self.folder / f"{name}.toml"
            file.write_text(text)
            stack.callback(subprocess.run, [str(program()), "down", name], capture_output=True, check=False)
            self.inside(end, str(program()), "up", str(file))
        status = [json.loads(_stdout_of(str(program()), "status", name, "--json")) for name in names]
        address = _INNER.format(number=1, end=2)
        self.reach(address)
        return address, [row["pid"] for row in status]

    def wireguard(self, stack: ExitStack) -> tuple[str, list[int]]:
        """WireGuard in user space over the first pair, as its own tools set it up."""
        keys = [_stdout_of("wg", "genkey").strip() for _ in self.names]
        processes = []
        for end, name in enumerate(self.names):
            device, key = f"{name}w", self.folder / f"{name}.wg"
            key.write_text(keys[end])
            started = subprocess.Popen(
                ["ip", "netns", "exec", name, "wireguard-go", "-f", device],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                # It refuses to start where the kernel has WireGuard of its own, unless told.
                env={**os.environ, "WG_PROCESS_FOREGROUND": "1", "WG_I_PREFER_BUGGY_USERSPACE_TO_POLISHED_KMOD": "1"},
            )
            stack.callback(started.wait)
            stack.callback(started.terminate)
            processes.append(started.pid)
            _until(partial(self.has, end, device), f"wireguard-go does not make {device}")
            peer = _stdout_of("wg", "pubkey", text=keys[1 - end]).strip()
            remote = f"{_OUTER.format(path=1, end=2 - end)}:51820"
            settings = ["listen-port", "51820", "private-key", str(key)]
            self.inside(end, "wg", "set", device, *settings, "peer", peer, "allowed-ips", "0.0.0.0/0", "endpoint", remote)
            self.at(end, "addr", "add", f"{_INNER.format(number=2, end=end + 1)}/24", "dev", device)
            self.at(end, "link", "set", device, "up")
        address = _INNER.format(number=2, end=2)
        self.reach(address)
        return address, processes

    def reach(self, address: str) -> None:
        def answered() -> bool:
            words = ["ip", "netns", "exec", self.names[0], "ping", "-q", "-c", "1", "-W", "1", address]
            return subprocess.run(words, capture_output=True, check=False).returncode == 0

        _until(answered, f"nobody answers at {address} through the tunnel")


def _stdout_of(*words: str, text: str | None = None) -> str:
    try:
        done = subprocess.run(words, input=text, capture_output=True, text=True, check=False)
    except OSError as error:
        raise TunnelError(f"{words[0]} could not be started: {error.strerror}") from error
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise TunnelError(f"{' '.join(words[:4])} ...: {lines[-1] if lines else f'ended with status {done.returncode}'}")
    return done.stdout


def _until(condition: Callable[[], bool], state: str) -> None:
    limit = time.monotonic() + _PATIENCE_S
    while not condition():
        if time.monotonic() > limit:
            raise TunnelError(f"{state} within {_PATIENCE_S:.0f} s")
        time.sleep(0.05)


def _processor_time(processes: list[int]) -> float:
    """Seconds that processes with all their threads have had."""
    ticks = 0
    for process in processes:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")
