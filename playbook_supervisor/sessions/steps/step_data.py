"""The data that later steps read of a step: `outputs/<step>.json` in the session's folder.

Only what a later step names is kept: its text (`$id.stdout`), its JSON (`$id.json`), or both. The
file is committed with the session, so that a resume on another machine has it. It names the attempt
that it is from, and only the output of a step's last attempt counts.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from playbook_supervisor.errors import CODES, StepError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel import machine
from playbook_supervisor.kernel.directives import Answer, Failure, Outcome, Probed, Returned
from playbook_supervisor.kernel.model import Loop, Playbook, Step, base_of, item_id, item_number
from playbook_supervisor.kernel.state import DATA, Entry, Event, last_entries
from playbook_supervisor.kernel.vocabulary import EntryStatus, OutputFormat, Place, Resolution
from playbook_supervisor.kernel.when import ARG, FAILED, JSON, Facts
from playbook_supervisor.project.expressions import loop_items
from playbook_supervisor.project.expressions.arguments import value_of
from playbook_supervisor.project.expressions.bound_conditions import bound_step
from playbook_supervisor.project.expressions.references import output_reference
from playbook_supervisor.records import replace
from playbook_supervisor.sessions.files import integrity, local_state
from playbook_supervisor.sessions.files.local_state import JOURNAL, Runtime
from playbook_supervisor.sessions.steps import output_files
from playbook_supervisor.sessions.steps.attempt_log import for_journal, secret_values
from playbook_supervisor.sessions.steps.open_session import OpenSession
from playbook_supervisor.sessions.steps.output_files import LoopData, LoopFile, StepData
from playbook_supervisor.system.process import capture
from playbook_supervisor.system.process.capture import Capture

_STATUSES = {"skipped": EntryStatus.SKIPPED, "done": EntryStatus.DONE}
_LONGEST_ERROR = 240  # characters of an error in a list of what failed
CAP = 1_000_000  # bytes of text or JSON, without `max_output_bytes`
_FENCED = r"```[a-zA-Z]*\n(.*)\n```\Z"  # models often add the fence


def accept_return(opened: OpenSession, returned: Returned) -> tuple[Event, ...]:
    """Accept the return of an attempt and keep of its output what a later step reads. StateError as
    `machine.decide`; nothing is kept of a return that changes nothing."""
    full, output = judged(opened.playbook, returned, child=bool(opened.manifest.parent))
    full, kept = _with_loop(opened, full, output)
    events = machine.decide(opened.state, replace(returned, outcome=for_journal(full)))
    if kept is not None and events:
        opened.keep(kept)
    if events:
        step = opened.playbook.step(returned.id.partition("#")[0])
        output_files.keep_last(opened.private, step, full)
    opened.accept(events)
    return events


def _with_loop(
    opened: OpenSession, outcome: Outcome, kept: StepData | None
) -> tuple[Outcome, StepData | LoopFile | None]:
    if kept is None or not item_number(kept.step):
        return outcome, kept
    loop = opened.unwritten.get(kept.file)
    if not isinstance(loop, LoopFile):
        written = output_files.kept_bytes(opened.folder, opened.runtime, kept.step)
        loop = LoopFile(base_of(kept.step), written)
    loop = loop.with_output(kept)
    if len(loop.emit()) <= output_files.MOST:
        return outcome, loop
    message = f"the outputs of its loop have more than {output_files.MOST:,} bytes"
    return _broken(outcome, message), None


def judged(
    playbook: Playbook, returned: Returned, *, child: bool = False
) -> tuple[Outcome, StepData | None]:
    """The outcome as it counts, and what is kept of its output; None for nothing. An agent that did
    nothing has failed if no condition can show otherwise, and a step that promises JSON and
    returned something else has failed with PB-STEP-OUTPUT."""
    step_id = returned.id.partition("#")[0]
    if step_id not in playbook:
        return returned.outcome, None
    step = playbook.step(step_id)
    cap = step.limits.max_output_bytes or playbook.limits.max_output_bytes or CAP
    outcome = harmless(returned.outcome)
    if outcome.ok and outcome.silent and not (step.judging or step.outputs):
        code = "PB-AGENT-SILENT"  # nothing shows any work
        message = "the agent said nothing and called no tool, and the step has no postcondition"
        outcome = replace(outcome, error=Failure(code, message, CODES[code]))
    if outcome.ok and _promises_json(step):
        outcome = _with_json(step, outcome, cap)
    named = output_files.read_later(playbook, child=child).get(base_of(step_id), frozenset())
    kept = _kept(returned.id, step, outcome, named, cap) if named else None
    return outcome, kept


def _promises_json(step: Step) -> bool:
    """A step with a child session always has data."""
    return step.output is OutputFormat.JSON or step.has_child


def harmless(outcome: Outcome) -> Outcome:
    """Without control characters, and without the values of secret environment variables."""
    if not outcome.output:
        return outcome
    return replace(outcome, output=capture.harmless(outcome.output, secret_values(os.environ)))


def _with_json(step: Step, outcome: Outcome, cap: int) -> Outcome:
    from playbook_supervisor.project.expressions.json_schemas import mismatch, parsed

    data = outcome.data
    if data is None:
        try:
            fenced = re.match(_FENCED, outcome.output.strip(), re.DOTALL)
            data = parsed(fenced[1] if fenced else outcome.output)
        except ValueError as error:
            cut = f" (it was cut at {cap:,} bytes)" * (len(outcome.output.encode()) > cap)
            return _broken(outcome, f"its output is not JSON: {error}{cut}")
    try:
        size = len(json.dumps(data, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:  # a plugin's data
        return _broken(outcome, f"its data are not JSON: {error}")
    if size > cap:
        return _broken(outcome, f"its JSON has {size:,} bytes, more than {cap:,}")
    if step.output_schema and (wrong := mismatch(data, json.loads(step.output_schema))):
        return _broken(outcome, f"its output does not match output_schema at {wrong}")
    return replace(outcome, data=data)


def _broken(outcome: Outcome, message: str) -> Outcome:
    code = "PB-STEP-OUTPUT"
    return replace(outcome, error=Failure(code, message, CODES[code]), data=None)


def _kept(attempt: str, step: Step, outcome: Outcome, named: frozenset[str], cap: int) -> StepData:
    has_data = step.has_child and outcome.data is not None  # of one that has failed, too
    has_json = "json" in named and (has_data or (_promises_json(step) and outcome.ok))
    capture = Capture(cap)
    capture.add(outcome.output.encode("utf-8", "replace"))
    text = "stdout" in named
    return StepData(
        attempt=attempt,
        stdout=capture.text() if text else None,
        cut=text and capture.cut,
        has_json=has_json,
        json=outcome.data if has_json else None,
    )


def input_of(opened: OpenSession, step: Step) -> str:
    """The standard input of a step, empty if it names none. StepError PB-STEP-DATA if there is no
    output to read: that step was skipped, failed without one, or its worker was lost."""
    if not step.stdin:
        return ""
    step_id, what = output_reference(step.stdin)
    if what == FAILED:
        return _listed(_failed(_standing(opened), step_id))
    text = _text(data_of(opened, step_id), what)
    if text is None:
        raise StepError("PB-STEP-DATA", f"its stdin is {step.stdin}, and {step_id} left no output")
    return text


def shown_input(folder: Path, runtime: Runtime, step: Step, entries: Sequence[Entry]) -> str:
    """As `input_of`, read without the session's lock; empty if there is no output to read."""
    step_id, what = output_reference(step.stdin)
    if what == FAILED:
        return _listed(_failed(entries, step_id))
    found = output_files.kept(folder, runtime, step_id)
    attempts = [entry.id for entry in entries if entry.step_id == step_id]
    data = _of(found, attempts[-1]) if attempts else _of_loop(found, step_id, entries)
    return _text(data, what) or ""


def _failed(entries: Sequence[Entry], step_id: str) -> list[dict[str, str]]:
    last = last_entries(each for each in entries if base_of(each.step_id) == step_id).values()
    return [
        {"step": each.step_id, "item": each.item, "error": first_line(each.error, _LONGEST_ERROR)}
        for each in last
        if each.status is EntryStatus.FAILED
    ]


def _listed(failed: Sequence[Mapping[str, str]]) -> str:
    """A line each: `bump[7] (left-pad): command_succeeds: test: exit 1`."""
    items = (f" ({each['item']})" if each["item"] else "" for each in failed)
    lines = zip(failed, items, strict=True)
    return "".join(f"{each['step']}{item}: {each['error']}\n" for each, item in lines)


def _text(found: StepData | None, what: str) -> str | None:
    if found is None:
        return None
    if what == "stdout":
        return found.stdout
    return json.dumps(found.json, ensure_ascii=False) if found.has_json else None


def facts(opened: OpenSession) -> Facts:
    """The values that a `when` may ask for: earlier steps, and `stdout`; read when asked. A step is
    `approved` if a person, or autonomous mode, answered a gate before it with `continue`, and
    `skipped` or `done` if its last entry is. An arg has the type that it declares."""

    def fact(step_id: str, what: str) -> object:
        if what == ARG:
            given = opened.manifest.args.get(step_id, "")
            return next(value_of(a, given) for a in opened.playbook.args if a.name == step_id)
        found = data_of(opened, step_id) if what in (JSON, "stdout") else None
        if what == JSON and found is not None and found.has_json:
            return found.json
        if what == "stdout" and found is not None and found.stdout is not None:
            return found.stdout
        if what in (JSON, "stdout"):
            raise LookupError(f"${step_id}.{what} is not there: {step_id} left none")
        entries = [each for each in _standing(opened) if base_of(each.step_id) == step_id]
        if not entries:
            raise LookupError(f"{step_id} has not run")
        if what == FAILED:
            return _failed(entries, step_id)
        if what in _STATUSES:
            last = last_entries(entries).values()
            return all(each.status is _STATUSES[what] for each in last)
        gates = (gate for entry in entries for gate in entry.gates)
        return any(
            gate.place is Place.BEFORE and gate.resolution is Resolution.CONTINUE for gate in gates
        )

    return fact


def lacking_input(step: Step, facts: Facts) -> Probed | None:
    """The output that a step reads, if there is none: it then fails before a worker is called."""
    try:
        facts(*output_reference(step.stdin))
    except LookupError as missing:
        return Probed("stdin", Answer.ERROR, str(missing.args[0]), code=DATA)
    return None


def entries_of(opened: OpenSession) -> tuple[Entry, ...]:
    """All entries of the journal."""
    source = integrity.shown(opened.folder, JOURNAL)
    return local_state.journal_entries(opened.text.data, source, opened.private, opened.runtime)


def standing(playbook: Playbook, entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """Those of a whole journal that count: without those of steps that ran again, since a later one
    sent back."""

    def phase(entry: Entry) -> int:
        return playbook.phase_of[base_of(entry.step_id)]

    kept: list[Entry] = []
    target = -1
    for entry in entries:
        if phase(entry) <= target:
            kept, target = [each for each in kept if phase(each) < target], -1
        kept.append(entry)
        if entry.back_to:
            named = playbook.phase_of[entry.back_to]
            target = named if target < 0 else min(target, named)
    return tuple(kept)


def _standing(opened: OpenSession) -> tuple[Entry, ...]:
    return standing(opened.playbook, entries_of(opened))


def data_of(opened: OpenSession, step_id: str) -> StepData | None:
    """The output kept of a step's last attempt, or of a loop's items; None without one.
    StateError PB-STATE-TAMPERED if something else changed it, PB-STATE-CORRUPT, StorageError."""
    found = output_files.kept(opened.folder, opened.runtime, step_id)
    if opened.playbook.step(step_id).for_each:
        return _of_loop(found, step_id, _standing(opened))
    return _of(found, opened.state.last_attempt(step_id))


def _of(found: StepData | LoopData | None, attempt: str) -> StepData | None:
    return found if isinstance(found, StepData) and found.attempt == attempt else None


def _of_loop(
    found: StepData | LoopData | None, loop: str, entries: Sequence[Entry]
) -> StepData | None:
    return output_files.combined(found if isinstance(found, LoopData) else None, loop, entries)


def _passed_over(opened: OpenSession, loop: Loop, item: Step, found: Any) -> str:
    if found is not None:
        return loop_items.passed_over(loop, found)
    source = loop.source.removeprefix("$").partition(".")[0]
    number = item_number(item.id)
    last = last_entries(_standing(opened)).get(item_id(source, number))
    why = f"{last.id} {last.status}" if last else "it is null"
    error = f": {first_line(last.error, _LONGEST_ERROR)}" if last and last.error else ""
    return f"item {number} of {loop.source} has no value, {why}{error}"


_KEPT = 64  # bound steps; more than run at once


def bind_items(opened: OpenSession) -> None:
    """Let the items of the session have the values of their item in conditions and texts."""
    playbook = opened.playbook
    args = playbook.values(opened.manifest.args)
    lists: dict[str, list[Any]] = {}
    known: dict[str, Step] = {}
    passes = 0

    def bind(item: Step) -> Step:
        """The step of an item; as it is if its list is lost, so that nothing it needs is known."""
        nonlocal passes
        if passes != (passes := len(opened.state.past.sent_back)):  # the lists may be others now
            lists.clear()
            known.clear()
        if item.id not in known:
            name = base_of(item.id)
            loop = playbook.step(name).for_each
            assert loop is not None  # noqa: S101 - only items are bound
            try:
                if name not in lists:
                    lists[name] = loop_items.items(loop, args, facts(opened))
                found = lists[name][item_number(item.id) - 1]
            except LookupError:
                return item
            if len(known) >= _KEPT:
                known.clear()
            values = loop_items.values(loop, found)
            bound = replace(item, item=values, passed_over=_passed_over(opened, loop, item, found))
            known[item.id] = bound_step(bound, args | dict(values))
        return known[item.id]

    opened.bind_steps(bind)
