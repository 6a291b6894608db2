"""Lines of a shell that need none: one program and its words."""

from __future__ import annotations

import re

_REFERENCE = r"\{\{[^{}]*\}\}"
_SPECIAL = frozenset("|&;<>()$`*?[]{}!")
_SPECIAL_IN_QUOTES = frozenset("$`\\")
_SPECIAL_AT_WORD = frozenset("~#")
_NO_PROGRAMS = """
. : alias bg bind break case cd command continue declare eval exec exit export fg for function
hash if jobs let local popd pushd read readonly return set shift shopt source times trap type
typeset ulimit umask unalias unset until wait while
"""
_BUILTINS = frozenset(_NO_PROGRAMS.split())


def argv(text: str) -> str:
    """The line as words of a `cli` step. ValueError, with the reason, if it needs a shell."""
    text = text.strip()
    if why := needs_shell(re.sub(_REFERENCE, "x", text)):
        raise ValueError(why)
    if not text:
        raise ValueError("it is empty")
    return text


def needs_shell(line: str) -> str:
    """The reason why only a shell can carry it out; empty if it is one program with its words.

    Quotation marks mean what they mean in a shell: nothing in single quotes is special.
    """
    if "\n" in line:
        return "it has several lines"
    if found := _syntax(line):
        return found
    first = line.split(maxsplit=1)[0] if line.split() else ""
    if "=" in first:
        return "it begins with a variable"
    return f"`{first}` is a word of the shell" if first in _BUILTINS else ""


def _syntax(line: str) -> str:
    quote, at_word, escaped = "", True, False
    for character in line:
        special = _SPECIAL
        if escaped:
            escaped = at_word = False
            continue
        if quote:
            special = _SPECIAL_IN_QUOTES if quote == '"' else frozenset()
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote, at_word = character, False
        elif character == "\\":
            escaped = True
        elif at_word:
            special = _SPECIAL | _SPECIAL_AT_WORD
        if character in special:
            return f"a shell reads `{character}`"
        at_word = not quote and character in " \t"
    return "a quotation mark is not closed" if quote or escaped else ""
