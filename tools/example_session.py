"""Make docs/session.png: the page of a session that the real supervisor journaled, by a clock.

    python tools/example_session.py [PNG]

What its agents brought and when they came back is told here; everything else (conditions, gates,
entries, durations) is the program's own. Needs git, and chromium for the picture.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from playbook_supervisor.cli.render.html import page
from playbook_supervisor.commands import overview
from playbook_supervisor.commands.views.queries import view_of
from playbook_supervisor.kernel.directives import Ask, Finish, Outcome
from playbook_supervisor.kernel.vocabulary import Resolution
from playbook_supervisor.sessions.files.principal import Principal
from playbook_supervisor.sessions.store.disk_store import DiskStore
from playbook_supervisor.sessions.store.snapshot import running
from playbook_supervisor.sessions.tree.session_tree import SessionTree
from playbook_supervisor.system.git import checkout

REPOSITORY = Path(__file__).resolve().parent.parent
PICTURE = REPOSITORY / "docs" / "session.png"
FEATURE = "013-playbook-create"
BEGAN = 1_771_495_200_000  # 2026-02-19T10:00:00Z
WHO = "Ada <ada@example.org>"
SIZE = "900,1180"


@dataclass
class Clock:
    """Stands still but for what is said to have taken its time."""

    now: int = BEGAN

    def __call__(self) -> int:
        return self.now

    def takes(self, seconds: float) -> None:
        self.now += round(seconds * 1000)


@dataclass(frozen=True)
class Work:
    """What one attempt brings: a file, a sentence, minutes, dollars and turns."""

    minutes: float
    cost: float
    turns: int
    says: str
    path: str = ""
    text: str = ""


@dataclass(frozen=True)
class Answer:
    """What a human says at a gate, and how long they were away."""

    minutes: float
    resolution: Resolution
    words: str


REPORT = f".agreements/{FEATURE}/check-report.md"
VERDICT = f".qa/{FEATURE}/verdict.md"
WORKS: Mapping[str, Work] = {
    "plan#1": Work(
        3.2, 0.61, 14, "Wrote the plan.", f"specs/{FEATURE}/plan.md", "# Plan\n" + "- a\n" * 211
    ),
    "tasks#1": Work(
        1.4, 0.22, 8, "23 tasks in 4 phases.", f"specs/{FEATURE}/tasks.md", "- [x] a\n" * 23
    ),
    "agreement#1": Work(
        0.9, 0.14, 6, "The agreement is written.", f".agreements/{FEATURE}/agreement.yaml", "a: b\n"
    ),
    "implement#1": Work(14.6, 4.87, 93, "All 23 tasks are done; 61 tests pass."),
    "agreement-check#1": Work(
        1.1,
        0.19,
        9,
        "One finding needs a decision.",
        REPORT,
        "**Verdict**: PASS\n\nBreaking changes: 1\n",
    ),
    "qa-plan#1": Work(
        1.3, 0.2, 7, "12 scenarios.", f".qa/{FEATURE}/test-plan.md", "# Plan\n" + "- s\n" * 40
    ),
    "qa-run#1": Work(4.4, 0.93, 31, "11 of 12 scenarios pass.", VERDICT, "**Verdict**: FAIL\n"),
    "qa-run#2": Work(4.1, 0.88, 29, "12 of 12 scenarios pass.", VERDICT, "**Verdict**: PASS\n"),
}
ANSWERS: Mapping[str, Answer] = {
    "agreement-check#1?1": Answer(
        6.5, Resolution.ACCEPT, "accept: nobody else reads that field yet"
    ),
    "qa-run#1?1": Answer(11, Resolution.RETRY, "fixed the time zone in the test, retry"),
}


def journaled(root: Path) -> tuple[DiskStore, str, Clock]:
    """Drive auto-feature to its last gate, in a repository of its own at `root`."""
    (root / "specs" / FEATURE).mkdir(parents=True)
    (root / "specs" / FEATURE / "spec.md").write_text("# Create playbooks\n")
    git = shutil.which("git") or "git"
    subprocess.run([git, "init", "-q", "-b", FEATURE, str(root)], check=True)
    clock = Clock()
    store = DiskStore(checkout.find(root), clock=clock)
    text = (REPOSITORY / "templates" / "playbooks" / "auto-feature.yaml").read_bytes()
    args = {"feature": FEATURE}
    name = store.create(playbook="auto-feature", text=text, feature=FEATURE, args=args)
    tree = SessionTree(store, name)
    snapshot = tree.begin()
    while not isinstance(snapshot.directive, Finish):
        if isinstance(asked := snapshot.directive, Ask):
            if asked.id not in ANSWERS:
                break
            answer = ANSWERS[asked.id]
            clock.takes(60 * answer.minutes)
            tree.answer(asked.id, answer.resolution, answer.words, Principal(WHO))
            snapshot = tree.advance()
            continue
        (attempt,) = running(snapshot)
        snapshot = tree.report(attempt.id, _done(root, WORKS[attempt.id], clock))
    clock.takes(4 * 60)
    return store, name, clock


def _done(root: Path, work: Work, clock: Clock) -> Outcome:
    clock.takes(60 * work.minutes)
    if work.path:
        file = root / work.path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(work.text)
    agent: dict[str, str | int | float] = {
        "name": "claude",
        "model": "claude-opus-4-6",
        "cost_usd": work.cost,
        "input_tokens": 1_900 * work.turns,
        "output_tokens": 310 * work.turns,
        "turns": work.turns,
    }
    return Outcome(output=work.says, agent=agent)


def written(root: Path) -> str:
    """The page of that session."""
    store, _, clock = journaled(root)
    (seen,) = overview.sessions(store)
    return page(view_of(seen), clock.now)


def main(picture: Path) -> int:
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        sys.stderr.write("chromium is missing; the picture is left as it is\n")
        return 1
    with tempfile.TemporaryDirectory(prefix="playbook-example-") as folder:
        file = Path(folder) / "session.html"
        file.write_text(written(Path(folder) / "project"))
        options = (
            *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"),
            *("--disable-background-networking", "--disable-component-update", "--hide-scrollbars"),
            *(f"--user-data-dir={folder}/profile", f"--window-size={SIZE}"),
            *("--blink-settings=preferredColorScheme=1", f"--screenshot={picture}"),
        )
        subprocess.run([browser, *options, f"file://{file}"], check=True, capture_output=True)
    print(f"{picture.name} written")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if sys.argv[1:] else PICTURE))
