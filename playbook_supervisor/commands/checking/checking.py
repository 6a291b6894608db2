"""`check`: the problems of playbooks, policies, the settings and the index of a project."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from playbook_supervisor.drivers.claude_code import permissions
from playbook_supervisor.errors import CODES, CheckError, PlaybookError
from playbook_supervisor.formats.located import Document
from playbook_supervisor.formats.problems import (
    FileReport,
    Problem,
    Severity,
    problem_at,
    problem_of,
)
from playbook_supervisor.formats.strict_yaml import MAX_BYTES
from playbook_supervisor.kernel.model import SLASH, Playbook
from playbook_supervisor.project.command_layouts import CLAUDE
from playbook_supervisor.project.playbooks import secret_detection
from playbook_supervisor.project.playbooks.lint import CHECK, COMMAND, INSTALL, NAME, lint
from playbook_supervisor.project.playbooks.schema import examine
from playbook_supervisor.project.playbooks.secret_detection import without_allowed
from playbook_supervisor.project.playbooks.translation import TRANSLATED
from playbook_supervisor.project.policies.session_policy import effects
from playbook_supervisor.project.settings import config
from playbook_supervisor.project.settings.config import Config
from playbook_supervisor.project.slash_commands import CommandIndex, index_of
from playbook_supervisor.records import replace
from playbook_supervisor.system.disk.files import read_bytes
from playbook_supervisor.system.git import checkout

if TYPE_CHECKING:
    from playbook_supervisor.project.playbooks.child_playbooks import Children
    from playbook_supervisor.project.policies.policy_files import PolicyRule

Problems = tuple[Problem, ...]


def check(names: Sequence[str]) -> tuple[FileReport, ...]:
    """All problems and warnings of what the names mean. Changes nothing.

    A name is a file, a folder or the name of a playbook; without any, the whole project is meant.
    StateError if there is no project.
    """
    if names and all(map(os.path.isfile, names)):
        return check_files(names)
    from playbook_supervisor.commands.checking import checked_files

    if names:
        return check_files(checked_files.named_files(names))
    files = checked_files.project_files()
    of_project = checked_files.problems(files)
    return (*check_files(files), *(FileReport(each.file, (each,)) for each in of_project))


def check_files(files: Iterable[str]) -> tuple[FileReport, ...]:
    """All problems and warnings of these files.

    The path shows what a file is: `.playbooks/config.yaml`, `.playbooks/policies/*` or
    `.playbooks/_index.yaml`; any other file is a playbook.
    """
    projects: dict[Path, _Project] = {}
    return tuple(FileReport(file, _problems(file, projects)) for file in files)


def _problems(file: str, projects: dict[Path, _Project]) -> Problems:
    path = Path(file)
    if path.is_dir():
        return (_unreadable(file, "PB-IO-READ", "it is a folder", "Give the names of files."),)
    try:
        data = read_bytes(path, limit=MAX_BYTES)
    except FileNotFoundError:
        return (_unreadable(file, "PB-IO-READ", "there is no such file", ""),)
    except PlaybookError as error:
        return (_unreadable(file, error.code, error.message, error.guidance),)
    folder = path.parent
    project = projects.setdefault(folder, _Project(folder))
    place = (*folder.resolve().parts, path.name)
    if place[-2:] == (".playbooks", "config.yaml"):
        return _in_config(data, file)
    if place[-2:] == (".playbooks", "_index.yaml"):
        return _in_index(file, project)
    if place[-3:-1] == (".playbooks", "policies"):
        return _in_policy(data, file, project)
    if path.suffix == ".md" and place[-3:-1] == (".playbooks", "playbooks"):
        from playbook_supervisor.project.playbooks.library import is_playbook

        if not is_playbook(path):  # text for `markdown` steps, or for people
            return ()
    return _in_playbook(data, file, project)


def _unreadable(file: str, code: str, message: str, guidance: str) -> Problem:
    guidance = guidance or "Give the name of a readable file."
    return Problem(file, (1, 1), "error", code, message, guidance)


class _Project:
    """The project that the files of one folder belong to. Its properties are read when needed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @cached_property
    def root(self) -> Path | None:
        try:
            return checkout.find(self._folder).root
        except PlaybookError:
            return None

    @cached_property
    def commands(self) -> CommandIndex | None:
        """Those of the settings' agent; None if it is not known where it reads them."""
        return self.commands_of(self.config.agent if self.config else "")

    def commands_of(self, agent: str) -> CommandIndex | None:
        if self.root is None:
            return None
        layout = CLAUDE
        if agent and self.config:
            from playbook_supervisor.agents.registry import layout_of

            layout = layout_of(agent, self.config, self.root)
        return index_of(self.root, home=Path.home(), layout=layout)

    @cached_property
    def config(self) -> Config | None:
        """The settings of the project; None outside of a repository, and if they are not valid."""
        try:
            return None if self.root is None else config.load(self.root)
        except PlaybookError:
            return None

    @cached_property
    def rules(self) -> tuple[PolicyRule, ...]:
        if self.root is None or not (self.root / ".playbooks/policies").is_dir():
            return ()
        from playbook_supervisor.project.policies.policy_files import project_rules

        return project_rules(self.root, self.config)

    @cached_property
    def children(self) -> Children | None:
        from playbook_supervisor.project.playbooks.child_playbooks import Children

        return None if self.root is None else Children(self.root)

    @cached_property
    def playbooks(self) -> tuple[Playbook, ...]:
        if self.root is None:
            return ()
        from playbook_supervisor.project.playbooks import library

        try:
            found = library.playbooks(self.root)
        except PlaybookError:
            return ()
        return tuple(each.playbook for each in found if not each.problem)


# ── playbooks ───────────────────────────────────────────────────────────────────────────────


def _in_playbook(data: bytes, file: str, project: _Project) -> Problems:
    playbook, problems, document = examine(data, file)
    if document is None:
        return problems
    if playbook is None:
        return _sorted([*problems, *secret_detection.refused(document, data)])
    path = Path(file)
    folder = path.parent.absolute().name
    stem = path.stem if folder == "playbooks" else ""
    anywhere = folder == "templates"  # a pattern for any project
    commands = None if anywhere else project.commands
    command = commands.resolve if commands else None
    looked = commands.looked if commands else ""
    config = None if anywhere else project.config
    warnings = lint(playbook, document, command=command, looked=looked, config=config, stem=stem)
    if any(each.code == TRANSLATED for each in problems):
        warnings = tuple(map(_in_its_format, warnings))
    found = [*problems, *secret_detection.found(document), *warnings]
    found += () if anywhere else _of_other_agents(playbook, document, project)
    found += _step_kinds(playbook, document, project.root if config else None, config)
    if not anywhere and any(step.child for step in playbook.steps):
        found += _children(playbook, document, project, path, in_project=bool(stem))
    if not anywhere and project.root is not None:
        found += _denied(playbook, document, project.root)
    found += _tightened(playbook, document, project)
    unchecked = (() if stem else (NAME,)) + (() if command else (COMMAND,))
    unchecked += () if config else (CHECK,)
    return _not_allowed(_sorted(found), data, file, unchecked)


def _of_other_agents(
    playbook: Playbook, document: Document, project: _Project
) -> Iterator[Problem]:
    for index, step in enumerate(playbook.steps):
        if step.agent and step.namespace == SLASH:
            commands = project.commands_of(step.agent)
            if commands and commands.resolve(step.command) is None:
                path = ("steps", index, "command")
                message = f"the command `{step.command}` was not found {commands.looked}"
                yield problem_at(document, path, COMMAND, message, INSTALL, severity="warning")


def _sorted(found: Iterable[Problem]) -> Problems:
    return tuple(sorted(found, key=lambda each: each.position))


def _in_its_format(warning: Problem) -> Problem:
    """A note of what an author cannot write in the format of another system."""
    if warning.code != "PB-CHECK-LINT-UNSEEN":
        return warning
    guidance = "`playbook import` writes a playbook, which can have some."
    return replace(warning, severity="note", guidance=guidance)


def _step_kinds(
    playbook: Playbook, document: Document, root: Path | None, config: Config | None
) -> Iterator[Problem]:
    if playbook.version == "1.0":
        return
    from playbook_supervisor.drivers.step_kinds import Site, findings

    for each in findings(playbook, Site(root, config) if root and config else None):
        error = each.error
        severity: Severity = "error" if each.certain else "warning" if each.fatal else "note"
        yield problem_at(
            document, each.path, error.code, error.message, error.guidance, severity=severity
        )


def _children(
    playbook: Playbook, document: Document, project: _Project, file: Path, *, in_project: bool
) -> Iterator[Problem]:
    from playbook_supervisor.project.playbooks.child_playbooks import lint

    if project.children is None:
        return
    severity: Severity = "error" if in_project else "warning"
    for fault in project.children.faults(playbook, file):
        path, error = ("steps", fault.index, *fault.place), fault.error
        yield problem_at(
            document, path, error.code, error.message, error.guidance, severity=severity
        )
    yield from lint(playbook, project.children.of(playbook), document)


def _denied(playbook: Playbook, document: Document, root: Path) -> Iterator[Problem]:
    rules, code = permissions.deny_rules(permissions.project_files(root)), "PB-CHECK-DENIED"
    places = {step.id: index for index, step in enumerate(playbook.steps)}
    for step, rule in permissions.denied(rules, playbook.steps, conversation=True):
        path, message = ("steps", places[step.id]), f"Claude Code's settings deny it: {rule}"
        yield problem_at(document, path, code, message, CODES[code], severity="warning")


def _not_allowed(
    problems: Sequence[Problem], data: bytes, file: str, unchecked: Sequence[str] = ()
) -> Problems:
    if b"playbook: allow" not in data:
        return tuple(problems)
    return without_allowed(problems, data, file, unchecked=unchecked)


def _tightened(playbook: Playbook, document: Document, project: _Project) -> Iterator[Problem]:
    try:
        rules = project.rules
    except PlaybookError as error:
        message = f"the policies of the project cannot be read: {error.message} ({error.where})"
        yield Problem(document.source, (1, 1), "warning", error.code, message, error.guidance)
        return
    if not rules:
        return
    from playbook_supervisor.project.policies.policy_files import merged

    places = {step.id: index for index, step in enumerate(playbook.steps)}
    for effect in effects(playbook, merged(rules, playbook)):
        path = ("steps", places[effect.step], "autonomy")
        message = f"policy {effect.policy}: {effect.summary}"
        yield problem_at(
            document, path, "PB-POLICY-TIGHTENS", message, "Sessions apply it.", severity="note"
        )


# ── other files ───────────────────────────────────────────────────────


def _in_config(data: bytes, file: str) -> Problems:
    try:
        return config.examine(data, file)[1]
    except PlaybookError as error:
        return (problem_of(error, file),)


def _in_index(file: str, project: _Project) -> Problems:
    """The index is generated: it can only be out of date."""
    from playbook_supervisor.project.playbooks.library import index_is_stale

    try:
        stale = index_is_stale(project.root) if project.root is not None else ""
    except PlaybookError as error:
        return (_unreadable(file, error.code, error.message, error.guidance),)
    code = "PB-CHECK-STALE"
    return (Problem(file, (1, 1), "error", code, stale, CODES[code]),) if stale else ()


def _in_policy(data: bytes, file: str, project: _Project) -> Problems:
    from playbook_supervisor.project.policies import policy_files

    try:
        rules, problems = policy_files.examine(data, file, project.config)
    except CheckError as error:
        return (problem_of(error, file),)
    if problems:
        return problems
    unused = [_unused(rule, file) for rule in rules if not _used(rule, project.playbooks)]
    return _not_allowed(unused, data, file)


def _used(rule: PolicyRule, playbooks: Sequence[Playbook]) -> bool:
    return not playbooks or any(
        rule.matches(playbook, step) for playbook in playbooks for step in playbook.steps
    )


def _unused(rule: PolicyRule, file: str) -> Problem:
    message = "this rule matches no step of any playbook here"
    guidance = "Correct its patterns, or remove it."
    return Problem(file, (rule.line, 1), "warning", "PB-CHECK-POLICY-UNUSED", message, guidance)
