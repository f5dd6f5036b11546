"""What the kernel has no counterpart for, and where it stands in the scenario."""

from __future__ import annotations

Place = tuple[str | int, ...]
"""("links", name, "a_to_b", number of the element), ("nodes", name, setting) or ("flows", name, field)."""


class PlanError(ValueError):
    """A scenario that this engine cannot carry out; its text is one sentence."""

    def __init__(self, place: Place, sentence: str) -> None:
        super().__init__(f"{' '.join(map(str, place))}: {sentence}")
        self.place = place
        self.sentence = sentence
