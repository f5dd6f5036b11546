"""Quantities as people write them: "50mbit", "5ms", "64KiB", "20packets", "1%".

Each is a number in its base unit (bit/s, ns, bytes, packets, a fraction) that remembers what it
measures. A bare number is never accepted where a unit is due; arithmetic gives plain numbers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, ClassVar, Self

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from ._errors import written
from ._placeholder import PLACEHOLDER_PATTERN, Placeholder, is_placeholder

_WRITTEN = re.compile(r"^\s*(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[^\d\s.].*?)?\s*$")
# No quantity is longer.
_MOST_LETTERS = 64
_COMMA = re.compile(r"^\s*(\d+),(\d+)\s*([^\d\s.,]*)\s*$")
_EXPONENT = re.compile(r"^\s*\d+(\.\d+)?[eE][-+]?\d+")
# Largest value the simulator's 64-bit integers hold, with room to add two of them.
_LARGEST = 2**62


def several_values(name: str, values: Sequence[object]) -> str:
    """Where several values of a field stand."""
    return f'several values go into `matrix: {{{name}: {written(list(values))}}}`, with `{name}: "${{{name}}}"` here'


def check_written(value: str, what: str, example: str) -> None:
    """Raises ValueError for a number that is written as no number here is."""
    if len(value) > _MOST_LETTERS:
        raise ValueError(f'a {what} is a few letters like "{example}", and here stand {len(value)}')
    if comma := _COMMA.match(value):
        whole, rest, unit = comma.groups()
        # Three digits behind it may be thousands.
        meant = f"{whole}.{rest}{unit}" + (f", or {whole}{rest}{unit} without it" if len(rest) == 3 else "")
        raise ValueError(f'"{value}" is no {what}: write a point: {meant}')
    if _EXPONENT.match(value):
        raise ValueError(f'"{value}" is no {what}: a number has no exponents here; write all its digits')


class _Quantity(int):
    """What the whole-number quantities share: reading, writing, validation."""

    what: ClassVar[str]
    example: ClassVar[str]
    # Accepted spellings with their size in the base unit.
    units: ClassVar[dict[str, int]]
    # Units used to write a value, largest first.
    written: ClassVar[tuple[str, ...]]
    # Units that a mistake names, smallest first.
    spoken: ClassVar[tuple[str, ...]]
    # What people write, in small letters, and which unit they mean by it.
    also: ClassVar[dict[str, str]] = {}
    # Of a unit in JSON Schema, where it is more than those spellings.
    pattern: ClassVar[str] = ""

    def __new__(cls, value: str | Self) -> Self:
        if isinstance(value, cls):
            return value
        return super().__new__(cls, cls._parse(value))

    @classmethod
    def base(cls, value: int) -> Self:
        """The quantity of `value` base units."""
        return super().__new__(cls, value)

    @classmethod
    def _parse(cls, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, str):
            if isinstance(value, int | float) and not isinstance(value, bool):
                raise ValueError(f'the bare number {value} has no unit; write {cls.what} like "{cls.example}"')
            if isinstance(value, list | tuple) and value and all(isinstance(each, str) for each in value):
                raise ValueError(f"{written(value)} is no {cls.what}; {several_values(cls.what, value)}")
            raise ValueError(f'{written(value)} is no {cls.what}; write one like "{cls.example}"')
        check_written(value, cls.what, cls.example)
        match = _WRITTEN.match(value)
        if match is None:
            raise ValueError(f'"{value}" is no {cls.what}; write one like "{cls.example}"')
        unit = match["unit"]
        if unit is None:
            raise ValueError(f'the bare number {value} has no unit; write {cls.what} like "{cls.example}"')
        size = cls._size(unit)
        if size is None:
            hint = cls._meant(match["number"], unit)
            raise ValueError(
                f'"{value}": {cls.what} has no unit "{unit}"; allowed are {", ".join(cls.spoken)}' + (f"; {hint}" if hint else "")
            )
        exact = Decimal(match["number"]) * size
        if exact != exact.to_integral_value():
            raise ValueError(f'"{value}" is finer than one {cls.written[-1]}')
        if exact > _LARGEST:
            raise ValueError(f'"{value}" is larger than this program can count')
        return int(exact)

    @classmethod
    def _size(cls, unit: str) -> int | None:
        return cls.units.get(unit)

    @classmethod
    def _meant(cls, number: str, unit: str) -> str | None:
        """What a person who wrote another unit is told, where it is plain what they mean."""
        meant = cls.also.get(unit.lower(), unit.lower())
        if meant == unit or meant not in cls.spoken:
            return None
        return f"write {number}{meant}"

    def __getnewargs__(self) -> tuple[str]:  # type: ignore[override]  # For copy and pickle: they rebuild it from its text.
        return (str(self),)

    def __str__(self) -> str:
        for unit in self.written:
            size = self.units[unit]
            if self and int(self) % size == 0:
                return f"{int(self) // size}{unit}"
        return f"{int(self)}{self.written[-1]}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def check(value: object) -> object:
            if is_placeholder(value):
                return Placeholder(value)
            return value if type(value) is cls else cls.base(cls._parse(value))

        return core_schema.no_info_plain_validator_function(check, serialization=core_schema.to_string_ser_schema())

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        units = cls.pattern or "|".join(re.escape(unit) for unit in cls.units)
        pattern = rf"^\s*\d+(\.\d+)?\s*({units})\s*$|{PLACEHOLDER_PATTERN}"
        return {"type": "string", "pattern": pattern, "examples": [cls.example], "description": f'A {cls.what}, like "{cls.example}".'}


class Rate(_Quantity):
    """Bits per second, in letters of any case. "bps" is refused, since tc means bytes by it and
    most people bits.
    """

    what = "rate"
    example = "50mbit"
    units: ClassVar = {
        name + ending: size for name, size in (("bit", 1), ("kbit", 10**3), ("mbit", 10**6), ("gbit", 10**9)) for ending in ("", "/s")
    }
    written = ("gbit", "mbit", "kbit", "bit")
    spoken = written[::-1]
    pattern = r"[kKmMgG]?[bB][iI][tT](/[sS])?"

    @classmethod
    def _size(cls, unit: str) -> int | None:
        return cls.units.get(unit.lower())

    @classmethod
    def _meant(cls, number: str, unit: str) -> str | None:
        if match := re.fullmatch(r"(?P<size>[kKMGT]i?)?B(yte|ytes)?(/s|ps)?", unit):
            size = Size.units[(match["size"] or "").replace("k", "K") + "B"]
            bits = Decimal(number) * size * 8
            if bits == bits.to_integral_value() and bits <= _LARGEST:
                return f"this is in bytes: that is {cls.base(int(bits))}"
        if match := re.fullmatch(r"(?P<size>[kmg]?)b(?P<sure>its?)?(/s|ps)?", unit.lower()):
            name = f"{match['size']}bit"
            eightfold = format((8 * Decimal(number)).normalize(), "f")
            # A large letter before a small one is a bit to everybody.
            sure = match["sure"] or re.fullmatch(r"[KMG]b.*", unit)
            return f"write {number}{name}" + ("" if sure else f" if these are bits, and {eightfold}{name} if bytes")
        return None


class Time(_Quantity):
    """Nanoseconds."""

    what = "time"
    example = "25ms"
    units: ClassVar = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9, "h": 3600 * 10**9}
    written = ("s", "ms", "us", "ns")
    spoken = ("ns", "us", "ms", "s", "min", "h")
    also: ClassVar = {
        **dict.fromkeys(("nsec", "nanosecond", "nanoseconds"), "ns"),
        **dict.fromkeys(("usec", "microsecond", "microseconds"), "us"),
        **dict.fromkeys(("msec", "millisecond", "milliseconds"), "ms"),
        **dict.fromkeys(("sec", "secs", "second", "seconds"), "s"),
        **dict.fromkeys(("mins", "minute", "minutes"), "min"),
        **dict.fromkeys(("hour", "hours"), "h"),
    }

    @property
    def seconds(self) -> float:
        return int(self) / 1e9

    @classmethod
    def about(cls, seconds: float) -> Self:
        """What a measured time is in a sentence: to a thousandth of its unit."""
        ns = round(seconds * 10**9)
        finest = next((size // 1000 for size in (10**9, 10**6) if abs(ns) >= size), 1)
        return cls.base(round(ns / finest) * finest)

    def __format__(self, how: str) -> str:
        """In a sentence it is in words."""
        return super().__format__(how) if how else self.in_words()

    def in_words(self) -> str:
        """In the largest unit of which it is at least one, and no more than three decimals: 7.5ms
        rather than 7500us, and 2min rather than 120s.
        """
        for unit in ("h", "min"):
            if self >= 2 * self.units[unit] and self % self.units[unit] == 0:
                return f"{self // self.units[unit]}{unit}"
        for unit, size in (("s", 10**9), ("ms", 10**6), ("us", 10**3)):
            if not self or (self >= size and int(self) * 1000 % size == 0):
                return f"{int(self) / size:.3f}".rstrip("0").rstrip(".") + unit
        return str(self)


class Size(_Quantity):
    """Bytes. KB, MB, GB and TB are powers of 1000; KiB, MiB, GiB and TiB of 1024."""

    what = "size"
    example = "64KiB"
    units: ClassVar = {
        **{"B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12},
        **{"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40},
    }
    written = ("TB", "TiB", "GB", "GiB", "MB", "MiB", "KB", "KiB", "B")
    spoken = written[::-1]


class Packets(_Quantity):
    """A number of packets."""

    what = "number of packets"
    example = "100packets"
    units: ClassVar = {"packets": 1, "packet": 1}
    written = ("packets",)
    spoken = written
    also: ClassVar = dict.fromkeys(("pkt", "pkts", "p", "segments"), "packets")


class Share(float):
    """A fraction between 0 and 1, written in per cent."""

    def __new__(cls, value: str | Share) -> Share:
        if isinstance(value, cls):
            return value
        return super().__new__(cls, cls._parse(value))

    @classmethod
    def _parse(cls, value: object) -> float:
        if isinstance(value, str):
            check_written(value, "share", "1%")
        match = re.match(r"^\s*(\d+(?:\.\d+)?)\s*%\s*$", value) if isinstance(value, str) else None
        if match is None:
            raise ValueError(f'{written(value)} is no share; write per cent, like "1%"')
        share = float(Decimal(match[1]) / 100)
        if share > 1:
            raise ValueError(f'"{value}" is more than 100%')
        return share

    def __getnewargs__(self) -> tuple[str]:  # type: ignore[override]
        return (str(self),)

    def __str__(self) -> str:
        # Through Decimal, so that 0.07 is written 7%, not 7.000000000000001%.
        text = format(Decimal(repr(float(self))) * 100, "f")
        return (text.rstrip("0").rstrip(".") if "." in text else text) + "%"

    def __repr__(self) -> str:
        return f"Share({str(self)!r})"

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def check(value: Any) -> object:
            return Placeholder(value) if is_placeholder(value) else cls(value)

        return core_schema.no_info_plain_validator_function(check, serialization=core_schema.to_string_ser_schema())

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        pattern = rf"^\s*\d+(\.\d+)?\s*%\s*$|{PLACEHOLDER_PATTERN}"
        return {"type": "string", "pattern": pattern, "examples": ["1%"], "description": 'A share in per cent, like "1%".'}
