"""What is known of the runners of tests: their files, their settings, and a test that must fail."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from playbook_supervisor.project.expressions.globs import matches_any

_SCRIPTS = "{js,jsx,ts,tsx,mjs,cjs,mts,cts}"
_LOADED = ("sitecustomize.py", "usercustomize.py", "**/*.pth", "**/*.dist-info/**")
_LOADED_TOO = ("**/*.egg-info/**",)
_PYTHON_FILES = ("**/test_*.py", "**/*_test.py")
_PYTHON_AROUND = ("**/conftest.py", "pytest.ini", ".pytest.ini", "tox.ini", "tests/**", "test/**")
_PYTHON_SHARED = {
    "pyproject.toml": r"tool\.pytest(?:\..*)?|tool\.coverage(?:\..*)?|tool\.tox(?:\..*)?",
    "setup.cfg": r"tool:pytest|coverage:.*|options\.extras_require",
}
_NODE_SHARED = {"package.json": "scripts|jest|vitest|mocha|ava"}


def _each(pattern: str) -> tuple[str, ...]:
    return tuple(pattern.replace(_SCRIPTS, ending) for ending in _SCRIPTS[1:-1].split(","))


@dataclass(frozen=True, slots=True)
class Runner:
    """A runner of tests. All patterns are of paths in the repository.

    `tests` are files with tests, `surroundings` what tests read and what tells the runner which to
    run. `shared` has the sections of the runner by the name of a file that others use, too.
    `shadows` would stand for the runner, or load by themselves, if they appeared. `words` find code
    that names the runner. `reporting` are arguments that make it write a report, `first` those that
    have to follow its name at once.
    """

    name: str
    program: str
    tests: tuple[str, ...]
    surroundings: tuple[str, ...] = ()
    shared: Mapping[str, str] = field(default_factory=dict)
    shadows: tuple[str, ...] = ()
    words: str = r"(?!)"
    reporting: tuple[str, ...] = ()
    first: bool = False


_REPORT = "{report}"
_JUNIT = ("--test-reporter=junit", f"--test-reporter-destination={_REPORT}")
_SPEC = ("--test-reporter=spec", "--test-reporter-destination=stdout")
_NODE_TESTS = (*_each(f"**/*.test.{_SCRIPTS}"), *_each(f"**/*.spec.{_SCRIPTS}"))
_NODE_AROUND = ("test/**", "tests/**", "**/__tests__/**", "**/__mocks__/**", "**/__snapshots__/**")

PYTEST = Runner(
    "pytest",
    r"(?:.*/)?(?:pytest|py\.test)",
    _PYTHON_FILES,
    (*_PYTHON_AROUND, ".coveragerc", "**/testdata/**", "**/snapshots/**", "**/__snapshots__/**"),
    _PYTHON_SHARED,
    (*_LOADED, *_LOADED_TOO, "pytest/**", "pytest.py", "_pytest/**", "pluggy/**", "pluggy.py"),
    r"\b_?pytest\b|PYTEST_|\bpluggy\b|\bos\._exit\b|sys\.(?:argv|modules)\b.*test",
    (f"--junitxml={_REPORT}", "--maxfail=0"),
)
UNITTEST = Runner(
    "unittest",
    "unittest",
    _PYTHON_FILES,
    (*_PYTHON_AROUND, "**/testdata/**"),
    {},
    (*_LOADED, *_LOADED_TOO, "unittest/**", "unittest.py"),
    r"\bunittest\.(?:case|suite|runner|result|main|TestCase|TestResult)\b|\bos\._exit\b",
)
NODE = Runner(
    "node",
    "--test",
    _NODE_TESTS,
    _NODE_AROUND,
    _NODE_SHARED,
    (),
    r"node:test|NODE_TEST_CONTEXT|process\.(?:reallyExit|_exit)|process\.exit\(0?\)",
    (*_JUNIT, *_SPEC),
    first=True,
)
JEST = Runner(
    "jest",
    r"(?:.*/)?jest",
    _NODE_TESTS,
    (*_NODE_AROUND, "jest.config.*", "**/jest.setup.*"),
    _NODE_SHARED,
    ("node_modules/jest/**", "node_modules/.bin/**"),
    r"JEST_WORKER_ID|\bjest\b|process\.exit\(0?\)",
)
VITEST = Runner(
    "vitest",
    r"(?:.*/)?vitest",
    _NODE_TESTS,
    (*_NODE_AROUND, "vitest.config.*", "vitest.workspace.*"),
    _NODE_SHARED,
    ("node_modules/vitest/**", "node_modules/.bin/**"),
    r"VITEST|import\.meta\.vitest|process\.exit\(0?\)",
    ("--reporter=default", "--reporter=junit", f"--outputFile.junit={_REPORT}", "--bail=0"),
)
GO = Runner(
    "go",
    r"(?:.*/)?go",
    ("**/*_test.go",),
    ("**/testdata/**",),
    words=r"testing\.Testing\(|\.test\"|\bos\.Exit\(0\)|flag\.Lookup\(\"test",
)
CARGO = Runner(
    "cargo",
    r"(?:.*/)?cargo",
    ("tests/**/*.rs",),
    ("tests/**", "**/snapshots/**", ".config/nextest.toml"),
    words=r"process::exit\(0\)|cfg!?\(test\)|RUST_TEST_",
)
RSPEC = Runner(
    "rspec",
    r"(?:.*/)?rspec",
    ("spec/**/*_spec.rb",),
    ("spec/**", ".rspec"),
    words=r"\bRSpec\b|\bexit!?\s*\(?0",
)
RUNNERS = (PYTEST, UNITTEST, NODE, JEST, VITEST, RSPEC, GO, CARGO)

_BY_FILES = (
    (JEST, ("jest.config.*",)),
    (VITEST, ("vitest.config.*",)),
    (PYTEST, _PYTHON_FILES),
    (GO, GO.tests),
    (RSPEC, RSPEC.tests),
    (NODE, NODE.tests),
    (CARGO, ("Cargo.toml",)),
)


def runner_of(argv: Sequence[str], paths: Collection[str]) -> Runner | None:
    """The runner that a program names, else the one that the files of the tree speak for."""
    if found := _named(argv):
        return found[0]
    for runner, patterns in _BY_FILES:
        if any(matches_any(patterns, path) for path in paths):
            return runner
    return None


def reporting_argv(runner: Runner | None, argv: Sequence[str]) -> tuple[str, ...]:
    """The arguments with which a program writes a report to the file that stands for `{report}`;
    () if it cannot be asked, because it does not name the runner itself."""
    found = _named(argv)
    if found is None or runner is None or not runner.reporting or found[0] is not runner:
        return ()
    at = found[1] + 1 if runner.first else len(argv)
    return (*argv[:at], *runner.reporting, *argv[at:])


def _named(argv: Sequence[str]) -> tuple[Runner, int] | None:
    """The runner that is a word of the program, and where."""
    for at, word in enumerate(argv):
        for runner in RUNNERS:
            is_test = runner not in (GO, CARGO) or {"test", "nextest"} & set(argv[at + 1 :])
            if re.fullmatch(runner.program, word) and is_test:
                return runner, at
    return None


# ── a test that must fail ───────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Alarm:
    """A test of ours that must fail: its file, and the function by which the report names it."""

    path: str
    text: str
    test: str


_NOUNS = ("order", "total", "rounding", "join", "parts", "prefix", "length", "merge")
_PY = "def test_{name}():\n    parts = [{a}, {b}]\n    assert sum(parts) == {wrong}\n"
_CASE = (
    "import unittest\n\n\nclass Test{title}(unittest.TestCase):\n    def test_{name}(self):\n"
    "        parts = [{a}, {b}]\n        self.assertEqual(sum(parts), {wrong})\n"
)
_BODY = "test('test_{name}', () => {{\n  const parts = [{a}, {b}];\n  {claim};\n}});\n"
_EQUAL = "assert.strictEqual(parts[0] + parts[1], {wrong})"
_EXPECT = "expect(parts[0] + parts[1]).toBe({wrong})"
_TEXTS = {
    "pytest": _PY,
    "unittest": _CASE,
    "jest": _BODY.replace("{claim}", _EXPECT),
    "vitest": "import {{ expect, test }} from 'vitest';\n\n" + _BODY.replace("{claim}", _EXPECT),
    "go": (
        'package {package}\n\nimport "testing"\n\nfunc Test{title}(t *testing.T) {{\n'
        '\tif sum := {a} + {b}; sum != {wrong} {{\n\t\tt.Fatal("sum is", sum)\n\t}}\n}}\n'
    ),
    "cargo": "#[test]\nfn test_{name}() {{\n    assert_eq!({a} + {b}, {wrong});\n}}\n",
    "rspec": (
        "RSpec.describe 'sums' do\n  it 'test_{name}' do\n    expect({a} + {b}).to eq({wrong})\n"
        "  end\nend\n"
    ),
}
_IMPORTED = (
    "import assert from 'node:assert';\nimport test from 'node:test';\n\n",
    "const assert = require('node:assert');\nconst test = require('node:test');\n\n",
)


def alarm(runner: Runner, model: str, text: str, digits: str) -> Alarm | None:
    """A failing test beside the test file `model` with this `text`, named by random `digits`."""
    number = int(digits, 16)
    noun = _NOUNS[number % len(_NOUNS)]
    name = f"{noun}_{digits[:10]}"
    a, b = number % 89 + 2, number % 71 + 3
    title = name.title().replace("_", "")
    words = {"name": name, "title": title, "a": a, "b": b, "wrong": a + b + 1}
    if runner is NODE:
        uses_import = re.search(r"(?m)^import\b", text) or model.endswith((".mjs", ".mts"))
        form = _IMPORTED[0 if uses_import else 1] + _BODY.replace("{claim}", _EQUAL)
    else:
        form = _TEXTS[runner.name]
    package = re.search(r"(?m)^package +(\w+)", text)
    words["package"] = package[1] if package else "main"
    test = f"Test{title}" if runner is GO else f"test_{name}"
    return Alarm(_beside(model, name), form.format(**words), test)


def _beside(model: str, name: str) -> str:
    """A path in the folder of the model, with the form of its name."""
    path = PurePosixPath(model)
    if re.match(r"test_.*\.py\Z", path.name):
        own = f"test_{name}.py"
    elif ending := re.search(r"(?:_test|_spec|\.test|\.spec)\.\w+\Z", path.name):
        own = f"{name}{ending[0]}"
    else:
        own = f"{name}{path.suffix}"
    return str(path.with_name(own))


# ── shared files ────────────────────────────────────────────────────────────────────────────


def owned(pattern: str, path: str, text: bytes) -> bytes:
    """The part of a shared file that is the runner's; all of it if it cannot be taken apart."""
    if path.endswith(".json"):
        shape = _json(text)
        if shape is None:
            return text
        own = {key: value for key, value in shape.items() if re.fullmatch(pattern, key)}
        return json.dumps(own, sort_keys=True).encode() if own else b""
    return b"".join(block for is_own, block in _blocks(pattern, text) if is_own)


def spliced(path: str, ours: bytes, theirs: bytes, pattern: str) -> bytes:
    """The shared file `ours` with the runner's part of `theirs`."""
    if owned(pattern, path, ours) == owned(pattern, path, theirs):
        return ours
    if path.endswith(".json"):
        mine, other = _json(ours or b"{}"), _json(theirs or b"{}")
        if mine is None or other is None:
            return theirs
        made = {key: value for key, value in mine.items() if not re.fullmatch(pattern, key)}
        made |= {key: value for key, value in other.items() if re.fullmatch(pattern, key)}
        return (json.dumps(made, indent=2, ensure_ascii=False) + "\n").encode() if made else b""
    kept = b"".join(block for is_own, block in _blocks(pattern, ours) if not is_own)
    return _ended(kept) + owned(pattern, path, theirs)


def _blocks(pattern: str, text: bytes) -> list[tuple[bool, bytes]]:
    """The sections of a TOML or INI file, and whether each is the runner's."""
    parts = re.split(rb"(?m)^(?=[ \t]*\[)", text)
    return [(_is_own(pattern, part), part) for part in parts if part]


def _is_own(pattern: str, block: bytes) -> bool:
    header = re.match(rb"[ \t]*\[{1,2}[ \t]*([^\]\n]+?)[ \t]*\]", block)
    name = header[1].decode("utf-8", "replace") if header else ""
    return re.fullmatch(pattern, name) is not None


def _ended(text: bytes) -> bytes:
    return text if not text or text.endswith(b"\n") else text + b"\n"


def _json(text: bytes) -> dict[str, object] | None:
    try:
        shape = json.loads(text or b"{}")
    except (ValueError, RecursionError):
        return None
    return shape if isinstance(shape, dict) else None
