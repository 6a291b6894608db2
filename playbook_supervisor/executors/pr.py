"""`pr`: push the branch and open its pull request through `gh`.

It may run again: an open pull request of the branch is reported, not opened twice, and `wait`
goes on waiting (docs/decisions/0173).
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from playbook_supervisor.errors import StepError
from playbook_supervisor.executors.forge import (
    create,
    entries,
    forge_error,
    gh,
    title_of,
    titled,
    unexpected,
)
from playbook_supervisor.executors.protocol import Context, Stopped, Task, input_error, refuse_words
from playbook_supervisor.executors.repository import Repository, git_error
from playbook_supervisor.formats.sanitize import counted, first_line, one_line
from playbook_supervisor.kernel.directives import Outcome
from playbook_supervisor.system.git import github
from playbook_supervisor.system.git.git_process import default_branch

INTERVAL = 15.0
"""Seconds between two questions while a step waits."""
NO_CHECKS = 60.0
"""Seconds after which a pull request without checks has none."""

_LOGIN = r"@[A-Za-z0-9](?:[A-Za-z0-9-]{0,38})(?:/[A-Za-z0-9_.-]{1,100})?"
"""A login of the forge, or a team `@organisation/team`."""
_LONGEST_NAME = 100

_MISSED = 5  # questions without an answer, one after another, before a waiting step gives up
_FIELDS = ("number", "url", "state", "isCrossRepository", "headRefOid")
_WATCHED = "number,url,state,statusCheckRollup"
_PENDING = frozenset({"PENDING", "EXPECTED", "QUEUED", "IN_PROGRESS", "WAITING", "REQUESTED", ""})
_PASSED = frozenset({"SUCCESS", "NEUTRAL", "SKIPPED"})


@dataclass(frozen=True, slots=True)
class PullRequest:
    """A pull request; `state` is OPEN, MERGED or CLOSED."""

    number: int
    url: str
    state: str

    def __str__(self) -> str:
        return f"pull request #{self.number}"


class PullRequestExecutor:
    """Its output is the address of the pull request."""

    namespace = "pr"
    with_schema = titled(
        {
            "base": {
                "type": "string",
                "minLength": 1,
                "description": "The branch that it is to be merged into; the forge's default.",
            },
            "draft": {
                "type": "boolean",
                "default": False,
                "description": "Whether it is opened as a draft.",
            },
            "wait": {
                "enum": [False, "checks", "merged"],
                "default": False,
                "description": "Whether the step ends only when all checks have passed, or when "
                "a person has merged it.",
            },
        }
    )

    check = staticmethod(refuse_words)

    def execute(self, task: Task, context: Context) -> Outcome:
        """Open it. StepError PB-STEP-FORGE if gh refuses, PB-STEP-GIT if git or the remote does."""
        title_of(task)  # before anything is pushed
        base = task.options.get("base", "")
        if base and not github.is_plain(base):
            raise input_error(f"{first_line(base, 80)!r} is no branch", "Correct it.")
        repository = Repository(context)
        branch = _branch(context, repository, base)
        pull = _known(context, repository, branch, base)
        if pull is None or pull.state == "OPEN":
            _push(context, repository, branch)
        told = f"{pull} is {pull.state.lower()} already: {pull.url}" if pull else ""
        if pull is None:
            pull = _create(context, repository, branch, task)
            told = f"{pull} is opened: {pull.url}"
            _ask_for_review(context, pull, task)
        context.say(told)
        if wait := task.options.get("wait", False):
            context.say(_Wait(context, pull).until(wait))
        return Outcome(output=pull.url, data={"number": pull.number, "url": pull.url})


# ── opening ─────────────────────────────────────────────────────────────────────────────────


def _branch(context: Context, repository: Repository, base: str) -> str:
    """The branch to publish; never the one that it would be merged into, which is pushed to."""
    branch = repository.required_branch()
    if branch in (base, default_branch(context.root)):
        raise git_error(
            f"{branch} is checked out, which a pull request would be merged into",
            "Add a `branch` step before this one, and commit there.",
        )
    if not github.is_plain(branch):
        shown = first_line(branch, 60)
        raise git_error(f"{shown!r} is no name for a branch", "Rename it.")
    return branch


def _known(context: Context, repository: Repository, branch: str, base: str) -> PullRequest | None:
    """The branch's open pull request; else a merged one that has all of its work.

    One from a fork, whose branch may have this name by chance, counts if it has this work.
    """
    into = [f"--base={base}"] if base else []
    listed = entries(gh(context, *github.listing(branch, "all", *_FIELDS), *into))
    ranked = sorted(listed, key=lambda each: each.get("state") != "OPEN")
    for each in ranked:
        pull = _pull_request(each)
        ours = pull.state == "OPEN" and each.get("isCrossRepository") is False
        if ours or (
            pull.state in ("OPEN", "MERGED")
            and repository.same_work(str(each.get("headRefOid", "")))
        ):
            return pull
    return None


def _pull_request(data: Mapping[str, Any]) -> PullRequest:
    number, url, state = (data.get(key) for key in ("number", "url", "state"))
    if not isinstance(number, int) or not isinstance(url, str) or not isinstance(state, str):
        raise unexpected("number, address and state of a pull request")
    return PullRequest(number, first_line(url), first_line(state))


def _push(context: Context, repository: Repository, branch: str) -> None:
    upstream = repository.upstream(branch)
    if upstream is None:
        raise git_error(
            f"there is no remote to push {branch} to",
            "Add the forge's repository: `git remote add origin ADDRESS`.",
        )
    if pushed := repository.push(upstream):
        context.say(pushed)


def _create(context: Context, repository: Repository, branch: str, task: Task) -> PullRequest:
    options = []
    if len(repository.remotes()) == 1:  # with a fork among them, gh has to find out whose it is
        options.append(f"--head={branch}")
    if base := task.options.get("base", ""):
        options.append(f"--base={base}")
    if task.options.get("draft", False):
        options.append("--draft")
    made = create(context, "pr", task, *options, signature=_people(task))
    return PullRequest(*made, "OPEN")


def _people(task: Task) -> str:
    listed = (
        ("Owner", [task.owner] if task.owner else []),
        ("Reviewers", task.reviewers.required),
        ("Optional reviewers", task.reviewers.optional),
    )
    lines = [f"{title}: {', '.join(map(_shown, names))}" for title, names in listed if names]
    return "\n".join(lines)


def _shown(name: str) -> str:
    """A name on one line; a mention only if it is a login, so that no other text pings anyone."""
    name = one_line(name, _LONGEST_NAME)
    return name if re.fullmatch(_LOGIN, name) else name.replace("@", "@\u200b")


def _ask_for_review(context: Context, pull: PullRequest, task: Task) -> None:
    for name in dict.fromkeys((*task.reviewers.required, *task.reviewers.optional)):
        if re.fullmatch(_LOGIN, name):
            try:
                gh(context, "pr", "edit", str(pull.number), f"--add-reviewer={name[1:]}")
            except StepError as error:
                context.say(f"{name} is not asked for a review: {error.message}")


# ── waiting ─────────────────────────────────────────────────────────────────────────────────


class _Wait:
    def __init__(self, context: Context, pull: PullRequest) -> None:
        self._context, self._pull = context, pull
        self._stopped = threading.Event()
        self._began = time.monotonic()
        self._told, self._missed = "", 0
        context.on_stop(self._stopped.set)

    def until(self, wanted: str) -> str:
        """A line when it is merged, or when its checks have passed.

        StepError if that cannot happen any more, Stopped if the step is stopped.
        """
        while True:
            if (answer := self._asked()) and (decided := self._decided(answer, wanted)):
                return decided
            if self._stopped.wait(INTERVAL):
                raise Stopped

    def _asked(self) -> Mapping[str, Any]:
        """The answer of gh; empty if it failed, which a few times in a row is no reason to end."""
        try:
            number = str(self._pull.number)
            answer = json.loads(gh(self._context, "pr", "view", number, "--json", _WATCHED))
        except StepError:
            self._missed += 1
            if self._missed == _MISSED:
                raise
            return {}
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict) or not answer:
            raise unexpected("a pull request")
        self._missed = 0
        return answer

    def _decided(self, answer: Mapping[str, Any], wanted: str) -> str:
        pull = _pull_request(answer)
        if pull.state == "MERGED":
            return f"{pull} is merged"
        if pull.state != "OPEN":
            raise forge_error(f"{pull} was closed: {pull.url}", "Reopen it, or skip the step.")
        if wanted == "checks":
            return self._checks(answer)
        self._tell(f"waiting until {pull} is merged: {pull.url}")
        return ""

    def _checks(self, answer: Mapping[str, Any]) -> str:
        checks = answer.get("statusCheckRollup")
        if not isinstance(checks, list) or not all(isinstance(each, dict) for each in checks):
            raise unexpected("a pull request's checks")
        results = [(_name(check), _result(check)) for check in checks]
        pending = [name for name, result in results if result in _PENDING]
        failed = [name for name, result in results if result not in _PENDING | _PASSED]
        if failed:
            raise forge_error(
                f"{counted(len(failed), 'check')} of {self._pull} failed: {', '.join(failed[:3])}",
                "Fix what the check reports, push, then run the step again.",
                cause=self._pull.url,
            )
        if pending:
            self._tell(f"waiting for {counted(len(pending), 'check')}: {', '.join(pending[:3])}")
        elif checks:
            return f"{counted(len(checks), 'check')} passed"
        elif time.monotonic() - self._began > NO_CHECKS:
            return f"{self._pull} has no checks"
        return ""

    def _tell(self, line: str) -> None:
        if line != self._told:
            self._told = line
            self._context.say(line)


def _name(check: Mapping[str, Any]) -> str:
    return first_line(str(check.get("name") or check.get("context") or "?"), 60)


def _result(check: Mapping[str, Any]) -> str:
    return str(check.get("conclusion") or check.get("state") or check.get("status") or "")
