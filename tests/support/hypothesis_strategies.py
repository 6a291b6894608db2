"""Hypothesis strategies for what the kernel can make, and for what people write between it."""

from __future__ import annotations

import json

from hypothesis import strategies as st

from playbook_supervisor.kernel.error_policy import ErrorPolicy
from playbook_supervisor.kernel.model import Arg, Limits, Playbook, Step
from playbook_supervisor.kernel.state import Entry, Gate, Past
from playbook_supervisor.kernel.vocabulary import (
    ArgType,
    Autonomy,
    Condition,
    Decision,
    EntryStatus,
    GateReason,
    OutputFormat,
    Place,
    Resolution,
    SessionStatus,
    Transform,
    Trigger,
)
from playbook_supervisor.sessions.files.manifest import Manifest, Waiting

TRICKY = [
    "no", "Yes", "on", "null", "~", "true", "013", "1:30", "1234e567", "0x1F", "1e5", ".inf", "1_0",
    "2026-02-19", "a: b", "- a", "# a", "a #b", "[a", "{a", "'", '"', "\\", "%TAG", "&a", "*a",
    "!a", "a\nb", "a\r\nb", "\tx", " x ", "<<", "=", "---", "...", "\x1b[31m", "\u2028", "\u202e",
    "\ufeff", "\x85", "\x7f", "\U0001f600", "日本語", "\uffff", "|", ">", "?", "@", "`", ",", "a,b",
    "é",
]  # fmt: skip
"""What one reader of YAML or another takes for something that it is not."""

texts = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30),
    st.sampled_from(TRICKY),
)
some_text = texts.filter(bool)
error_policies = (
    *map(ErrorPolicy.read, ["stop", "retry_once", "gate", "continue", "ignore", "retry:3"]),
    ErrorPolicy.read({"default": "stop", "PB-STEP-FAILED": "retry:2"}),
)
step_ids = st.from_regex(r"[a-z0-9][a-z0-9-]{0,12}", fullmatch=True)
times = st.integers(min_value=0, max_value=253_402_300_799_999)
numbers = st.one_of(
    st.integers(min_value=-(10**15), max_value=10**15),
    st.floats(allow_nan=False, allow_infinity=False),
)


requests = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("tool", "subject", "input", "rule"), some_text),
        "questions": st.lists(
            st.fixed_dictionaries(
                {"question": some_text},
                optional={
                    "options": st.lists(st.fixed_dictionaries({"label": some_text}), min_size=1),
                    "multiple": st.just(True),
                },
            ),
            min_size=1,
            max_size=3,
        ),
    },
)
"""What an agent asks for, as a gate keeps it."""


@st.composite
def gates(draw: st.DrawFn) -> Gate:
    answered = draw(st.none() | times)
    return Gate(
        id=draw(some_text),
        reason=draw(st.sampled_from([*GateReason])),
        place=draw(st.sampled_from([*Place])),
        opened_at=draw(times),
        answered_at=answered,
        by=draw(texts) if answered is not None else "",
        text=draw(texts) if answered is not None else "",
        resolution=draw(st.sampled_from([*Resolution])) if answered is not None else None,
        via=draw(texts) if answered is not None else "",
        request=draw(requests),
    )


@st.composite
def entries(draw: st.DrawFn) -> Entry:
    status = draw(st.sampled_from([*EntryStatus]))
    open_ = status is EntryStatus.IN_PROGRESS
    return Entry(
        step_id=draw(step_ids),
        status=status,
        decision=draw(st.sampled_from([*Decision])),
        started_at=draw(times),
        completed_at=None if open_ else draw(times),
        attempt=draw(st.integers(min_value=1, max_value=12)),
        launched_at=draw(st.none() | times),
        returned_at=draw(st.none() | times),
        trigger=draw(st.none() | st.sampled_from([*Trigger])),
        human_response=draw(texts),
        resolution=draw(st.none() | st.sampled_from([*Resolution])),
        error=draw(texts),
        error_code=draw(st.sampled_from(["", "PB-STATE-INTERRUPTED", "PB-AGENT-FAILED"])),
        error_guidance=draw(texts),
        error_cause=draw(texts),
        error_lasts=draw(st.booleans()),
        failing=tuple(draw(st.lists(st.sampled_from([*Condition, *Trigger]), max_size=3))),
        waived=tuple(draw(st.lists(some_text, max_size=3))),
        recovered=draw(st.booleans()),
        evidence=tuple(draw(st.lists(texts, max_size=4))),
        gates=tuple(draw(st.lists(gates(), max_size=3))),
        agent=draw(st.dictionaries(step_ids | some_text.filter(_one_line), texts | numbers)),
        output=draw(texts),
        items=draw(st.integers(min_value=0, max_value=12)),
        item=draw(texts),
        back_to=draw(texts),
        undone=draw(texts),
    )


def _one_line(text: str) -> bool:
    return "\n" not in text


@st.composite
def pasts(draw: st.DrawFn) -> Past:
    count = st.integers(min_value=0, max_value=10_000)
    waived = draw(st.frozensets(st.sampled_from([*Condition]), max_size=3))
    return Past(
        draw(count),
        draw(count),
        draw(count),
        waived,
        draw(times),
        failures=draw(st.dictionaries(count, count, max_size=2)),
        looped=draw(count),
        items=draw(st.dictionaries(step_ids, count, max_size=2)),
        passed=draw(st.frozensets(some_text, max_size=2)),
        sent_back=tuple(draw(st.lists(entries(), max_size=2))),
    )


limits = st.builds(
    Limits, timeout_seconds=st.none() | st.floats(1, 1000), max_turns=st.none() | st.integers(1, 9)
)


@st.composite
def steps(draw: st.DrawFn) -> Step:
    return Step(
        id=draw(step_ids),
        command=draw(st.from_regex(r"/[A-Za-z0-9][A-Za-z0-9_.:-]*", fullmatch=True)),
        autonomy=draw(st.sampled_from([*Autonomy])),
        error_policy=draw(st.sampled_from(error_policies)),
        args=draw(texts),
        agent=draw(st.sampled_from(["", "codex"])),
        model=draw(st.sampled_from(["", "opus", "sonnet"])),
        preconditions=tuple(draw(st.lists(st.sampled_from([*Condition]), max_size=2))),
        postconditions=tuple(draw(st.lists(st.sampled_from([*Condition]), max_size=2))),
        escalation_triggers=tuple(draw(st.lists(st.sampled_from([*Trigger]), max_size=2))),
        parallel_group=draw(st.sampled_from(["", "g"])),
        title=draw(texts),
        options=draw(st.sampled_from(["", '{"env": {"A": "{{a}}"}}'])),
        stdin=draw(st.sampled_from(["", "$build.json"])),
        output=draw(st.sampled_from([*OutputFormat])),
        skip_if=draw(st.sampled_from([(), ("tag_exists=v1", "git_clean")])),
        outputs=draw(st.sampled_from([(), ("a b.md",)])),
        tools=draw(st.sampled_from([(), ("Read",)])),
        limits=draw(limits),
        feedback=draw(st.booleans()),
    )


@st.composite
def playbooks(draw: st.DrawFn) -> Playbook:
    args = st.builds(
        Arg,
        step_ids,
        texts,
        st.booleans(),
        st.sampled_from([*ArgType]),
        st.sampled_from([(), ("low", "high")]),
        st.none() | texts,
        st.none() | st.sampled_from([*Transform]),
        st.booleans(),
    )
    return Playbook(
        name=draw(step_ids),
        description=draw(texts),
        version=draw(st.sampled_from(["1.0", "1.1"])),
        limits=draw(limits),
        args=tuple(draw(st.lists(args, max_size=2))),
        steps=tuple(
            draw(st.lists(steps(), min_size=1, max_size=4, unique_by=lambda step: step.id))
        ),
    )


@st.composite
def manifests(draw: st.DrawFn) -> Manifest:
    return Manifest(
        session_id=draw(st.from_regex(r"[0-9]{8}-[a-z0-9]{3}", fullmatch=True)),
        playbook=draw(step_ids),
        feature=draw(texts),
        args=draw(st.dictionaries(step_ids, texts, max_size=3)),
        status=draw(st.sampled_from([*SessionStatus])),
        started_at=draw(times),
        completed_at=draw(st.none() | times),
        current_step=draw(step_ids),
        worktree=draw(texts),
        branch=draw(texts),
        gate=draw(st.none() | st.builds(Waiting, some_text, some_text, texts, times)),
        legacy=draw(st.booleans()),
    )


# ── JSON ────────────────────────────────────────────────────────────────────────────────────

blanks = st.sampled_from(["", " ", "\n", "\n  ", "\r\n\t", "  \n\n"])
keys = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | keys
data = st.recursive(
    scalars.filter(lambda value: value not in (float("inf"), float("-inf"))),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)


@st.composite
def laid_out(draw: st.DrawFn, value: object) -> str:
    """The value as JSON, with blanks wherever blanks may stand."""

    def parts(texts: list[str], opening: str, closing: str) -> str:
        inner = ",".join(f"{draw(blanks)}{text}{draw(blanks)}" for text in texts)
        return f"{opening}{inner or draw(blanks)}{closing}"

    def text(value: object) -> str:
        if isinstance(value, dict):
            pairs = [f"{scalar(k)}{draw(blanks)}:{draw(blanks)}{text(v)}" for k, v in value.items()]
            return parts(pairs, "{", "}")
        if isinstance(value, list):
            return parts([text(item) for item in value], "[", "]")
        return scalar(value)

    def scalar(value: object) -> str:
        return json.dumps(value, ensure_ascii=draw(st.booleans()))

    return f"{draw(blanks)}{text(value)}{draw(blanks)}"
