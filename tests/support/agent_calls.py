"""Calls of an agent in a test: carried out, and what came of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from playbook_supervisor.agents.protocol import Agent, Call, carry_out
from playbook_supervisor.kernel.directives import Failure, Outcome
from playbook_supervisor.records import replace
from playbook_supervisor.testing import AGENT_CHECKS, call_for

SAMPLE = [each for each in AGENT_CHECKS if re.search("stream|failure|every_process", each.__name__)]
"""Checks for agents that run as one does that passes all of them."""


def ended(agent: Agent, call: Call) -> Outcome:
    return carry_out(agent, call, lambda line: None)


def error_of(agent: Agent, call: Call) -> Failure:
    error = ended(agent, call).error
    assert error is not None
    assert error.guidance
    return error


def prompted(tmp_path: Path, **changes: Any) -> Call:
    """A call of a step that brings its own prompt."""
    return replace(call_for("x", tmp_path), command="", prompt="Do it.", **changes)
