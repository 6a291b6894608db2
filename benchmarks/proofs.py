"""Compares the processor time of `proved` with that of its check alone, which is pytest.

python benchmarks/proofs.py FOLDER    # prints one JSON object of ratios
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path

import sample
import worktrees

from playbook_supervisor.kernel.directives import Answer
from playbook_supervisor.project.proofs.proved import Options, judge
from playbook_supervisor.project.proofs.proving import prove
from playbook_supervisor.project.settings.checks import Checking
from playbook_supervisor.project.settings.config import CLEAN, Bounds, CheckSpec, Config
from playbook_supervisor.records import replace
from playbook_supervisor.system.git.tree import pinned_now, tree_id

MODULES, LOOPS = 20, 2_000_000
_RUN = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
_SPEC = CheckSpec("test", _RUN, 600, {}, CLEAN)
_SETTINGS = Config(allow=Bounds(cli=("**", "*")))


def repository(folder: Path) -> Path:
    root = sample.repository(folder)
    for number in range(MODULES):
        (root / f"part{number}.py").write_text(_code(1))
        (root / f"test_part{number}.py").write_text(_test(number, 1))
    worktrees.commit(root, "Everything")
    return root


def _code(value: int) -> str:
    return f"def work():\n    return sum({value} for _ in range({LOOPS}))\n"


def _test(number: int, value: int) -> str:
    return (
        f"from part{number} import work\n\n\ndef test_part{number}():\n"
        f"    assert work() == {value * LOOPS}\n"
    )


def took(work: Callable[[], object]) -> float:
    """Seconds of processor, of this process and of those that it has awaited."""
    before = _used()
    work()
    return _used() - before


def _used() -> float:
    own, others = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


def main(folder: Path) -> dict[str, float]:
    root = repository(folder)
    pinned = pinned_now(root)
    pinned = replace(pinned, tree=tree_id(root, pinned))

    def proved() -> None:
        found = judge(_SPEC, Options(), root, _SETTINGS, Checking(), pinned)
        assert found.answer is Answer.HELD, found

    def alone() -> None:
        prove(_SPEC, root, _SETTINGS, Checking(), pinned=pinned)

    def changed(name: str, text: str, *others: tuple[str, str]) -> float:
        for file, content in ((name, text), *others):
            (root / file).write_text(content)
        return took(proved) / took(alone)

    return {
        "first": changed("part0.py", _code(1) + "# first\n"),
        "code": changed("part1.py", _code(1) + "# second\n"),
        "both": changed("part2.py", _code(1) + "# third\n", ("test_more.py", _test(3, 1))),
        "again": took(proved) / took(alone),
    }


if __name__ == "__main__":
    os.environ |= {"GIT_CONFIG_COUNT": "1"}
    os.environ |= {"GIT_CONFIG_KEY_0": "init.defaultBranch", "GIT_CONFIG_VALUE_0": "main"}
    print(json.dumps(main(Path(sys.argv[1]).resolve() / "repository")))
