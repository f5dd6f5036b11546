"""What this host tells of its paths: devices, addresses, next hops, round-trip times of live
connections. No host knows the rates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path as File

from polypath.doctor import Device, Facts
from polypath.sockets import Subflow

from ._errors import AdviceError
from ._path_text import path_in_words
from ._paths import Path, Span


@dataclass(frozen=True, kw_only=True)
class Uplink:
    """A device that leads to the world, and what is known of the path behind it."""

    device: str
    address: str
    gateway: str | None
    link_bps: float | None
    """Of the device itself, which the path cannot exceed."""
    rtt: Span | None
    """Of the connections that are alive."""

    def as_option(self) -> str:
        """The `--path` that a person completes; a measured round-trip time is taken by itself."""
        return f'--path "DOWN/UPmbit {"RTT " if self.rtt is None else ""}dev {self.device}"'


def uplinks(facts: Facts, sockets: Sequence[Subflow], speed: dict[str, int]) -> list[Uplink]:
    """The devices with an address of IPv4 and a next hop, or all with an address where none has
    one.
    """
    devices = [device for device in facts.outward if _address(device) is not None]
    leading = [device for device in devices if any("." in gateway for gateway in device.gateways)] or devices
    links = []
    for device in leading:
        address = _address(device)
        assert address is not None
        times = [socket.min_rtt_ms for socket in sockets if socket.source == address and socket.min_rtt_ms is not None]
        links.append(
            Uplink(
                device=device.name,
                address=address,
                gateway=next((gateway for gateway in device.gateways if "." in gateway), None),
                link_bps=speed[device.name] * 1e6 if speed.get(device.name, -1) > 0 else None,
                rtt=Span(low=min(times) * 1e6, high=max(times) * 1e6) if times else None,
            )
        )
    return links


def device_speeds(names: Sequence[str]) -> dict[str, int]:
    """Mbit/s as the devices tell; nothing of those that do not."""
    speeds = {}
    for name in names:
        try:
            speeds[name] = int(File("/sys/class/net", name, "speed").read_text())
        except (OSError, ValueError):
            continue
    return speeds


def completed(links: Sequence[Uplink], described: Sequence[str]) -> tuple[list[Path], list[str]]:
    """The paths that `--path` describes, each with what the host knows of its device, and notes.

    Raises `AdviceError` where something is missing that only a person knows; the sentence asks for
    it.
    """
    if not links:
        raise AdviceError("--from-host: no device here has an address and leads anywhere; bring one up, or describe paths with --path")
    by_device = {link.device: link for link in links}
    options: dict[str, tuple[int, str]] = {}
    for number, text in enumerate(described, start=1):
        words = text.split()
        position = words.index("dev") + 1 if "dev" in words else len(words)
        if position >= len(words):
            raise AdviceError(f'--from-host: --path "{text}" names no device; write "dev" and one of {", ".join(by_device)}')
        if words[position] not in by_device:
            raise AdviceError(
                f'--from-host: --path "{text}": no device "{words[position]}" leads anywhere here; there are {", ".join(by_device)}'
            )
        options[words[position]] = (number, text)
    if missing := [link for link in links if link.device not in options]:
        every = " ".join(link.as_option() for link in missing)
        only = "" if not described else ", or leave --from-host out to advise on the others alone"
        measured = "; ".join(_measured(link) for link in missing)
        raise AdviceError(f"--from-host knows {measured}; no host knows the rates of its paths: add {every}{only}")
    paths, notes = [], []
    for link in links:
        number, text = options[link.device]
        path = path_in_words(_with_rtt(text, link), number)
        if link.link_bps is not None and max(path.down.high, path.up.high) > link.link_bps:
            raise AdviceError(f'--path "{text}" is faster than {link.device} itself, whose link has {link.link_bps / 1e6:.0f} Mbit/s')
        paths.append(replace(path, address=path.address or link.address, gateway=path.gateway or link.gateway))
        if link.rtt is not None:
            notes.append(f"{link.device}: round-trip time of live connections: {_rtt_text(link.rtt)}")
    return paths, notes


def _with_rtt(text: str, link: Uplink) -> str:
    """The words with the measured round-trip time, where they have none."""
    if link.rtt is None or any(word[:1].isdigit() and word.endswith(("ms", "us", "ns")) for word in text.split()):
        return text
    return f"{text} rtt {link.rtt.low / 1e6:.4f}..{link.rtt.high / 1e6:.4f}ms"


def _rtt_text(rtt: Span) -> str:
    low, high = (f"{figure / 1e6:.4g}" for figure in (rtt.low, rtt.high))
    return f"{low} ms" if low == high else f"{low} to {high} ms"


def _measured(link: Uplink) -> str:
    parts = [f"{link.device} ({link.address}"]
    parts += [f"next hop {link.gateway}"] if link.gateway else []
    parts += [f"link {link.link_bps / 1e6:.0f} Mbit/s"] if link.link_bps else []
    parts += [f"round-trip time {_rtt_text(link.rtt)}"] if link.rtt else ["no live connection"]
    return ", ".join(parts) + ")"


def _address(device: Device) -> str | None:
    return next((address.address for address in device.addresses if address.version == 4), None)
