"""A playbook, or a session of it, as a Mermaid flowchart.

Solid lines show the flow without gates, dashed lines what a human can choose. Text from playbooks
and journals appears only in escaped labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from types import MappingProxyType

from playbook_supervisor.cli.render.text import duration
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel.error_policy import ErrorPolicy, Reaction
from playbook_supervisor.kernel.gates import required_before
from playbook_supervisor.kernel.model import Phase, Playbook, Step
from playbook_supervisor.kernel.state import Entry
from playbook_supervisor.kernel.tools import lacking_in
from playbook_supervisor.kernel.vocabulary import (
    ENDED,
    Autonomy,
    EntryStatus,
    Place,
    SessionStatus,
    Trigger,
)
from playbook_supervisor.sessions.files.manifest import Manifest
from playbook_supervisor.sessions.files.preview import template_of

_NO_CHILDREN: Mapping[str, Playbook] = MappingProxyType({})
_CHILDREN = 20  # that are drawn
_LABEL = 60  # characters in a line of a label
# Anywhere in the text, `%%{…}%%` is a directive and a backtick begins Markdown. `$$` begins
# mathematics even as character references.
_ESCAPED = {ord(character): f"#{ord(character)};" for character in '"#&;<>`\\%$'}
_STATES = {
    EntryStatus.DONE: "✓ done",
    EntryStatus.FAILED: "✗ failed",
    EntryStatus.SKIPPED: "– skipped",
    EntryStatus.IN_PROGRESS: "… running",
}
_STYLES = (
    "classDef gate fill:#fff8c5,stroke:#d4a72c,color:#1f2328",
    "classDef done fill:#dafbe1,stroke:#1a7f37,color:#1f2328",
    "classDef failed fill:#ffebe9,stroke:#cf222e,color:#1f2328",
    "classDef skipped fill:#f6f8fa,stroke:#8c959f,color:#57606a,stroke-dasharray:4 3",
    "classDef in_progress fill:#ddf4ff,stroke:#0969da,color:#1f2328,stroke-width:3px",
    "classDef waiting fill:#fff8c5,stroke:#9a6700,color:#1f2328,stroke-width:4px",
)


def flowchart(
    playbook: Playbook,
    entries: Sequence[Entry] = (),
    manifest: Manifest | None = None,
    children: Mapping[str, Playbook] = _NO_CHILDREN,
) -> str:
    """The chart; with `entries` and `manifest` of a session it shows the progress.

    Each of the first `children` is drawn once, beside the flow of the playbook.
    """
    attempts: dict[str, list[Entry]] = {}
    for entry in entries:
        attempts.setdefault(entry.step_id, []).append(entry)
    chart = _Chart()
    chart.node("begin", "([{}])", _escaped(playbook.name))
    number, asks_for = 0, lacking_in(playbook.steps)
    for phase in playbook.phases:
        drawn = [
            _Drawn(step, number + index, tuple(attempts.get(step.id, ())), asks_for[step.id])
            for index, step in enumerate(phase, 1)
        ]
        number += len(phase)
        chart.phase(phase, drawn)
    chart.enter(["finish"])
    ended = manifest if manifest and manifest.status in ENDED else None
    chart.node("finish", "([{}])", _escaped(ended.ending if ended else "completed"))
    if ended:
        completed = ended.status is SessionStatus.COMPLETED
        chart.line(f"class finish {'done' if completed else 'failed'}")
    chart.children(playbook, children)
    return "\n".join(["flowchart TD", *chart.lines, *(f"  {style}" for style in _STYLES)])


@dataclass(frozen=True, slots=True)
class _Drawn:
    step: Step
    number: int
    attempts: tuple[Entry, ...]
    asks_for: tuple[str, ...]

    @property
    def node(self) -> str:
        return f"s{self.number}"

    @property
    def before(self) -> str:
        planned = required_before(self.step, () if self.attempts else self.asks_for)
        asks = planned is not None or self._asked(Place.BEFORE)
        return f"b{self.number}" if asks else ""

    @property
    def after(self) -> str:
        asks = self.step.checkpoint or self.raised_by or self._asked(Place.AFTER)
        return f"a{self.number}" if asks else ""

    @property
    def entrance(self) -> str:
        return self.before or self.node

    @property
    def raised_by(self) -> tuple[str, ...]:
        step, breaking = self.step, Trigger.AGREEMENT_BREAKING
        on_failure = tuple(str(each) for each in step.escalation_triggers if each is not breaking)
        policy = step.error_policy
        if policy.default.reaction is Reaction.GATE:
            on_failure = ("it fails",)
        else:
            asked = (code for code, each in policy.by_code if each.reaction is Reaction.GATE)
            on_failure = (*on_failure, *asked)
        if step.autonomy is Autonomy.GATE_ON_BREAKING or breaking in step.escalation_triggers:
            return (*on_failure, str(breaking))
        return on_failure

    def waits(self, place: Place) -> bool:
        gate = self.attempts[-1].gate if self.attempts else None
        return gate is not None and gate.place is place

    def _asked(self, place: Place) -> bool:
        return any(gate.place is place for entry in self.attempts for gate in entry.gates)


class _Chart:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self._exits: list[tuple[str, str]] = [("begin", "-->")]
        self._joints = 0

    def line(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def node(self, name: str, shape: str, label: str, style: str = "") -> None:
        self.line(name + shape.format(f'"{label}"') + (f":::{style}" if style else ""))

    def enter(self, entrances: Sequence[str]) -> None:
        """Connect every open end with every entrance; many to many through a joint."""
        if len(self._exits) > 1 and len(entrances) > 1:
            self._joints += 1
            joint = f"j{self._joints}"
            self.line(f'{joint}((" "))')
            self.enter([joint])
            self._exits = [(joint, "-->")]
        for name, arrow in self._exits:
            for entrance in entrances:
                self.line(f"{name} {arrow} {entrance}")

    def phase(self, phase: Phase, drawn: Sequence[_Drawn]) -> None:
        self.enter([each.entrance for each in drawn])
        group = phase[0].parallel_group
        if group:
            self.line(f'subgraph g{drawn[0].number}["in parallel: {_escaped(group)}"]')
        for each in drawn:
            self._step(each)
        if group:
            self.line("end")
        self._exits = [exit_ for each in drawn for exit_ in self._exits_of(each)]

    def children(self, playbook: Playbook, known: Mapping[str, Playbook]) -> None:
        """Each child as a chain of its steps; a dotted line leads to it from what runs it."""
        drawn = dict(islice(known.items(), _CHILDREN))
        boxes = {name: f"c{number}" for number, name in enumerate(drawn, 1)}
        for name, child in drawn.items():
            self.line(f'subgraph {boxes[name]}["{_escaped(name)}"]')
            nodes = [f"{boxes[name]}s{number}" for number in range(1, len(child.steps) + 1)]
            for node, step in zip(nodes, child.steps, strict=True):
                self.node(node, "[{}]", "<br/>".join(_does(step)))
            for before, after in pairwise(nodes):
                self.line(f"{before} --> {after}")
            self.line("end")
        tops = [(f"s{number}", step) for number, step in enumerate(playbook.steps, 1)]
        for name, child in drawn.items():
            below = enumerate(child.steps, 1)
            tops += [(f"{boxes[name]}s{number}", step) for number, step in below]
        for node, step in tops:
            if step.child in boxes:
                self.line(f"{node} -.->|runs| {boxes[step.child]}")

    def _step(self, drawn: _Drawn) -> None:
        if drawn.before:
            self._gate(drawn.before, waits=drawn.waits(Place.BEFORE))
            self.line(f"{drawn.before} -->|continue| {drawn.node}")
        self.node(drawn.node, "[{}]", "<br/>".join(_label(drawn)), _style(drawn))
        if drawn.after:
            raised = ", ".join(drawn.raised_by) or "it fails"
            self._gate(drawn.after, waits=drawn.waits(Place.AFTER))
            arrow = "-->" if drawn.step.checkpoint else f'-.->|"{_escaped(raised)}"|'
            self.line(f"{drawn.node} {arrow} {drawn.after}")
            self.line(f"{drawn.after} -.->|retry| {drawn.node}")

    def _gate(self, name: str, *, waits: bool) -> None:
        label = "◆ waits for a human" if waits else "a human decides"
        self.node(name, "{{{{{}}}}}", label, "waiting" if waits else "gate")

    @staticmethod
    def _exits_of(drawn: _Drawn) -> list[tuple[str, str]]:
        exits = [] if drawn.step.checkpoint else [(drawn.node, "-->")]
        if drawn.before:
            exits.append((drawn.before, "-.->|skip|"))
        if drawn.step.checkpoint:
            exits.append((drawn.after, "-->|continue|"))
        elif drawn.after:
            exits.append((drawn.after, '-.->|"continue, accept"|'))
        return exits


def _label(drawn: _Drawn) -> list[str]:
    step = drawn.step
    lines = _does(step)
    if step.preconditions:
        lines.append(_escaped(f"needs {', '.join(step.preconditions)}"))
    if step.postconditions:
        lines.append(_escaped(f"makes {', '.join(step.postconditions)}"))
    lines += _on_failure(step.error_policy)
    if drawn.attempts:
        lines.append(_progress(drawn.attempts[-1]))
    elif step.autonomy is Autonomy.SKIP:
        lines.append("– skipped by the playbook")
    return lines


def _does(step: Step) -> list[str]:
    does = template_of(step) if step.is_checkpoint else f"{step.command} {step.args}"
    return [f"<b>{_escaped(step.id)}</b>", _escaped(does)]


def _on_failure(policy: ErrorPolicy) -> list[str]:
    if policy == ErrorPolicy.RETRY_ONCE:
        return ["on failure: retry once, then stop"]
    if policy in (ErrorPolicy.STOP, ErrorPolicy.GATE):
        return []
    named = [f"{code} {handling.word}" for code, handling in policy.by_code]
    return ["on failure: " + ", ".join([*named, ("else " if named else "") + policy.default.word])]


def _progress(entry: Entry) -> str:
    words = ["◆ at its gate" if entry.gate else _STATES[entry.status]]
    if entry.attempt > 1:
        words.append(f"attempt {entry.attempt}")
    if entry.completed_at is not None and entry.status is not EntryStatus.SKIPPED:
        words.append(duration(entry.completed_at - entry.started_at))
    return " · ".join(words)


def _style(drawn: _Drawn) -> str:
    if drawn.attempts:
        return str(drawn.attempts[-1].status)
    return "skipped" if drawn.step.autonomy is Autonomy.SKIP else ""


def _escaped(text: str) -> str:
    return first_line(text.replace("$$", "$ $"), _LABEL).translate(_ESCAPED)
