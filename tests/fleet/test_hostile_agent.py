"""What an agent does to the worker that runs it comes to nothing outside its session."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest
from test_git_programs import OF_A_COMMIT

from fleet.local_fleet import Fleet
from playbook_supervisor.fleet.storage.rows import State

IN_PLAN = '[ "$PLAYBOOK_STEP" = plan ] || exit 0\n'
pytestmark = pytest.mark.measured


@pytest.fixture
def loot(tmp_path: Path) -> Path:
    """Where an agent writes what it got hold of, outside all repositories."""
    folder = tmp_path / "loot"
    folder.mkdir()
    return folder


def hostile(fleet: Fleet, loot: Path, script: str, only: str = IN_PLAN) -> str:
    """Queue a session whose agent runs this, in its first step unless told otherwise; its id."""
    program = fleet.folder.with_name("agent")
    program.write_text(f"#!/bin/sh\nLOOT={shlex.quote(str(loot))}\necho done\n{only}{script}")
    program.chmod(0o755)
    return fleet.submit("three", agent=f"exec:{program}")


EVIL = """\
printf '#!/bin/sh\\nenv >"%s/$1"\\n' "$LOOT" >"$LOOT/evil"
chmod +x "$LOOT/evil"
"""
TRAPS = """\
mkdir -p .git/hooks
for hook in pre-commit prepare-commit-msg commit-msg post-commit post-index-change pre-push \\
    reference-transaction post-checkout pre-auto-gc; do
  printf '#!/bin/sh\\n"%s/evil" "%s.$$"\\n' "$LOOT" "$hook" >.git/hooks/$hook
  chmod +x .git/hooks/$hook
done
for each in core.fsmonitor core.sshCommand core.pager core.editor gpg.program \\
    core.alternateRefsCommand uploadpack.packObjectsHook credential.helper core.gitProxy; do
  git config "$each" "$LOOT/evil ${each##*.}"
done
git config filter.evil.clean "$LOOT/evil filter"
git config filter.evil.smudge "$LOOT/evil smudge"
git config diff.evil.textconv "$LOOT/evil textconv"
printf '* filter=evil diff=evil\\n' >.gitattributes
cp .gitattributes .git/info/attributes
mkdir -p .git/playbook-snapshots/hooks
cp .git/hooks/* .git/playbook-snapshots/hooks/ 2>/dev/null
cp .git/config .git/playbook-snapshots/config
cp .git/config .git/playbook-snapshots/config.worktree
printf '%s\\n' "$PWD/.git" >.git/playbook-snapshots/commondir
"""


def test_nothing_that_an_agent_puts_into_the_clone_runs_in_the_worker(
    fleet: Fleet, loot: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", "secret")
    monkeypatch.setenv("PLAYBOOK_FLEET", fleet.database.address.shown)
    script = f'env >"$LOOT/agent"\n{EVIL}{TRAPS}'
    session = hostile(fleet, loot, script)
    assert fleet.advance(session).state is State.WAITING
    seen = (loot / "agent").read_text()
    assert "PLAYBOOK_SESSION=" in seen
    for each in loot.iterdir():
        for secret in ("PGPASSWORD", "PLAYBOOK_FLEET", "PLAYBOOK_CLEARANCE"):
            assert secret not in each.read_text(), each.name
        if each.name not in ("agent", "evil"):
            assert "PLAYBOOK_WORKER=" in each.read_text(), each.name


@pytest.mark.long
@pytest.mark.parametrize("filters", [True, False])
def test_of_programs_that_an_agent_names_to_git_a_commits_hooks_alone_run(
    fleet: Fleet, loot: Path, filters: bool
) -> None:
    """With filters for all files, no commit of the session is made, and not even these run."""
    without = "" if filters else "rm -f .gitattributes .git/info/attributes\n"
    session = hostile(fleet, loot, f"{EVIL}{TRAPS}{without}", only="")
    assert fleet.advance(session).state is State.WAITING
    fleet.answer(session, "continue")
    assert fleet.advance(session).state is State.COMPLETED
    ran = {each.name.partition(".")[0] for each in loot.iterdir()} - {"evil"}
    assert ran == (set() if filters else {*OF_A_COMMIT, "reference-transaction"})


@pytest.mark.long
def test_an_agent_decides_nothing_in_the_fleet(fleet: Fleet, loot: Path) -> None:
    waiting, queued = fleet.submit(), fleet.submit()
    fleet.advance(waiting)
    playbook = f"{sys.executable} -m playbook_supervisor"
    commands = [
        f"answer --session {waiting} continue",
        f"abort {queued}",
        f"fleet retry {queued}",
        f"fleet rebuild --repo file://{fleet.origin.root}",
        "fleet prune --older-than 0",
        "fleet limits default --none",
        "fleet worker --drain",
        "fleet submit three --mode autonomous",
    ]
    script = f"""\
export PLAYBOOK_FLEET=sqlite:///{fleet.database.address.file}
attempt() {{ cd / && {playbook} "$@" >>"$LOOT/said" 2>&1 && echo "$*" >>"$LOOT/allowed"; }}
alone() {{
  setsid env -i PATH="$PATH" HOME="$HOME" XDG_STATE_HOME="$XDG_STATE_HOME" \\
    {playbook} "$@" >>"$LOOT/said" 2>&1 </dev/null && echo "$*" >>"$LOOT/allowed"
}}
"""
    script += "".join(f"attempt {each}\n" for each in commands)
    script += "".join(f"(alone {each} &)\n" for each in commands[:2])
    session = hostile(fleet, loot, f"{script}sleep 2\n")
    before = [fleet.row(waiting), fleet.row(queued)]
    fleet.advance(session)
    said = (loot / "said").read_text()
    assert said.count("PB-STATE-HUMAN-ONLY") == len(commands) + 2, said
    assert not (loot / "allowed").exists()
    assert [fleet.row(waiting), fleet.row(queued)] == before
    assert [row.id for row in fleet.database.rows()] == [waiting, queued, session]


def test_an_agent_clears_no_launch_and_is_asked_for_none(fleet: Fleet, loot: Path) -> None:
    ask = f"""\
import os, socket, sys
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        variables = open(f"/proc/{{pid}}/environ", "rb").read().split(b"\\0")
    except OSError:
        continue
    folders = [each[19:] for each in variables if each.startswith(b"PLAYBOOK_CLEARANCE=")]
    if folders and {str(fleet.folder)!r}.encode() in folders[0]:
        os.chdir(folders[0])
        connection = socket.socket(socket.AF_UNIX)
        connection.connect("requests")
        connection.sendall(b"launch\\n")
        print(connection.recv(1000).decode())
"""
    (loot / "ask.py").write_text(ask)
    session = hostile(fleet, loot, f'{sys.executable} "$LOOT/ask.py" >"$LOOT/said"\n')
    assert fleet.advance(session).state is State.WAITING
    assert "is not the session's runner" in (loot / "said").read_text()
    assert fleet.subjects(session) == ["Snapshot", "Claim", "Snapshot", "Snapshot"]


WAITS = (State.WAITING, "")
GONE = (State.STUCK, "PB-STATE-NO-REPOSITORY")
ATTACKS = {
    "references, addresses, a shut folder, pipes, and the session's record": (
        "git update-ref refs/heads/main HEAD; git update-ref -d refs/remotes/origin/main\n"
        "git tag v1; git branch other\n"
        "git update-ref refs/playbook/sessions/20260101-abc HEAD\n"
        "git switch -q $(basename $(git symbolic-ref refs/remotes/origin/HEAD)) &&"
        " git commit -q --allow-empty -m Mine && git switch -q -\n"
        "git commit -q --allow-empty -m Mine\n"
        'git remote set-url origin "$LOOT/victim"\n'
        'git config "url.$LOOT/victim.insteadOf" file://\n'
        'git config remote.origin.pushurl "$LOOT/victim"\n'
        "mkdir -p a/b; touch a/b/file; chmod 0 a/b; chmod 0500 a\n"
        "mkfifo pipe .playbooks/sessions/pipe; rm README.md; mkfifo README.md\n"
        'mv .git/playbook "$LOOT/record"',
        WAITS,
    ),
    "the indexes": (
        "rm -f .git/index && mkdir .git/index\n"
        "rm -rf .git/playbook-snapshots/* && mkdir -p .git/playbook-snapshots/index.lock\n"
        "head -c 5000 /dev/urandom >.git/playbook-snapshots/index",
        WAITS,
    ),
    "another's git directory": ('rm -rf .git && ln -s "$LOOT/victim/.git" .git', GONE),
    "a link": ('here=$PWD; cd / && rm -rf "$here" && ln -s "$LOOT/victim" "$here"', GONE),
    "a session elsewhere": (
        # The runner writes there meanwhile, so the first try may fail.
        'cp -r .playbooks/sessions "$LOOT/kept"\n'
        'until rm -rf ".playbooks/sessions/$PLAYBOOK_SESSION"'
        ' && ln -s "$LOOT/kept/$PLAYBOOK_SESSION" .playbooks/sessions/; do :; done',
        (State.STUCK, "PB-IO-ESCAPE"),
    ),
    "a forged journal": (
        'sed -i s/in_progress/done/ ".playbooks/sessions/$PLAYBOOK_SESSION/journal.yaml"',
        (State.STUCK, "PB-STATE-TAMPERED"),
    ),
}
"""What an agent changes in its clone, or puts in its place, and what becomes of the session."""


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_an_agent_does_to_its_clone_stays_there(fleet: Fleet, loot: Path, attack: str) -> None:
    victim, (script, becomes) = loot / "victim", ATTACKS[attack]
    fleet.project.git("clone", "-q", str(fleet.project.root), str(victim))
    session = hostile(fleet, loot, script)
    refs, beside = references(fleet, session), sorted(victim.rglob("*"))
    row = fleet.advance(session)
    assert (row.state, row.error) == becomes
    assert references(fleet, session) == refs
    assert list((fleet.folder / "one").iterdir()) == []
    done = fleet.journal(session).count("status: done")
    assert done == (row.state is State.WAITING)
    if becomes != GONE:  # a runner that was led there may do what its agent may
        assert sorted(victim.rglob("*")) == beside


def references(fleet: Fleet, session: str) -> list[str]:
    """Those of the remote, without the session's own."""
    found = fleet.origin.git("for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    own = (f"refs/playbook/sessions/{session} ", f"refs/heads/{fleet.row(session).branch} ")
    return [line for line in found if not line.startswith(own)]
