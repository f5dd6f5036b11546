"""What the text of an algorithm may not say, since a compiler that reads it would read other files
or write other code than C.

The text is looked at twice: as it stands, for its directives, and after the preprocessor, which
puts words together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from pathlib import Path

from ._errors import CustomCcError

# Comments and texts; an unterminated text goes to the end of its line.
_APART = re.compile(r"""//[^\n]*|/\*.*?(?:\*/|\Z)|"(?:\\.|[^"\\\n])*(?:"|$)|'(?:\\.|[^'\\\n])*(?:'|$)""", re.DOTALL | re.MULTILINE)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f]|\r(?!\n)")
_DIRECTIVE = re.compile(r"^[ \t\f\r]*(?:#|%:)[ \t\f]*(?P<name>\w*)(?P<rest>.*)$", re.MULTILINE)
_INCLUDED = re.compile(r"""\s*(?:"([^"\n]*)"|<([^>\n]*)>)""")
_ALLOWED = {"", "define", "undef", "if", "ifdef", "ifndef", "elif", "elifdef", "elifndef", "else", "endif", "error", "warning"}
_WORDS = {
    **dict.fromkeys(("asm", "__asm", "__asm__"), "is assembly, and an algorithm is C alone"),
    **dict.fromkeys(("_Pragma", "__pragma"), "tells the compiler something, and an algorithm is C alone"),
    **dict.fromkeys(("__has_include", "__has_include_next", "__has_embed"), "looks for a file, and an algorithm reads none"),
}
_WORD = re.compile(r"[A-Za-z_$][\w$]*")
_ATTRIBUTE = re.compile(r"\b__attribute(?:__)?\b|\[\s*\[")
# None of them takes a text, which the assembler would read, or decides what is called when.
_ATTRIBUTES = {"aligned", "always_inline", "cold", "const", "fallthrough", "flatten", "hot", "may_alias", "noclone", "noinline", "nonnull"}
_ATTRIBUTES |= {"noreturn", "packed", "pure", "unused", "warn_unused_result"}


def check_text(file: Path, headers: Collection[str]) -> None:
    """Raises `CustomCcError` if a file asks for other files than these headers, or is not C alone."""
    # As it is: ends of lines of other systems count for a compiler.
    text = file.read_bytes().decode("utf-8", errors="replace")
    if odd := _CONTROL.search(text):
        raise CustomCcError(f"{file}:{_line(text, odd.start())}: a control character ({odd[0]!r}) stands here: take it out")
    whole = _join_lines(text)
    bare = _bare(whole, str(file))
    for directive in _DIRECTIVE.finditer(bare):
        where = f"{file}:{_line(bare, directive.start('name'))}"
        if directive["name"] == "include":
            # The name is a text, which `bare` lacks.
            written = whole[directive.start("rest") : directive.end("rest")]
            named = _INCLUDED.match(written)
            name = (named[1] or named[2] or "") if named else written.strip()
            if name not in headers:
                raise CustomCcError(f"{where}: it includes {name}, and an algorithm includes nothing but {', '.join(sorted(headers))}")
        elif directive["name"] not in _ALLOWED:
            said = directive["name"] or directive["rest"].strip()
            raise CustomCcError(f"{where}: it says #{said}, and an algorithm has #include, #define and #if alone")
    _check_words(bare, lambda at: f"{file}:{_line(bare, at)}")


def check_preprocessed(text: str) -> None:
    """Raises `CustomCcError` if what the preprocessor made of a file is not C alone."""
    name, number = "", 0
    lines, places = [], []
    for whole, line in zip(text.split("\n"), _bare(text, name).split("\n"), strict=True):
        if marker := re.match(r'# (\d+) "(.*?)"', whole):
            name, number, line = marker[2], int(marker[1]) - 1, ""
        elif line.lstrip().startswith("#"):
            raise CustomCcError(f"{name}:{number}: it tells the compiler something (#pragma), and an algorithm is C alone")
        else:
            number += 1
        lines.append(line)
        places.append(f"{name}:{number}")
    bare = "\n".join(lines)
    _check_words(bare, lambda at: places[_line(bare, at) - 1])


def _join_lines(text: str) -> str:
    """Lines that a backslash continues, as one; the ends of lines stand behind it, so that the next
    has its number.
    """
    joined, ends = [], 0
    for line in text.split("\n"):
        rest = line.rstrip(" \t\f\r")
        if rest.endswith("\\"):
            joined.append(rest[:-1])
            ends += 1
        else:
            joined.append(line + "\n" * (1 + ends))
            ends = 0
    return "".join(joined)


def _bare(text: str, name: str) -> str:
    """The text with blanks in place of comments and texts."""

    def blank(match: re.Match[str]) -> str:
        if match[0][0] == '"' and re.search(r"\b(?:u8|[uUL])?R$", text[max(0, match.start() - 4) : match.start()]):
            raise CustomCcError(f"{name}:{_line(text, match.start())}: a raw text stands here, which no kernel's C has: write it plainly")
        return re.sub(r"[^\n]", " ", match[0])

    return _APART.sub(blank, text)


def _check_words(bare: str, where: Callable[[int], str]) -> None:
    for word in _WORD.finditer(bare):
        if word[0] in _WORDS:
            raise CustomCcError(f"{where(word.start())}: {word[0]} {_WORDS[word[0]]}: take it out")
    for attribute in _ATTRIBUTE.finditer(bare):
        for name in _names(bare, attribute):
            if name.strip("_") not in _ATTRIBUTES:
                allowed = ", ".join(sorted(_ATTRIBUTES))
                raise CustomCcError(f"{where(attribute.start())}: an algorithm has no attribute {name}; those it may have are {allowed}")


def _names(bare: str, attribute: re.Match[str]) -> list[str]:
    """The names in an attribute's list, without what stands in brackets behind them."""
    if attribute[0].startswith("["):
        return ["[[...]]"]
    depth, inner = 0, ""
    for letter in bare[attribute.end() :].lstrip():
        depth += (letter == "(") - (letter == ")")
        if depth <= 0:
            break
        inner += letter if depth == 2 else " "
    return _WORD.findall(inner) or ["of another form"]


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1
