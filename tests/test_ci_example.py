"""The example for GitHub Actions, carried out: fresh clones, one remote, and no terminal.

What a runner does is done here as far as the example asks for it: inputs, `if`, `env`, a shell for
each step, the files for outputs and the summary. What would be installed is on PATH already.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from claude.client import program
from cli.scripts import WORKS
from documents import AGENT
from project import FEATURE, GH, Project

EXAMPLE = Path(__file__).parent.parent / "docs/examples/playbook.yml"
WORKFLOW = yaml.safe_load(EXAMPLE.read_text("utf-8"))
(JOB,) = WORKFLOW["jobs"].values()
INPUTS = WORKFLOW[True]["workflow_dispatch"]["inputs"]  # `on` is true to a YAML 1.1 reader

pytestmark = pytest.mark.unmeasured

PUBLISHES = """\
#!/bin/sh
# Does what the script says; a step that publishes pushes the branch, as /feature.pr does.
[ "$PLAYBOOK_STEP" = pr ] && git push -q origin HEAD
exec works
"""
CONFIG = "agent: ours\nagents:\n  ours:\n    exec: [agent]\n"


@dataclass
class Run:
    """What a run of the workflow has left behind. `ran` are the steps that were carried out."""

    ok: bool = True
    ran: list[str] = field(default_factory=list)
    outputs: dict[str, str] = field(default_factory=dict)
    said: str = ""
    summary: str = ""


class Forge:
    """The remote, and the runner: each run begins with a clone of the branch."""

    def __init__(self, project: Project) -> None:
        self.folder = project.root.parent
        self.bare = self.folder / "remote.git"
        tools = self.folder / "tools"
        tools.mkdir()
        (self.folder / "script.yaml").write_text(WORKS)
        works = AGENT.format(python=sys.executable, script=self.folder / "script.yaml")
        this = f'#!/bin/sh\nexec "{sys.executable}" -m playbook_supervisor "$@"\n'
        nothing = "#!/bin/sh\n"
        for name, text in {
            "playbook": this,
            "agent": PUBLISHES,
            "works": works,
            "gh": GH,
            "pipx": nothing,
            "npm": nothing,
        }.items():
            (tools / name).write_text(text)
            (tools / name).chmod(0o755)
        (tools / "gh.says").write_text("open")
        self.env = {
            **project.environment,
            "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
            "RUNNER_TEMP": str(self.folder),
            "GITHUB_RUN_ID": "17",
        }
        project.write(".playbooks/config.yaml", CONFIG)
        project.commit("Say which agent")
        project.git("clone", "-q", "--bare", str(project.root), str(self.bare))

    def git(self, *arguments: str) -> str:
        argv = ["git", "-C", str(self.bare), *arguments]
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()

    def run(self, number: int, **inputs: str) -> Run:
        """Run the workflow on the branch with these inputs."""
        assert inputs.keys() <= INPUTS.keys()
        clone = self.folder / f"clone-{number}"
        committed = int(self.git("log", "-1", "--format=%ct", FEATURE))
        while time.time() < committed + 1:  # a clone that is younger than what it brings
            time.sleep(0.05)
        argv = ["git", "clone", "-q", "-b", FEATURE, str(self.bare), str(clone)]
        subprocess.run(argv, check=True)
        context = {f"inputs.{name}": inputs.get(name, "") for name in INPUTS}
        context |= {"github.actor": "ada", "github.token": "t", "secrets.ANTHROPIC_API_KEY": "k"}
        done = Run()
        for step in JOB["steps"]:
            if "uses" in step:
                assert step["uses"].partition("@")[0] in ("actions/checkout", "actions/setup-node")
            elif self._wanted(step, context, done):
                self._carry_out(step, context, done, clone)
        return done

    def _wanted(self, step: dict[str, Any], context: dict[str, str], done: Run) -> bool:
        """Its `if`, in the few forms that the example has."""
        words = str(step.get("if", "success()")).split(" && ")
        holds = done.ok or "always()" in words
        for word in words:
            found = re.fullmatch(r"([\w.]+) ([!=]=) '(\w*)'", word)
            assert found or word in ("always()", "success()")
            if found:
                name, how, value = found.groups()
                known = context.get(name, "skipped" if name.endswith(".outcome") else "")
                holds = holds and (known == value) == (how == "==")
        return holds

    def _carry_out(
        self, step: dict[str, Any], context: dict[str, str], done: Run, clone: Path
    ) -> None:
        env = {
            name: re.sub(r"\$\{\{ ([\w.]+) \}\}", lambda found: context[found[1]], value)
            for name, value in step.get("env", {}).items()
        }
        files = {name: self.folder / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        for file in files.values():
            file.write_text("")
        shell = subprocess.run(
            ["bash", "-e", "-c", step["run"]],
            cwd=clone,
            env=self.env | env | {name: str(file) for name, file in files.items()},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            timeout=120,
            check=False,
        )
        done.ok = done.ok and shell.returncode == 0
        done.ran.append(step["name"])
        done.said += shell.stdout
        done.summary += files["GITHUB_STEP_SUMMARY"].read_text("utf-8")
        if "id" in step:
            context[f"steps.{step['id']}.outcome"] = "success" if done.ok else "failure"
            for line in files["GITHUB_OUTPUT"].read_text("utf-8").splitlines():
                name, _, value = line.partition("=")
                context[f"steps.{step['id']}.outputs.{name}"] = done.outputs[name] = value


@pytest.fixture
def forge(project: Project) -> Forge:
    return Forge(project)


def test_inputs_never_become_shell_text() -> None:
    """Answers and names are data: they come through the environment, or not at all."""
    scripts = [step["run"] for step in JOB["steps"] if "run" in step]
    assert len(scripts) == 6
    assert not [script for script in scripts if "${{" in script]
    assert set(WORKFLOW[True]) == {"workflow_dispatch"}  # only who may write can start it


def test_a_playbook_runs_to_its_gate_and_continues_after_the_answer(forge: Forge) -> None:
    """tyr 3: on another machine each time, from what git alone has kept."""
    first = forge.run(1, playbook="auto-feature", feature="013")
    assert (first.ok, first.outputs) == (True, {"code": "4"}), first.said
    assert first.ran == ["Install", "Drive", "Keep the work", "Ask"]
    assert "    Run /feature.pr (step pr) now: continue, skip it, or abort?" in first.summary
    assert "gate `pr#1?1`\nand one of the answers continue, skip, abort." in first.summary

    lost = forge.run(2)  # without an answer it waits on
    assert (lost.ok, lost.outputs) == (True, {"code": "4"}), lost.said

    answered = forge.run(3, gate="pr#1?1", answer="continue")
    assert (answered.ok, answered.outputs) == (True, {"code": "0"}), answered.said
    assert answered.ran == ["Install", "Answer", "Drive", "Keep the work", "Show the result"]
    assert re.search(r"^    .*completed", answered.summary, re.MULTILINE)
    (session,) = forge.git("ls-tree", "--name-only", FEATURE, ".playbooks/sessions/").split()
    assert "status: completed" in forge.git("show", f"{FEATURE}:{session}/session.yaml")
    assert "ada <ada@users.noreply" in forge.git("show", f"{FEATURE}:{session}/journal.yaml")
    log = forge.git("log", "--format=%s%x20(%an)", f"main..{FEATURE}").splitlines()
    name = Path(session).name
    assert f"its last commit is pushed to origin/{FEATURE}" in answered.said
    assert log[:3] == [
        f"Record session {name}: completed (ada)",
        f"Record session {name} before pr (ada)",
        "Keep the work of a playbook (ada)",
    ]

    before = forge.git("rev-parse", FEATURE)
    again = forge.run(4)
    assert (again.ok, again.outputs) == (True, {"code": "0"})
    assert forge.git("rev-parse", FEATURE) == before


HOSTILE_ANSWERS = (
    {"gate": "pr#1?1", "answer": '"; touch stolen; $(touch stolen) `touch stolen` continue'},
    {"gate": "$(touch stolen)", "answer": "continue"},
    {"answer": "--session=../../stolen"},
)
HOSTILE_NAMES = (
    {"playbook": "--agent=exec:touch stolen", "feature": "013"},
    {"playbook": "auto-feature", "feature": "--from=pr\n$(touch stolen)"},
)


def test_hostile_answers_and_names_change_nothing(forge: Forge) -> None:
    begins = {"playbook": "auto-feature", "feature": "013"}
    for number, inputs in enumerate((*HOSTILE_NAMES, begins, *HOSTILE_ANSWERS)):
        before = forge.git("rev-parse", FEATURE)
        done = forge.run(number, **inputs)
        assert done.ok == (inputs is begins), done.said
        assert (forge.git("rev-parse", FEATURE) == before) == (inputs is not begins)
    assert not list(forge.folder.rglob("stolen"))


def test_work_goes_to_another_branch_if_the_push_is_rejected(forge: Forge) -> None:
    """Others may have pushed to it in the hours of a run, or it may be protected."""
    hook = forge.bare / "hooks/update"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f'#!/bin/sh\n[ "$1" != refs/heads/{FEATURE} ]\n')
    hook.chmod(0o755)
    before = forge.git("rev-parse", FEATURE)
    done = forge.run(1, playbook="auto-validate", feature="013")
    assert (done.ok, done.ran[-1]) == (False, "Keep the work"), done.said
    assert done.summary == "The branch rejected the push. Merge kept-17 into it.\n"
    assert forge.git("rev-parse", FEATURE) == before
    (session,) = forge.git("ls-tree", "--name-only", "kept-17", ".playbooks/sessions/").split()
    assert "status: completed" in forge.git("show", f"kept-17:{session}/session.yaml")


def test_the_client_is_the_one_that_the_tests_drive() -> None:
    """npm takes another one silently, where nothing is said."""
    client = program()
    if client is None:
        pytest.skip("the pinned claude-agent-sdk wheel brings no client for this platform")
    asked = subprocess.run([client, "--version"], capture_output=True, text=True, check=True)
    pinned = re.search(r"claude-code@(\S+)", EXAMPLE.read_text("utf-8"))
    assert pinned
    assert pinned[1] == asked.stdout.split()[0]
