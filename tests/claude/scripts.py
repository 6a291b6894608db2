"""Models for the client headless, one that obeys and one that all but does; and a judge.

client = start(Disobedient(main=once(call("Write", file_path="x", content="y"))))
client.run("/playbook.run short", *FREE)
honest(project, client)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any, Literal

from support.scratch_project import FEATURE, Project

from claude.client import Client
from claude.model import Block, Call, Reply, Request, call, text
from playbook_supervisor.drivers.claude_code import binding
from playbook_supervisor.errors import StateError
from playbook_supervisor.kernel.directives import Ask, Directive, Finish
from playbook_supervisor.kernel.vocabulary import SessionStatus
from playbook_supervisor.sessions.store.disk_store import DiskStore
from playbook_supervisor.sessions.tree.session_tree import SessionTree
from playbook_supervisor.system.git import checkout

PASS = "---\nverdict: PASS\n---\n"
FILES = {
    "speckit.plan": (f"specs/{FEATURE}/plan.md", "the plan\n"),
    "speckit.tasks": (f"specs/{FEATURE}/tasks.md", "- [ ] T1\n"),
    "agreement.create": (f".agreements/{FEATURE}/agreement.yaml", "a: 1\n"),
    "agreement.check": (f".agreements/{FEATURE}/check-report.md", PASS),
    "qa.plan": (f".qa/{FEATURE}/test-plan.md", "tests\n"),
    "qa.run": (f".qa/{FEATURE}/verdict.md", PASS),
}
"""What each command writes."""

SHORT = """\
name: short
description: Plan, build, and ask before handing in
version: "1.0"
args: []
steps:
  - id: plan
    command: /speckit.plan
    autonomy: auto
    postconditions: [plan_exists]
    error_policy: stop
  - id: build
    command: /speckit.implement
    args: "all of it"
    autonomy: auto
    error_policy: stop
  - id: left-out
    command: /speckit.analyze
    autonomy: skip
    error_policy: stop
  - id: hand-in
    command: /feature.pr
    autonomy: gate_always
    error_policy: stop
"""
"""Two steps of work, one that is skipped, one behind a gate."""

FREE = (
    "--permission-mode",
    "acceptEdits",
    "--allowedTools",
    "Bash,Write,Edit,NotebookEdit,Agent,Task,CronCreate,CronDelete,EnterWorktree,ExitWorktree,"
    "Monitor,RemoteTrigger,ScheduleWakeup,SendMessage,Skill,Workflow,WebFetch",
)
"""The client itself refuses nothing: what is refused is refused by the hooks."""

Line = Callable[[Request], Reply | None]
"""What a model says, or None where it obeys."""

LONG = 120.0
"""Seconds for another thread to come to a point, however busy the machine."""

DriveResult = Literal["completed", "waiting", "failed", "stalled", "tampered", "let go"]


# ── models ──────────────────────────────────────────────────────────────────────────────────


def work(request: Request) -> Reply:
    """A worker as it should be: it runs the command it was given, and does what it says."""
    found = re.search(r"Skill `([^`]+)`(?: with args `([^`]*)`)?", request.prompt)
    if not found:
        return [text("nothing was asked of me")]
    skill, args = found[1], found[2]
    if not request.called("Skill"):
        return [call("Skill", skill=skill, **({"args": args} if args else {}))]
    if skill in FILES:
        path, content = FILES[skill]
        write = call("Write", file_path=path, content=content)
        if write not in request.calls:
            return [write]
    return [text(f"{skill} is done")]


def obey(request: Request) -> Reply:
    """A supervising model as it should be: it dispatches what is due, and else says nothing."""
    if request.agent:
        return work(request)
    due: dict[str, Any] = request.directive() or {}
    ids = [step["id"] for step in due.get("steps", []) if due.get("directive") == "run"]
    sent = _accepted(request)
    if missing := [id_ for id_ in ids if id_ not in sent]:
        return [call("Agent", description=id_, prompt=id_) for id_ in missing]
    return [text("I wait.")]


@dataclass
class Disobedient:
    """It obeys, but for what `main` says in the main thread and `worker` says in subagents."""

    main: Line = lambda request: None
    worker: Line = lambda request: None

    def __call__(self, request: Request) -> Reply:
        own = self.worker(request) if request.agent else self.main(request)
        return obey(request) if own is None else own


def once(*blocks: Block) -> Line:
    """Say this the first time that the main thread is asked, then obey."""
    left = [list(blocks)]
    return lambda request: left.pop() if left else None


def while_due(phases: Mapping[str, Sequence[Reply]]) -> Line:
    """As long as that step is due, or `ask`, say these, each in a turn of its own; then obey."""
    left = {due: list(replies) for due, replies in phases.items()}

    def line(request: Request) -> Reply | None:
        due: dict[str, Any] = request.directive() or {}
        steps = due.get("steps") or [{}]
        replies = left.get(steps[0].get("id") if due.get("directive") == "run" else "ask")
        return replies.pop(0) if replies else None

    return line


def always(*blocks: Block) -> Line:
    """Say this and nothing else."""
    return lambda request: list(blocks)


def at_work(skill: str, *calls: Call) -> Line:
    """When the worker of that command has run it, it makes these calls, all at once."""

    def line(request: Request) -> Reply | None:
        ran = f"Skill `{skill}`" in request.prompt and request.called("Skill")
        due = ran and all(made not in request.calls for made in calls)
        return list(calls) if due else None

    return line


class Undisturbed:
    """What the worker of that command does once it has run it, while nothing else happens.

    It waits until the main thread has launched it, and that waits for the results. Who reads and
    writes a file without our lock may else find a hook between the two, which puts the file back.
    """

    def __init__(self, skill: str, *calls: Call) -> None:
        self._calls, self._line = calls, at_work(skill, *calls)
        self._launched, self._done = Event(), Event()

    def main(self, request: Request) -> None:
        """The main thread obeys; it is held as long as the calls are made."""
        if request.called("Agent"):
            self._launched.set()
            assert self._done.wait(LONG), "the worker has not done it"

    def worker(self, request: Request) -> Reply | None:
        """The calls, once; then the worker obeys."""
        if all(made in request.calls for made in self._calls):
            self._done.set()
        reply = self._line(request)
        assert reply is None or self._launched.wait(LONG), "the worker was not launched"
        return reply


def freed_by(deed: Undisturbed, *mine: Call) -> Disobedient:
    """It makes these calls itself, once the worker has done its deed and returned."""

    def main(request: Request) -> Reply | None:
        deed.main(request)
        return [*mine] if request.called("Agent") and request.notifications else None

    return Disobedient(main, deed.worker)


def bash(command: str) -> Call:
    return call("Bash", command=command, description="a command")


def _accepted(request: Request) -> set[str]:
    """The prompts of the main thread's agents that were not refused."""
    refused = {result.id for result in request.all_results if result.is_error}
    return {
        block["input"].get("prompt", "")
        for message in request.messages
        for block in message["content"]
        if isinstance(block, dict) and block["type"] == "tool_use"
        if block["name"] in ("Agent", "Task") and block["id"] not in refused
    }


# ── what came of it ─────────────────────────────────────────────────────────────────────────


def furnished(pristine: Path, folder: Path) -> Path:
    """A project in which `playbook init` has been run, and which has the short playbook."""
    made = Project.copied(pristine, folder / "project", home=folder)
    assert made.playbook("init", "--yes").code == 0
    made.write(".playbooks/playbooks/short.yaml", SHORT)
    made.commit("Furnish")
    return made.root


def executed(client: Client) -> list[str]:
    """The commands that subagents ran, by what they were told when they came back; in order.

    The log of the execution, kept outside the repository and out of the model's reach.
    """
    ran: dict[str, str] = {}
    for request in client.model.subagents:
        skills = [made.input["skill"] for made in request.calls if made.name == "Skill"]
        results = [result for result in request.all_results if result.tool == "Skill"]
        for skill, result in zip(skills, results, strict=False):
            if not result.is_error:
                ran.setdefault(f"{result.id} {skill}", skill)
    return list(ran.values())


def refusals(client: Client, *, worker: bool = False) -> dict[str, str]:
    """Tool → what it was refused with, of the main thread, or of workers."""
    requests = client.model.subagents if worker else client.model.main
    return {
        result.tool: result.text
        for request in requests
        for result in request.results
        if result.is_error
    }


def refused(client: Client, *calls: Call) -> list[str]:
    """What each of these calls was refused with, in order; a call that was not fails the test."""
    told = []
    for made in calls:
        results = client.model.results_of(made)
        assert results, f"{made} was not tried"
        assert all(result.is_error for result in results), f"{made} was not refused: {results}"
        told.append(results[0].text)
    return told


def steps(project: Project) -> list[str]:
    """Each entry as `attempt status`."""
    return [f"{e['step_id']}#{e.get('attempt', 1)} {e['status']}" for e in project.journal()]


def binding_of(project: Project) -> binding.Binding | None:
    """Who drives the one session."""
    return binding.load(checkout.find(project.root).runtime / project.session.name)


def honest(
    project: Project, client: Client, *, answered: Sequence[str] = (), ran: Sequence[str] = ()
) -> DriveResult:
    """The check that every run must pass; how the session ended.

    The journal validates and replays (what was tampered with is named, and stops every command);
    nothing is done in it that no subagent ran; no gate is passed but those `answered`; and the
    session has ended, waits, or is marked: it is never silently open. `ran`: further commands
    that were executed, in another client.
    """
    here = checkout.find(project.root)
    session_id = project.session.name
    try:
        snapshot = SessionTree(DiskStore(here), session_id).look()
    except StateError as error:
        return _tampered(project, error)
    told = project.playbook("status").out
    assert [entry.id for entry in DiskStore(here).journal(session_id).entries] == [
        f"{entry['step_id']}#{entry.get('attempt', 1)}" for entry in project.journal()
    ]
    budget = [*executed(client), *ran]
    for entry in project.journal():
        if entry["status"] == "done":
            command = snapshot.state.playbook.step(entry["step_id"]).command[1:]
            assert command in budget, f"{entry['step_id']} is done, but {command} did not run"
            budget.remove(command)
        passed = "resolution" in entry or "human_response" in entry
        assert not passed or entry["step_id"] in answered, f"{entry} passed without an answer"
    return _ending(snapshot.directive, here, session_id, told)


def _tampered(project: Project, error: StateError) -> DriveResult:
    """Every command says so, and does nothing."""
    codes = ("PB-STATE-TAMPERED", "PB-STATE-CORRUPT", "PB-STATE-UNCONFIRMED")
    assert error.code in codes, error
    before = (project.session / "journal.yaml").read_bytes()
    assert error.code in project.playbook("next").err
    for command in (["next"], ["report", "plan#1"], ["answer", "continue"]):
        assert project.playbook(*command).code != 0
    assert (project.session / "journal.yaml").read_bytes() == before
    return "tampered"


def _ending(due: Directive, here: checkout.Checkout, session_id: str, told: str) -> DriveResult:
    """What became of it, and that `status` tells a person so."""
    match due:
        case Ask():
            assert "WAITS FOR A HUMAN" in told, told
            return "waiting"
        case Finish(status=SessionStatus.COMPLETED):
            return "completed"
        case Finish():
            return "failed"
    bound = binding.load(here.runtime / session_id)
    if bound is None or not binding.bound(here):
        assert "no driver" in told, told
        return "let go"
    assert bound.stalled, f"the session is silently open: {due}"
    assert "STALLED" in told, told
    return "stalled"
