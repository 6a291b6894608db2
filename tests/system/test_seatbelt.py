"""The policies for macOS, as text: no test here runs on a Mac."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from playbook_supervisor.system.isolation import seatbelt
from playbook_supervisor.system.isolation.profiles import Profile
from playbook_supervisor.system.isolation.sandbox import Sandbox

if TYPE_CHECKING:
    from playbook_supervisor.system.isolation.profiles import Network

HOME, CHECKOUT, KEPT = Path("/srv/me"), Path("/srv/me/code"), Path("/srv/me/.state/kept")
PROFILE = Profile(
    home=HOME,
    folder=CHECKOUT,
    writable=(CHECKOUT, CHECKOUT / ".playbooks/out"),
    protected=(CHECKOUT / ".git/config", CHECKOUT / ".playbooks"),
    hidden=(HOME / ".ssh", HOME / ".state", CHECKOUT / ".env"),
    shown=(HOME / ".ssh/known_hosts",),
    private=((HOME / ".npm", KEPT / ".npm"), (HOME / ".cache", KEPT / ".cache")),
)


def rules(profile: Profile, port: int | None = None) -> list[str]:
    """The policy's rules, with the paths in place of the parameters."""
    name, option, policy, *rest = seatbelt.arguments(profile, ["run", "it"], port, None)
    assert (name, option, rest[-2:]) == ("sandbox-exec", "-p", ["run", "it"])
    for parameter in rest[:-2]:
        key, path = parameter.removeprefix("-D").split("=", 1)
        policy = policy.replace(f'(param "{key}")', path)
    return re.findall(r"\((?:allow|deny) (?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)", policy)


def decides(profile: Profile, path: Path, deed: str) -> str:
    """What the last rule says about a deed on the path, as the system would."""
    verdict = ""
    for rule in rules(profile):
        word, deeds = rule[1:].split(" (")[0].split(" ", 1)
        below = [Path(each) for each in re.findall(r'\(subpath "?([^()"]*)"?\)', rule)]
        exactly = [Path(each) for each in re.findall(r"\(literal ([^()]*)\)", rule)]
        meant = any(each == path or each in path.parents for each in below) or path in exactly
        if deed.startswith(tuple(each.rstrip("*)") for each in deeds.split())) and (
            meant or "(" not in rule[1:]
        ):
            verdict = word
    return verdict


@pytest.mark.parametrize(
    ("path", "verdict"),
    [
        ("/srv/me/code/src/a.py", "allow"),
        ("/srv/me/.bashrc", "deny"),
        ("/etc/hosts", "deny"),
        ("/srv/me/code/.git/index", "allow"),
        ("/srv/me/code/.git/config", "deny"),
        ("/srv/me/code/.playbooks/config.yaml", "deny"),
        ("/srv/me/code/.playbooks/out/report.md", "allow"),
        ("/srv/me/.ssh/known_hosts", "deny"),
        ("/srv/me/.state/kept/.npm/x", "allow"),
        ("/srv/me/.npm/x", "deny"),
        ("/dev/null", "allow"),
    ],
)
def test_a_path_is_written_where_the_deepest_rule_allows_it(path: str, verdict: str) -> None:
    assert decides(PROFILE, Path(path), "file-write-data") == verdict


@pytest.mark.parametrize(
    ("path", "verdict"),
    [
        ("/srv/me/.ssh/id_ed25519", "deny"),
        ("/srv/me/.ssh/known_hosts", "allow"),
        ("/srv/me/code/.env", "deny"),
        ("/srv/me/.state/room", "deny"),
        ("/srv/me/.state/kept/.npm/x", "allow"),
    ],
)
def test_a_path_is_read_where_the_deepest_rule_allows_it(path: str, verdict: str) -> None:
    assert decides(PROFILE, Path(path), "file-read-data") == verdict


def test_no_folder_above_a_protected_path_can_be_moved() -> None:
    kept = [rule for rule in rules(PROFILE) if "file-write-unlink" in rule]
    assert kept == [
        f"(deny file-write-unlink (literal {each}))" for each in (CHECKOUT, CHECKOUT / ".git")
    ]


@pytest.mark.parametrize(
    ("network", "port", "said"),
    [
        ("as_is", None, []),
        ("none", None, ["(deny network*)"]),
        (
            "proxy",
            4711,
            ["(deny network*)", '(allow network-outbound (remote ip "localhost:4711"))'],
        ),
    ],
)
def test_the_network_is_reached_through_the_port_of_the_proxy_alone(
    network: Network, port: int | None, said: list[str]
) -> None:
    found = rules(replace(PROFILE, network=network), port)
    assert [rule for rule in found if "network*" in rule or "remote ip" in rule] == said


def test_other_processes_are_not_signalled_and_none_is_started_outside() -> None:
    found = rules(PROFILE)
    assert found.index("(deny signal)") < found.index("(allow signal (target same-sandbox))")
    assert {"(deny job-creation)", "(deny lsopen)", "(deny appleevent-send)"} <= set(found)


def test_a_program_has_private_caches_and_temporary_files_by_variables() -> None:
    sandbox = Sandbox(PROFILE, seatbelt.NAME)
    with sandbox.opened() as opened:
        argv, env = opened.command(["true"], CHECKOUT, {"PATH": "/usr/bin:/bin"})
        assert env["NPM_CONFIG_CACHE"] == str(KEPT / ".npm")
        assert env["PIP_CACHE_DIR"] == str(KEPT / ".cache/pip")
        temporary = Path(env["TMPDIR"])
        assert temporary.is_dir()
        assert any(each.endswith(f"={temporary}") for each in argv)
    assert not temporary.exists()
