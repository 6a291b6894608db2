"""What is built is what was written: every template and schema arrives, and the program runs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent
INGREDIENTS = (
    "pyproject.toml",
    "hatch_build.py",
    "README.md",
    "LICENSE",
    "CHANGELOG.md",
    "playbook_supervisor",
    "templates",
)
FORGE = {
    "GITHUB_SERVER_URL": "https://forge.example",
    "GITHUB_REPOSITORY": "us/playbook",
    "GITHUB_REF_NAME": "v1",
}
IGNORED = shutil.ignore_patterns("__pycache__", "*.pyc", ".*_cache", "playbook_validator.py")


def finished(*argv: str | Path, **more: object) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, **more)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stdout + done.stderr
    return str(done.stdout)


def relative_files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy without git, so that nothing in the checkout changes and nothing is ignored."""
    source = tmp_path_factory.mktemp("source")
    for name in INGREDIENTS:
        origin = REPOSITORY / name
        if origin.is_dir():
            shutil.copytree(origin, source / name, ignore=IGNORED)
        else:
            shutil.copy(origin, source / name)
    return source


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as a release is: the sdist first, and the wheel out of the sdist alone."""
    dist = tmp_path_factory.mktemp("dist")
    argv = (sys.executable, "-m", "build", "--no-isolation", "--outdir", dist, source)
    finished(*argv, env=os.environ | FORGE)
    assert len(list(dist.glob("*.tar.gz"))) == 1
    (built,) = dist.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def contents(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("contents")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def test_every_template_is_in_the_wheel_byte_for_byte(source: Path, contents: Path) -> None:
    templates, shipped = source / "templates", contents / "playbook_supervisor/_templates"
    assert "playbooks/auto-feature.yaml" in relative_files(templates)
    assert relative_files(shipped) == relative_files(templates)
    for name in relative_files(templates):
        assert (shipped / name).read_bytes() == (templates / name).read_bytes(), name


def test_the_package_names_the_repository_whose_workflow_built_it(contents: Path) -> None:
    (metadata,) = contents.glob("*.dist-info/METADATA")
    addresses = re.findall(r"^Project-URL: (.+)$", metadata.read_text("utf-8"), re.MULTILINE)
    assert "Homepage, https://forge.example/us/playbook" in addresses
    assert len(addresses) == 4


def test_the_readme_of_the_package_leads_to_the_files_of_its_release(contents: Path) -> None:
    (metadata,) = contents.glob("*.dist-info/METADATA")
    readme = metadata.read_text("utf-8")
    assert "(https://forge.example/us/playbook/blob/v1/docs/README.md)" in readme
    assert "(https://forge.example/us/playbook/raw/v1/docs/demo.svg)" in readme
    assert not re.findall(r"(?:\]\(|src=\")(?!https://)(.*?)[)\"]", readme)


def test_executable_files_stay_executable(source: Path, wheel: Path) -> None:
    templates = source / "templates"
    programs = {name for name in relative_files(templates) if os.access(templates / name, os.X_OK)}
    with zipfile.ZipFile(wheel) as archive:
        arrived = {
            entry.filename.removeprefix("playbook_supervisor/_templates/")
            for entry in archive.infolist()
            if entry.external_attr >> 16 & 0o111
        }
    assert arrived == programs


def test_every_file_of_the_package_is_in_the_wheel(source: Path, contents: Path) -> None:
    package, shipped = source / "playbook_supervisor", contents / "playbook_supervisor"
    assert "project/schemas/written/playbook.json" in relative_files(package)
    arrived = {name for name in relative_files(shipped) if not name.startswith("_templates/")}
    made = {"project/schemas/playbook_validator.py"}
    assert arrived == relative_files(package) | made


def test_a_wheel_built_straight_from_the_checkout_is_the_same(
    source: Path, wheel: Path, tmp_path: Path
) -> None:
    argv = (
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        tmp_path,
        source,
    )
    finished(*argv, env=os.environ | FORGE)
    (straight,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(straight) as here, zipfile.ZipFile(wheel) as there:
        assert {(i.filename, i.CRC) for i in here.infolist()} == {
            (i.filename, i.CRC) for i in there.infolist()
        }


def installed(*wheels: Path, into: Path) -> dict[str, str]:
    """An environment with these wheels; variables for its programs.

    The dependencies are borrowed from ours; a path, unlike a site, reads no .pth file, so the
    checkout stays invisible.
    """
    venv.create(into, with_pip=False)
    pip = (sys.executable, "-m", "pip", "--python", into / "bin/python")
    quietly = ("install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-index")
    finished(*pip, *quietly, *wheels)
    return {"PYTHONPATH": sysconfig.get_path("purelib"), "PATH": "/usr/bin:/bin"}


ADVICE = "from playbook_supervisor.system.installation import command_for as c; print(c('fleet'))"


def advised(env: Path, folder: Path) -> str:
    """What this environment's program says about a missing extra, without the paths of the test."""
    said = finished(env / "bin/python", "-c", ADVICE, cwd=folder, env={"PATH": "/usr/bin:/bin"})
    return said.strip().replace(str(env / "bin/python"), "PYTHON")


@pytest.mark.long
def test_what_is_installed_runs_without_the_checkout(wheel: Path, tmp_path: Path) -> None:
    fresh = tmp_path / "venv"
    python = fresh / "bin/python"
    borrowed = installed(wheel, into=fresh)
    where = "import playbook_supervisor as p; print(p.__file__)"
    assert finished(python, "-c", where, cwd=tmp_path, env=borrowed).startswith(str(fresh))
    said = finished(fresh / "bin/playbook", "--version", cwd=tmp_path, env=borrowed)
    assert wheel.name.split("-")[1] in said
    named = f"'playbook-supervisor[fleet] @ file://{wheel}'"
    assert advised(fresh, tmp_path) == f"PYTHON -m pip install {named}"
    home = borrowed | {"HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    shown = finished(fresh / "bin/playbook-supervisor", "demo", cwd=tmp_path, env=home)
    assert re.search(r"^\w+ Record session \S+: completed$", shown, re.MULTILINE)


def test_a_missing_extra_of_a_checkout_comes_from_the_checkout(
    source: Path, tmp_path: Path
) -> None:
    uv = shutil.which("uv")
    if uv is None:
        pytest.skip("uv is not installed")
    fresh = tmp_path / "venv"
    venv.create(fresh, with_pip=False)
    env = os.environ | {"PYTHONPATH": sysconfig.get_path("purelib")}
    how = ("--quiet", "--offline", "--no-deps", "--no-build-isolation", "--python", fresh)
    finished(uv, "pip", "install", *how, source, env=env)
    assert advised(fresh, tmp_path) == f"uv pip install --python PYTHON '{source}[fleet]'"


def test_a_source_tree_that_was_never_built_judges_playbooks_the_same(tmp_path: Path) -> None:
    tree, project = tmp_path / "tree", tmp_path / "project"
    for name in ("playbook_supervisor", "templates"):
        shutil.copytree(REPOSITORY / name, tree / name, ignore=IGNORED)
    assert not list(tree.rglob("playbook_validator.py"))
    finished("git", "init", "-q", project)
    (project / "good.yaml").write_text(PLAYBOOK.replace("shout", "cli").replace(MARKED, ""))
    (project / "bad.yaml").write_text(PLAYBOOK.replace("autonomy: auto", "autonomy: often"))

    def judged(source: Path, name: str) -> tuple[int, bytes]:
        argv = (sys.executable, "-m", "playbook_supervisor", "check", name)
        env = {"PYTHONPATH": str(source), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
        done = subprocess.run(argv, cwd=project, env=env, capture_output=True)
        return done.returncode, done.stdout

    for name, code in (("good.yaml", 0), ("bad.yaml", 1)):
        assert judged(tree, name) == judged(REPOSITORY, name)
        assert judged(tree, name)[0] == code


# ── a third party's executor ────────────────────────────────────────────────────────────────

SHOUT = '''\
"""`shout WORDS`: print the words in capitals."""

from playbook_supervisor.executors.protocol import failed
from playbook_supervisor.kernel.directives import Outcome


class Shout:
    namespace = "shout"
    with_schema = {
        "type": "object",
        "properties": {"mark": {"type": "string"}},
        "additionalProperties": False,
    }

    def execute(self, task, context):
        if not task.words:
            return failed("PB-STEP-FAILED", "there is nothing to shout")
        mark = task.options.get("mark", "!")
        done = context.run(["echo", " ".join(task.words).upper() + mark])
        return Outcome(output=done.stdout)
'''
PROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "playbook-shout"
version = "1.0"

[project.entry-points."playbook_supervisor.executors"]
shout = "playbook_shout:Shout"

[tool.hatch.build.targets.wheel]
include = ["playbook_shout.py"]
"""
CONFORMS = """\
import tempfile
from pathlib import Path
from playbook_shout import Shout
from playbook_supervisor.executors.protocol import Task
from playbook_supervisor.testing import EXECUTOR_CHECKS, ExecutorTrial

trial = ExecutorTrial(
    works=Task(directive="say#1", namespace="shout", words=("hello",)),
    fails=Task(directive="say#1", namespace="shout"),
)
for check in EXECUTOR_CHECKS:
    check(Shout(), trial, Path(tempfile.mkdtemp()))
print("conforms")
"""
MARKED = 'with: {mark: "?"}, '
PLAYBOOK = """\
name: say
description: Say something loudly
version: "1.1"
args: [{name: what, description: What to say, required: true}]
steps:
  - {id: say, command: "shout {{what}}", with: {mark: "?"}, autonomy: auto, error_policy: stop}
"""


@pytest.mark.long
def test_an_executor_of_a_third_party_is_installed_and_used(wheel: Path, tmp_path: Path) -> None:
    """cat FR-4.10, NFR-6.1; own L-8: from a wheel of its own, with nothing changed here."""
    theirs, fresh, project = tmp_path / "theirs", tmp_path / "venv", tmp_path / "project"
    theirs.mkdir()
    (theirs / "playbook_shout.py").write_text(SHOUT)
    (theirs / "pyproject.toml").write_text(PROJECT)
    built = (sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path)
    finished(*built, theirs)
    (shout,) = tmp_path.glob("playbook_shout-*.whl")
    env = installed(wheel, shout, into=fresh) | {"HOME": str(tmp_path)}
    assert finished(fresh / "bin/python", "-c", CONFORMS, cwd=tmp_path, env=env) == "conforms\n"

    file = project / ".playbooks/playbooks/say.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(PLAYBOOK)
    finished("git", "init", "-q", project)
    playbook = fresh / "bin/playbook"
    finished(playbook, "check", "--strict", file, cwd=project, env=env)
    finished(playbook, "run", "say", "hello world", cwd=project, env=env)
    assert "output: HELLO WORLD?" in finished(playbook, "show", cwd=project, env=env)

    file.write_text(PLAYBOOK.replace("mark", "marks"))
    faulty = subprocess.run([playbook, "check", file], cwd=project, env=env, capture_output=True)
    assert b"`with` of the shout step: no key " in faulty.stdout
