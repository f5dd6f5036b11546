"""What the kernel has no counterpart for, and where it stands in the scenario."""

from __future__ import annotations

FieldPath = tuple[str | int, ...]
"""("links", name, "a_to_b", number of the element), ("nodes", name, setting) or ("flows", name,
field).
"""


class PlanError(ValueError):
    """A scenario that this engine cannot carry out; its text is one sentence."""

    def __init__(self, field: FieldPath, sentence: str) -> None:
        super().__init__(f"{' '.join(map(str, field))}: {sentence}")
        self.place = field
        self.sentence = sentence
