"""`check`: what is wrong with what people wrote: playbooks, policies, the project's settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

from playbook_supervisor.errors import CheckError, PlaybookError
from playbook_supervisor.formats.problems import FileReport, Problem, problem_at, problem_of
from playbook_supervisor.project.schema import examine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playbook_supervisor.formats.located import Document
    from playbook_supervisor.kernel.model import Playbook
    from playbook_supervisor.project.lint import Lookup
    from playbook_supervisor.project.policy_files import PolicyRule

    Problems = tuple[Problem, ...]


def check(files: Sequence[str]) -> tuple[FileReport, ...]:
    """Every fault of every file, and what is probably not meant (kai FR8, cat FR-2). Reads only.

    By their places, `.playbooks/config.yaml` and `.playbooks/policies/*` are the project's
    settings and policies, `.playbooks/_index.yaml` is derived; any other file is a playbook.
    """
    surroundings: dict[Path, _Project] = {}
    return tuple(FileReport(file, _problems(file, surroundings)) for file in files)


def _problems(file: str, surroundings: dict[Path, _Project]) -> Problems:
    from playbook_supervisor.formats.strict_yaml import MAX_BYTES
    from playbook_supervisor.system.files import read_bytes

    path = Path(file)
    if path.is_dir():
        return (_unreadable(file, "PB-IO-READ", "it is a folder", "Name the files."),)
    try:
        data = read_bytes(path, limit=MAX_BYTES)
    except FileNotFoundError:
        return (_unreadable(file, "PB-IO-READ", "there is no such file", ""),)
    except PlaybookError as error:
        return (_unreadable(file, error.code, error.message, error.guidance),)
    folder = path.parent
    project = surroundings.setdefault(folder, _Project(folder))
    place = (*folder.resolve().parts, path.name)
    if place[-2:] == (".playbooks", "config.yaml"):
        return _in_config(data, file)
    if place[-2:] == (".playbooks", "_index.yaml"):
        return _in_index(file, project)
    if place[-3:-1] == (".playbooks", "policies"):
        return _in_policy(data, file, project)
    return _in_playbook(data, file, project)


def _unreadable(file: str, code: str, message: str, guidance: str) -> Problem:
    guidance = guidance or "Name a file that can be read."
    return Problem(file, (1, 1), "error", code, message, guidance)


class _Project:
    """What stands around the files of one folder; looked for when it is asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @cached_property
    def root(self) -> Path | None:
        """The repository that the folder lies in."""
        from playbook_supervisor.system import checkout

        try:
            return checkout.find(self._folder).root
        except PlaybookError:
            return None

    @cached_property
    def command(self) -> Lookup | None:
        """What is installed there; None outside of a repository."""
        from playbook_supervisor.project.slash_commands import CommandIndex

        return None if self.root is None else CommandIndex(self.root, home=Path.home()).resolve

    @cached_property
    def rules(self) -> tuple[PolicyRule, ...]:
        """The policies that hold there. Raises what reading them raises."""
        if self.root is None or not (self.root / ".playbooks/policies").is_dir():
            return ()
        from playbook_supervisor.project.policy_files import project_rules

        return project_rules(self.root)

    @cached_property
    def playbooks(self) -> tuple[Playbook, ...]:
        """Those that can run."""
        if self.root is None:
            return ()
        from playbook_supervisor.project import library

        try:
            found = library.playbooks(self.root)
        except PlaybookError:
            return ()
        return tuple(each.playbook for each in found if not each.problem)


# ── playbooks ───────────────────────────────────────────────────────────────────────────────


def _in_playbook(data: bytes, file: str, project: _Project) -> Problems:
    from playbook_supervisor.project.lint import lint

    playbook, problems, document = examine(data, file)
    if playbook is None or document is None:
        return problems
    path = Path(file)
    stem = path.stem if path.parent.absolute().name == "playbooks" else ""
    found = [*problems, *lint(playbook, document, command=project.command, stem=stem)]
    found += _tightened(playbook, document, project)
    return tuple(sorted(found, key=lambda each: each.position))


def _tightened(playbook: Playbook, document: Document, project: _Project) -> Iterator[Problem]:
    """What the project's policies make of it, each at the step that it concerns."""
    try:
        rules = project.rules
    except PlaybookError as error:
        said = f"the project's policies cannot be read: {error.message} ({error.where})"
        yield Problem(document.source, (1, 1), "warning", error.code, said, error.guidance)
        return
    if not rules:
        return
    from playbook_supervisor.project.policy_files import merged
    from playbook_supervisor.project.session_policy import effects

    places = {step.id: index for index, step in enumerate(playbook.steps)}
    for effect in effects(playbook, merged(rules, playbook)):
        path = ("steps", places[effect.step], "autonomy")
        said = f"policy {effect.policy}: {effect.said}"
        yield problem_at(
            document,
            path,
            "PB-POLICY-TIGHTENS",
            said,
            "Sessions run it so.",
            severity="note",
        )


# ── what the project says beside them ───────────────────────────────────────────────────────


def _in_config(data: bytes, file: str) -> Problems:
    from playbook_supervisor.project import config

    try:
        return config.examine(data, file)[1]
    except PlaybookError as error:
        return (problem_of(error, file),)


def _in_index(file: str, project: _Project) -> Problems:
    """Nobody writes it: all that can be wrong is that it says something else than the files do."""
    from playbook_supervisor.errors import CODES
    from playbook_supervisor.project.library import index_is_stale

    try:
        stale = index_is_stale(project.root) if project.root is not None else ""
    except PlaybookError as error:
        return (_unreadable(file, error.code, error.message, error.guidance),)
    code = "PB-CHECK-STALE"
    return (Problem(file, (1, 1), "error", code, stale, CODES[code]),) if stale else ()


def _in_policy(data: bytes, file: str, project: _Project) -> Problems:
    from playbook_supervisor.project import policy_files

    try:
        rules, problems = policy_files.examine(data, file)
    except CheckError as error:
        return (problem_of(error, file),)
    if problems:
        return problems
    return tuple(_unused(rule, file) for rule in rules if not _used(rule, project.playbooks))


def _used(rule: PolicyRule, playbooks: Sequence[Playbook]) -> bool:
    """Whether it speaks of any step; where there are no playbooks yet, nobody can tell."""
    return not playbooks or any(
        rule.matches(playbook, step) for playbook in playbooks for step in playbook.steps
    )


def _unused(rule: PolicyRule, file: str) -> Problem:
    said = "this rule matches no step of any playbook here"
    cure = "Correct its patterns, or take it out."
    return Problem(file, (rule.line, 1), "warning", "PB-CHECK-POLICY-UNUSED", said, cure)
