"""Binds the arguments that a person gave to the declared args.

They are positional in the order of the playbook's `args`, or `name=value`, and each must fit the
type of its arg, also after the last change to it. One error reports all problems. A value stays
what was typed, except for a boolean, which becomes `true` or `false`, and for an arg with a
`transform`.
"""

from __future__ import annotations

import json
import re
import shlex
import unicodedata
from collections.abc import Callable, Mapping, Sequence

from playbook_supervisor.errors import ArgumentError
from playbook_supervisor.formats.sanitize import first_line, printable, suggestion
from playbook_supervisor.kernel.model import Arg, Playbook
from playbook_supervisor.kernel.vocabulary import ArgType, Transform
from playbook_supervisor.project.expressions.references import HANDLE, interpolate

_ARG_NAME = r"[A-Za-z_][\w-]*\Z"
_NUMBER = r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?\Z"
_WORD = r"[A-Z]+(?![a-z])|[A-Z]?[^A-Z]+"  # of text in which A stands for upper case, a for the rest
_TRUE = frozenset({"true", "yes", "y", "on", "1"})
_FALSE = frozenset({"false", "no", "n", "off", "0"})


def bind(
    playbook: Playbook,
    given: Sequence[str],
    *,
    is_secret: Callable[[str], bool] = lambda _: False,
) -> dict[str, str]:
    """Final value by name, in the order of declaration; an optional arg without one is `""`.

    A word before the first `=` is the name of an arg; text that begins otherwise is positional, as
    in `https://host/?q=1`. The n-th positional argument is the n-th declared arg. An argument is
    one line of printable text; a blank one counts as not given, so that its default applies.
    `is_secret` says whether a handle names a secret here: that of a secret arg is its value.
    ArgumentError PB-ARG-INVALID has a line for each arg in its details.
    """
    values, faults = _assigned(playbook, given)
    bound: dict[str, str] = {}
    for arg in playbook.args:
        text = values.get(arg.name, "")
        if not text.strip() and arg.default:
            text = interpolate(arg.default, bound)
        bound[arg.name] = text
        if not text.strip():
            faults += [f"{arg.name} is missing"] * arg.required
        elif arg.secret and not is_secret(text):
            faults.append(f"{arg.name} {_HANDLE_WANTED}")
        else:
            try:
                bound[arg.name] = final_value(arg, text)
            except ValueError as fault:
                faults.append(f"{arg.name} {fault}")
    if faults:
        raise _refused(playbook, faults)
    return bound


def changed(playbook: Playbook, bound: Mapping[str, str], name: str, text: str) -> dict[str, str]:
    """The values with another one for an arg, which must fit it. ArgumentError PB-ARG-INVALID."""
    arg = next(arg for arg in playbook.args if arg.name == name)
    try:
        typed(text, arg.type, arg.values)
    except ValueError as fault:
        raise _refused(playbook, [f"{name} {fault}"]) from None
    return {**bound, name: text}


def _refused(playbook: Playbook, faults: Sequence[str]) -> ArgumentError:
    said = f"{playbook.name}: {'; '.join(dict.fromkeys(faults))}"
    takes = tuple(map(wanted, playbook.args))
    return ArgumentError("PB-ARG-INVALID", said, guidance=_guidance(playbook), details=takes)


def by_name(values: Mapping[str, object]) -> list[str]:
    """Arguments that give each arg its value, nothing for None. ArgumentError PB-ARG-INVALID."""
    for name in values:
        if not isinstance(name, str) or not re.match(_ARG_NAME, name):
            shown = first_line(str(name), 40)
            raise ArgumentError("PB-ARG-INVALID", f"no arg can be called {shown!r}")
    return [f"{name}={as_text(value)}" for name, value in values.items() if value is not None]


def as_text(value: object) -> str:
    """A value of a program as a person types it, or as JSON. ArgumentError PB-ARG-INVALID."""
    if isinstance(value, str):
        return value
    if (path := getattr(value, "__fspath__", None)) and isinstance(path(), str):
        return str(path())
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        said = f"a value is of the type {first_line(type(value).__name__, 40)}"
        guidance = "Give text, a number, true or false, a list or a mapping; None gives no value."
        raise ArgumentError("PB-ARG-INVALID", said, guidance=guidance) from None


def _assigned(playbook: Playbook, given: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    declared = [arg.name for arg in playbook.args]
    secret = any(arg.secret for arg in playbook.args)  # then no text is repeated: it may be one
    values: dict[str, str] = {}
    faults: list[str] = []
    surplus: list[str] = []
    position = 0
    for text in given:
        name, equals, value = text.partition("=")
        if equals and re.match(_ARG_NAME, name) and name not in declared:
            unknown = (
                "no arg has one of the given names"
                if secret
                else f"no arg is called {first_line(name, 40)}"
            )
            faults.append(unknown + suggestion(name, declared))
            continue
        if not equals or name not in declared:
            value = text
            if position >= len(declared):
                surplus.append(first_line(text, 40))
                continue
            name = declared[position]
            position += 1
        if name in values:
            faults.append(f"{name} is given twice")
        elif len(value.splitlines()) > 1:
            faults.append(f"{name} {_ONE_LINE}")
        elif printable(value) != value:
            faults.append(f"{name} contains control characters")
        values.setdefault(name, value)
    if surplus:
        quoted = ", ".join(f'"{text}"' for text in surplus)
        faults.append(f"too many arguments: {len(surplus) if secret else quoted}")
    return values, faults


# ── the value of one arg ────────────────────────────────────────────────────────────────────

_ONE_LINE = "must be one line: put longer text into a file, and give its path"
_HANDLE_WANTED = (
    "must be the name of a secret, never its value: an environment variable that is set, or a name "
    "under `secrets` in .playbooks/config.yaml"
)


def final_value(arg: Arg, text: str) -> str:
    """The value that a text, which is not blank, stands for.

    ValueError, with the rest of a sentence about the arg, if the text does not fit its type, or if
    its transform leaves nothing of it. The text of a secret arg is never repeated.
    """
    if arg.secret:
        if not re.match(HANDLE, text):
            raise ValueError(_HANDLE_WANTED)
        return text
    value = typed(text, arg.type, arg.values)
    if arg.transform is None:
        return value
    if not (made := transformed(value, arg.transform)):
        raise ValueError(f"has no letter or digit to make {arg.transform} of: {_quoted(text)}")
    return made


def typed(text: str, kind: str, values: Sequence[str]) -> str:
    """The text as an arg of the type takes it. ValueError, with the rest of a sentence about it."""
    match kind:
        case ArgType.NUMBER:
            if not re.match(_NUMBER, text.strip()):
                raise ValueError(f"must be a number, not {_quoted(text)}")
            return text.strip()
        case ArgType.BOOLEAN:
            word = text.strip().casefold()
            if word not in _TRUE | _FALSE:
                raise ValueError(f"must be true or false, not {_quoted(text)}")
            return "true" if word in _TRUE else "false"
        case ArgType.ENUM:
            if text not in values:
                allowed = ", ".join(map(first_line, values))
                near = suggestion(text, values)
                raise ValueError(f"must be one of {allowed}, not {_quoted(text)}{near}")
            return text
        case _:
            return text


def value_of(arg: Arg, text: str) -> str | int | float | bool:
    """The final value of an arg as a `when` compares it; the empty text if it was not given."""
    match arg.type:
        case ArgType.BOOLEAN if text:
            return text == "true"
        case ArgType.NUMBER if text:
            return int(text) if text.lstrip("-").isdigit() else float(text)
        case _:
            return text


def _quoted(text: str) -> str:
    return f'"{first_line(text, 40)}"'


def transformed(text: str, transform: Transform) -> str:
    """The words of a text, written as `kebab-case`, `snake_case` or `camelCase`; empty if none.

    A word is a run of letters, marks and digits of any script; a new one begins where a capital
    follows a small letter or a digit, and with the last of several capitals before a small letter
    (`HTTPServer2` has the words `http` and `server2`). The result is in Unicode's form NFC.
    """
    words = [word.lower() for word in _words(unicodedata.normalize("NFC", text))]
    if transform is Transform.CAMEL_CASE:
        made = "".join(words[:1] + [word.capitalize() for word in words[1:]])
    else:
        made = ("-" if transform is Transform.KEBAB_CASE else "_").join(words)
    return unicodedata.normalize("NFC", made)


def _words(text: str) -> list[str]:
    shape = "".join(map(_kind, text))
    return [
        text[run.start() + word.start() : run.start() + word.end()]
        for run in re.finditer(r"[Aa]+", shape)
        for word in re.finditer(_WORD, run[0])
    ]


def _kind(character: str) -> str:
    """`A` for a capital, `a` for another part of a word, a blank for what is between words."""
    if unicodedata.category(character) in {"Lu", "Lt"}:
        return "A"
    return "a" if unicodedata.category(character)[0] in "LMN" else " "


# ── what a playbook takes ───────────────────────────────────────────────────────────────────


def wanted(arg: Arg) -> str:
    """A line about an arg: `kind (optional, bug|feature, default bug): What it is`."""
    need = "required" if arg.required and not arg.default else "optional"
    traits = [need, kind(arg)]
    if arg.transform:
        traits.append(f"made {arg.transform}")
    if arg.default:
        traits.append(f"default {first_line(arg.default, 40)}")
    return f"{arg.name} ({', '.join(filter(None, traits))}): {first_line(arg.description)}"


def kind(arg: Arg) -> str:
    """The type of an arg for people: `number`, `true|false`, `bug|feature`; empty for text."""
    if arg.secret:
        return "name of a secret"
    match arg.type:
        case ArgType.NUMBER:
            return "number"
        case ArgType.BOOLEAN:
            return "true|false"
        case ArgType.ENUM:
            return "|".join(first_line(value, 40) for value in arg.values)
        case _:
            return ""


def hint(arg: Arg) -> str:
    """An arg in a line of usage: `<feature>`, `[kind=bug|feature]`, `[count=3]`."""
    if arg.required and not arg.default:
        return f"<{arg.name}>"
    return f"[{arg.name}={first_line(arg.default or '', 40) or kind(arg) or '…'}]"


def _guidance(playbook: Playbook) -> str:
    example = " ".join(["playbook run", playbook.name, *map(_example, playbook.args)])
    if not playbook.args:
        return f"It takes no arguments: {example}"
    return f"It takes {', '.join(map(wanted, playbook.args))}. For example: {example}"


def _example(arg: Arg) -> str:
    value = _fitting(arg)
    return value if arg.required and not arg.default else f"[{arg.name}={value}]"


def _fitting(arg: Arg) -> str:
    if arg.default:
        return shlex.quote(first_line(arg.default, 40))
    if arg.secret:
        return arg.name.upper().replace("-", "_")
    match arg.type:
        case ArgType.NUMBER:
            return "1"
        case ArgType.BOOLEAN:
            return "true"
        case ArgType.ENUM if arg.values:
            return shlex.quote(first_line(arg.values[0], 40))
        case _:
            return "013" if arg.name == "feature" else arg.name.upper()
