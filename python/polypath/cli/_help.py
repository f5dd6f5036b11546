"""What `--help` calls arguments and values: what a person writes there, in place of the types of
Python.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from polypath.terminal import hush

from ._console import only_json

_WORDS = {"str": "TEXT", "int": "N", "float": "NUMBER", "path": "PATH", "file": "FILE", "directory": "FOLDER"}


def _may_be_quiet(callback: Callable[..., Any]) -> Callable[..., Any]:
    """The function of a command, which takes `--quiet` too, and with `--json` prints nothing else."""
    if hasattr(callback, "__wrapped__"):
        return callback

    @functools.wraps(callback)
    def command(*, quiet: bool, **words: Any) -> Any:
        if quiet:
            hush()
        if words.get("as_json"):
            only_json()
        return callback(**words)

    option = typer.Option("--quiet", "-q", help="Say nothing but what is wrong.")
    quiet = inspect.Parameter("quiet", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Annotated[bool, option])
    signature = inspect.signature(callback, eval_str=True)
    vars(command).update(__signature__=signature.replace(parameters=[*signature.parameters.values(), quiet]))
    command.__annotations__ = {name: each.annotation for name, each in {**signature.parameters, "quiet": quiet}.items()}
    return command


class _Command(TyperCommand):
    def get_params(self, ctx: Any) -> list[Any]:
        return _in_words(super().get_params(ctx))


class Group(TyperGroup):
    """Commands whose help names arguments as a person writes them."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _in_words(super().get_params(ctx))


def in_words(app: typer.Typer) -> None:
    """Lets all commands of an app, and of those in it, be helped with in these words."""
    app.info.cls = Group
    for command in app.registered_commands:
        command.cls = _Command
        text = command.help or inspect.getdoc(command.callback) or ""
        # The terminal wraps lines, not the source.
        command.help = re.sub(r"(?<!\n)\n(?![\n -])", " ", text)
        if command.callback is not None:
            command.callback = _may_be_quiet(command.callback)
    for group in app.registered_groups:
        group.cls = Group
        if group.typer_instance is not None:
            in_words(group.typer_instance)


def help_in_source(module: str, name: str) -> str:
    """The help of a function, or of an app, of a module of ours that is not loaded."""
    source = Path(__file__).parents[2].joinpath(*module.split(".")).with_suffix(".py")
    # Of the whole module all others would be parsed with it: from its name to the next line that
    # begins something.
    found = re.search(rf"^(?:def {name}\(|{name} = ).*\n(?:[ )].*\n|\n)*", source.read_text(encoding="utf-8"), flags=re.MULTILINE)
    if found is None:
        raise AttributeError(f"{module} has no {name}")
    (node,) = ast.parse(found[0]).body
    if isinstance(node, ast.FunctionDef):
        return ast.get_docstring(node) or ""
    assert isinstance(node, ast.Assign) and isinstance(node.value, ast.Call), "an app is made where it is named"
    return next(str(ast.literal_eval(word.value)) for word in node.value.keywords if word.arg == "help")


def _in_words(params: list[Any]) -> list[Any]:
    for param in params:
        if isinstance(param, TyperArgument):
            _name_argument(param)
        elif isinstance(param, TyperOption) and param.metavar is None:
            param.metavar = "" if param.is_flag or param.count else _word(param)
    return params


def _name_argument(param: TyperArgument) -> None:
    several = param.nargs != 1
    name = param.metavar or param.name.upper() + ("..." if several else "")
    # Square brackets, and dots, as a person who wrote the name meant them.
    usage = name if param.required or "[" in name else f"[{name}]"
    param.metavar = name
    # The name alone; the type says nothing more.
    vars(param).update(get_usage_pieces=lambda ctx: [usage], display_type_rich=lambda ctx: "")


def _word(param: TyperOption) -> str:
    kind = param.type_descriptor
    if kind.is_choice:
        return "|".join(str(getattr(choice, "value", choice)) for choice in kind.choices or ())
    if kind.is_path:
        return _WORDS.get(kind.path_type, "PATH")
    bare = str(kind.ranged_type_name) if kind.is_ranged else param.bare_type()
    return _WORDS.get(bare.removeprefix("list[").removesuffix("]"), "VALUE")
