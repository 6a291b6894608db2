"""Our hooks in the real pre-commit, which builds this repository into an environment of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from support.document_examples import alike, blocks
from support.scratch_project import Project

REPOSITORY = Path(__file__).parent.parent
WHEELHOUSE = Path(sys.prefix) / "wheelhouse"
REQUIRED = "PLAYBOOK_REQUIRE_WHEELHOUSE"
"""Set where these tests may not be left out."""
BUILT_FROM = (
    ".pre-commit-hooks.yaml",
    "pyproject.toml",
    "hatch_build.py",
    "README.md",
    "LICENSE",
    "playbook_supervisor",
    "templates",
)
UNTRACKED = ("__pycache__", "*.pyc", ".*_cache", "playbook_validator.py")
VALIDATE = ".playbooks/playbooks/auto-validate.yaml"
GUIDE = REPOSITORY / "docs/pre-commit.md"

pytestmark = pytest.mark.unmeasured


@pytest.fixture
def wheelhouse() -> None:
    """What pre-commit installs our hooks from: there is no network."""
    if not WHEELHOUSE.is_dir():
        missing = f"{WHEELHOUSE} is not filled, and there is no network: `make .venv/wheelhouse`"
        pytest.fail(missing) if os.environ.get(REQUIRED) else pytest.skip(missing)


@pytest.fixture(scope="module")
def hooks(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A repository with the content of this one, as pre-commit would clone it."""
    root = tmp_path_factory.mktemp("hooks") / "playbook-supervisor"
    root.mkdir()
    for name in BUILT_FROM:
        if (REPOSITORY / name).is_dir():
            ignored = shutil.ignore_patterns(*UNTRACKED)
            shutil.copytree(REPOSITORY / name, root / name, ignore=ignored)
        else:
            shutil.copy(REPOSITORY / name, root / name)
    source = Project(root, root.parent)
    source.git("init", "-q")
    source.commit("Release")
    return source


def environment(project: Project, store: Path) -> dict[str, str]:
    return {
        **project.environment,
        "PRE_COMMIT_HOME": str(store),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_FIND_LINKS": str(WHEELHOUSE),
        "PIP_NO_COMPILE": "1",
        "PIP_NO_INDEX": "1",
    }


def pre_commit(project: Project, store: Path, *args: str) -> tuple[int, str]:
    """The exit code, and what it says on either stream."""
    return run(project, store, sys.executable, "-m", "pre_commit", *args, "--color=never")


def run(project: Project, store: Path, *argv: str) -> tuple[int, str]:
    done = subprocess.run(
        argv,
        cwd=project.root,
        env=environment(project, store),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    ("hook", "path", "wanted"),
    [
        ("playbook-check", ".playbooks/playbooks/auto-feature.yaml", True),
        ("playbook-check", ".playbooks/playbooks/minimal.json", True),
        ("playbook-check", ".playbooks/config.yaml", True),
        ("playbook-check", ".playbooks/policies/team.yaml", True),
        ("playbook-check", ".playbooks/playbooks/auto-feature.yaml.new", False),
        ("playbook-check", ".playbooks/sessions/20260219-a7k/playbook.yaml", False),
        ("playbook-check", "docs/.playbooks/config.yaml", False),
        ("playbook-index", ".playbooks/playbooks/auto-feature.yaml", True),
        ("playbook-index", ".playbooks/_index.yaml", True),
        ("playbook-index", ".playbooks/config.yaml", False),
    ],
)
def test_a_hook_is_asked_about_its_own_files_only(hook: str, path: str, wanted: bool) -> None:
    manifest = yaml.safe_load((REPOSITORY / ".pre-commit-hooks.yaml").read_text("utf-8"))
    (found,) = [each for each in manifest if each["id"] == hook]
    assert bool(re.search(found["files"], path)) == wanted


@pytest.mark.long
@pytest.mark.usefixtures("wheelhouse")
def test_try_repo_passes_a_good_project(hooks: Project, project: Project, tmp_path: Path) -> None:
    project.playbook("index")
    project.commit("Index")
    argv = ("try-repo", str(hooks.root), "--all-files")
    code, said = pre_commit(project, tmp_path / "store", *argv)
    assert code == 0, said
    verdicts = [line for line in said.splitlines() if line.endswith("Passed")]
    assert [line.partition("..")[0] for line in verdicts] == [
        "check playbooks",
        "check the index of playbooks",
    ]


def test_a_commit_with_a_broken_playbook_is_refused_with_the_places(
    hooks: Project, project: Project, tmp_path: Path
) -> None:
    """Installed as the guide says: the commit fails, is corrected, and succeeds.

    The hooks run the program under test. The test above shows that pre-commit can build it.
    """
    settings = yaml.safe_load(in_guide("repos:\n  - repo: https:"))
    (ours,) = settings["repos"]
    assert ours["rev"] == "COMMIT"
    ours |= {"repo": str(hooks.root), "rev": hooks.git("rev-parse", "HEAD")}
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "playbook").write_text(
        f'#!/bin/sh\nexec "{sys.executable}" -m playbook_supervisor "$@"\n'
    )
    (tools / "playbook").chmod(0o755)
    project.env["PATH"] = f"{tools}{os.pathsep}{os.environ['PATH']}"
    for hook in ours["hooks"]:
        hook["language"] = "system"
    project.write(".pre-commit-config.yaml", yaml.safe_dump(settings))
    project.playbook("index")
    project.commit("Use our hooks")
    store = tmp_path / "store"
    code, said = pre_commit(project, store, "install")
    assert code == 0, said

    good = project.read(VALIDATE)
    project.write(VALIDATE, good.replace("error_policy: stop", "error_policy: stopp"))
    code, said = commit(project, store)
    assert code == 1
    assert alike(in_guide("check playbooks.."), told(said)), told(said)

    project.write(VALIDATE, good.replace("name: auto-validate", "name: auto-qa"))
    code, said = commit(project, store)
    assert code == 1
    assert ".playbooks/_index.yaml does not match the files in .playbooks/playbooks/" in said
    project.playbook("index")
    code, said = commit(project, store)
    assert code == 0, said
    assert project.git("log", "-1", "--format=%s") == "Change"


def in_guide(beginning: str) -> str:
    """The block of the guide that begins like that."""
    found = (block.text for block in blocks(GUIDE.read_text("utf-8")))
    (one,) = [text for text in found if text.startswith(beginning)]
    return one


def told(said: str) -> str:
    """What the first hook says, without what pre-commit says of its own installation."""
    return said[said.index("check playbooks") : said.index("check the index")].rstrip("\n") + "\n"


def commit(project: Project, store: Path) -> tuple[int, str]:
    """`git commit` of everything, with its hooks."""
    project.git("add", "--all")
    return run(project, store, "git", "commit", "-q", "-m", "Change")
