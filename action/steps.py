"""The steps of action.yml: `steps.py check|read|answer|drive|keep|tell`.

What people and agents wrote comes from files and the environment, and is never text of a shell.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

TEMPORARY = Path(os.environ["RUNNER_TEMP"])
ENDING = TEMPORARY / "playbook-ending.json"
SAID = TEMPORARY / "playbook-said.md"
COMMENT_WORKFLOW = Path(".github/workflows/playbook-comment.yml")
WAITS = "4"
LONGEST_COMMENT = 60_000  # bytes; the forge refuses longer ones
LONGEST_ANSWER = 100_000  # bytes; it is passed on in the environment
_ANSWER = re.compile(r"/playbook\s+(?:(\S+#\d+\?\d+)(?:\s+|$))?(.*)", re.DOTALL)
_IDENTITY = "{GITHUB_ACTOR_ID}+{GITHUB_ACTOR}@users.noreply.github.com"


def check() -> int:
    """Annotate what is wrong, and list it in the summary."""
    names = [os.environ["PLAYBOOK"]] if os.environ["PLAYBOOK"] else []
    code = subprocess.run(["playbook", "check", "--format=github", "--", *names]).returncode
    listed = _playbook("check", "--", *names)
    _add("GITHUB_STEP_SUMMARY", f"## Playbooks\n\n{_literal(listed.stdout + listed.stderr)}\n")
    return code


def read() -> int:
    """Read the comment that started the workflow; a refusal is a reply to it."""
    event = json.loads(Path(os.environ["GITHUB_EVENT_PATH"]).read_text("utf-8"))
    number = str(event["issue"]["number"])
    place = f"repos/{os.environ['GITHUB_REPOSITORY']}/pulls/{number}"
    asked = subprocess.run(["gh", "api", place], stdout=subprocess.PIPE, encoding="utf-8")
    if asked.returncode:
        return _refuse(number, f"The pull request could not be read. The log says why: {_log()}")
    pull, body = json.loads(asked.stdout), event["comment"]["body"].replace("\r\n", "\n").strip()
    found = _ANSWER.fullmatch(body)
    gate, answer = (found[1] or "", found[2]) if found else ("", "")
    head, base = pull["head"], pull["base"]
    if head["repo"] is None or head["repo"]["id"] != base["repo"]["id"]:
        why = "A playbook does not run for a pull request from a fork"
        return _refuse(number, f"{why}: its code would get our secrets.")
    if pull["state"] != "open":
        return _refuse(number, "This pull request is closed, so a comment answers nothing.")
    if not answer:
        why = "The answer is missing. Write it after `/playbook`, as in `/playbook continue`."
        return _refuse(number, why)
    if len(answer.encode()) > LONGEST_ANSWER:
        return _refuse(number, f"The answer is longer than {LONGEST_ANSWER:,} bytes.")
    _output("ref", f"refs/heads/{head['ref']}")
    _output("gate", gate)
    _output("answer", answer)
    _output("pull-request", number)
    return 0


def answer() -> int:
    """Answer as the person who started the workflow."""
    _begin()
    gate = [f"--gate={os.environ['GATE']}"] if os.environ["GATE"] else []
    done = _playbook("answer", *gate, "--", os.environ["ANSWER"])
    if done.returncode:
        said = _literal(done.stdout + done.stderr)
        SAID.write_text(f"## The answer was not accepted\n\n{said}\n", "utf-8")
    return done.returncode


def drive() -> int:
    """Run the playbook, or continue the session of the branch. Its exit status is an output."""
    _begin()
    name, args = os.environ["PLAYBOOK"], os.environ["ARGS"].splitlines()
    argv = ["run", "--json", "--", name, *args] if name else ["resume", "--json"]
    with ENDING.open("wb") as ending:
        code = subprocess.run(["playbook", *argv], stdout=ending).returncode
    _output("code", str(code))
    return 0


def keep() -> int:
    """Commit and push everything, if the branch does not take it to a branch of its own."""
    _git("add", "--all")
    if _git("diff", "--cached", "--quiet"):
        _git("commit", "--quiet", "--message", "Keep the work of a playbook")
    if not _git("push", "--quiet", "origin", "HEAD"):
        return 0
    branch = f"kept-{os.environ['GITHUB_RUN_ID']}"
    why = f"The branch rejected the push. Merge {branch} into it."
    if _git("push", "--quiet", "origin", f"HEAD:refs/heads/{branch}"):
        why = f"Neither the branch nor {branch} took the push. The log says why: {_log()}"
    SAID.write_text(f"{why}\n", "utf-8")
    return 1


def tell() -> int:
    """Say in the summary and on the pull request how it ended; exit as the playbook did."""
    code, number = os.environ["CODE"], os.environ["PULL_REQUEST"]
    comments = bool(number) or COMMENT_WORKFLOW.is_file()
    said = SAID.read_text("utf-8") if SAID.exists() else _ending(code, comments=comments)
    _add("GITHUB_STEP_SUMMARY", said)
    unsaid = comments and _comment(number, said)
    if code in ("", "0", WAITS):
        return int(bool(unsaid and number))  # without a number, there may be no pull request yet
    return int(code)


def _ending(code: str, *, comments: bool) -> str:
    if not code:
        return f"The run failed. Its log says why: {_log()}\n"
    if code != WAITS:
        return f"## The playbook has stopped\n\n{_literal(_playbook('show').stdout)}\n"
    gate = json.loads(ENDING.read_text("utf-8")).get("gate")
    if gate is None:
        return "## The playbook is paused\n"
    return "\n".join(_question(gate, comments=comments)) + "\n"


def _question(gate: dict[str, Any], *, comments: bool) -> Iterable[str]:
    yield "## A playbook waits for you\n"
    yield _literal("\n".join([gate["question"], *gate.get("context", [])]))
    yield f"\nRun this workflow again on this branch, with gate `{gate['id']}`"
    yield f"and one of the answers {', '.join(gate['choices'])}."
    if comments:
        yield "Or begin a comment on the pull request with one of these lines:\n"
        for choice in gate["choices"]:
            takes_words = choice in ("answer", "deny") or choice.startswith("back to ")
            words = ": YOUR WORDS" if takes_words else ""
            yield f"    /playbook {gate['id']} {choice}{words}"


def _refuse(number: str, why: str) -> int:
    print(why, file=sys.stderr)
    _comment(number, f"{why}\n")
    return 1


def _comment(number: str, text: str) -> int:
    body = TEMPORARY / "playbook-comment.md"
    body.write_text(text.encode()[:LONGEST_COMMENT].decode(errors="ignore"), "utf-8")
    repository = {"GH_REPO": os.environ["GITHUB_REPOSITORY"]} if number else {}  # else the branch's
    argv = ["gh", "pr", "comment", *([number] if number else []), "--body-file", str(body)]
    return subprocess.run(argv, env=os.environ | repository).returncode


def _begin() -> None:
    """Commits and answers are those of the person who started the workflow."""
    SAID.unlink(missing_ok=True)  # an earlier step of the job may have used the action, too
    _git("config", "user.name", os.environ["GITHUB_ACTOR"])
    _git("config", "user.email", _IDENTITY.format_map(os.environ))


def _literal(text: str) -> str:
    """Indented, so that words of agents are shown as they are."""
    return "\n".join(f"    {line}" for line in text.splitlines())


def _log() -> str:
    parts = ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID")
    server, repository, run = (os.environ[name] for name in parts)
    return f"{server}/{repository}/actions/runs/{run}"


def _output(name: str, value: str) -> None:
    end = secrets.token_hex(16)  # a value cannot end itself
    _add("GITHUB_OUTPUT", f"{name}<<{end}\n{value}\n{end}\n")


def _add(file: str, text: str) -> None:
    with Path(os.environ[file]).open("a", encoding="utf-8", newline="\n") as opened:
        opened.write(text)


def _playbook(*arguments: str) -> subprocess.CompletedProcess[str]:
    argv = ["playbook", *arguments]
    return subprocess.run(argv, capture_output=True, encoding="utf-8", errors="replace")


def _git(*arguments: str) -> int:
    return subprocess.run(["git", *arguments]).returncode


if __name__ == "__main__":
    STEPS = {each.__name__: each for each in (check, read, answer, drive, keep, tell)}
    sys.exit(STEPS[sys.argv[1]]())
