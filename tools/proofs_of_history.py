"""Ask `proved` of the commits of a repository: which hold, which are a question, which are refused.

    python tools/proofs_of_history.py REPOSITORY 40 tests/formats tests/audit

Each commit is compared with its parent in a clone of its own. The check is pytest with the given
arguments. A line for each commit, then the sums.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel.directives import Answer
from playbook_supervisor.project.proofs.proved import Judgement, Options, judge
from playbook_supervisor.project.proofs.questions import question
from playbook_supervisor.project.settings.checks import Checking
from playbook_supervisor.project.settings.config import CLEAN, Bounds, CheckSpec, Config
from playbook_supervisor.records import replace
from playbook_supervisor.system.git.tree import pinned_now, tree_id

_SETTINGS = Config(allow=Bounds(cli=("**", "*")))


def main() -> None:
    repository, number, *arguments = sys.argv[1:]
    argv = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments)
    spec = CheckSpec("test", argv, 1_800, {}, CLEAN)
    found: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / Path(repository).resolve().name
        _git(Path(folder), "clone", "-q", repository, str(root))
        listed = _git(
            root, "log", "--no-merges", f"-{number}", "--format=%H", "--", *_paths(arguments)
        )
        for commit in reversed(listed.split()):
            began = time.monotonic()
            judgement = _judged(root, commit, spec)
            word = _word(judgement)
            found[word] += 1
            subject = first_line(_git(root, "log", "-1", "--format=%h %s", commit), 70)
            print(f"{word:8} {time.monotonic() - began:4.0f} s  {subject}: {judgement.evidence}")
            for line in question(root, judgement.asked):
                print(f"    {line}")
            sys.stdout.flush()
    print(dict(found))


def _paths(arguments: list[str]) -> list[str]:
    """The tests that are run, and the code that is named like them."""
    tests = [each for each in arguments if not each.startswith("-")]
    return [*tests, *(each.replace("tests/", "*/", 1) + "/*" for each in tests)]


def _judged(root: Path, commit: str, spec: CheckSpec) -> Judgement:
    _git(root, "checkout", "-q", "--detach", f"{commit}^")
    pinned = replace(pinned_now(root), tree=tree_id(root))
    _git(root, "checkout", "-q", "--detach", commit)
    try:
        return judge(spec, Options(), root, _SETTINGS, Checking(), pinned)
    except PlaybookError as error:
        return Judgement(Answer.ERROR, error.message)


def _word(judgement: Judgement) -> str:
    if judgement.answer is Answer.HELD:
        return "held"
    if judgement.answer is Answer.ERROR:
        return "unknown"
    return "asked" if judgement.asked else "refused"


def _git(cwd: Path, *arguments: str) -> str:
    run = subprocess.run(["git", *arguments], cwd=cwd, check=True, capture_output=True, text=True)
    return run.stdout


if __name__ == "__main__":
    main()
