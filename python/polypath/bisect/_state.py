"""A bisect's folder: what was asked, what each commit was found to be, and the checkout in which
git searches.

It can be left at any moment and taken up again.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polypath import programs

from ._errors import BisectError

# A repository of another user's is read all the same: its owner asked for it.
_ANY = ("-c", "safe.directory=*")
_ANSWER = "answer.json"


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a bisect is about; the folder of another question is not taken up."""

    tree: str
    good: str
    bad: str
    # "selftests" with tests, or "run" with a study.
    command: tuple[str, ...]
    seeds: tuple[int, ...]
    # Of the whole search.
    error: float


@dataclass(frozen=True)
class Culprit:
    """What git found: one commit, or several where some had to be skipped."""

    commits: tuple[str, ...]


class Session:
    """The folder of one bisect. `tree` in it is a worktree of the person's repository: their own
    checkout stays as it is.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.tree = self.folder / "tree"

    def begin(self, asked: Asked) -> None:
        """Makes the folder, or takes it up. Raises `BisectError` if it holds another question."""
        file = self.folder / "asked.json"
        if file.exists():
            if self.asked() != asked:
                raise BisectError(f"{self.folder} holds a bisect of something else: name another folder with --out, or remove it")
        else:
            self.folder.mkdir(parents=True, exist_ok=True)
            _write(file, dataclasses.asdict(asked))
        if not self.tree.is_dir() and self.answer() is None:
            git(Path(asked.tree), "worktree", "prune")
            git(Path(asked.tree), "worktree", "add", "--detach", str(self.tree), asked.bad)

    def asked(self) -> Asked:
        fields = json.loads((self.folder / "asked.json").read_text(encoding="utf-8"))
        return Asked(**{**fields, "command": tuple(fields["command"]), "seeds": tuple(fields["seeds"])})

    def checkout(self, commit: str) -> None:
        """Has the tree be as a commit left it."""
        git(self.tree, "checkout", "--quiet", "--detach", commit)

    def commit(self) -> str:
        """What the tree is checked out at."""
        return git(self.tree, "rev-parse", "HEAD").strip()

    def about(self, commit: str) -> str:
        """Short hash and subject."""
        return git(self.tree, "log", "-1", "--format=%h %s", commit).strip()

    def keep(self, commit: str, judgement: Mapping[str, Any]) -> None:
        """Writes down what a commit was found to be."""
        file = self.folder / "commits" / f"{commit}.json"
        file.parent.mkdir(exist_ok=True)
        _write(file, {"commit": commit, **judgement})

    def kept(self, commit: str) -> dict[str, Any] | None:
        """What was written down of a commit."""
        file = self.folder / "commits" / f"{commit}.json"
        return json.loads(file.read_text(encoding="utf-8")) if file.exists() else None

    def all_kept(self) -> list[dict[str, Any]]:
        """Of all commits, in the order in which they were judged."""
        files = sorted((self.folder / "commits").glob("*.json"), key=lambda file: file.stat().st_mtime_ns)
        return [json.loads(file.read_text(encoding="utf-8")) for file in files]

    def start(self) -> None:
        """Has git begin its search, unless it has begun."""
        asked = self.asked()
        if programs.run("git", *_ANY, "bisect", "log", cwd=self.tree).returncode:
            git(self.tree, "bisect", "start", asked.bad, asked.good)

    def run(self, *command: str) -> None:
        """Has git go through the commits; `command` judges the tree by its exit status. Raises
        `BisectError` if it was stopped.
        """
        done = programs.run("git", *_ANY, "bisect", "run", *command, cwd=self.tree, show_errors=True)
        # Where only skipped commits are left git fails, and has an answer.
        if done.returncode and self.culprit() is None:
            said = done.stdout.strip().splitlines()
            raise BisectError(f"git bisect stopped ({' | '.join(said[-3:])}): the same command goes on where it stopped")

    def culprit(self) -> Culprit | None:
        """What git found, if it has ended."""
        done = programs.run("git", *_ANY, "bisect", "log", cwd=self.tree)
        first = re.findall(r"^# first bad commit: \[(\w+)\]", done.stdout, re.MULTILINE)
        possible = re.findall(r"^# possible first bad commit: \[(\w+)\]", done.stdout, re.MULTILINE)
        return Culprit(tuple(dict.fromkeys(first or possible))) if first or possible else None

    def answer(self) -> dict[str, Any] | None:
        """What a search that has ended found."""
        file = self.folder / _ANSWER
        return json.loads(file.read_text(encoding="utf-8")) if file.exists() else None

    def end(self, answer: Mapping[str, Any]) -> None:
        """Writes the answer down and removes the tree."""
        _write(self.folder / _ANSWER, answer)
        git(Path(self.asked().tree), "worktree", "remove", "--force", str(self.tree))


def git(folder: Path, *words: str) -> str:
    """What git says in a folder. Raises `BisectError` with its own words if it fails."""
    done = programs.run("git", *_ANY, *words, cwd=folder)
    if done.returncode:
        raise BisectError(f"git {words[0]} in {folder}: {done.stderr.strip().splitlines()[-1] if done.stderr.strip() else 'failed'}")
    return done.stdout


def _write(file: Path, content: Mapping[str, Any]) -> None:
    """Whole or not at all."""
    aside = file.with_suffix(".new")
    aside.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    aside.replace(file)
