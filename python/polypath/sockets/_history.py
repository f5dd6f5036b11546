"""What was seen of each subflow, over time: numbers, rates, and the last counters of those that are
gone. Owns no clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from ._look import Subflow

# Rates that a sparkline may show, and subflows that are gone.
KEPT_RATES, KEPT_CLOSED = 60, 1000


class Key(NamedTuple):
    """What a socket is known by as long as it lives."""

    source: str
    source_port: int
    destination: str
    destination_port: int


Connection = int | Key


@dataclass(kw_only=True)
class Entry:
    """A subflow, with what was last seen of it."""

    key: Key
    token: int | None
    """Of its MPTCP connection; None for plain TCP."""
    number: int
    """Within its connection, 0 for the first; the same for good."""
    last_seen: float
    last: Subflow
    closed: bool = False
    sent_mbps: float | None = None
    """Acknowledged between the last two looks; None before the second."""
    received_mbps: float | None = None
    rates: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT_RATES))
    """Sent and received together, a value a look."""


class History:
    """All subflows since it began."""

    def __init__(self) -> None:
        self._entries: dict[Key, Entry] = {}
        self._gone: deque[Entry] = deque(maxlen=KEPT_CLOSED)
        self._numbers: dict[Connection, int] = {}

    def see(self, now: float, seen: Iterable[Subflow]) -> list[Entry]:
        """Takes a look over; `now` in seconds. The entries that were seen, then those that this
        look found closed.
        """
        entries: dict[Key, Entry] = {}
        closed: list[Entry] = []
        # Of subflows that appear together the first of a connection comes first, then by their ids.
        for subflow in sorted(seen, key=lambda s: (s.token or 0, s.joined, s.local_id, s.remote_id, s.source, s.source_port)):
            key = Key(subflow.source, subflow.source_port, subflow.destination, subflow.destination_port)
            before = self._entries.get(key)
            if before is not None and not _goes_on(before, subflow):
                closed.append(self._close(before))
                before = None
            if before is None:
                number = self._number(key, subflow.token)
                before = Entry(key=key, token=subflow.token, number=number, last_seen=now, last=subflow)
                self._entries[key] = before
            else:
                _advance(before, now, subflow)
            entries[key] = before
        closed += [self._close(entry) for key, entry in list(self._entries.items()) if key not in entries]
        return [*entries.values(), *closed]

    @property
    def closed(self) -> list[Entry]:
        """In the order in which they went; the last ones of many."""
        return list(self._gone)

    def connections(self) -> list[list[Entry]]:
        """In the order of their appearance: a connection's subflows, closed ones too while it
        lives; a plain TCP socket is alone.
        """
        living: dict[Connection, list[Entry]] = {}
        for entry in self._entries.values():
            living.setdefault(_connection(entry), []).append(entry)
        for entry in self._gone:
            if entry.token is not None and _connection(entry) in living:
                living[_connection(entry)].append(entry)
        return [sorted(entries, key=lambda entry: entry.number) for entries in living.values()]

    def _number(self, key: Key, token: int | None) -> int:
        connection = key if token is None else token
        number = self._numbers.get(connection, 0)
        self._numbers[connection] = number + 1
        return number

    def _close(self, entry: Entry) -> Entry:
        del self._entries[entry.key]
        entry.closed, entry.sent_mbps, entry.received_mbps = True, 0.0, 0.0
        self._gone.append(entry)
        if not any(_connection(other) == _connection(entry) for other in self._entries.values()):
            # Its token may be used again, by another connection.
            self._numbers.pop(_connection(entry), None)
        return entry


def _goes_on(entry: Entry, subflow: Subflow) -> bool:
    """Whether this is still the same one, and not another with its addresses and ports: one that
    falls back to TCP is.
    """
    if subflow.token not in (entry.token, None):
        return False
    return subflow.bytes_acked >= entry.last.bytes_acked and subflow.bytes_received >= entry.last.bytes_received


def _advance(entry: Entry, now: float, subflow: Subflow) -> None:
    span = now - entry.last_seen
    if span > 0:
        entry.sent_mbps = (subflow.bytes_acked - entry.last.bytes_acked) * 8e-6 / span
        entry.received_mbps = (subflow.bytes_received - entry.last.bytes_received) * 8e-6 / span
        entry.rates.append(entry.sent_mbps + entry.received_mbps)
    entry.last, entry.last_seen = subflow, now


def _connection(entry: Entry) -> Connection:
    return entry.key if entry.token is None else entry.token
