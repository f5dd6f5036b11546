"""The study: one question, its set-up with placeholders, and the matrices that fill them.

A `Study` is a frozen value. Building one checks every cell of every matrix, so a study that exists
can be run.
"""

import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import ValidationInfo, model_validator
from pydantic_core import PydanticCustomError

from ._cells import number_of_cells
from ._check import check
from ._claims import Claim, Published
from ._draw import Draw
from ._errors import SetupError
from ._file import dump, read, validated, written
from ._flows import Flow
from ._measure import Measure
from ._placeholder import Scalar
from ._quantity import Time
from ._question import Baselines, Experiment, Question
from ._set import changed
from ._short import Short
from ._topology import Topology
from ._traces import FOLDER, inside

# In the context of a validation: the study was made up around a topology, and will not run.
NETWORK_ONLY = "network_only"

FEWEST_STARTS = 8
"""With fewer, tests of chance hardly ever speak, whatever differs."""


class Study(Question):
    """A question, the set-up that answers it, and what its paper says."""

    @model_validator(mode="after")
    def _every_cell_stands(self, info: ValidationInfo) -> Self:
        try:
            check(self, network_only=bool(info.context and info.context.get(NETWORK_ONLY)))
        except SetupError as error:
            # `where` tells the loader the line; the text alone is for those who build a study in
            # Python.
            raise PydanticCustomError("setup", "{sentence}", {"sentence": str(error), "error": error}) from None
        return self

    def replace(self, **changes: Any) -> "Study":
        """The study with some fields changed, checked as a new one is.

        Args:
            **changes: Fields of a study, as `Study` takes them.

        Raises:
            StudyError: The changed study is wrong.
        """
        token = FOLDER.set(self.folder)
        try:
            study = Study(**{**self._said(), **changes})
        finally:
            FOLDER.reset(token)
        study._file = self._file
        return study

    def everywhere(self, **fields: Any) -> "Study":
        """The study with these fields, which none of its experiments has otherwise."""
        experiments = {name: each.model_copy(update=dict.fromkeys(fields)) for name, each in self.experiments.items()}
        return self.replace(**fields, **({"experiments": experiments} if experiments else {}))

    def set(self, place: str, value: Any) -> "Study":
        """The study with one value changed, however deep it stands, checked as a new one is.

        Args:
            place: Where it stands, as in a study file: "flows.f.cc",
                "topology.links.wifi.both.rate" or "claims.0.metric". A name that is not there yet
                is added.
            value: What stands there then, as a file has it: "30mbit", or a part such as
                `Flow(...)`.

        Raises:
            StudyError: There is no such place, or the changed study is wrong.
        """
        token = FOLDER.set(self.folder)
        try:
            study: Study = changed(self, place, value)
        finally:
            FOLDER.reset(token)
        return study

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> "Study":
        # It has to forget the cells of the old study.
        return self.replace(**(update or {}))

    def in_short(self) -> "Study":
        """The short form as a study of its own. It decides no claims and concludes nothing: that is
        for runs of full length.
        """
        return self.replace(name=f"{self.name}-short", shortened=True, conclusion=None, highlights={}, claims=(), published=None)

    def over_starts(self, starts: int, spread: Time) -> "Study":
        """The same cells with so many starts each, as a study of its own, to be judged as
        distributions.

        Every flow begins at a moment drawn from seed and name: the same moment on every engine. It
        decides no claims, and has no baselines.

        Args:
            starts: Repetitions of each cell; each has its seed.
            spread: The span in which flows begin that have no `start_spread` of their own.
        """

        def spread_out(flows: Mapping[str, Flow]) -> dict[str, Flow]:
            return {name: flow if flow.start_spread else flow.model_copy(update={"start_spread": spread}) for name, flow in flows.items()}

        experiments = {
            name: each.model_copy(update={"seeds": None, **({"flows": spread_out(each.flows)} if each.flows else {})})
            for name, each in self.experiments.items()
        }
        changes: dict[str, Any] = {"experiments": experiments} if experiments else {}
        changes |= {"flows": spread_out(self.flows)} if self.flows else {}
        return self.replace(
            name=f"{self.name}-starts",
            seeds=starts,
            # A short form would cut them down to its own number.
            short=self.short.model_copy(update={"seeds": max(starts, self.short.seeds)}),
            baselines=None,
            conclusion=None,
            highlights={},
            claims=(),
            published=None,
            **changes,
        )

    def _repr_html_(self) -> str:
        """What a notebook shows: what is asked, how much is run, and the study as a file holds it."""
        each = "1 cell" if (cells := number_of_cells(self)) == 1 else f"{cells:,} cells"
        seeds = "1 seed" if len(self.seeds) == 1 else f"{len(self.seeds)} seeds"
        lines = [f"<b>{escape(self.title or self.name)}</b>", f"{each}, {seeds}, {self.duration} each"]
        lines[1:1] = [escape(self.question.strip())] if self.question else []
        return f"<p>{'<br>'.join(lines)}</p><details><summary>{escape(self.name)}</summary><pre>{escape(self.to_yaml())}</pre></details>"

    def to_yaml(self) -> str:
        """The study as a file would hold it."""
        return dump(self)

    def model_dump_json(self, *, indent: int | None = None, **how: Any) -> str:
        """The study as JSON, which `Study.model_validate_json` reads back."""
        # Pydantic's own would write what was not set, too, and quantities as numbers where a
        # placeholder might stand.
        return super().model_dump_json(indent=indent, **how) if how else json.dumps(written(self), indent=indent, ensure_ascii=False)

    @classmethod
    def load(cls, path: str | Path) -> "Study":
        """Reads a study file, or the study.yaml in a folder, as `polypath.load` does.

        Args:
            path: The file or the folder.

        Raises:
            StudyError: There is no such study, or it is wrong.
        """
        source = read(path)
        study = validated(Study, source, source.document.value)
        study._file = source
        if study.published is not None:
            try:
                inside(source.path.parent, study.published.file)
            except ValueError as error:
                raise source.error(("published", "file"), str(error)) from None
        return study

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Study):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in type(self).model_fields)

    __hash__ = None  # type: ignore[assignment]  # It holds mappings.

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(
            self,
            *,
            name: str,
            title: str | None = ...,
            question: str | None = ...,
            source: str | None = ...,
            conclusion: str | None = ...,
            highlights: Mapping[str, str] | str = ...,
            topology: Topology | Mapping[str, Any] | str,
            flows: Mapping[str, Flow | Mapping[str, Any] | str] | str = ...,
            duration: Time | str,
            parameters: Mapping[str, Scalar | str] | str = ...,
            bundles: Mapping[str, Mapping[str, Mapping[str, Scalar | str] | str] | str] | str = ...,
            matrix: Mapping[str, Sequence[Scalar | str] | str] | str = ...,
            experiments: Mapping[str, Experiment | Mapping[str, Any] | str] | str = ...,
            draw: Draw | Mapping[str, Any] | str | None = ...,
            seeds: Sequence[int | str] | int | str = ...,
            repeat_over: Sequence[str] | str = ...,
            measure: Measure | Mapping[str, Any] | str = ...,
            kernel: str = ...,
            baselines: Baselines | Mapping[str, Any] | str | None = ...,
            published: Published | Mapping[str, Any] | str | None = ...,
            claims: Sequence[Claim | Mapping[str, Any] | str] | str = ...,
            short: Short | Mapping[str, Any] | str = ...,
            shortened: bool | str = ...,
        ) -> None: ...
