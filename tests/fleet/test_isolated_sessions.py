"""What a session of one repository sees of another's on the same worker: judged by its loot."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.bubblewrap import needs_bubblewrap
from support.controlled_time import eventually
from support.scratch_project import Project

from fleet.local_fleet import ADA, THREE, WORKS, Fleet
from playbook_supervisor.fleet.storage.rows import State
from playbook_supervisor.project.settings import isolation
from playbook_supervisor.project.settings.config import Config
from playbook_supervisor.system.isolation import hints

pytestmark = [needs_bubblewrap, pytest.mark.measured]
FILE, COMMITTED, VARIABLE = "secret.txt", "committed-7bd1", "variable-90ac"
TOKEN = "TOKEN_OF_THE_OTHER"
KEY, KEYS = "key-15c8\n", (".git-credentials", ".config/gh/hosts.yml", ".ssh/id")
SLEEPS = WORKS.replace("say: planned,", "say: planned, seconds: 60,")
ATTACK = """\
#!/bin/sh
[ "$PLAYBOOK_STEP" = plan ] || exit 0
exec 2>/dev/null
{{
  echo "environment $TOKEN_OF_THE_OTHER"
  for each in ~/.git-credentials ~/.config/gh/hosts.yml ~/.ssh/id; do echo "home $(cat $each)"; done
  for each in /proc/[0-9]*/environ; do echo "process $(tr '\\0' ' ' <"$each")"; done
  find '{top}' -path "$PWD" -prune -o -name {file} -exec sed 's/^/clone /' {{}} +
  find '{top}' -name HEAD | while read -r head; do
    git=$(dirname "$head")
    for commit in $(git --git-dir="$git" rev-list --all); do
      git --git-dir="$git" show "$commit:{file}" | sed 's/^/objects /'
    done
  done
}} >loot.txt
echo done
"""


def other_repository(fleet: Fleet) -> Project:
    """A second repository with a secret, and its remote."""
    bare = fleet.origin.root.with_name("other.git")
    subprocess.run(["git", "clone", "-q", "--bare", str(fleet.origin.root), str(bare)], check=True)
    folder = fleet.origin.root.with_name("other")
    subprocess.run(["git", "clone", "-q", str(bare), str(folder)], check=True)
    other = Project(folder, fleet.project.home)
    other.write(FILE, f"{COMMITTED}\n")
    other.commit("Add a secret")
    other.git("push", "-q", "origin", "HEAD")
    return other


def looted(fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str) -> str:
    """What an agent of the first repository finds while a session of the second is at work. The
    settings of the first ask for all that the worker keeps to be shown."""
    top = fleet.folder = tmp_path / "state/playbook/fleet"
    asked = [str(top), "~/.git-credentials", "~/.config", "~/.ssh/id"]
    fleet.project.write(".playbooks/config.yaml", f"isolation: {{mode: none, show: {asked}}}\n")
    fleet.project.commit("Ask for all")
    fleet.project.git("push", "-q", "origin", "HEAD")
    program = tmp_path / "attack"
    program.write_text(ATTACK.format(top=top, file=FILE))
    program.chmod(0o755)
    for name in KEYS:
        (fleet.project.home / name).parent.mkdir(parents=True, exist_ok=True)
        (fleet.project.home / name).write_text(KEY)
    monkeypatch.setenv(TOKEN, VARIABLE)
    other = other_repository(fleet)
    url = f"file://{other.git('remote', 'get-url', 'origin')}"
    fleet.settle(isolation=mode, environment={url: (TOKEN,)})
    session = fleet.submit(agent=f"exec:{program}")
    victim = fleet.submit(script=SLEEPS, project=other)
    with fleet.advancing(victim, "two"):
        assert eventually(lambda: bool(list((fleet.folder / "two").glob(f"*/*/{FILE}"))))
        assert fleet.advance(session).state is State.WAITING
        fleet.stopping.set()
    return fleet.kept(session, "loot.txt")


@pytest.mark.long
def test_without_isolation_a_session_finds_the_secrets_of_another_repository(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: the attack works. Only the environment of the agent itself lacks the token."""
    loot = looted(fleet, tmp_path, monkeypatch, "none")
    found = {line.partition(" ")[0] for line in loot.splitlines() if COMMITTED in line}
    assert found == {"clone", "objects"}
    assert any(line.startswith("process") and VARIABLE in line for line in loot.splitlines())
    assert loot.count(f"home {KEY}") == len(KEYS)
    assert "environment \n" in loot


def test_in_isolation_a_session_sees_nothing_of_another_repository(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loot = looted(fleet, tmp_path, monkeypatch, "required")
    assert "environment" in loot
    assert COMMITTED not in loot
    assert VARIABLE not in loot
    assert KEY not in loot


@pytest.mark.long
def test_hooks_of_git_are_isolated_also_when_a_session_is_only_aborted(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = Path.home() / "hooks/pre-commit"
    hook.parent.mkdir()
    hook.write_text('#!/bin/sh\necho "by ${PLAYBOOK_ISOLATION:-nothing}" >>hook.txt\n')
    hook.chmod(0o755)
    config = tmp_path / "gitconfig"
    config.write_text(
        f"[user]\nname = Ada\nemail = ada@example.org\n[core]\nhooksPath = {hook.parent}\n"
    )
    session = fleet.submit()
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    fleet.advance(session)
    assert fleet.kept(session, "hook.txt") == "by nothing"
    fleet.settle(isolation="required")
    fleet.database.cancel(session, "not needed", ADA)
    assert fleet.advance(session).state is State.ABORTED
    assert fleet.kept(session, "hook.txt").splitlines()[1:] == ["by bwrap"]


@pytest.mark.parametrize(
    ("mode", "command", "ended"),
    [
        ("none", "cli git hash-object {key}", State.COMPLETED),
        ("required", "cli git hash-object {key}", State.FAILED),
    ],
)
def test_the_git_of_a_playbook_has_no_keys_in_isolation(
    fleet: Fleet, tmp_path: Path, mode: str, command: str, ended: State
) -> None:
    fleet.folder = tmp_path / "state/playbook/fleet"
    key = fleet.project.home / KEYS[0]
    key.write_text(KEY)
    step = f"  - {{id: read, command: {command.format(key=key)}}}\n"
    own = THREE[: THREE.index("  - ")].replace("name: three", "name: own") + step
    fleet.project.write(".playbooks/playbooks/own.yaml", own)
    fleet.project.commit("Add a playbook")
    fleet.project.git("push", "-q", "origin", "HEAD")
    fleet.settle(isolation=mode)
    assert fleet.advance(fleet.submit("own")).state is ended


def test_git_and_gh_of_our_own_steps_have_what_they_push_with(fleet: Fleet, tmp_path: Path) -> None:
    config = Config().isolated("required")
    clone = tmp_path / "state/playbook/fleet/workers/one/clone"
    subprocess.run(["git", "init", "-q", str(clone)], check=True)
    push, commit = ("git", "-c", "x.y=commit", "push", "commit"), ("git", "commit", "-m", "push")

    def sees(root: Path, argv: Sequence[str] = (), *, of_playbook: bool = False) -> bool:
        sandbox = isolation.of_step(config, root)
        if argv:
            sandbox = isolation.of_ours(config, root, argv, of_playbook=of_playbook)
        assert sandbox
        return hints.hidden(sandbox.profile, fleet.project.home / KEYS[1]) is None

    for root in (clone, fleet.project.root):
        assert sees(root, push)
        assert sees(root, commit)
        assert sees(root, push, of_playbook=True) is not (root == clone)
        assert sees(root) is not (root == clone)

    def add_hook(name: str) -> None:
        (clone / "hooks").mkdir(exist_ok=True)
        (clone / "hooks" / name).write_text("#!/bin/sh\n")

    subprocess.run(["git", "config", "core.hooksPath", "hooks"], cwd=clone, check=True)
    add_hook("pre-commit")
    assert sees(clone, push)
    assert sees(clone, ("gh", "pr", "create"))
    assert not sees(clone, commit)
    add_hook("pre-push")
    assert not sees(clone, push)
