"""The facts that a person needs to decide at a gate, collected when it is shown (kai FR24).

The whole session counts and not only the step that asks: what the earlier steps left, what was
waived, and all that has changed in the repository. `gate_text.py` puts it into words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from playbook_supervisor.errors import CODES
from playbook_supervisor.formats.sanitize import last_words, one_line
from playbook_supervisor.kernel import gates
from playbook_supervisor.kernel.directives import Ask, Probed
from playbook_supervisor.kernel.model import Playbook, base_of
from playbook_supervisor.kernel.state import Entry, Gate, last_entries
from playbook_supervisor.kernel.vocabulary import GateReason, Place, Resolution
from playbook_supervisor.project import commit_files
from playbook_supervisor.project.conditions import conditions, features
from playbook_supervisor.project.conditions.conditions import Workspace
from playbook_supervisor.project.conditions.probes import look
from playbook_supervisor.project.expressions import references
from playbook_supervisor.project.policies.session_policy import Policy
from playbook_supervisor.project.settings.config import Config
from playbook_supervisor.records import Record, field
from playbook_supervisor.sessions.files import preview
from playbook_supervisor.sessions.files.local_state import History, Runtime
from playbook_supervisor.sessions.files.manifest import Manifest
from playbook_supervisor.sessions.steps import attempt_log
from playbook_supervisor.sessions.store import session_changes, settings_in_force
from playbook_supervisor.sessions.store.disk_store import DiskStore
from playbook_supervisor.sessions.store.settings_in_force import SettingsChange
from playbook_supervisor.sessions.store.snapshot import Snapshot
from playbook_supervisor.system.git import checkout, tree

if TYPE_CHECKING:
    from playbook_supervisor.sessions.engine.proofs import Standing

_PATIENCE = 5.0  # seconds that git may take for each part: a hook shows gates, too
_PREVIEWED = (GateReason.APPROVAL, GateReason.TOOLS, GateReason.CHECKPOINT)
_LOGGED_LINES = 4
_MOST_FAULTS = 3  # lines of a failed check
_MOST_FAULTS_REPORTED = 5  # lines of a report
_MOST_COMMITS = 3


class Waiver(Record):
    """A failure that counts as none: conditions, triggers, error codes. `by` may be the error
    policy."""

    names: tuple[str, ...]
    attempt: str
    by: str
    text: str


class Words(Record):
    attempt: str = ""
    text: str = ""
    by_agent: bool = True


class GateContext(Record):
    """The context of the open gate of the attempt `entry`. `people` says who may answer, a
    line for each policy. `preview` is what the step is going to be given, what its agent asks for,
    or what has changed of tests, if that is the question. `began_at` is the commit of the session's
    beginning. `printed` are lines of failed checks, `reported` those of reports
    that speak against, `said` the last words of the step or, before it has run, of the last agent
    that did. `verdicts` are the conditions that read a report, as they are now, `dated` what has
    changed since they were judged, `proved` what checks have proved and for which tree, `settled`
    the last attempts of the settled steps. `commits` and `changes` are those since the session
    began, as lines of git, without `more_commits` older ones; `unknown` says what of this is not
    known, and which command would tell. `settings` is how the project's differ from the session's
    by now. `back` are the earlier steps to which an answer can send back."""

    entry: Entry
    gate: Gate
    back: tuple[str, ...] = ()
    people: tuple[str, ...] = ()
    preview: tuple[str, ...] = ()
    began_at: str = ""
    guidance: str = ""
    printed: tuple[str, ...] = ()
    reported: tuple[str, ...] = ()
    said: Words = Words()
    verdicts: tuple[Probed, ...] = ()
    dated: Mapping[str, str] = field(default_factory=dict)
    proved: tuple[Standing, ...] = ()
    waivers: tuple[Waiver, ...] = ()
    settled: tuple[Entry, ...] = ()
    branch: str = ""
    commits: tuple[str, ...] = ()
    more_commits: int = 0
    changes: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    settings: SettingsChange | None = None


def gate_context(snapshot: Snapshot) -> GateContext | None:
    """The context of the gate that the snapshot asks about; None if it asks nothing."""
    if not isinstance(snapshot.directive, Ask):
        return None
    own = snapshot.of(snapshot.directive.member)
    return context_of(own.store, own.manifest, own.state.playbook, own.policy, own.config)


def context_of(
    store: DiskStore, manifest: Manifest, playbook: Playbook, policy: Policy, settings: Config
) -> GateContext | None:
    """The context of the manifest's gate, read without the lock; None if it is not open."""
    history = store.journal(manifest.session_id)
    entries = history.entries
    gate_id = manifest.gate.id if manifest.gate else ""
    entry = next((each for each in entries if each.gate and each.gate.id == gate_id), None)
    gate = entry.gate if entry is not None else None
    if entry is None or gate is None:
        return None
    private, ended = store.runtime(manifest.session_id), gate.place is Place.AFTER
    here = checkout.refreshed(store.checkout)
    feature = manifest.feature or features.current(here.root, here.branch, settings).name
    workspace = Workspace(here.root, feature, here.branch, settings)
    names = conditions.verdicts(_judged(playbook, entry, entries))
    judged = tuple(conditions.probe(name, workspace) for name in names)
    usual = entry.error_guidance == CODES.get(entry.error_code)
    changed = None  # in the middle of a step, whose agent began under those that are kept
    if gate.place is not Place.DURING:
        folder = store.folder(manifest.session_id)
        changed = settings_in_force.change(store.checkout.root, folder, settings)
    begun = session_changes.beginning(store, manifest.session_id)
    since = session_changes.changes_since(here, begun, seconds=_PATIENCE)
    return GateContext(
        entry,
        gate,
        gates.back_from(playbook, entry.step_id, gate.reason),
        people=policy.answerers(entry.step_id, gate.reason),
        preview=tuple(_preview(store, manifest, playbook, entry, gate, history)),
        began_at=tree.short(begun.head) if begun is not None else "",
        guidance="" if usual else entry.error_guidance,
        printed=attempt_log.faults(private, entry, _MOST_FAULTS) if ended else (),
        said=_own_words(playbook, entry, private) if ended else _last_words(playbook, entries),
        reported=_reported(judged, gate, workspace),
        verdicts=judged,
        dated=_dated(judged, history.runtime, here.root),
        proved=_proved(history.runtime, here.root),
        waivers=tuple(_waivers(entries)),
        settled=tuple(each for each in last_entries(entries).values() if each.settled),
        branch=here.branch,
        commits=since.commits[:_MOST_COMMITS],
        more_commits=len(since.commits[_MOST_COMMITS:]),
        changes=since.files,
        unknown=since.unknown,
        settings=changed,
    )


def _preview(
    store: DiskStore,
    manifest: Manifest,
    playbook: Playbook,
    entry: Entry,
    gate: Gate,
    history: History,
) -> Iterator[str]:
    """Elsewhere the person judges what the step has done."""
    step, root = playbook.step(entry.step_id), store.checkout.root
    values = playbook.values(manifest.args, step)
    if gate.place is Place.DURING:
        yield from preview.requested(gate.request)
    if gate.reason in _PREVIEWED and gate.place is Place.BEFORE:
        from playbook_supervisor.sessions.steps import step_data

        stdin = ""
        if step.stdin and history.runtime is not None:
            folder = store.folder(manifest.session_id)
            entries = step_data.standing(playbook, history.entries)
            stdin = step_data.shown_input(folder, history.runtime, step, entries)
        about_tools = gate.reason is GateReason.TOOLS  # they decide, not what they are used for
        yield from preview.preview(playbook, step, values, stdin, brief=about_tools)
    if gate.place is Place.BEFORE and step.namespace in commit_files.TAKING:
        options = references.fill(json.loads(step.options or "{}"), values, {})
        before = session_changes.before(store, manifest.session_id)
        yield from commit_files.announced(root, step.namespace, options, step.also, before)
    if gate.reason is GateReason.WITNESSES:
        yield from _changed_tests(root, entry, history.runtime)


def _changed_tests(root: Path, entry: Entry, runtime: Runtime | None) -> Iterator[str]:
    from playbook_supervisor.project.proofs import questions  # only where tests have changed

    known = runtime.failing if runtime is not None else {}
    for name in entry.failing:
        unknown = f"{name}: the change is not on record here; `continue` checks again and shows it"
        yield from questions.question(root, known.get(name, "")) or (unknown,)


def _own_words(playbook: Playbook, entry: Entry, private: Path) -> Words:
    """From the log of the attempt if its result had no words."""
    text = entry.output
    if not text and not entry.recovered:
        lines = attempt_log.last_lines(private, entry.id, _LOGGED_LINES)
        text = "\n".join(line for line in lines if not attempt_log.begins_check(line))
    by_agent = playbook.step(entry.step_id).needs_agent
    return Words(entry.id, last_words(text), by_agent) if text else Words()


def _last_words(playbook: Playbook, entries: Sequence[Entry]) -> Words:
    agents = {step.id for step in playbook.steps if step.needs_agent}
    ended = last_entries(each for each in entries if base_of(each.step_id) in agents).values()
    speakers = [each for each in ended if each.output or each.recovered]
    last = max(speakers, key=lambda each: each.completed_at or each.latest, default=None)
    if last is None or not last.output:  # what an earlier attempt said is not so any more
        return Words()
    return Words(last.id, last_words(last.output))


def _judged(playbook: Playbook, entry: Entry, entries: Sequence[Entry]) -> list[str]:
    ran = {each.step_id for each in entries if each.ran}
    named = [name for step in playbook.steps if step.id in ran for name in step.postconditions]
    return [*named, *playbook.step(entry.step_id).preconditions]


def _reported(verdicts: Sequence[Probed], gate: Gate, workspace: Workspace) -> tuple[str, ...]:
    names = [each.name for each in verdicts if not each.held]
    if gate.reason in (GateReason.VERDICT_FAIL, GateReason.AGREEMENT_BREAKING):
        names.append(gate.reason.value)
    return against(names, workspace, _MOST_FAULTS_REPORTED)


def _dated(verdicts: Sequence[Probed], runtime: Runtime | None, root: Path) -> Mapping[str, str]:
    held = [each.name for each in verdicts if each.held]
    if not held:
        return {}
    from playbook_supervisor.sessions.engine import proofs

    return proofs.since_verdicts(runtime, held, root, seconds=_PATIENCE)


def _proved(runtime: Runtime | None, root: Path) -> tuple[Standing, ...]:
    if runtime is None or not runtime.proofs:
        return ()
    from playbook_supervisor.sessions.engine import proofs

    made = [each for each in proofs.known(runtime) if not proofs.is_verdict(each)]
    return proofs.standings(made, root, runtime.pinned, seconds=_PATIENCE)


def _waivers(entries: Sequence[Entry]) -> Iterator[Waiver]:
    """An attempt that only repeats what was accepted for an earlier one of its step adds none. A
    change of tests that was accepted is no waiver."""
    known: set[tuple[str, str]] = set()
    for entry in entries:
        accepted = [
            gate
            for gate in entry.gates
            if gate.resolution is Resolution.ACCEPT and gate.reason is not GateReason.WITNESSES
        ]
        names = tuple(name for name in entry.waived if (entry.step_id, name) not in known)
        known |= {(entry.step_id, name) for name in names}
        if names:
            by, text = (
                (accepted[-1].by, accepted[-1].text) if accepted else ("the error policy", "")
            )
            yield Waiver(names, entry.id, by, text)


# ── words of a report ─────────────────────────────────────────────────────────────────────────────

_LARGEST = 200_000  # characters of a report that are looked at
_LONGEST = 300  # characters of a line
_AROUND = 3  # lines before or after the verdict of a report that names no fault

_FAULT = r"""(?ix) \[\ \] | [✗✘❌✖⛔×🔴⚠]
    | \b(?:fail\w*|errors?|missing|breaking|breaks?|broken|violat\w*|block\w*|critical
    |wrong|incorrect|unmet|untested|unresolved|uncovered|regress\w*|stale|leaks?|crash\w*
    |raises?|exception|cannot|can't|does(?:n't|\ not)|is(?:n't|\ not)|are(?:n't|\ not)
    |not\ [a-z]+ed|never)\b
"""
_NO_FAULT = r"""(?ix)
    \b(?:0|no|none|zero|without)\ +(?:\w+\ +)?(?:fail|error|break|violat|block|miss)\w*
    | \b(?:fail\w*|errors?|missing|breaking|blockers?|critical)\W{1,4}(?:0|none|no)\b
"""
_GOOD, _BAD = r"[✓✔✅☑]|\[[xX]\]|\bPASS(?:ED)?\b", r"[✗✘❌✖⛔🔴]|\bFAIL"
_VERDICT = r"(?i)^[\W_\d]*(?:(?:[a-z]+ ){0,3}verdict|(?:pass|fail|stale)(?:ed)?)\b"
_BARE = r"(?i)[\W_\d]*(?:(?:[a-z]+ ){0,3}verdict)?[\W_]*(?:(?:fail|pass)(?:ed)?|stale)?[\W_]*"
_HEADING = r" {0,3}#{1,6}\s"


def against(names: Sequence[str], workspace: Workspace, most: int) -> tuple[str, ...]:
    """The lines of the reports of these conditions and triggers that name faults, at most `most` of
    each, indented below its path; if there are none, the lines around its verdict."""
    paths = dict.fromkeys(path for name in names for path in conditions.artifacts(name, workspace))
    found: list[str] = []
    for path in paths:
        report = look(path, workspace.root)
        if not report.flaw:
            text = report.data.decode("utf-8", "replace")[:_LARGEST]
            lines = list(faults_in(text))
            kept = lines[:most] if len(lines) <= most else lines[: most - 1]
            more = [f"  … {len(lines) - len(kept)} more in the report"] if kept != lines else []
            found += [f"{path}:", *(f"  {line}" for line in kept), *more] if lines else []
    return tuple(found)


def faults_in(text: str) -> Iterator[str]:
    """The lines of a report that name a fault, else those around its verdict, harmless."""
    lines = [line for line in text.splitlines() if line.strip("-= \t")]
    named = [line for line in lines if _names_fault(line)]
    if not named:
        at = [number for number, line in enumerate(lines) if re.search(_VERDICT, line)]
        after = lines[at[-1] + 1 :][:_AROUND] if at else []
        named = after or lines[max(at[-1] - _AROUND, 0) : at[-1]] if at else lines[:_AROUND]
        named = [line for line in named if not re.fullmatch(_BARE, line)]
    for line in dict.fromkeys(named):
        if shown := one_line(line, _LONGEST):
            yield shown


def _names_fault(line: str) -> bool:
    if re.match(_HEADING, line) or re.fullmatch(_BARE, line):
        return False
    if re.search(_GOOD, line) and not re.search(_BAD, line):
        return False
    return re.search(_FAULT, re.sub(_NO_FAULT, "", line)) is not None
