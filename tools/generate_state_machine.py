"""Make `docs/state-machine.md` from the kernel's own tables.

python tools/generate_state_machine.py            # writes the page
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from tables import code, table

from playbook_supervisor.kernel.gates import CHOICES
from playbook_supervisor.kernel.state import Position
from playbook_supervisor.kernel.table import TABLE
from playbook_supervisor.kernel.vocabulary import Decision, Trigger

TARGET = Path(__file__).resolve().parent.parent / "docs" / "state-machine.md"

MEANINGS = {
    Position.DUE: "no attempt has begun, or the last one failed and another follows",
    Position.GATED: "a gate before the step waits for a human",
    Position.CLEARED: "that gate is answered; the check before the run is due again",
    Position.RUNNING: "launched and not returned",
    Position.ASKING: "its agent waits at a gate during the step for a human",
    Position.RETURNED: "returned and not judged, or to be judged again",
    Position.HELD: "a gate after the step waits for a human",
    Position.DONE: "settled: its work is done, or accepted as it is",
    Position.FAILED: "settled: only `playbook resume --retry` and `abort` lead out of it",
    Position.TOLERATED: "settled: it failed, and by its error policy the run goes on",
    Position.UNDOING: "settled as failed; what it has changed is undone before anything else",
    Position.SENT_BACK: "settled, failed or not run; an earlier step runs again",
    Position.SKIPPED: "settled without work",
}

PAGE = """\
# The state machine

<!-- Made by tools/generate_state_machine.py from playbook_supervisor/kernel; do not edit. -->

The position of a step is read from the keys of its last journal entry and is stored nowhere else.
An observation moves the step on: the rule of its row decides, and the step is then at one of the
positions that the row allows. An observation that has no row here is refused and changes nothing.

## The positions of a step

{positions}
## The transitions

{transitions}
Where a row has several positions, the playbook, the result of the check and the other members of a
parallel group decide between them.

## Diagram

```mermaid
stateDiagram-v2
{diagram}
```

## The choices at each gate

Where an earlier step can run again, `back` is one more, as `back to STEP`.

{gates}"""


def page() -> str:
    """The whole page, Markdown."""
    return PAGE.format(
        positions=table(
            ("position", "means"), ((f"`{where}`", MEANINGS[where]) for where in Position)
        ),
        transitions=table(
            ("a step that is", "when", "becomes", "decided by"),
            (
                (
                    f"`{where}`",
                    move,
                    " or ".join(f"`{then}`" for then in row.then),
                    f"`{_name(row.rule)}`",
                )
                for (where, move), row in TABLE.items()
            ),
        ),
        diagram="\n".join(_arrows()),
        gates=table(
            ("gate", "place", "decision journaled", "choices"),
            (
                (f"`{reason}`", place, f"`{_decision(reason)}`", code(choices))
                for (reason, place), choices in CHOICES.items()
            ),
        ),
    )


def _arrows() -> Iterable[str]:
    yield f"    [*] --> {Position.DUE}"
    moves: dict[tuple[Position, Position], list[str]] = {}
    for (where, move), row in TABLE.items():
        for then in row.then:
            moves.setdefault((where, then), []).append(move)
    for (where, then), names in moves.items():
        yield f"    {where} --> {then}: {' / '.join(names)}"
    for settled in (Position.DONE, Position.FAILED, Position.TOLERATED, Position.SKIPPED):
        yield f"    {settled} --> [*]"


def _decision(reason: str) -> Decision:
    return Decision.ESCALATED if reason in list(Trigger) else Decision.GATE


def _name(rule: Callable[..., object]) -> str:
    return f"{rule.__module__.rpartition('.')[2]}.{rule.__name__}"


if __name__ == "__main__":
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(page(), encoding="utf-8")
