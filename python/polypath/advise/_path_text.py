"""A path in words: "50/10mbit 20ms jitter 5ms loss 0.1%"; ranges say how uncertain a figure is."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from ipaddress import IPv4Address

from polypath.study import Rate, Share, Time

from ._errors import AdviceError
from ._paths import MIN_RATE, Path, Span

EXAMPLE = "50/10mbit 20ms jitter 5ms loss 0.1%"
_WORDS = ("rtt", "jitter", "loss", "queue", "outage", "every", "dev", "address", "via", "name")
_NUMBER = r"\d+(?:\.\d+)?"
_FIGURE = re.compile(
    rf"^(?P<low>{_NUMBER})(?P<low_unit>[a-zA-Zµ%]*)(?:\.\.(?P<high>{_NUMBER})(?P<high_unit>[a-zA-Zµ%]*))?"
    rf"(?:(?:±|\+-|\+/-)(?P<spread>{_NUMBER})(?P<spread_unit>[a-zA-Zµ%]*))?$"
)
_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,31}$")
_LONGEST = 10 * 10**9
_FASTEST = 10 * 10**9
# Of outages, ns.
_SHORTEST, MOST_OFTEN, _RAREST = 1_000_000, 500_000_000, 600 * 10**9


def path_in_words(text: str, number: int) -> Path:
    """The path that `--path TEXT` describes, the `number`th of them from 1 on.

    Raises `AdviceError` with one sentence that names the word at fault.
    """
    title, words = _parts(text)
    if len(words) < 1:
        raise AdviceError(f'--path: "" describes nothing; write rates down and up and the round-trip time, like "{EXAMPLE}"')
    figures = {"name": title} if title else {}
    waiting = list(words)
    while waiting:
        word = waiting.pop(0)
        key = word.lower()
        if key in _WORDS:
            if not waiting or waiting[0].lower() in _WORDS:
                raise _wrong(text, f'nothing stands behind "{word}"; write one, like "{word} {_EXAMPLES[key]}"')
            value = waiting.pop(0)
        elif "/" in word and "±" not in word.split("/")[0] and word[:1].isdigit():
            key, value = "rates", word
        elif word[:1].isdigit():
            # A number without a unit behind the rates is meant as the time.
            key, value = ("rtt" if _is_time(word) or ("rates" in figures and word.isdigit()) else "rates"), word
        else:
            near = difflib.get_close_matches(key, _WORDS, n=1)
            hint = (
                f'did you mean "{near[0]}"?' if near else f'the words are {", ".join(_WORDS)}; a name stands first, as in "dsl: {EXAMPLE}"'
            )
            raise _wrong(text, f'"{word}" is no word of a path; {hint}')
        if key in figures:
            raise _wrong(text, f'"{value}" is a second {_SPOKEN.get(key, key)}; the first is "{figures[key]}"')
        figures[key] = value
    if "rates" not in figures:
        raise _wrong(text, f'its rate is missing; write rates down and up and the round-trip time, like "{EXAMPLE}"')
    if "rtt" not in figures:
        raise _wrong(text, f'its round-trip time is missing; write it as ping shows it, like "{EXAMPLE}"')
    down, up = _rates(text, figures["rates"])
    rtt = _span(text, figures["rtt"], Time)
    if not 0 < rtt.low <= rtt.high <= _LONGEST:
        raise _wrong(text, f'"{figures["rtt"]}" is no round-trip time between 1ns and 10s')
    jitter = _span(text, figures.get("jitter", "0ms"), Time)
    if jitter.high > rtt.low:
        raise _wrong(
            text, f"a jitter of {figures['jitter']} is more than the round-trip time, of which it is a part: at most {figures['rtt']}"
        )
    loss = _span(text, figures.get("loss", "0%"), Share)
    if loss.high > 0.5:
        raise _wrong(text, f'nothing useful comes through a path that loses "{figures["loss"]}"; the most is 50%')
    unknown_queue = Span(low=50e6, high=200e6)
    queue = _span(text, figures["queue"], Time) if "queue" in figures else unknown_queue
    if not 1e6 <= queue.low <= queue.high <= _LONGEST:
        raise _wrong(text, f'"{figures["queue"]}" is no length of a queue between 1ms and 10s')
    outage, every = _outage(text, figures)
    for word in ("address", "via"):
        _check_address(text, figures.get(word))
    name = figures.get("name") or figures.get("dev") or f"path{number}"
    try:
        check_name(name)
    except AdviceError as error:
        raise _wrong(text, str(error)) from None
    return Path(
        name=name,
        down=down,
        up=up,
        rtt=rtt,
        jitter=jitter,
        loss=loss,
        queue=queue,
        outage=outage,
        every=every,
        device=figures.get("dev"),
        address=figures.get("address"),
        gateway=figures.get("via"),
    )


def check_name(name: str) -> None:
    """Raises `AdviceError` where a path cannot be called so."""
    if not _NAME.match(name):
        raise AdviceError(f'"{name}" is no name; use letters, digits, "_", "-" and "."')


def _outage(text: str, figures: Mapping[str, str]) -> tuple[Span, Span]:
    """How long nothing passes, and how often."""
    if "outage" not in figures and "every" not in figures:
        return Span(low=0, high=0), Span(low=0, high=0)
    if "outage" not in figures or "every" not in figures:
        lacks = "every" if "outage" in figures else "outage"
        raise _wrong(text, f'`{lacks}` is missing; outages have a length and a distance, like "outage {_EXAMPLES["outage"]}"')
    outage, every = (_span(text, figures[word], Time) for word in ("outage", "every"))
    if not _SHORTEST <= outage.low <= outage.high < every.low:
        raise _wrong(text, f"an outage of {figures['outage']} is none between 1ms and the time from one to the next, {figures['every']}")
    if not MOST_OFTEN <= every.low <= every.high <= _RAREST:
        raise _wrong(text, f'"every {figures["every"]}" is not between 500ms and 10 minutes')
    return outage, every


def _parts(text: str) -> tuple[str, list[str]]:
    """The name before a colon, and the words: "50/10 Mbit/s 20 ms" are two as "50/10mbit 20ms" are."""
    title, colon, rest = text.partition(":")
    # The colons of an address have no room behind them.
    if not colon or not rest.startswith((" ", "\t")) or len(title.split()) != 1:
        title, rest = "", text
    # As providers write it, with a large M; tc means bytes by "mbps".
    rest = re.sub(r"(?<=[\d\s])([kKMG])bps\b", r"\1bit", rest)
    return title.strip(), _UNIT_APART.sub(lambda unit: unit[1].lower(), rest).split()


# What stands behind a number and a space, and is a unit.
_UNIT_APART = re.compile(r"(?<=\d)\s+((?:[kmg]?bit)(?:/s)?|ns|[µu]s|ms|s|%)(?=$|[\s,])", re.IGNORECASE)
_EXAMPLES = {
    "rtt": "20ms",
    "jitter": "5ms",
    "loss": "0.1%",
    "queue": "80ms",
    "outage": "300ms every 15s",
    "every": "15s",
    "dev": "wlan0",
    "address": "192.0.2.2",
    "via": "192.0.2.1",
    "name": "dsl",
}
_SPOKEN = {"rtt": "round-trip time", "rates": "pair of rates"}


def _wrong(text: str, reason: str) -> AdviceError:
    return AdviceError(f'--path "{text}": {reason}')


def _is_time(word: str) -> bool:
    units = re.findall(r"[a-zA-Zµ]+", word)
    return bool(units) and units[-1] in Time.units


def _rates(text: str, written: str) -> tuple[Span, Span]:
    """Down and up; one rate stands for both, and a unit or spread at the end for all before it."""
    parts = written.split("/")
    # "50mbit/s" is a unit, no second rate.
    if parts[-1] == "s":
        parts = parts[:-1]
    for part in parts:
        if part.lower().endswith((".csv", ".trace")):
            link = f"{{kind: {'table' if part.lower().endswith('.csv') else 'trace'}, file: {part}}}"
            raise _wrong(text, f"{part} is a file: a measured line stands in a study, as {link}, and --file takes that")
    if len(parts) > 2:
        raise _wrong(text, f'"{written}" is no pair of rates; write down/up, like "50/10mbit"')
    tail = re.search(r"[a-zA-Z]+(?P<spread>(?:±|\+-).*)?$", parts[-1])
    unit = re.search(r"[a-zA-Z]+", parts[-1])
    ends = unit.group(0) if unit else ""
    spread = (tail.group("spread") or "") if tail else ""
    whole = [part if re.search(r"[a-zA-Z]", part) else f"{part}{ends}{spread}" for part in parts]
    spans = [_span(text, part, Rate) for part in whole]
    for part, span in zip(whole, spans, strict=True):
        if not MIN_RATE <= span.low <= span.high <= _FASTEST:
            raise _wrong(text, f'the rate "{part}" is not between 100kbit and 10gbit')
    return spans[0], spans[-1]


def _span(text: str, written: str, kind: type[Rate] | type[Time] | type[Share]) -> Span:
    """A figure, "30..50mbit", "40mbit±20%" or "20ms±5ms"."""
    match = _FIGURE.match(written)
    if match is None:
        example = {Rate: "50mbit, 30..50mbit or 40mbit±20%", Time: "20ms, 15..30ms or 20ms±20%", Share: "0.1% or 0..1%"}[kind]
        raise _wrong(text, f'"{written}" is no figure; write one like {example}')
    last = match["spread_unit"] or ""
    low_unit = match["low_unit"] or match["high_unit"] or (last if last != "%" or kind is Share else "")
    low = _value(text, f"{match['low']}{low_unit}", kind)
    high = low if match["high"] is None else _value(text, f"{match['high']}{match['high_unit'] or low_unit}", kind)
    if high < low:
        raise _wrong(text, f'"{written}" goes down: write the smaller figure first')
    if match["spread"] is not None:
        unit = match["spread_unit"] or low_unit
        share = unit == "%" and kind is not Share
        by = float(match["spread"]) / 100 if share else _value(text, f"{match['spread']}{unit}", kind)
        low, high = (low * (1 - by), high * (1 + by)) if share else (low - by, high + by)
        if low < 0 or (low <= 0 and kind is not Share):
            raise _wrong(text, f'"{written}" reaches down to nothing: give a smaller spread')
    return Span(low=low, high=high)


def _value(text: str, written: str, kind: type[Rate] | type[Time] | type[Share]) -> float:
    try:
        return float(kind(written))
    except ValueError as error:
        raise _wrong(text, str(error)) from None


def _check_address(text: str, address: str | None) -> None:
    if address is None:
        return
    try:
        IPv4Address(address)
    except ValueError:
        raise _wrong(text, f'"{address}" is no address of IPv4, like 192.0.2.2') from None
