"""What the remotes have accepted: the line of commits of each session, and its journals.

Read with git alone, and with a YAML reader that is not the program's.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

PLACES = ("refs/playbook/sessions/", "refs/heads/playbook-sessions/")
_TRAILERS = ("Kind", "Epoch", "Worker", "Branch", "Session")
_LOADER = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
_NOTHING = "0" * 40


@dataclass(frozen=True)
class Answer:
    gate: str
    text: str
    by: str = ""


@dataclass(frozen=True)
class Link:
    """A commit of a session's line, and what the journal in it says."""

    commit: str
    parents: tuple[str, ...]
    kind: str
    epoch: int
    worker: str
    branch: str = ""
    done: tuple[str, ...] = ()
    """The ids of the attempts that are done."""
    answers: tuple[Answer, ...] = ()
    status: str = ""
    """Of the session."""

    def __str__(self) -> str:
        return f"{self.kind} {self.commit[:8]} (epoch {self.epoch}, {self.worker or 'submitted'})"


@dataclass(frozen=True)
class Chain:
    """The line of a session, oldest first, and every commit that its ref has ever been at."""

    session: str
    links: tuple[Link, ...]
    held: tuple[str, ...] = ()
    published: Link | None = None
    """What the branch has. Its kind, epoch and worker are empty."""

    @property
    def tip(self) -> Link:
        return self.links[-1]


# ── reading ─────────────────────────────────────────────────────────────────────────────────


def create_remote(path: Path, pushes: Path) -> None:
    """Create a bare repository that remembers where its refs were, and writes pushes down.

    A line of `pushes` is the time since the machine's start, the ref, and its old and new commit.
    """
    git(path.parent, "init", "--quiet", "--bare", str(path))
    for key, value in {
        "core.logAllRefUpdates": "always",
        "http.receivepack": "true",
        "gc.auto": "0",
        "receive.autogc": "false",
    }.items():
        git(path, "config", key, value)
    hook = path / "hooks" / "post-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(
        "#!/bin/sh\nread -r now _ </proc/uptime\nwhile read -r old new ref; do\n"
        f'  printf \'%s %s %s %s\\n\' "$now" "$ref" "$old" "$new" >>\'{pushes}\'\ndone\n'
    )
    hook.chmod(0o755)


def read(remote: Path) -> dict[str, Chain]:
    listed = git(remote, "for-each-ref", "--format=%(refname)", *PLACES)
    return {ref.rpartition("/")[2]: _chain(remote, ref) for ref in listed.split()}


def git(folder: Path, *args: str, input: bytes | None = None) -> str:  # noqa: A002
    done = subprocess.run(["git", *args], cwd=folder, input=input, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def _chain(remote: Path, ref: str) -> Chain:
    session = ref.rpartition("/")[2]
    parts = ["%H", "%P", *(f"%(trailers:key=Playbook-{name},valueonly)" for name in _TRAILERS)]
    lines = git(
        remote, "log", "-z", "--first-parent", "--reverse", f"--format={'%x1f'.join(parts)}", ref
    )
    rows = [[part.strip() for part in row.split("\x1f")] for row in lines.split("\0") if row]
    rows = [row for row in rows if row[2]]  # older ones are the branch's
    files = _files(remote, session, [row[0] for row in rows])
    links = tuple(_link(row, *files[row[0]]) for row in rows)
    log = remote / "logs" / ref
    moves = [line.split()[:2] for line in log.read_text().splitlines()] if log.exists() else []
    branch = f"refs/heads/{links[-1].branch}"
    there = git(remote, "for-each-ref", "--format=%(objectname)", branch).split()
    published = None
    if there:
        row = [there[0], "", "", "0", "", links[-1].branch]
        published = _link(row, *_files(remote, session, there)[there[0]])
    return Chain(session, links, tuple(new for _, new in moves if new != _NOTHING), published)


def _files(remote: Path, session: str, commits: Sequence[str]) -> dict[str, tuple[str, str]]:
    """The journal and the session.yaml in each commit."""
    folder = f".playbooks/sessions/{session}"
    names = [f"{each}:{folder}/{name}.yaml" for each in commits for name in ("journal", "session")]
    asked = "".join(f"{name}\n" for name in names).encode()
    done = subprocess.run(
        ["git", "cat-file", "--batch"], cwd=remote, input=asked, capture_output=True, check=True
    )
    texts, rest = [], done.stdout
    while rest:
        head, _, rest = rest.partition(b"\n")
        if head.endswith(b" missing"):
            texts.append("")
            continue
        size = int(head.split()[-1])
        texts.append(rest[:size].decode())
        rest = rest[size + 1 :]
    return {each: (texts[2 * n], texts[2 * n + 1]) for n, each in enumerate(commits)}


def _link(row: Sequence[str], journal: str, manifest: str) -> Link:
    commit, parents, kind, epoch, worker, branch = row[:6]
    entries: list[dict[str, Any]] = (_yaml(journal) or {}).get("entries") or []
    gates = [gate for entry in entries for gate in entry.get("gates", ())]
    return Link(
        commit,
        tuple(parents.split()),
        kind,
        int(epoch),
        worker,
        branch,
        tuple(
            f"{entry['step_id']}#{entry.get('attempt', 1)}"
            for entry in entries
            if entry["status"] == "done"
        ),
        tuple(
            Answer(gate["id"], gate.get("text", ""), gate.get("by", ""))
            for gate in gates
            if gate.get("answered_at")
        ),
        (_yaml(manifest) or {}).get("status", ""),
    )


def _yaml(text: str) -> Any:
    return yaml.load(text, Loader=_LOADER)  # noqa: S506 - it is a safe one


# ── judges ──────────────────────────────────────────────────────────────────────────────────


def broken_lines(chain: Chain) -> list[str]:
    """Where the chain is not a line of claims with rising epochs, each with its own snapshots."""
    wrong = []
    first = chain.links[0]
    if (first.kind, first.epoch, first.worker) != ("snapshot", 0, ""):
        wrong.append(f"{chain.session} begins with {first}")
    for before, link in pairwise(chain.links):
        if link.parents[:1] != (before.commit,):
            wrong.append(f"{chain.session}: {link} does not follow {before}")
        if link.kind == "claim":
            if link.epoch <= before.epoch:
                wrong.append(f"{chain.session}: {link} claims after {before}")
        elif (link.epoch, link.worker) != (before.epoch, before.worker):
            wrong.append(f"{chain.session}: {link} is no snapshot of the claim before, {before}")
    return wrong


def dropped(chain: Chain) -> list[str]:
    """Commits that the remote has accepted and that are not in the line any more."""
    line = {link.commit for link in chain.links}
    return [
        f"{chain.session}: {commit[:8]} was accepted and is gone"
        for commit in chain.held
        if commit not in line
    ]


def undone(chain: Chain) -> list[str]:
    """What an accepted commit says was done or answered, and a later one does not."""
    wrong = []
    for before, link in pairwise(chain.links):
        lost: list[object] = [each for each in before.done if each not in link.done]
        lost += [each for each in before.answers if each not in link.answers]
        wrong += [f"{chain.session}: {each} of {before} is not in {link}" for each in lost]
    return wrong


def done_twice(chain: Chain) -> list[str]:
    """Steps of which two attempts are done."""
    steps = [directive.rpartition("#")[0] for directive in chain.tip.done]
    return [f"{chain.session}: {step} is done twice" for step in sorted(_doubled(steps))]


def answers_lost(chain: Chain, accepted: Iterable[Answer]) -> list[str]:
    """Answers that a person was told count, and that the journal does not have."""
    texts = {(each.gate, each.text) for each in chain.tip.answers}
    return [
        f"{chain.session}: the answer {each.text!r} at {each.gate} is lost"
        for each in accepted
        if (each.gate, each.text) not in texts
    ]


def answers_unasked(chain: Chain, accepted: Iterable[Answer]) -> list[str]:
    """Answers that the journal has although their person was refused, or that it has twice."""
    texts = {(each.gate, each.text) for each in accepted}
    wrong = [
        f"{chain.session}: the answer {each.text!r} at {each.gate} was refused, and counts"
        for each in chain.tip.answers
        if (each.gate, each.text) not in texts
    ]
    gates = [each.gate for each in chain.tip.answers]
    wrong += [f"{chain.session}: {gate} is answered twice" for gate in sorted(_doubled(gates))]
    return wrong


def ended_wrong(chains: Mapping[str, Chain], expected: Mapping[str, Iterable[str]]) -> list[str]:
    """Sessions that are lost, or have not ended as they must. `expected`: any of these statuses."""
    return [
        f"{session} is {chains[session].tip.status if session in chains else 'lost'}"
        for session, statuses in expected.items()
        if session not in chains or chains[session].tip.status not in statuses
    ]


def unpublished(chain: Chain) -> list[str]:
    """A session that has ended while its branch does not say so.

    One that was aborted before its branch knew it leaves nothing there.
    """
    branch, tip = chain.published, chain.tip
    if tip.status == "aborted" and not (branch and branch.status):
        return []
    if branch and (branch.status, branch.done, branch.answers) == (
        tip.status,
        tip.done,
        tip.answers,
    ):
        return []
    return [f"{chain.session}: its branch has {branch.status if branch else 'nothing'}"]


def _doubled(names: Sequence[str]) -> set[str]:
    return {name for name in names if names.count(name) > 1}


# ── figures ─────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Push:
    """An accepted push, and when, in seconds since the machine's start."""

    at: float
    ref: str
    old: str
    new: str


def pushes(path: Path) -> list[Push]:
    if not path.exists():
        return []
    form = re.compile(r"(\S+) (\S+) ([0-9a-f]{40}) ([0-9a-f]{40})")
    found = [form.fullmatch(line) for line in path.read_text().splitlines()]
    return [Push(float(each[1]), *each.groups()[1:]) for each in found if each]
