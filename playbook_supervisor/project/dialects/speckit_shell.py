"""Whether a line of shell is one simple program with its words, so that no shell is needed."""

from __future__ import annotations

_SPECIAL = frozenset("|&;<>()$`*?[]{}!\n")
_IN_QUOTES = frozenset("$`\\")
_AT_WORD = frozenset("~#")
_NO_PROGRAMS = """
. : alias bg bind break case cd command continue declare eval exec exit export fg for function
hash if jobs let local popd pushd read readonly return set shift shopt source times trap type
typeset ulimit umask unalias unset until wait while
"""
_BUILTINS = frozenset(_NO_PROGRAMS.split())


def needs_shell(line: str) -> str:
    """What in it only a shell understands; empty if it is one program with its words.

    Quotation marks mean what they mean in a shell. Nothing in single quotes is special.
    """
    quote, at_word, escaped = "", True, False
    for character in line:
        if escaped:
            escaped = at_word = False
        elif quote:
            if character == quote:
                quote = ""
            elif quote == '"' and character in _IN_QUOTES:
                return _shown(character)
        elif character in "'\"":
            quote, at_word = character, False
        elif character == "\\":
            escaped = True
        elif character in _SPECIAL or (at_word and character in _AT_WORD):
            return _shown(character)
        else:
            at_word = character in " \t"
    first = line.split(maxsplit=1)[0] if line.split() else ""
    if first in _BUILTINS or "=" in first:
        return f"`{first[:40]}`"
    return "a quotation mark that is not closed" if quote or escaped else ""


def _shown(character: str) -> str:
    return "a second line" if character == "\n" else f"`{character}`"
