"""Sets of millions of keys. Objects of Python take a hundred bytes a key; this takes some thirty.

A key is a hash already, so a part of it says where in the table to look; a place that is taken
leads to the next one.
"""

from __future__ import annotations

# Bytes of a key, and of the number that it may have.
KEY = 16
_NUMBER = 4
_ENTRY = KEY + _NUMBER
_FIRST = 1 << 10
MOST_NUMBER = 2 ** (8 * _NUMBER) - 2


class Keys:
    """Keys of 16 bytes, each with a number; nothing is ever taken out."""

    def __init__(self) -> None:
        self._places = _FIRST
        self._table = bytearray(_ENTRY * _FIRST)
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __contains__(self, key: bytes) -> bool:
        return self.get(key) is not None

    def get(self, key: bytes) -> int | None:
        """The number of a key; None if it is not there."""
        at = self._place(key)
        # Zero stands for a place that is free.
        value = int.from_bytes(self._table[at + KEY : at + _ENTRY], "little")
        return value - 1 if value else None

    def add(self, key: bytes, number: int = 0) -> bool:
        """Puts a key there, or gives it another number; whether it is new."""
        assert len(key) == KEY and 0 <= number <= MOST_NUMBER, "a hash of this length, and a number that fits"
        at = self._place(key)
        is_new = not any(self._table[at + KEY : at + _ENTRY])
        self._table[at : at + _ENTRY] = key + (number + 1).to_bytes(_NUMBER, "little")
        if is_new:
            self._length += 1
            # Fuller tables make longer ways, and a place that is free must be there.
            if 3 * self._length > 2 * self._places:
                self._grow()
        return is_new

    def _place(self, key: bytes) -> int:
        """Where this key is, or a free place for it."""
        table, last = self._table, _ENTRY * self._places
        at = _ENTRY * (int.from_bytes(key[:8], "little") % self._places)
        while table[at : at + KEY] != key and any(table[at + KEY : at + _ENTRY]):
            at = (at + _ENTRY) % last
        return at

    def _grow(self) -> None:
        before = self._table
        # By half: doubling would leave a table of a few millions half empty.
        self._places += self._places // 2
        self._table = bytearray(_ENTRY * self._places)
        for at in range(0, len(before), _ENTRY):
            entry = before[at : at + _ENTRY]
            if any(entry[KEY:]):
                position = self._place(bytes(entry[:KEY]))
                self._table[position : position + _ENTRY] = entry
