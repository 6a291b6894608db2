"""Faults that are seen before anything runs: needs of the kinds of a playbook's steps.

`check` and `doctor` show all findings; `run` and the other beginnings refuse what is fatal.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from playbook_supervisor.agents import registry as agents_registry
from playbook_supervisor.drivers.budget import unkept
from playbook_supervisor.drivers.run_agents import Agents, shares, shares_of, unknown
from playbook_supervisor.errors import (
    ArgumentError,
    CheckError,
    PlaybookError,
    PolicyError,
    StepError,
)
from playbook_supervisor.executors import registry as executors_registry
from playbook_supervisor.executors.protocol import Project, Task
from playbook_supervisor.formats.sanitize import printable
from playbook_supervisor.kernel.model import CHECKPOINT, CLIENT, PLAYBOOK, SLASH, Playbook, Step
from playbook_supervisor.project.expressions.bound_conditions import must_exist
from playbook_supervisor.project.expressions.json_schemas import find_mismatch, flaw, place
from playbook_supervisor.project.expressions.loop_items import own_names, with_references
from playbook_supervisor.project.expressions.references import interpolate, is_known, split, words
from playbook_supervisor.project.playbooks.step_needs import lacking, refused
from playbook_supervisor.project.settings.config import Config
from playbook_supervisor.sessions.engine.work import filled_prompt, prompt_file
from playbook_supervisor.sessions.store.creation import RunRequest
from playbook_supervisor.system.disk.files import contained

NO_CHILDREN: Mapping[str, Playbook] = MappingProxyType({})
LACK = "PB-CHECK-MACHINE"
_SCHEMA = "PB-CHECK-SCHEMA"
_AGENT = "PB-CHECK-AGENT"
_OTHER_AGENT = "Remove the limit, or set an agent that reports its usage."
_CORRECT = "Correct it; `docs/executors.md` lists what each kind of step takes."


OPTIONS: Mapping[str, Mapping[str, Any]] = {
    CHECKPOINT: {
        "type": "object",
        "properties": {
            "message": {"type": "string", "minLength": 1, "description": "What a person is asked."},
            "preview": {
                "type": "string",
                "pattern": r"^\$[a-z0-9][a-z0-9-]*\.(stdout|json)$",
                "description": "The output of an earlier step that is shown: `$plan.stdout`.",
            },
        },
        "required": ["message"],
        "additionalProperties": False,
    },
    PLAYBOOK: {
        "type": "object",
        "properties": {
            "args": {
                "type": "object",
                "additionalProperties": {"type": "string"},
                "description": "The values of its args, by name; nothing else is passed on.",
            }
        },
        "additionalProperties": False,
    },
    "prompt": {
        "type": "object",
        "properties": {
            "text": {"type": "string", "minLength": 1, "description": "What the agent is to do."}
        },
        "required": ["text"],
        "additionalProperties": False,
    },
    "markdown": {
        "type": "object",
        "properties": {
            "inputs": {
                "type": "object",
                "additionalProperties": {"type": "string"},
                "description": "Further values for the references of the file, by name.",
            }
        },
        "additionalProperties": False,
    },
}
"""The keys in the `with:` of a step that no executor carries out."""


@dataclass(frozen=True, slots=True)
class Site:
    """The project in which a playbook would run."""

    root: Path
    config: Config


@dataclass(frozen=True, slots=True)
class Fault:
    """Something wrong in the step at this index: `path` leads to it by keys and indexes."""

    index: int
    path: tuple[str | int, ...]
    error: PlaybookError


def faults(
    playbook: Playbook, site: Site | None, values: Mapping[str, str] | None = None
) -> Iterator[Fault]:
    """The certain faults of the steps: their kind, words, `with:`, schema and folder.

    `values` are those of the args, None if they are not known yet; without a site, what depends on
    a project is not looked at. Nothing is started (docs/decisions/0170).
    """
    made: set[str] = set()
    for index, step in enumerate(playbook.steps):
        for path, error in _Look(playbook, step, site, values, made).faults():
            yield Fault(index, path, error)
        made.update((*step.postconditions, *must_exist(step.outputs)))


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that cannot work, at a path of the playbook.

    `certain`: on any machine; `fatal`: the run could not go on without it.
    """

    path: tuple[str | int, ...]
    error: PlaybookError
    certain: bool = True
    fatal: bool = True

    @property
    def step(self) -> int | None:
        """The index of its step; None if it is about the whole playbook."""
        return next((part for part in self.path if isinstance(part, int)), None)


def findings(playbook: Playbook, site: Site | None) -> Iterator[Finding]:
    """All of them, in the order of the steps; then the agents that are not known or not here, and
    the limits that one of them cannot keep, but for the default one of the settings. Without a
    site, the faults alone."""
    for fault in faults(playbook, site):
        yield Finding(("steps", fault.index, *fault.path), fault.error)
    if site is None:
        return
    for lack in lacking(playbook, site.root):
        error = CheckError(LACK, lack.message, guidance=lack.guidance)
        yield Finding(("steps", lack.index, "command"), error, certain=False, fatal=lack.fatal)
    agents = Agents("", site.root, site.config)
    defaults = {arg.name: arg.default or "" for arg in playbook.args}
    for name, playbooks in shares(playbook, "", NO_CHILDREN, defaults).items():
        yield from _of_agent(name, playbooks, agents, playbook)


def _of_agent(
    name: str, playbooks: tuple[Playbook, ...], agents: Agents, whole: Playbook
) -> Iterator[Finding]:
    path: tuple[str | int, ...] = ("steps",)
    if not is_known(name):
        return
    if name:
        ids = [step.id for step in whole.steps]
        path = ("steps", ids.index(playbooks[0].steps[0].id), "agent")
        if wrong := unknown(name, agents.config):
            yield Finding(path, CheckError(_AGENT, wrong.message, guidance=wrong.guidance))
            return
    elif agents_registry.is_default(agents.config.agent):
        return
    try:
        agent = agents.named(name)
    except PlaybookError as error:
        if name:
            cure = "Install it, or give the step another agent."
            yield Finding(path, CheckError(LACK, error.message, guidance=cure), certain=False)
        return
    for problem in filter(None, (unkept(agent, each) for each in playbooks)):
        lacks = ArgumentError("PB-ARG-AGENT", problem, guidance=_OTHER_AGENT)
        yield Finding(path[:1], lacks, certain=False)
        return


def require_executable(
    request: RunRequest, root: Path, *, start: str = "", machine: Path | None = None
) -> None:
    """The first fault of a run that is to begin, which names the step: CheckError, PolicyError.

    `machine` is the checkout on this machine where it will run, None if it runs elsewhere: what it
    needs there and has not is a fault, too, where the run could not go on without.
    """
    site, playbook = Site(root, request.config), request.tightened
    _require_sound(playbook, site, playbook.values(request.args))
    for child in request.tightened_children.values():
        _require_sound(child, site)
    for lack in lacking(playbook, machine, start) if machine is not None else ():
        if lack.fatal:
            raise CheckError(LACK, lack.message, where=playbook.name, guidance=lack.guidance)


def _require_sound(playbook: Playbook, site: Site, values: Mapping[str, str] | None = None) -> None:
    for fault in faults(playbook, site, values):
        error, step = fault.error, playbook.steps[fault.index].id
        kind = type(error) if isinstance(error, PolicyError) else CheckError
        message = f"step {step}: {error.message}"
        raise kind(error.code, message, where=playbook.name, guidance=error.guidance)


def run_needs_client(request: RunRequest) -> bool:
    """True if an agent of the client carries out a step, where a client drives the session."""
    found = shares_of(request)
    return "" in found or CLIENT in found


class _Look:
    """A look at one step; `made` are the conditions that hold after the steps before it."""

    def __init__(
        self,
        playbook: Playbook,
        step: Step,
        site: Site | None,
        values: Mapping[str, str] | None,
        made: Set[str],
    ) -> None:
        self._playbook, self._step, self._site = playbook, step, site
        self._values = None if values is None else with_references(values, step)
        self._made = made

    def faults(self) -> Iterator[tuple[tuple[str | int, ...], PlaybookError]]:
        step = self._step
        if self._site is not None:
            yield from refused(step, self._site.config, self._site.root)
        if step.output_schema and (wrong := flaw(json.loads(step.output_schema))):
            message = f"`output_schema` is not a JSON Schema: {wrong}"
            guidance = "Correct the schema there."
            yield ("output_schema",), CheckError(_SCHEMA, message, guidance=guidance)
        folder = None
        try:
            folder = self._folder()
        except PlaybookError as error:
            yield ("cwd",), error
        if step.namespace == SLASH:
            return
        try:
            schema = _schema(step.namespace)
            words = self._words()
        except CheckError as error:
            yield ("command",), error
            return
        options = json.loads(step.options or "{}")
        if (found := find_mismatch(options, schema)) is not None:
            inner = f"{place(found.path)}: " if found.path else ""
            message = f"`with` of the {step.namespace} step: {inner}{found.said}"
            key = (found.unknown,) if found.unknown else ()
            yield ("with", *found.path, *key), CheckError(_SCHEMA, message, guidance=_CORRECT)
            return
        try:
            self._check(words, options, folder)
        except StepError as error:
            yield ("command",), CheckError("PB-CHECK-RULE", error.message, guidance=error.guidance)
        except PlaybookError as error:
            yield ("command",), error

    def _words(self) -> tuple[str, ...]:
        if self._values is None:
            return split(self._step.command)
        return words(self._step.command, self._values)

    def _folder(self) -> Path | None:
        if self._site is None:
            return None
        cwd = interpolate(self._step.cwd, self._values) if self._values else self._step.cwd
        return contained(self._site.root, cwd) if is_known(cwd) else self._site.root

    def _check(self, words: tuple[str, ...], options: Mapping[str, Any], cwd: Path | None) -> None:
        """The checks by the kind of the step. StepError, CheckError, PolicyError, StorageError."""
        namespace = self._step.namespace
        if namespace == "markdown":
            self._check_file(words, options)
        if namespace in OPTIONS:
            return
        check = getattr(executors_registry.find(namespace), "check", None)
        if check is None:
            return
        task = Task(directive=self._step.id, namespace=namespace, words=words, options=options)
        site = self._site
        try:
            check(task, Project(site.root, cwd, site.config) if site and cwd else None)
        except PlaybookError:
            raise
        except Exception as error:  # a plugin's fault
            said = f"{type(error).__name__}: {error}"
            message = f"the executor {namespace} cannot check its words: {printable(said)}"
            guidance = "Update the package that provides it, or remove the step."
            raise CheckError("PB-CHECK-NAMESPACE", message, guidance=guidance) from error

    def _check_file(self, words: tuple[str, ...], options: Mapping[str, Any]) -> None:
        if self._site is None or not all(map(is_known, words)) or self._made & {*must_exist(words)}:
            return
        text = prompt_file(self._site.root, words)
        names = [*(arg.name for arg in self._playbook.args), *options.get("inputs", {})]
        names += own_names(self._step, text)
        try:
            filled_prompt(text, self._step.id, dict.fromkeys(names, "x"), self._playbook.args)
        except CheckError as error:
            message = f"{printable(words[0])}: {error.message}"
            raise CheckError(error.code, message, guidance=error.guidance) from error


def _schema(namespace: str) -> Mapping[str, Any]:
    if namespace in OPTIONS:
        return OPTIONS[namespace]
    return executors_registry.find(namespace).with_schema
