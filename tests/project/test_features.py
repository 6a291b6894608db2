"""Which feature is meant, and telling spec-kit the same."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from support.scratch_project import Project

from playbook_supervisor.errors import ArgumentError, StateError, StorageError
from playbook_supervisor.project.conditions.features import (
    Feature,
    current,
    point_speckit,
    resolve,
)
from playbook_supervisor.project.settings.config import Config

CONFIG = Config()


def nobody_asks() -> Sequence[str]:
    raise AssertionError("branches are asked only where the folders do not tell")


def branches(*names: str) -> Callable[[], Sequence[str]]:
    return lambda: names


def folders(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path).mkdir(parents=True)


# ── what is meant ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "typed", ["013", "013-create", "specs/013-create", "specs/013-create/", "013/", " 013 "]
)
def test_every_form_of_a_feature_means_its_folder(tmp_path: Path, typed: str) -> None:
    folders(tmp_path, "specs/013-create", "specs/014-other", "specs/0130-third")
    assert resolve(tmp_path, typed, CONFIG, nobody_asks) == Feature("013-create")


def test_a_matching_folder_with_an_invalid_name_is_refused(tmp_path: Path) -> None:
    """Else the session would work in a folder of its own beside the one that is meant."""
    folders(tmp_path, "specs/013-größe", "specs/014-other")
    with pytest.raises(ArgumentError, match="'013-größe' is not a valid feature name"):
        resolve(tmp_path, "013", CONFIG, branches())
    assert resolve(tmp_path, "014", CONFIG, nobody_asks) == Feature("014-other")


@pytest.mark.parametrize("place", [".agreements/013-create", ".qa/013-create"])
def test_without_a_spec_other_folders_are_searched(tmp_path: Path, place: str) -> None:
    folders(tmp_path, "specs/014-other", place)
    assert resolve(tmp_path, "013", CONFIG, branches()) == Feature("013-create")
    assert resolve(tmp_path, "013-create", CONFIG, branches()) == Feature("013-create")


def test_without_a_folder_feature_files_and_branches_are_searched(tmp_path: Path) -> None:
    (tmp_path / ".features").mkdir()
    (tmp_path / ".features/013-create.yaml").write_text("")
    (tmp_path / ".features/014-notes.txt").write_text("")
    assert resolve(tmp_path, "013", CONFIG, branches("main")) == Feature("013-create")
    assert resolve(tmp_path, "016", CONFIG, branches("main", "016-x")) == Feature("016-x")
    assert resolve(tmp_path, "014", CONFIG, branches()).name == "014"


def test_several_candidates_are_listed_and_none_is_chosen(tmp_path: Path) -> None:
    folders(tmp_path, "specs/013-b", "specs/013-a")
    with pytest.raises(ArgumentError) as caught:
        resolve(tmp_path, "013", CONFIG, nobody_asks)
    assert caught.value.code == "PB-ARG-FEATURE"
    assert caught.value.message == "013 is ambiguous: 013-a, 013-b"
    assert caught.value.guidance == "Give the full name, as in `013-a`."


@pytest.mark.parametrize("typed", ["13", "013-craete", "0013"])
def test_an_unknown_feature_is_kept_with_a_warning_that_names_a_near_one(
    tmp_path: Path, typed: str
) -> None:
    folders(tmp_path, "specs/013-create", "specs/900-far-away", "specs/none")
    assert resolve(tmp_path, typed, CONFIG, branches()) == Feature(
        typed, f"no folder, feature file or branch is named {typed} yet; did you mean 013-create?"
    )


@pytest.mark.parametrize(
    "hostile",
    [
        *("", "/", ".", "..", "../x", "/etc/passwd", "-x", "--help", "a/b", "specs/a/b", "a..b"),
        *(".git", "a b", "a\nb", "a\x00b", "\x1b[2J", "é", "a;b", "$(x)", "{{x}}", "a" * 201, "~"),
    ],
)
def test_an_invalid_name_is_refused_before_anything_is_read(tmp_path: Path, hostile: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        resolve(tmp_path, hostile, CONFIG, nobody_asks)
    assert caught.value.code == "PB-ARG-FEATURE"
    assert "\x1b" not in caught.value.message


@pytest.fixture
def speckit_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of spec-kit with two features."""
    for name in ("SPECIFY_FEATURE", "SPECIFY_FEATURE_DIRECTORY"):
        monkeypatch.delenv(name, raising=False)
    folders(tmp_path, ".specify", "specs/1000-big", "specs/013-create")
    return tmp_path


@pytest.mark.parametrize(
    ("branch", "feature"),
    [
        ("feature/1000-big", "1000-big"),
        ("feat/20260219-101500-new", "20260219-101500-new"),
        ("feature/1001-new", "1001-new"),
        ("feature/1000-big-20260219-a7k", "1000-big"),
        ("a//b", ""),
    ],
)
def test_the_last_part_of_a_branch_is_the_feature(
    speckit_root: Path, branch: str, feature: str
) -> None:
    assert current(speckit_root, branch, CONFIG) == Feature(feature)


@pytest.mark.parametrize(
    "spelling", ["specs/013-create", "./specs/013-create/", "{root}/specs/013-create"]
)
def test_what_spec_kit_points_to_is_the_feature(speckit_root: Path, spelling: str) -> None:
    text = json.dumps({"feature_directory": spelling.format(root=speckit_root)})
    (speckit_root / ".specify/feature.json").write_text(text)
    assert current(speckit_root, "main", CONFIG) == Feature("013-create")
    assert current(speckit_root, "feature/1000-big", CONFIG) == Feature(
        "013-create", "spec-kit's feature is 013-create, not that of the branch, 1000-big"
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        '{"feature_directory": "specs/gone"}',
        '{"feature_directory": "/etc"}',
        '{"feature_directory": "specs/../.."}',
    ],
)
def test_a_pointer_that_names_no_folder_of_specs_does_not_count(
    speckit_root: Path, text: str
) -> None:
    (speckit_root / ".specify/feature.json").write_text(text)
    assert current(speckit_root, "feature/1000-big", CONFIG) == Feature("1000-big")


def test_spec_kits_variables_count_in_its_own_order(
    speckit_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECIFY_FEATURE", "feature/013-create")
    assert current(speckit_root, "main", CONFIG).name == "013-create"
    pointer = '{"feature_directory": "specs/1000-big"}'
    (speckit_root / ".specify/feature.json").write_text(pointer)
    assert current(speckit_root, "main", CONFIG).name == "1000-big"
    monkeypatch.setenv("SPECIFY_FEATURE_DIRECTORY", "specs/013-create")
    assert current(speckit_root, "main", CONFIG).name == "013-create"
    monkeypatch.setenv("SPECIFY_FEATURE_DIRECTORY", "elsewhere/013-create")
    assert current(speckit_root, "main", CONFIG).name == "1000-big"


COMMON = "spec-kit/lib/python3*/site-packages/specify_cli/core_pack/scripts/bash/common.sh"


@pytest.mark.long
@pytest.mark.parametrize("variable", ["", "specs/013-create", "{root}/specs/013-create"])
@pytest.mark.parametrize("pointer", ["specs/1000-big", "./specs/013-create/"])
def test_spec_kits_own_script_finds_the_same(
    speckit_root: Path, monkeypatch: pytest.MonkeyPatch, variable: str, pointer: str
) -> None:
    scripts = list(Path(sys.prefix).glob(COMMON))
    if not scripts:
        pytest.skip("spec-kit is missing: `make .venv/spec-kit`")
    text = json.dumps({"feature_directory": pointer})
    (speckit_root / ".specify/feature.json").write_text(text)
    if variable:
        named = variable.format(root=speckit_root)
        monkeypatch.setenv("SPECIFY_FEATURE_DIRECTORY", named)
    asks = '. "$0"; eval "$(get_feature_paths --no-persist)"; cd "$FEATURE_DIR" && basename "$PWD"'
    theirs = subprocess.run(
        ["bash", "-c", asks, str(scripts[0])],
        cwd=speckit_root,
        capture_output=True,
        text=True,
        check=True,
    )
    assert current(speckit_root, "feature/1000-big", CONFIG).name == theirs.stdout.strip()


# ── telling spec-kit ────────────────────────────────────────────────────────────────────────

VARIABLES = {"SPECIFY_FEATURE": "013-a", "SPECIFY_FEATURE_DIRECTORY": "specs/013-a"}
NEW = 'json="$root/.specify/feature.json"; ${SPECIFY_FEATURE_DIRECTORY:-}\n'
BY_VARIABLE = "if [ -n $SPECIFY_FEATURE ]; find_feature_dir_by_prefix\n"
BY_BRANCH = "git rev-parse --abbrev-ref HEAD\n"


def speckit(project: Project, script: str) -> None:
    project.write(".specify/scripts/bash/common.sh", script)


def pointer(project: Project) -> object:
    return json.loads(project.read(".specify/feature.json"))


@pytest.mark.parametrize("script", ["scripts/bash/common.sh", "scripts/powershell/common.ps1"])
def test_a_spec_kit_that_keeps_a_pointer_is_given_one(project: Project, script: str) -> None:
    project.write(f".specify/{script}", NEW)
    assert point_speckit(project.root, "013-a", CONFIG) == VARIABLES
    assert pointer(project) == {"feature_directory": "specs/013-a"}


def test_an_existing_pointer_is_updated_and_its_other_keys_are_kept(project: Project) -> None:
    project.write(".specify/feature.json", '{"note": "é", "feature_directory": "specs/014-b"}')
    point_speckit(project.root, "013-a", Config(specs="docs"))
    assert pointer(project) == {"note": "é", "feature_directory": "docs/013-a"}


@pytest.mark.parametrize("spelling", ["specs/013-a", "./specs/013-a/", "{root}/specs/013-a"])
def test_a_right_pointer_is_left_alone(project: Project, spelling: str) -> None:
    text = json.dumps({"feature_directory": spelling.format(root=project.root)})
    file = project.write(".specify/feature.json", text)
    before = file.stat()
    assert point_speckit(project.root, "013-a", CONFIG) == VARIABLES
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.parametrize("text", ["", "{", "[]", '"specs/013-a"', "null", "[" * 100_000])
def test_a_pointer_that_is_not_an_object_is_refused_and_kept(project: Project, text: str) -> None:
    project.write(".specify/feature.json", text)
    with pytest.raises(StateError) as caught:
        point_speckit(project.root, "013-a", CONFIG)
    assert caught.value.code == "PB-STATE-SPECKIT"
    assert project.read(".specify/feature.json") == text


def test_a_pointer_that_leads_out_of_the_repository_is_refused(
    project: Project, tmp_path: Path
) -> None:
    outside = tmp_path / "outside.json"
    outside.write_text("{}")
    speckit(project, NEW)
    (project.root / ".specify/feature.json").symlink_to(outside)
    with pytest.raises(StorageError) as caught:
        point_speckit(project.root, "013-a", CONFIG)
    assert caught.value.code == "PB-IO-ESCAPE"
    assert outside.read_text() == "{}"


def test_an_older_spec_kit_goes_by_the_variable_on_any_branch(project: Project) -> None:
    speckit(project, BY_VARIABLE)
    project.git("switch", "-q", "-c", "999-elsewhere")
    assert point_speckit(project.root, "013-a", CONFIG) == VARIABLES
    assert not (project.root / ".specify/feature.json").exists()


@pytest.mark.parametrize(("script", "exported"), [(BY_VARIABLE, False), (BY_BRANCH, True)])
def test_if_only_the_branch_is_read_a_wrong_branch_is_refused(
    project: Project, script: str, exported: bool
) -> None:
    speckit(project, script)
    project.git("switch", "-q", "-c", "999-elsewhere")
    with pytest.raises(StateError) as caught:
        point_speckit(project.root, "013-a", CONFIG, exported=exported)
    assert caught.value.code == "PB-STATE-SPECKIT"
    assert "the branch is 999-elsewhere, not 013-a" in caught.value.message
    assert caught.value.guidance == ("Switch to it: git switch 013-a (with -c to create it)")


def test_a_prefix_of_the_branch_counts_where_that_spec_kit_strips_it(project: Project) -> None:
    project.git("switch", "-q", "-c", "feature/013-a")
    speckit(project, BY_BRANCH)
    with pytest.raises(StateError):
        point_speckit(project.root, "013-a", CONFIG)
    speckit(project, BY_BRANCH + 'spec_kit_effective_branch_name "$branch"\n')
    assert point_speckit(project.root, "013-a", CONFIG) == VARIABLES


def test_a_spec_kit_that_goes_by_number_takes_a_branch_of_that_number(project: Project) -> None:
    project.git("switch", "-q", "-c", "013-fix")
    speckit(project, BY_VARIABLE)
    assert point_speckit(project.root, "013-a", CONFIG, exported=False) == VARIABLES
    speckit(project, BY_BRANCH)
    with pytest.raises(StateError):
        point_speckit(project.root, "013-a", CONFIG, exported=False)
