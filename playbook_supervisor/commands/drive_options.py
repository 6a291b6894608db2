"""How to drive a session headless: what a person says by options, and a program by arguments."""

from __future__ import annotations

from math import inf
from typing import TypedDict, Unpack

from playbook_supervisor.agents.protocol import Budget
from playbook_supervisor.errors import ArgumentError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel.vocabulary import Mode
from playbook_supervisor.records import Record


class DriveOptions(Record):
    """How to drive a session headless. `agent` is what `--agent` takes.

    `wall` and `idle` are a step's deadlines in seconds; `kill` ends orphaned workers. `limits` are
    turns and tool calls of a step, and the cost of the whole run. `patience` is how many seconds to
    wait, without a terminal, for the answer to what an agent asks. A resumed session remembers what
    is left out, except `patience` and the `max_output_bytes` of a step.
    """

    agent: str = ""
    mode: Mode | None = None
    wall: float | None = None
    idle: float | None = None
    kill: bool = False
    limits: Budget | None = None
    max_output_bytes: int | None = None
    patience: float | None = None


class DriveLimits(TypedDict, total=False):
    """What a caller may limit, by the names of the options of `run`; None limits nothing."""

    timeout: float | None
    idle_timeout: float | None
    patience: float | None
    max_cost_usd: float | None
    max_tokens: int | None
    max_turns: int | None
    max_tool_calls: int | None
    max_output_bytes: int | None


def drive_options(
    agent: str = "",
    mode: Mode | str | None = None,
    *,
    kill: bool = False,
    **limits: Unpack[DriveLimits],
) -> DriveOptions:
    """The options with these limits, for a person and for a program.

    ArgumentError PB-ARG-USAGE for a limit that there is not, or that is no number above 0.
    """
    for name, value in limits.items():
        kind = DriveLimits.__annotations__.get(name, "")
        if not kind:
            raise ArgumentError("PB-ARG-USAGE", f"there is no limit {first_line(name, 40)!r}")
        whole = "int" in str(kind)
        numbers = int if whole else (int, float)
        fits = isinstance(value, numbers) and not isinstance(value, bool) and 0 < value < inf
        if value is not None and not fits:
            wanted = "a whole number" if whole else "a number"
            raise ArgumentError("PB-ARG-USAGE", f"{name} must be {wanted} above 0")
    return DriveOptions(
        agent=agent,
        mode=Mode(mode) if mode else None,
        wall=limits.get("timeout"),
        idle=limits.get("idle_timeout"),
        patience=limits.get("patience"),
        kill=kill,
        limits=Budget(
            max_turns=limits.get("max_turns"),
            max_tool_calls=limits.get("max_tool_calls"),
            max_cost_usd=limits.get("max_cost_usd"),
            max_tokens=limits.get("max_tokens"),
        ),
        max_output_bytes=limits.get("max_output_bytes"),
    )
