"""Hooks that change what we commit: afterwards the index agrees with HEAD, whatever was killed."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest
import yaml
from support.scratch_project import Project

FORMAT = """\
for f in $(git diff --cached --name-only --diff-filter=ACM); do
  sed -i 's/[ \\t]*$//; s/: {/:  {/' "$f"; git add "$f"
done"""
STEPS = [
    {"id": "write", "command": "cli tee new.txt", "with": {"stdin": "text   \n"}},
    {
        "id": "commit",
        "command": "commit",
        "with": {"message": "Add new.txt", "paths": ["*.txt"], "push": False},
    },
]


def changes_and_commits(project: Project) -> Project:
    """The project with a playbook `c`, whose last step commits what its first has written."""
    playbook = {"name": "c", "description": "d", "version": "1.1", "args": [], "steps": STEPS}
    defaults = {"autonomy": "auto", "error_policy": "stop"}
    project.write(".playbooks/playbooks/c.yaml", yaml.safe_dump({**playbook, "defaults": defaults}))
    project.write("staged.txt.md", "one\n")
    project.commit("Add a playbook")
    project.write("staged.txt.md", "two\n")
    project.git("add", "staged.txt.md")
    project.write("staged.txt.md", "three\n")
    return project


def hook(project: Project, name: str, script: str) -> None:
    project.write(f".git/hooks/{name}", f"#!/bin/sh\n{script}\n").chmod(0o755)


def staged(project: Project) -> list[str]:
    """What the next plain commit would change."""
    return project.git("diff", "--cached", "--name-only").splitlines()


def only_the_persons(project: Project) -> None:
    """That exactly what the person had staged is staged, as it was."""
    assert staged(project) == ["staged.txt.md"]
    assert project.git("show", ":staged.txt.md") == "two"
    assert project.read("staged.txt.md") == "three\n"
    assert project.git("status", "--porcelain", "--", "*.txt*") == "MM staged.txt.md"
    assert not [*(project.root / ".git/playbook/commits").iterdir()]


def test_what_a_hook_formats_is_not_put_back_by_the_next_commit(project: Project) -> None:
    changes_and_commits(project)
    hook(project, "pre-commit", FORMAT)
    assert project.playbook("run", "c").code == 0
    only_the_persons(project)
    assert project.git("status", "--porcelain", "--", ".playbooks") == ""
    assert project.git("show", "HEAD~1:new.txt") == "text"
    project.git("commit", "-q", "--no-verify", "-m", "Something else")
    assert project.git("show", "HEAD:new.txt") == "text"
    assert project.git("diff", "HEAD~1", "HEAD", "--name-only") == "staged.txt.md"


def test_a_hook_that_changes_only_the_index_is_agreed_with(project: Project) -> None:
    changes_and_commits(project)
    write = "blob=$(printf better | git hash-object -w --stdin)"
    hook(
        project,
        "pre-commit",
        f"{write}; git ls-files --error-unmatch new.txt >/dev/null 2>&1 && "
        "git update-index --cacheinfo 100644,$blob,new.txt; :",
    )
    assert project.playbook("run", "c").code == 0
    assert staged(project) == ["staged.txt.md"]
    assert project.git("show", ":new.txt") == project.git("show", "HEAD:new.txt") == "better"
    assert project.read("new.txt") == "text   \n"


def test_files_that_a_hook_generates_are_in_the_index(project: Project) -> None:
    changes_and_commits(project)
    hook(project, "pre-commit", "date +%N > made.lock; git add made.lock staged.txt.md")
    assert project.playbook("run", "c").code == 0
    assert "made.lock" in project.git("show", "--format=", "--name-only", "HEAD~1").splitlines()
    assert staged(project) == ["staged.txt.md"]
    assert project.git("show", ":staged.txt.md") == "two"
    assert project.git("show", "HEAD:staged.txt.md") == "three"


def test_a_hook_that_refuses_leaves_the_index_alone(project: Project) -> None:
    changes_and_commits(project)
    hook(project, "pre-commit", f"{FORMAT}\nexit 1")
    assert project.playbook("run", "c").code == 2
    assert staged(project) == ["staged.txt.md"]
    assert "?? new.txt" in project.git("status", "--porcelain").splitlines()


@pytest.mark.parametrize(
    "at", ["pre-commit", pytest.param("post-commit", marks=pytest.mark.thorough)]
)
def test_after_a_kill_the_next_commit_brings_the_index_in_order(project: Project, at: str) -> None:
    changes_and_commits(project)
    hook(project, "pre-commit", FORMAT)
    reached = project.root.parent / "reached"
    last = project.read(".git/hooks/pre-commit") if at == "pre-commit" else "#!/bin/sh\n"
    hook(project, at, f"{last.removeprefix('#!/bin/sh')}\ntouch {reached}; sleep 600")
    with project.spawn("run", "c") as running:
        while not reached.exists():
            assert running.poll() is None, running.communicate()
            time.sleep(0.02)
        running.kill()
    project.write(f".git/hooks/{at}", last)
    until_gone(project)
    for lock in (project.root / ".git").rglob("index.lock"):
        lock.unlink()
    project.write("later.md", "later\n")
    project.git("add", "later.md")
    resumed = project.playbook("resume")
    assert resumed.code == 0, resumed.err
    assert staged(project) == ["later.md", "staged.txt.md"]
    assert project.git("show", ":new.txt") == project.git("show", "HEAD:new.txt") == "text"
    assert not [*(project.root / ".git/playbook/commits").iterdir()]


def until_gone(project: Project) -> None:
    """Wait until the hook that was left behind has been ended."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        at_work = [
            each
            for each in Path("/proc").glob("[0-9]*/cwd")
            if os.path.realpath(each) == str(project.root)
        ]
        if not at_work:
            return
        time.sleep(0.05)


@pytest.mark.thorough
def test_a_formatter_of_the_real_pre_commit_leaves_nothing_staged(
    project: Project, tmp_path: Path
) -> None:
    entry = "sed -i s/[[:blank:]]*$//"
    formats = {"id": "f", "name": "f", "language": "system", "entry": entry, "files": r"\.txt$"}
    settings = {"repos": [{"repo": "local", "hooks": [formats]}]}
    project.write(".pre-commit-config.yaml", yaml.safe_dump(settings))
    changes_and_commits(project)
    project.env["PRE_COMMIT_HOME"] = str(tmp_path / "store")
    install = f"cd '{project.root}' && '{sys.executable}' -m pre_commit install"
    assert os.system(f"{install} > /dev/null") == 0  # noqa: S605 - the test's own words
    first = project.playbook("run", "c")
    assert first.code == 2
    assert "files were modified by this hook" in first.out + first.err
    assert staged(project) == ["staged.txt.md"]
    assert project.playbook("resume", "--retry").code == 0
    assert project.git("show", "HEAD~1:new.txt") == "text"
    only_the_persons(project)
