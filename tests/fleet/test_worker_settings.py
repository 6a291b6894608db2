"""What a worker of this machine may run: `worker.yaml`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft7Validator
from support.scratch_project import Project, without_bubblewrap

from playbook_supervisor.errors import FleetError, PolicyError
from playbook_supervisor.fleet import worker_settings
from playbook_supervisor.fleet.worker_settings import WorkerSettings, isolated, load
from playbook_supervisor.project.playbooks.schema import schema_text

_OF_A = "environment.https://a.org/*"


def write(text: str) -> Path:
    file = worker_settings.path()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, "utf-8")
    return file


@pytest.fixture(autouse=True)
def own_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def test_without_a_file_the_defaults_apply() -> None:
    assert load() == WorkerSettings()
    assert load().admits("https://github.com/acme/site")
    assert load().admits_agent("exec")


def test_every_key_is_read() -> None:
    text = (
        "repositories: [https://github.com/acme/*]\ntransports: [ssh, file]\nagents: [script]\n"
        "max_cost_usd: 2.5\npools: [default, gpu-2]\nslots: 4\nlease: 8\n"
        "isolation: required\nenvironment: {https://github.com/acme/site: [SITE_TOKEN]}\n"
    )
    assert schema_allows(text)
    assert [*yaml.safe_load(text)] == [*json.loads(schema_text("worker"))["properties"]]
    write(text)
    assert load(shared=True) == WorkerSettings(
        repositories=("https://github.com/acme/*",),
        transports=("ssh", "file"),
        agents=("script",),
        max_cost_usd=2.5,
        pools=("default", "gpu-2"),
        slots=4,
        lease=8,
        isolation="required",
        environment={"https://github.com/acme/site": ("SITE_TOKEN",)},
    )
    assert load().admits_agent("script")
    assert not load().admits_agent("claude")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("slot: 2", "slot: unknown key"),
        ("slots: 0", "slots: must be a whole number above 0, without quotes"),
        ("slots: 1.5", "slots: must be a whole number above 0, without quotes"),
        ("slots: 2000", "slots: must be at most 1000"),
        ("lease: 0.01", "lease: must be at least a second"),
        ("max_cost_usd: -1", "max_cost_usd: must be an amount above 0, without quotes"),
        ("transports: [ext]", "transports: `ext` is none of https, ssh, file"),
        ("pools: [GPU]", "pools: `GPU` is not a pool: a-z, 0-9 and -, at most 32"),
        ("pools: []", "pools: must name at least one"),
        ("agents: [/bin/sh]", "agents: `/bin/sh` is not a kind of agent, such as claude or exec"),
        ("repositories: ['*']", "repositories: `*` begins with no transport"),
        ("environment: {'*': [A]}", "environment.*: begins with no transport"),
        (
            "environment: {'https://a.org/*': [A-B]}",
            f"{_OF_A}: `A-B` is not the name of a variable",
        ),
        ("environment: {'https://a.org/*': []}", f"{_OF_A}: must name at least one"),
        ("repositories: all", "repositories: must be a list of strings (`[]` for none)"),
    ],
)
def test_a_mistake_is_named_with_its_place(text: str, said: str) -> None:
    file = write(f"{text}\n")
    with pytest.raises(FleetError) as caught:
        load()
    assert (caught.value.code, caught.value.message) == ("PB-FLEET-SETTINGS", said)
    assert caught.value.where.startswith(f"{file}:1:")
    assert caught.value.guidance
    allowed = schema_allows(text)
    assert allowed == text.startswith(("repositories: [", "environment: {'*'"))  # of globs


def schema_allows(text: str) -> bool:
    schema = json.loads(schema_text("worker"))
    return Draft7Validator(schema).is_valid(yaml.safe_load(text))


def test_all_mistakes_are_listed_and_broken_yaml_is_one() -> None:
    write("slot: 2\nlease: no\n")
    with pytest.raises(FleetError, match=r"slot: unknown key \(and 1 more\)") as caught:
        load()
    assert len(caught.value.details) == 2
    write("slots: [\n")
    with pytest.raises(FleetError) as broken:
        load()
    assert broken.value.code == "PB-FLEET-SETTINGS"
    assert broken.value.position


def test_a_shared_database_needs_the_repositories() -> None:
    with pytest.raises(FleetError, match="`repositories` does not say") as caught:
        load(shared=True)
    assert caught.value.where == str(worker_settings.path())


@pytest.mark.parametrize(
    ("pattern", "url", "admitted"),
    [
        ("https://github.com/acme/*", "https://github.com/acme/site", True),
        ("https://github.com/acme/*", "https://github.com/acme/site.git/", True),
        ("https://github.com/acme/*", "https://github.com/acme/group/site", False),
        ("https://gitlab.com/acme/**", "https://gitlab.com/acme/group/site", True),
        ("https://github.com/acme/*", "ssh://github.com/acme/site", False),
        ("https://*.acme.org/**", "https://git.acme.org/site", True),
        ("https://*.acme.org/**", "https://evil.org/.acme.org/site", False),
        ("ssh://git@github.com/acme/*", "git@github.com:acme/site", True),
        ("git@github.com:acme/*", "ssh://git@github.com/acme/site", True),
        ("git@github.com:acme/*", "root@github.com:acme/site", False),
        ("file:///srv/git/*", "file:///srv/git/site", True),
        ("file:///srv/git/*", "file:///etc/site", False),
    ],
)
def test_a_glob_admits_only_the_repositories_that_it_means(
    pattern: str, url: str, *, admitted: bool
) -> None:
    assert WorkerSettings(repositories=(pattern,)).admits(url) is admitted


def test_workers_of_a_shared_database_isolate_unless_told_otherwise() -> None:
    write("repositories: []\n")
    assert (load().isolation, load(shared=True).isolation) == ("none", "required")
    write("repositories: []\nisolation: auto\n")
    assert load(shared=True).isolation == "auto"
    assert isolated(load(shared=True), "none").isolation == "none"


def test_a_worker_that_cannot_isolate_as_it_must_says_what_helps(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_bubblewrap(project, tmp_path)
    monkeypatch.setenv("PATH", project.env["PATH"])
    with pytest.raises(PolicyError, match="isolation is required, but bubblewrap") as caught:
        isolated(WorkerSettings(isolation="required"), "")
    assert caught.value.code == "PB-POLICY-ISOLATION"
    assert "Install bubblewrap" in caught.value.guidance
    assert "`isolation: none` into worker.yaml" in caught.value.guidance


def test_a_variable_is_withheld_from_repositories_for_which_it_is_not_set() -> None:
    settings = WorkerSettings(
        environment={
            "https://github.com/acme/site": ("SITE", "SHARED"),
            "https://github.com/acme/*": ("SHARED",),
        }
    )
    assert settings.withheld("https://github.com/acme/site") == frozenset()
    assert settings.withheld("https://github.com/acme/shop") == {"SITE"}
    assert WorkerSettings().withheld("https://github.com/acme/site") == frozenset()


def test_an_empty_list_admits_none() -> None:
    write("repositories: []\n")
    assert not load(shared=True).admits("https://github.com/acme/site")
