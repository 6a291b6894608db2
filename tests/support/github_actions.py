"""The examples for GitHub Actions, carried out: fresh clones, one remote, and no terminal.

What a runner does is done here as far as the examples and our action ask for it: triggers, jobs,
workflows that are called, the steps of the action, expressions, a shell for each step, the files
for the event, outputs and the summary. What would be installed is on PATH already, and a stand-in
for `gh` keeps the comments.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from cli.scripts import WORKS

from support.document_examples import AGENT
from support.github_expressions import Function, as_text, filled, value
from support.scratch_project import FEATURE, Project

SOURCE = Path(__file__).parents[2]
EXAMPLES = SOURCE / "docs/examples"
ACTION: dict[str, Any] = yaml.safe_load((SOURCE / "action.yml").read_text("utf-8"))
OURS = "OWNER/playbook-supervisor"
REPOSITORY = "us/project"
USES = ("actions/checkout", "actions/setup-node")

GH = """\
#!/bin/sh
# Stands in for gh: it knows the pull request 7, and keeps each comment in a file.
# The file beside it says whether there is a pull request.
here=$(dirname "$0")
says=$(cat "$here/gh.says")
case "$1 $2" in
  "pr list")
    [ "$says" = open ] || { echo '[]'; exit; }
    echo '[{"number":7,"url":"https://forge.example/pull/7","state":"OPEN"}]' ;;
  "api repos/us/project/pulls/7")
    cat "$here/pull.json" ;;
  "pr comment")
    shift 2
    if [ "$1" = 7 ]; then
      shift
    elif [ "$says" != open ]; then
      echo 'no pull requests found for the branch' >&2
      exit 1
    fi
    [ "$#" = 2 ] && [ "$1" = --body-file ] && [ -n "$GH_TOKEN" ] || exit 1
    cp "$2" "$here/comment-$(ls "$here" | grep -c '^comment-').md" ;;
  *) echo "unknown to the stand-in: $*" >&2; exit 1 ;;
esac
"""
PUBLISHES = """\
#!/bin/sh
# Does what the script says; a step that publishes pushes the branch, as /feature.pr does.
[ "$PLAYBOOK_STEP" = pr ] && git push -q origin HEAD
echo "Working on $PLAYBOOK_STEP"
exec works
"""
CONFIG = "agent: ours\nagents:\n  ours:\n    exec: [agent]\n"

Context = dict[str, Any]


def workflow(name: str) -> dict[str, Any]:
    """An example, read. Its `on` is `on`, which is true to a YAML 1.1 reader."""
    read: dict[Any, Any] = yaml.safe_load((EXAMPLES / name).read_text("utf-8"))
    read["on"] = read.pop(True)
    return read


def scripts(name: str) -> list[str]:
    """The scripts of an example, and those of the action."""
    jobs = workflow(name)["jobs"].values()
    steps = [step for job in jobs for step in job.get("steps", ())] + ACTION["runs"]["steps"]
    return [step["run"] for step in steps if "run" in step]


@dataclass
class Run:
    """What a run has left behind. `ran` are the steps that were carried out, `groups` the
    concurrency groups of its workflows, and `outputs` those of all its steps.
    """

    ok: bool = True
    ran: list[str] = field(default_factory=list)
    outputs: dict[str, str] = field(default_factory=dict)
    groups: list[str] = field(default_factory=list)
    said: str = ""
    summary: str = ""


class Forge:
    """The remote, and the runner: each job begins in an empty folder."""

    def __init__(self, project: Project) -> None:
        self.folder = project.root.parent
        self.bare = self.folder / "remote.git"
        self.tools = self.folder / "tools"
        self._jobs = 0
        self._provide()
        self.env = {
            **project.environment,
            "PATH": f"{self.tools}{os.pathsep}{os.environ['PATH']}",
            "GITHUB_RUN_ID": "17",
            "GITHUB_REPOSITORY": REPOSITORY,
            "GITHUB_SERVER_URL": "https://forge.example",
            "GITHUB_ACTION_PATH": str(SOURCE),
        }
        project.write(".playbooks/config.yaml", CONFIG)
        project.commit("Say which agent")
        project.git("clone", "-q", "--bare", str(project.root), str(self.bare))

    def _provide(self) -> None:
        (self.folder / "script.yaml").write_text(WORKS)
        programs = {
            "playbook": f'#!/bin/sh\nexec "{sys.executable}" -m playbook_supervisor "$@"\n',
            "agent": PUBLISHES,
            "works": AGENT.format(python=sys.executable, script=self.folder / "script.yaml"),
            "gh": GH,
            "pipx": "#!/bin/sh\n",
            "npm": "#!/bin/sh\n",
        }
        self.tools.mkdir()
        for name, text in programs.items():
            (self.tools / name).write_text(text)
            (self.tools / name).chmod(0o755)
        (self.tools / "gh.says").write_text("open")
        self.pull_request()

    def pull_request(self, **changes: Any) -> None:
        """What the forge says of pull request 7, in the words of its REST interface."""
        head, base = {"ref": FEATURE, "repo": {"id": 1}}, {"ref": "main", "repo": {"id": 1}}
        known = {"number": 7, "state": "open", "head": head, "base": base}
        (self.tools / "pull.json").write_text(json.dumps(known | changes))

    def git(self, *arguments: str) -> str:
        argv = ["git", "-C", str(self.bare), *arguments]
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()

    def session_file(self, name: str, branch: str = FEATURE) -> str:
        (session,) = self.git("ls-tree", "--name-only", branch, ".playbooks/sessions/").split()
        return self.git("show", f"{branch}:{session}/{name}")

    @property
    def comments(self) -> list[str]:
        """What was said on the pull request, in order."""
        found = sorted(self.tools.glob("comment-*"), key=lambda file: int(file.stem.split("-")[1]))
        return [file.read_text("utf-8") for file in found]

    def run(
        self,
        name: str,
        github: Mapping[str, Any],
        inputs: Mapping[str, str] | None = None,
        secrets: Mapping[str, str] | None = None,
    ) -> Run:
        """Run the workflow with these contexts, and the workflows that it calls."""
        done, read = Run(), workflow(name)
        context: Context = {"github": {"token": "t", "run_attempt": "1", **github}, "needs": {}}
        context |= {"inputs": dict(inputs or {}), "secrets": dict(secrets or {})}
        if "concurrency" in read:
            done.groups.append(filled(read["concurrency"]["group"], context))
        for job_name, job in read["jobs"].items():  # a job stands behind the one that it needs
            if done.ok and value(job.get("if", "1"), context):
                carry_out = self._called if "uses" in job else self._job
                outputs = carry_out(job, context, done)
                context["needs"][job_name] = {"outputs": outputs}
            elif not done.ok or "needs" not in job:
                break  # what needs a job that failed or was skipped is skipped, too
        return done

    def act(self, **inputs: str) -> Run:
        """Check the branch out and use our action with these inputs."""
        done = Run()
        github = {"ref": f"refs/heads/{FEATURE}", "actor": "ada", "actor_id": "1815", "token": "t"}
        steps = [
            {"uses": f"{USES[0]}@COMMIT", "with": {"ref": github["ref"]}},
            {"uses": f"{OURS}@COMMIT", "with": inputs},
        ]
        self._job({"steps": steps}, {"github": github | {"run_attempt": "1"}}, done)
        return done

    def _called(self, job: Context, context: Context, done: Run) -> Context:
        name = job["uses"].removeprefix("./.github/workflows/")
        declared = workflow(name)["on"]["workflow_call"]
        given = {key: filled(text, context) for key, text in job["with"].items()}
        required = {key for key, each in declared["inputs"].items() if each.get("required")}
        assert required <= given.keys() <= declared["inputs"].keys()
        assert declared["secrets"].keys() == job["secrets"].keys()
        secrets = {key: filled(text, context) for key, text in job["secrets"].items()}
        inner = self.run(name, context["github"], given, secrets)
        done.ok = inner.ok
        done.ran += inner.ran
        done.groups += inner.groups
        done.outputs |= inner.outputs
        done.said += inner.said
        done.summary += inner.summary
        return {}

    def _job(self, job: Context, context: Context, done: Run) -> Context:
        self._jobs += 1
        place = self.folder / f"job-{self._jobs}"
        (place / "work").mkdir(parents=True)
        (place / "event.json").write_text(json.dumps(context["github"].get("event", {})))
        context = context | {"steps": {}, "env": {}}
        for step in job["steps"]:
            self._step(step, context, done, place)
        return {key: filled(text, context) for key, text in job.get("outputs", {}).items()}

    def _act(self, step: Context, context: Context, done: Run, place: Path) -> Context:
        given = {key: filled(text, context) for key, text in step["with"].items()}
        assert given.keys() <= ACTION["inputs"].keys()
        inputs = {
            key: given.get(key, filled(each.get("default", ""), context))
            for key, each in ACTION["inputs"].items()
        }
        env = {key: filled(text, context) for key, text in step.get("env", {}).items()}
        inner = context | {"inputs": inputs, "steps": {}, "env": env}
        for each in ACTION["runs"]["steps"]:
            self._step(each, inner, done, place)
        return {key: filled(each["value"], inner) for key, each in ACTION["outputs"].items()}

    def _step(self, step: Context, context: Context, done: Run, place: Path) -> None:
        work = place / "work"
        asks_status = re.search(r"\b(?:always|failure)\(\)", step.get("if", ""))
        functions: dict[str, Function] = {
            "always": lambda: True,
            "failure": lambda: not done.ok,
            "hashFiles": lambda path: "a digest" if (work / path).is_file() else "",
        }
        wanted = value(step.get("if", "1"), context, **functions)
        state: Context = {"outcome": "skipped", "outputs": {}}
        context["steps"][step.get("id", "")] = state
        if not (wanted and (done.ok or asks_status)):
            return
        if "uses" in step:
            action = step["uses"].partition("@")[0]
            assert action in (*USES, OURS)
            if action == OURS:
                state["outputs"] = self._act(step, context, done, place)
            elif action == USES[0]:
                self._check_out(filled(step["with"]["ref"], context), work)
            return
        given = {
            key: as_text(filled(text, context, **functions))
            for key, text in step.get("env", {}).items()
        }
        files = {key: place / key for key in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        for file in files.values():
            file.write_text("")
        paths = {key: str(file) for key, file in files.items()}
        github = context["github"]
        paths |= {"RUNNER_TEMP": str(place), "GITHUB_EVENT_PATH": str(place / "event.json")}
        who = {"GITHUB_ACTOR": github["actor"], "GITHUB_ACTOR_ID": github["actor_id"]}
        env = self.env | who | paths | context["env"] | given
        passed, printed = _shell(step["run"], work, env)
        done.ok = done.ok and passed
        done.ran.append(step["name"])
        done.said += printed
        done.summary += files["GITHUB_STEP_SUMMARY"].read_text("utf-8")
        state |= {
            "outcome": "success" if passed else "failure",
            "outputs": _outputs(files["GITHUB_OUTPUT"].read_bytes().decode()),
        }
        done.outputs |= state["outputs"]

    def _check_out(self, ref: str, work: Path) -> None:
        branch = ref.removeprefix("refs/heads/")
        assert branch != ref
        committed = int(self.git("log", "-1", "--format=%ct", branch))
        while time.time() < committed + 1:  # a clone that is younger than what it brings
            time.sleep(0.05)
        argv = ["git", "clone", "-q", "-b", branch, "--", str(self.bare), str(work)]
        subprocess.run(argv, check=True)


def _shell(script: str, work: Path, env: Mapping[str, str]) -> tuple[bool, str]:
    try:
        shell = subprocess.run(
            ["bash", "-e", "-c", script],
            cwd=work,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            timeout=120,
            check=False,
        )
    except OSError as error:  # the environment is too large
        return False, f"{error}\n"
    return shell.returncode == 0, shell.stdout.decode()


def _outputs(text: str) -> dict[str, str]:
    """`name=value`, or `name<<END` and lines up to END."""
    found: dict[str, str] = {}
    lines = iter(text.split("\n"))
    for line in lines:
        if line:
            name, how, rest = re.split(r"(=|<<)", line, maxsplit=1)
            found[name] = rest if how == "=" else "\n".join(iter(lines.__next__, rest))
    return found
