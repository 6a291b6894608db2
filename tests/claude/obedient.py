"""A supervising model as it should be, at a terminal: it dispatches, asks, waits, else is still."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from claude.conversation import Pause, Reply, Request, call, text
from claude.scripts import FILES

_ORDER = re.compile(r"Skill `([^`]+)`(?: with args `([^`]*)`)?")
_WAITING = [text("I wait.")]


@dataclass
class Obedient:
    """A script. Change its fields at any time, also while the client runs.

    `held` are skills whose workers do nothing until the model is released, `unending` those that
    have done their work and do not come to their end. `after` is done when a worker has done its
    work; `talk` answers a person's own words, `work` is a worker's own way, where they say
    anything. `prompted` is what a worker does that was given a prompt in place of a command.
    """

    held: set[str] = field(default_factory=set)
    unending: set[str] = field(default_factory=set)
    written: dict[str, tuple[str, str]] = field(default_factory=lambda: dict(FILES))
    after: dict[str, Callable[[], object]] = field(default_factory=dict)
    talk: Callable[[Request], Reply | None] = lambda request: None
    work: Callable[[str, Request], Reply | None] = lambda skill, request: None
    prompted: Callable[[Request], Reply] = lambda request: [text("nothing was asked of me")]
    background: bool | None = None

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._asked: set[str] = set()
        self._sent: set[tuple[str, str]] = set()
        self._waited: set[str] = set()

    def __call__(self, request: Request) -> Reply:
        if request.compaction:
            return [text("<summary>A playbook runs.</summary>")]
        if not request.tools:
            return [text("a title")]
        if request.agent:
            return self._work(request)
        with self._lock:
            return self.talk(request) or self._supervise(request)

    # ── the main thread ─────────────────────────────────────────────────────────────────────

    def _supervise(self, request: Request) -> Reply:
        due: dict[str, Any] = request.directive() or {}
        match due.get("directive"):
            case "run":
                return self._dispatch(request, [step["id"] for step in due["steps"]])
            case "ask" if due["gate"]["id"] not in self._asked:
                self._asked.add(due["gate"]["id"])
                self._waited.clear()  # an answer may call for another check of that step
                return [call("AskUserQuestion", questions=[_OWN_QUESTION])]
            case "wait" if "command" in due and due["steps"][0] not in self._waited:
                self._waited.add(due["steps"][0])
                return [call("Bash", command=due["command"], description="wait")]
            case "finish":
                return [text("It is finished.")]
            case _:
                return _WAITING

    def _dispatch(self, request: Request, due: list[str]) -> Reply:
        missing = [id_ for id_ in due if (request.session, id_) not in self._sent]
        self._sent |= {(request.session, id_) for id_ in missing}
        how = {} if self.background is None else {"run_in_background": self.background}
        return [call("Agent", description=id_, prompt=id_, **how) for id_ in missing] or _WAITING

    # ── workers ─────────────────────────────────────────────────────────────────────────────

    def _work(self, request: Request) -> Reply:
        """Run the command that was given, and do what it says."""
        found = _ORDER.search(request.prompt)
        if found is None:
            return self.prompted(request)
        skill, args = found[1], found[2]
        if not request.called("Skill"):
            return [call("Skill", skill=skill, **({"args": args} if args else {}))]
        if (own := self.work(skill, request)) is not None:
            return own
        if skill in self.written and not request.called("Write"):
            path, content = self.written[skill]
            hold = [Pause()] if skill in self.held else []
            return [*hold, call("Write", file_path=path, content=content)]
        self.after.get(skill, lambda: None)()
        hold = [Pause()] if skill in self.unending else []
        return [*hold, text(f"{skill} is done")]


_OWN_QUESTION = {
    "question": "Shall I do as I like?",
    "header": "Mine",
    "multiSelect": False,
    "options": [
        {"label": "yes", "description": "of course"},
        {"label": "surely", "description": "what else"},
    ],
}
