"""Commands of a shell that need none: one program and its words."""

from __future__ import annotations

import re
import shlex

_REFERENCE = r"\{\{[^{}]*\}\}"
_SYNTAX = r"[|&;<>()$`*?\[\]{}~!#\\\n]"
_BUILTINS = frozenset(
    {".", ":", "alias", "cd", "eval", "exec", "exit", "export", "for", "function", "if", "local"}
    | {"read", "set", "shift", "source", "trap", "ulimit", "umask", "unset", "until", "while"}
)


def argv(text: str) -> str:
    """The command as the words of a `cli` step, which mean to it what they mean to a shell.

    ValueError, with the reason, for what only a shell can do. It is strict: it refuses characters
    that a shell gives a meaning even where they are quoted.
    """
    text = text.strip()
    if found := re.search(_SYNTAX, re.sub(_REFERENCE, "x", text)):
        what = "it has several lines" if found[0] == "\n" else f"a shell reads `{found[0]}`"
        raise ValueError(what)
    words = shlex.split(text)
    if not words:
        raise ValueError("it is empty")
    if "=" in words[0]:
        raise ValueError("it begins with a variable")
    if words[0] in _BUILTINS:
        raise ValueError(f"`{words[0]}` is a word of the shell")
    return text
