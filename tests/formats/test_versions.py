"""Format versions: a newer one is refused, every old one can be read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.scratch_project import Project

from playbook_supervisor.commands import repair
from playbook_supervisor.commands.views import session_diff
from playbook_supervisor.errors import CheckError, StateError
from playbook_supervisor.formats import versions
from playbook_supervisor.project.install_record import read_installation
from playbook_supervisor.project.playbooks import library
from playbook_supervisor.project.playbooks.schema import examine
from playbook_supervisor.project.settings import config
from playbook_supervisor.sessions.files.journal import parse_journal
from playbook_supervisor.sessions.files.local_state import Runtime
from playbook_supervisor.sessions.files.manifest import read_manifest
from playbook_supervisor.sessions.store.disk_store import DiskStore
from playbook_supervisor.system.disk.ab_file import ABFile
from playbook_supervisor.system.git.checkout import find

MANIFEST = (
    'session_id: 20260219-a7k\nplaybook: x\nstatus: pending\nstarted_at: "1970-01-01T00:00Z"\n'
)
ENTRY = "- {step_id: a, status: done, decision: auto, started_at: 1970-01-01T00:00Z}\n"


def of_install(root: Path, text: str) -> object:
    write(root, ".playbooks/install.yaml", text)
    return read_installation(root).version


def of_config(root: Path, text: str) -> object:
    write(root, ".playbooks/config.yaml", text)
    return config.load(root).agent


def of_session(root: Path, text: str) -> object:
    return read_manifest(text.encode(), "session.yaml").playbook


def of_journal(root: Path, text: str) -> object:
    return parse_journal(text.encode(), "journal.yaml").entries[0].step_id


def of_runtime(root: Path, text: str) -> object:
    place = ABFile(root / "runtime")
    Runtime().save(place)
    data = json.loads(place.read() or b"") | json.loads(text)
    place.write(json.dumps(data).encode())
    runtime = Runtime.load(place)
    assert runtime is not None
    return runtime.manifest["driver"]["agent"]


def of_index(root: Path, text: str) -> object:
    write(root, ".playbooks/_index.yaml", text)
    return library.index_is_stale(root)


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


Reader = Callable[[Path, str], object]


@pytest.mark.parametrize(
    ("read", "text", "where"),
    [
        (of_install, "schema: 2\nnew: {}\n", ".playbooks/install.yaml:1:9"),
        (of_config, "new: 1\nschema: 2\n", ".playbooks/config.yaml:2:9"),
        (of_session, f"{MANIFEST}schema: 2\n", "session.yaml:5:9"),
        (of_journal, "schema: 3\nentries: []\n", "journal.yaml:1:9"),
        (of_runtime, '{"format": 2, "new": 1}', "runtime"),
        (of_index, "# Generated\nschema: 2\nnew: []\n", ".playbooks/_index.yaml"),
    ],
)
def test_a_newer_version_is_refused_with_guidance(
    read: Reader, text: str, where: str, tmp_path: Path
) -> None:
    with pytest.raises(StateError, match="was made by a newer playbook") as caught:
        read(tmp_path, text)
    assert caught.value.code == "PB-STATE-NEWER"
    assert caught.value.where.endswith(where)
    assert caught.value.guidance == "Upgrade playbook: `uv tool upgrade playbook-supervisor`."


def renamed(data: Any) -> Any:
    """A migration that renames keys."""
    names = {"by": "version", "worker": "agent", "plays": "playbook", "attempts": "entries"}
    return {names.get(key, key): value for key, value in data.items()}


@pytest.mark.parametrize(
    ("kind", "read", "text", "found"),
    [
        ("install.yaml", of_install, "schema: 1\nby: 0.1.0\n", "0.1.0"),
        ("config.yaml", of_config, "schema: 1\nworker: codex\n", "codex"),
        ("session.yaml", of_session, MANIFEST.replace("playbook", "plays"), "x"),
        ("journal.yaml", of_journal, f"schema: 1\nattempts:\n{ENTRY}", "a"),
        ("runtime", of_runtime, '{"format": 1, "worker": "codex", "mode": "manual"}', "codex"),
    ],
)
def test_an_old_version_is_migrated_in_memory(
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    read: Reader,
    text: str,
    found: object,
    tmp_path: Path,
) -> None:
    """With versions 2 and 3, as they will exist one day."""
    monkeypatch.setitem(versions.NEWEST, kind, 3)
    monkeypatch.setitem(versions.MIGRATIONS, (kind, 1), renamed)
    monkeypatch.setitem(versions.MIGRATIONS, (kind, 2), dict)
    if kind == "journal.yaml":
        text = text.replace("attempts", "entries")  # its position is looked up
    assert read(tmp_path, text) == found


@pytest.mark.parametrize("number", ['"1"', "0", "one", "", "[1]", "1.0", "true"])
def test_an_invalid_version_is_a_problem_of_the_settings(number: str, tmp_path: Path) -> None:
    with pytest.raises(CheckError, match="schema: must be a whole number") as caught:
        of_config(tmp_path, f"schema: {number}\n")
    assert caught.value.code == "PB-CHECK-CONFIG"


def test_the_present_version_is_accepted_in_the_settings(tmp_path: Path) -> None:
    assert of_config(tmp_path, "schema: 1\nagent: codex\n") == "codex"


def test_every_old_version_has_a_migration() -> None:
    """A new version needs a migration from the one before (cat NFR-6.3)."""
    steps = {(kind, n) for kind, newest in versions.NEWEST.items() for n in range(1, newest)}
    assert set(versions.MIGRATIONS) == steps


def test_a_playbook_has_its_authors_version_and_is_read_by_the_newest_rules() -> None:
    text = (Path(__file__).parents[1] / "playbooks/auto-feature.yaml").read_bytes()
    playbook, problems, _ = examine(text.replace(b'version: "1.0"', b'version: "9.0"'), "x.yaml")
    assert playbook is not None
    assert [each.code for each in problems] == ["PB-CHECK-VERSION"]


class TestASessionOfANewerPlaybook:
    @pytest.fixture
    def session(self, project: Project) -> Path:
        folder = project.root / ".playbooks/sessions/20260219-a7k"
        write(folder, "session.yaml", f"schema: 2\n{MANIFEST}")
        write(folder, "journal.yaml", "schema: 2\nentries: []\n")
        return folder

    def test_is_reported(self, project: Project, session: Path) -> None:
        done = project.playbook("show", "20260219-a7k")
        assert done.code == 3
        assert "was made by a newer playbook" in done.err
        assert "upgrade this one" in done.err

    def test_is_not_repaired(self, project: Project, session: Path) -> None:
        before = {file.name: file.read_bytes() for file in session.iterdir()}
        assert session_diff.differences(DiskStore(find(project.root)), session.name) == ()
        with pytest.raises(StateError) as caught:
            repair.repair(session.name, cwd=project.root)
        assert caught.value.code == "PB-STATE-NEWER"
        assert "uv tool upgrade" in caught.value.guidance
        assert {file.name: file.read_bytes() for file in session.iterdir()} == before
