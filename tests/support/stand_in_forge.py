"""A forge for tests: a stand-in `gh` on PATH that keeps pull requests and issues in a file."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

ADDRESS = "https://forge.example/us/project"

GH = f"""\
#!{sys.executable} -SE
import fcntl, json, os, sys

os.chdir(os.path.dirname(__file__))
turn = open("turn", "w")
fcntl.flock(turn, fcntl.LOCK_EX)  # until this process ends
state = json.load(open("state.json"))
argv = sys.argv[1:]
stdin = sys.stdin.read() if "--body-file=-" in argv else ""
options = dict(word[2:].split("=", 1) for word in argv if word.startswith("--") and "=" in word)
state["calls"].append(argv)
if argv[0] == "auth":
    sys.exit()
(kind, verb), failure = argv[:2], state["failures"].pop(0) if state["failures"] else None
listed = state[kind]

def save():
    with open("state.new", "w") as file:
        json.dump(state, file)
    os.replace("state.new", "state.json")

if failure and failure.get("verb", verb) != verb:
    state["failures"].insert(0, failure)
    failure = None
if failure:
    save()
    sys.stdout.write(failure.get("stdout", ""))
    sys.stderr.write(failure.get("stderr", ""))
    sys.exit(failure.get("status", 1))
if verb == "list":
    head = argv[argv.index("--head") + 1] if "--head" in argv else None
    listed = [each for each in listed if each.get("head", head) == head]
    print(json.dumps([each for each in listed if options.get("base") in (None, each.get("base"))]))
elif verb == "create":
    number = 7 + len(state["pr"]) + len(state["issue"])
    place = "pull" if kind == "pr" else "issues"
    made = {{"number": number, "url": f"{ADDRESS}/{{place}}/{{number}}", "state": "OPEN"}}
    made |= {{"isCrossRepository": False, "headRefOid": "", "body": stdin, "statusCheckRollup": []}}
    made |= {{key: options[key] for key in ("title", "base", "head") if key in options}}
    listed.append(made)
    print("Creating it for us/project\\n")
    print(made["url"])
elif verb == "view":
    (found,) = [each for each in listed if each["number"] == int(argv[2])]
    print(json.dumps(found))
    found |= state["views"].pop(0) if state["views"] else {{}}
save()
"""


class Forge:
    """`pulls` and `issues` are what it has, `calls` the arguments of every `gh` so far."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        folder.mkdir()
        self.folder = folder
        self._state = folder / "state.json"
        self._state.write_text(
            json.dumps({"pr": [], "issue": [], "calls": [], "failures": [], "views": []})
        )
        (folder / "gh").write_text(GH)
        (folder / "gh").chmod(0o755)
        patch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    @property
    def pulls(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._read("pr")
        return found

    @property
    def issues(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._read("issue")
        return found

    @property
    def calls(self) -> list[list[str]]:
        found: list[list[str]] = self._read("calls")
        return found

    @property
    def created(self) -> list[list[str]]:
        return [call for call in self.calls if call[1] == "create"]

    def has_pull(self, **more: Any) -> None:
        """One more pull request: number 7, open, of this repository, unless `more` says else."""
        known = {"number": 7, "url": f"{ADDRESS}/pull/7", "state": "OPEN"}
        others = {"isCrossRepository": False, "headRefOid": "", "statusCheckRollup": []}
        self._add("pr", known | others | more)

    def has_issue(self, **more: Any) -> None:
        self._add("issue", more)

    def then(self, **change: Any) -> None:
        """After the next answer to `pr view` without such a change, this is the state."""
        self._add("views", change)

    def changes(self, **how: Any) -> None:
        """Change the only pull request, as a person does on the forge."""
        state = json.loads(self._state.read_text())
        state["pr"][0] |= how
        self._state.write_text(json.dumps(state))

    def fails(self, **how: Any) -> None:
        """The next call, of this `verb` if one is given, ends with these `stdout`, `stderr` and
        `status`."""
        self._add("failures", how)

    def _read(self, key: str) -> Any:
        return json.loads(self._state.read_text())[key]

    def _add(self, key: str, value: dict[str, Any]) -> None:
        state = json.loads(self._state.read_text())
        state[key].append(value)
        self._state.write_text(json.dumps(state))
