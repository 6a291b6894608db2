"""Interpolates `{{arg}}` in the text of a step.

One pass: `{{…}}` in a value is not replaced. An unknown name is an error, never an empty string
(kai data model, Step `args`). A secret, `{{secret:NAME}}` or the arg that names one, may stand
only in values of `env` and `headers`: everything else is journaled, logged or shown.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from playbook_supervisor.errors import CheckError
from playbook_supervisor.kernel.model import Arg, Playbook, cached_query

SECRET = "secret:"  # noqa: S105 - a prefix, not a password
"""Begins a reference to a secret: `{{secret:NAME}}`."""
_REFERENCE = r"\{\{([^{}]*)\}\}"
OUTPUT = r"\$([a-z0-9][a-z0-9-]*)\.(stdout|json)"
"""The output of an earlier step: `$plan.stdout`."""
_INPUT = r"\$([a-z0-9][a-z0-9-]*)\.(stdout|json|failed)"

HANDLE = r"[A-Za-z_][A-Za-z0-9_]{0,127}\Z"
"""The name of a secret: of an environment variable, or of a program in the config."""
SECRET_OPTIONS = frozenset({"env", "headers"})
"""The keys of `with:` whose values may contain a secret."""


def names(text: str) -> tuple[str, ...]:
    """The names between double braces, in order, each once; `{{ feature }}` is `feature`."""
    return tuple(dict.fromkeys(match.strip() for match in re.findall(_REFERENCE, text)))


def places(text: str) -> tuple[tuple[str, int], ...]:
    """Every name between double braces, with the index at which its braces begin."""
    return tuple((match[1].strip(), match.start()) for match in re.finditer(_REFERENCE, text))


def is_known(text: str) -> bool:
    """True if the text refers to nothing, so that it is what it will be."""
    return re.search(_REFERENCE, text) is None


def with_any_values(text: str) -> str:
    """The text with a letter in place of each reference, to judge what is around them."""
    return re.sub(_REFERENCE, "x", text)


def without_references(text: str) -> str:
    """The text that is written here: all but the references."""
    return re.sub(_REFERENCE, "", text).strip()


def secret_names(text: str, args: Iterable[Arg] = ()) -> tuple[str, ...]:
    """Of the names in a text those that stand for a secret: `secret:NAME`, and each secret arg."""
    secret = {arg.name for arg in args if arg.secret}
    return tuple(name for name in names(text) if name in secret or handle(name))


def handle(name: str) -> str:
    """The handle in `secret:NAME`; empty for any other name."""
    rest = name.removeprefix(SECRET).strip()
    return rest if name.startswith(SECRET) and re.match(HANDLE, rest) else ""


def interpolate(text: str, values: Mapping[str, str]) -> str:
    """`text` with each `{{name}}` replaced by its value; CheckError for a name without one."""
    unknown = [name for name in names(text) if name not in values]
    if unknown:
        said = f"unknown arg {', '.join('{{' + name[:60] + '}}' for name in unknown)}"
        declared = ", ".join(values) or "none"
        cure = f"Declare it under `args`, or use a declared one: {declared}."
        raise CheckError("PB-CHECK-RULE", said, guidance=cure)
    return re.sub(_REFERENCE, lambda match: values[match[1].strip()], text)


def output_reference(text: str) -> tuple[str, str]:
    """The step and what is read of it in `$build.stdout`, `$build.json` or `$build.failed`;
    ValueError."""
    if found := re.fullmatch(_INPUT, text):
        return found[1], found[2]
    raise ValueError(f"{text[:60]!r} is not `$STEP.stdout`, `$STEP.json` or `$STEP.failed`")


@cached_query
def named_outputs(playbook: Playbook) -> dict[str, frozenset[str]]:
    """Step id → the parts of its output (`stdout`, `json`) that other steps name."""
    named: dict[str, set[str]] = {}
    for step in playbook.steps:
        source = step.for_each.source if step.for_each else ""
        for step_id, part in re.findall(OUTPUT + r"\b", f"{step.stdin} {step.when} {source}"):
            named.setdefault(step_id, set()).add(part)
    return {step_id: frozenset(parts) for step_id, parts in named.items() if step_id in playbook}


def fill(options: Mapping[str, Any], values: Mapping[str, str], secrets: Mapping[str, str]) -> Any:
    """The `with:` of a step with every reference replaced, in all of its text but not in keys.

    `secrets` has the values of secrets by name; elsewhere than in `env` and `headers` such a name
    is unknown. CheckError as `interpolate`.
    """
    plain = {name: value for name, value in values.items() if name not in secrets}
    return {
        key: _filled(value, plain | dict(secrets) if key in SECRET_OPTIONS else plain)
        for key, value in options.items()
    }


def _filled(value: Any, values: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return interpolate(value, values)
    if isinstance(value, dict):
        return {key: _filled(each, values) for key, each in value.items()}
    if isinstance(value, list):
        return [_filled(each, values) for each in value]
    return value


def split(command: str) -> tuple[str, ...]:
    """The words behind the namespace; a reference is never divided. CheckError PB-CHECK-RULE."""
    return _split(re.sub(_REFERENCE, lambda match: "{{" + match[1].strip() + "}}", command))[1:]


def words(command: str, values: Mapping[str, str]) -> tuple[str, ...]:
    """The words of a command behind its namespace, with each `{{name}}` replaced.

    The command is split first, so that a value fills exactly one word, whatever it contains. A
    word that is only an arg that was not given is dropped. An arg that is all there is
    (`cli {{test}}`) is itself split. CheckError as `split` and `interpolate`.
    """
    templates = split(command)
    if len(templates) == 1 and is_reference(templates[0]):
        return _split(interpolate(templates[0], values))
    whole = ((template, interpolate(template, values)) for template in templates)
    return tuple(word for template, word in whole if word or not is_reference(template))


def shown(command: str, values: Mapping[str, str]) -> str:
    """The command with its values, each word quoted where it needs it; as it is, if it is faulty.

    A slash command, which has no words of its own, stays as it is.
    """
    if command.startswith("/"):
        return command
    try:
        return f"{command.split(maxsplit=1)[0]} {shlex.join(words(command, values))}".rstrip()
    except CheckError:
        return command


def _split(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        said = f"cannot split {text[:60]!r} into words: {error}"
        cure = "Close every quotation mark; in single quotes every character is text."
        raise CheckError("PB-CHECK-RULE", said, guidance=cure) from error


def is_reference(template: str) -> bool:
    """True if the text is one reference and nothing else."""
    return re.fullmatch(_REFERENCE, template) is not None
