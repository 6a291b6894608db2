"""Catalyst's playbooks: an `id`, typed `inputs`, and steps of a `type` with its `config`.

id: start-rollout
inputs: [{name: feature, type: string, required: true, transform: kebab-case}]
steps: [{id: research, type: markdown, config: {markdown: ./start-rollout.md}}]
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from playbook_supervisor.dialects.simple_command import argv
from playbook_supervisor.formats.located import Data, Document, Path, Plain
from playbook_supervisor.formats.sanitize import did_you_mean, first_line, nearest
from playbook_supervisor.kernel.vocabulary import Transform
from playbook_supervisor.project.expressions import namespaces
from playbook_supervisor.project.expressions.arguments import transformed
from playbook_supervisor.project.playbooks.translation import (
    MISSING,
    NOT_ASKED,
    VERSION,
    Draft,
    Translation,
    meant,
    steps_of,
)

KIND = "a Catalyst playbook"

_TOP = (
    *("id", "description", "owner", "reviewers", "inputs", "steps", "outputs"),
    *("execution-mode", "verify"),
)
_STEP = ("id", "name", "type", "config", "condition", "errorPolicy", "checkpoint", "outputs")
_OF_ACTION = frozenset({"id", "name", "title", "condition", "errorPolicy", "checkpoint", "outputs"})
"""Keys of a step of the published format that are no action."""
_OF_STEP = {"tools": "tools", "outputs": "outputs", "model": "model", "pause": "checkpoint"}
"""Keys of a `config` that are keys of a step."""
_FLAGS = {
    "no-push": ("push", "false", "true"),
    "no-pull": ("pull", "false", "true"),
    "require-new": ("create", "required", "allowed"),
}
"""Booleans of a `config`: the option, and its values for true and false."""

_INPUT = r"\{\{\s*([a-z][a-z0-9_-]*)\s*\}\}"
_WHEN = rf"!?(?:\$|{_INPUT}\s*\Z)"
"""A condition that is one input, or the fact of a step."""


@dataclass(frozen=True, slots=True)
class _Type:
    """A type of step: the namespace of its command, and what its `config` may have.

    `operand` is the key whose value follows the namespace, `options` the names of our options by
    theirs. `keys` are those of `_OF_STEP` and `_FLAGS`.
    """

    namespace: str
    operand: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    keys: tuple[str, ...] = ()

    @property
    def known(self) -> tuple[str, ...]:
        return (*filter(None, [self.operand]), *self.options, *self.keys)


_AGENT = ("tools", "outputs", "model")
_PR = _Type("pr", "", {key: key for key in ("title", "body", "base", "draft")}, keys=("pause",))
_CHILD = _Type("playbook", "playbook", {"inputs": "args"})
TYPES: Mapping[str, _Type] = {
    "markdown": _Type("markdown", "markdown", {"inputs": "inputs"}, _AGENT),
    "ai-prompt": _Type("prompt", "", {"prompt": "text"}, _AGENT),
    "checkpoint": _Type("checkpoint", "", {"message": "message"}),
    "branch": _Type("branch", "name", {"base": "base"}, ("require-new",)),
    "commit": _Type("commit", "", {"message": "message", "files": "paths"}, ("no-push", "no-pull")),
    "pr": _PR,
    "pull-request": _PR,
    "issue": _Type("issue", "", {key: key for key in ("title", "body", "assignee", "labels")}),
    "playbook": _CHILD,
    "sub-playbook": _CHILD,
    "bash": _Type("cli", "command"),
}
"""The types of Catalyst's steps."""

POLICIES = {"continue-on-error": "continue", "retry": "retry_once"}
"""Its words for what happens after a failure, where ours are others."""
_SHARED_POLICIES = ("fail", "continue", "ignore", "stop", "retry_once", "gate")
CODES = {"CATA-AI-429": "PB-AGENT-RATE"}
"""Its error codes to which one of ours corresponds."""


def recognises(document: Document) -> bool:
    """Steps with a `type` or a `config`, or those of the published format; none with a `command`.

    The published format has an `owner` or typed `inputs`, and the action of a step as its key.
    """
    steps = steps_of(document)
    found = meant(document.data, ("id", "owner", "inputs", "args", "workflow", "schema_version"))
    if "command" in {key for step in steps for key in step} or "args" in found:
        return False
    return not {"workflow", "schema_version"} & found.keys() and (
        any(meant(step, ("type", "config")) for step in steps)
        or _is_published(document, steps)
        or {"id", "inputs"} <= found.keys()
    )


def _is_published(document: Document, steps: Sequence[Mapping[str, Data]]) -> bool:
    owned = meant(document.data, ("owner", "inputs"))
    actions = [step.keys() - _OF_ACTION for step in steps]
    return bool(owned) and any(actions) and not any(meant(step, ("type",)) for step in steps)


def translate(document: Document) -> Translation:
    """The playbook: inputs, types and error policies become args, commands and ours."""
    draft = Draft(document)
    if _is_published(document, steps_of(document)):
        said = "this is Catalyst's published format, whose steps are actions such as `bash: …`"
        cure = (
            "It is not read here. Give each step a `type` and its `config`, and the file an `id`."
        )
        draft.refuse((), said, cure)
        return draft.done(KIND)
    draft.refuse_unknown((), _TOP, KIND)
    draft.copy(("name",), ("id",))
    draft.copy(("description",), ("description",))
    draft.put(("version",), VERSION, ())
    draft.put_args(("inputs",), asked=False)
    for index, at in enumerate(draft.items(("steps",))):
        _step(draft, ("steps", index), at)
    for key in ("owner", "reviewers", "outputs"):
        draft.copy((key,), (key,))
    draft.put_defaults()
    _for_a_run(draft)
    draft.note(
        ("inputs",), "`id` is read as `name`, `inputs` as `args`, `type` and `config` as a command"
    )
    return draft.done(KIND)


def _for_a_run(draft: Draft) -> None:
    mode = draft.text(("execution-mode",))
    if mode == "manual":
        draft.note(("execution-mode",), "`execution-mode: manual` is how every run begins")
    elif draft.value(("execution-mode",)) is not MISSING:
        said = f"`execution-mode: {first_line(mode, 40)}` is not said in the file"
        cure = "Remove it, and run the playbook with `--mode autonomous`."
        draft.refuse(("execution-mode",), said, cure)
    if draft.value(("verify",)) is not MISSING:
        cure = "Write a last step of type `bash` that runs the check."
        draft.refuse(("verify",), "`verify` names code of another program", cure)


def _step(draft: Draft, to: Path, at: Path) -> None:
    draft.put(to, {}, at)
    draft.refuse_unknown(at, _STEP, "a step")
    _id(draft, to, at)
    _command(draft, to, at)
    for key in ("checkpoint", "outputs"):
        draft.copy((*to, key), (*at, key))
    _condition(draft, to, (*at, "condition"))
    _error_policy(draft, (*to, "error_policy"), (*at, "errorPolicy"))


def _id(draft: Draft, to: Path, at: Path) -> None:
    name = draft.text((*at, "name"))
    draft.copy((*to, "id"), (*at, "id"))
    if draft.value((*at, "id")) is MISSING and name:
        draft.put((*to, "id"), transformed(name, Transform.KEBAB_CASE), (*at, "name"))
        draft.note((*at, "name"), "a step without `id` has one that is made of its `name`")
    draft.copy((*to, "title"), (*at, "name"))


# ── what a step does ────────────────────────────────────────────────────────────────────────


def _command(draft: Draft, to: Path, at: Path) -> None:
    stated = draft.text((*at, "type"))
    config = (*at, "config")
    kind = TYPES.get(stated)
    if kind is None:
        _of_a_package(draft, to, at, stated)
        return
    names = {_kebab(key): key for key in draft.keys(config)}
    for name, key in list(names.items()):
        if name not in kind.known:
            if near := nearest(name, kind.known):
                names.setdefault(near, key)
            said = f"`{first_line(key, 60)}` is not a known key of the `config` of `{stated}`"
            cure = did_you_mean(name, kind.known)
            draft.refuse((*config, key), said, f"{cure}Its keys are {', '.join(kind.known)}.")
        elif name in kind.options:
            draft.copy((*to, "with", kind.options[name]), (*config, key))
        elif name in _OF_STEP:
            draft.copy((*to, _OF_STEP[name]), (*config, key))
        elif name in _FLAGS:
            _flag(draft, (*to, "with"), (*config, key), *_FLAGS[name])
    if stated == "checkpoint" and "message" not in names:
        shown = draft.text((*at, "name")) or draft.text((*at, "id"))
        draft.put((*to, "with", "message"), shown, at)
    operand = _operand(draft, (*config, names.get(kind.operand, kind.operand)), kind)
    place = (*config, names[kind.operand]) if kind.operand in names else (*at, "type")
    draft.put((*to, "command"), f"{kind.namespace} {operand}".strip(), place)


def _operand(draft: Draft, at: Path, kind: _Type) -> str:
    text = draft.text(at)
    if not kind.operand or (not text and draft.value(at) is not MISSING):
        return ""
    if not text:
        step = at[:-2]
        draft.refuse(step, f"`config` has no `{kind.operand}`", f"Add `{kind.operand}:` to it.")
        return ""
    if kind.namespace != "cli":
        return _word(text.removeprefix("./"))
    try:
        return argv(text)
    except ValueError as fault:
        cure = "Move it to a script of the repository, and name that: no shell runs here."
        draft.refuse(at, f"this is not one simple command: {fault}", cure, key=False)
        return ""


def _of_a_package(draft: Draft, to: Path, at: Path, stated: str) -> None:
    if stated in namespaces.installed():
        draft.put((*to, "command"), stated, (*at, "type"))
        draft.copy((*to, "with"), (*at, "config"))
    elif draft.value((*at, "type")) is MISSING:
        draft.refuse(at, "`type` is missing", f"Add `type:` with one of {', '.join(TYPES)}.")
    else:
        said = f"`{first_line(stated, 60)}` is no type of step that is known here"
        cure = did_you_mean(stated, TYPES)
        cure += f"The types are {', '.join(TYPES)}; an installed package can provide others."
        draft.refuse((*at, "type"), said, cure, key=False)


def _flag(draft: Draft, to: Path, at: Path, option: str, if_true: str, if_false: str) -> None:
    value = draft.value(at)
    stated = value.value if isinstance(value, Plain) else None
    if isinstance(stated, bool):
        draft.put((*to, option), Plain(if_true if stated else if_false), at)
    else:
        draft.refuse(at, f"`{at[-1]}` is neither true nor false", "Write true or false.")


def _kebab(key: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", key).lower()


def _word(text: str) -> str:
    return text if re.match(r"[\w./{}@%+=:,-]+\Z", text) else shlex.quote(text)


# ── whether it runs, and what a failure means ───────────────────────────────────────────────


def _condition(draft: Draft, to: Path, at: Path) -> None:
    value = draft.value(at)
    stated = value.value if isinstance(value, Plain) else value
    if value is MISSING or stated is True:
        return
    if stated is False:
        draft.put((*to, "autonomy"), "skip", at)
        draft.note(at, "`condition: false` is read as `autonomy: skip`")
    elif isinstance(stated, str) and re.match(_WHEN, stated):
        draft.put((*to, "when"), re.sub(_INPUT, r"$\1", stated), at)
        draft.note(at, "`condition` is read as `when`")
    else:
        cure = "Write true, false, one input, or a fact of a step, as in `$review.approved`."
        draft.refuse(at, "this `condition` is none that is known here", cure)


def _error_policy(draft: Draft, to: Path, at: Path) -> None:
    if not draft.keys(at):
        _policy(draft, to, at)
        return
    draft.put((*to, "default"), NOT_ASKED["error_policy"], at)
    for code in draft.keys(at):
        if code == "default" or code.startswith("PB-"):
            _policy(draft, (*to, code), (*at, code))
        elif code in CODES:
            _policy(draft, (*to, CODES[code]), (*at, code))
            draft.note((*at, code), f"`{code}` is read as `{CODES[code]}`")
        else:
            shown = first_line(code, 60)
            said = f"no failure here has the code `{shown}`: its policy is left out"
            draft.note((*at, code), said, "docs/errors.md has the codes.")


def _policy(draft: Draft, to: Path, at: Path) -> None:
    word = draft.text(at)
    if word in POLICIES:
        draft.put(to, POLICIES[word], at)
        draft.note(at, f"`{word}` is read as `{POLICIES[word]}`")
    elif word and word not in _SHARED_POLICIES and not word.startswith("retry:"):
        known = (*_SHARED_POLICIES, "retry:N", *POLICIES)
        cure = f"{did_you_mean(word, known)}Allowed: {', '.join(known)}."
        draft.refuse(at, f"`{first_line(word, 60)}` is no error policy", cure, key=False)
    else:
        draft.copy(to, at)
