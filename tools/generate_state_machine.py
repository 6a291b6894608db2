"""Makes `docs/state-machine.md` from the kernel's own tables.

python tools/generate_state_machine.py            # writes the page
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from playbook_supervisor.kernel.gates import CHOICES
from playbook_supervisor.kernel.state import Position
from playbook_supervisor.kernel.table import TABLE
from playbook_supervisor.kernel.vocabulary import Decision, Trigger

TARGET = Path(__file__).resolve().parent.parent / "docs" / "state-machine.md"

MEANINGS = {
    Position.DUE: "no attempt has begun, or the last one failed and another is to follow",
    Position.GATED: "a gate before the step waits for a human",
    Position.CLEARED: "that gate is answered; the check before is to be asked again",
    Position.RUNNING: "launched, and not returned",
    Position.RETURNED: "returned, and not judged (or to be judged again)",
    Position.HELD: "a gate after the step waits for a human",
    Position.DONE: "settled: its work is done, or accepted as it is",
    Position.FAILED: "settled: only `playbook resume --retry` leads on",
    Position.SKIPPED: "settled without work",
}

PAGE = """\
# The state machine

<!-- Made by tools/generate_state_machine.py from playbook_supervisor/kernel; do not edit. -->

Where a step stands is read off the keys of its last journal entry, and is kept nowhere else. What
is observed moves it on. An observation that has no row here is refused and changes nothing.

## Where a step can stand

{positions}

## What leads where

{transitions}

Which of several positions follows depends on the playbook, on what the check found, and on the
other members of a parallel group.

## The same as a diagram

```mermaid
stateDiagram-v2
{diagram}
```

## What each gate offers

{gates}
"""


def page() -> str:
    """The whole page, Markdown."""
    return PAGE.format(
        positions=_table(
            ("position", "means"), ((f"`{where}`", MEANINGS[where]) for where in Position)
        ),
        transitions=_table(
            ("a step that is", "when", "becomes"),
            (
                (f"`{where}`", move, " or ".join(f"`{following}`" for following in after))
                for (where, move), after in TABLE.items()
            ),
        ),
        diagram="\n".join(_arrows()),
        gates=_table(
            ("gate", "place", "decision journaled", "choices"),
            (
                (f"`{reason}`", place, f"`{_decision(reason)}`", ", ".join(map(_code, choices)))
                for (reason, place), choices in CHOICES.items()
            ),
        ),
    )


def _arrows() -> Iterable[str]:
    yield f"    [*] --> {Position.DUE}"
    moves: dict[tuple[Position, Position], list[str]] = {}
    for (where, move), after in TABLE.items():
        for following in after:
            moves.setdefault((where, following), []).append(move)
    for (where, following), names in moves.items():
        yield f"    {where} --> {following}: {' / '.join(names)}"
    for settled in (Position.DONE, Position.FAILED, Position.SKIPPED):
        yield f"    {settled} --> [*]"


def _decision(reason: str) -> Decision:
    return Decision.ESCALATED if reason in list(Trigger) else Decision.GATE


def _code(word: str) -> str:
    return f"`{word}`"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(page(), encoding="utf-8")
