"""What is known of the runners of tests: their files, their settings, and a test that must fail."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from playbook_supervisor.project.expressions.globs import matches_any

_SCRIPTS = "{js,jsx,ts,tsx,mjs,cjs,mts,cts}"
_LOADED = (
    *("sitecustomize.py", "usercustomize.py", "**/*.pth", "**/__pycache__/**", "**/*.pyc"),
    *("**/*.dist-info/**", "**/*.egg-info/**"),
)
_PYTHON_FILES = ("**/test_*.py", "**/*_test.py")
_PYTHON_AROUND = ("**/conftest.py", "pytest.ini", ".pytest.ini", "tox.ini", "tests/**", "test/**")
_PYTHON_SHARED = {
    "pyproject.toml": r"tool\.pytest(?:\..*)?|tool\.coverage(?:\..*)?|tool\.tox(?:\..*)?",
    "setup.cfg": r"tool:pytest|coverage:.*|options\.extras_require",
}
_NODE_SHARED = {"package.json": "scripts|jest|vitest|mocha|ava"}
_RUST_TESTS = r"""(?mx)
    ^( \#\[(?:cfg\(test\)|(?:\w+::)*test(?:\(.*\))?)\]\s*?\n (?:\#\[.*\]\s*?\n)*
    (?:.*(?:;|\{.*\})\s*?$\n? | (?:.*\n)*?\}\s*?$\n?) )
"""
"""A test of Rust, or a module of tests, which ends with the first brace that begins a line."""
_DATA = r"(?:.*/)?(?:node_modules|vendor|testdata|_*fixtures?_*|_*snapshots_*|data)/.*"


def _each(pattern: str) -> tuple[str, ...]:
    return tuple(pattern.replace(_SCRIPTS, ending) for ending in _SCRIPTS[1:-1].split(","))


@dataclass(frozen=True, slots=True)
class Runner:
    """A runner of tests. All patterns are of paths in the repository.

    `tests` are files with tests, `surroundings` what tests read and what tells the runner which to
    run. `shared` has the sections of the runner by the name of a file that others use, too, or by
    `*` and the ending of source files with tests in them. `shadows` would stand for the runner, or
    load by themselves, if they appeared. `words` find code that names the runner. `reporting` are
    arguments that make it write a report and go on after a failure, which follow its name at once
    if they have to be `first`. `apart`: each file runs in a process or with modules of its own.
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
    apart: bool = False


_REPORT = "{report}"
_JUNIT = ("--test-reporter=junit", f"--test-reporter-destination={_REPORT}")
_SPEC = ("--test-reporter=spec", "--test-reporter-destination=stdout")
_NODE_TESTS = (*_each(f"**/*.test.{_SCRIPTS}"), *_each(f"**/*.spec.{_SCRIPTS}"))
_NODE_AROUND = (
    *("test/**", "tests/**", "**/__tests__/**", "**/__mocks__/**", "**/__snapshots__/**"),
    *("**/testdata/**", "**/*.snap", ".npmrc", ".yarnrc*"),
)

PYTEST = Runner(
    "pytest",
    r"(?:.*/)?(?:pytest|py\.test)",
    _PYTHON_FILES,
    (*_PYTHON_AROUND, ".coveragerc", "**/testdata/**", "**/snapshots/**", "**/__snapshots__/**"),
    _PYTHON_SHARED,
    (*_LOADED, "pytest/**", "pytest.py", "_pytest/**", "pluggy/**", "pluggy.py"),
    r"\b_?pytest\b|PYTEST_|\bpluggy\b|\bos\._exit\b|sys\.(?:argv|modules)\b.*test",
    (f"--junitxml={_REPORT}", "--maxfail=0", "--continue-on-collection-errors"),
)
UNITTEST = Runner(
    "unittest",
    "unittest",
    _PYTHON_FILES,
    (*_PYTHON_AROUND, "**/testdata/**"),
    {},
    (*_LOADED, "unittest/**", "unittest.py"),
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
    apart=True,
)
JEST = Runner(
    "jest",
    r"(?:.*/)?jest",
    _NODE_TESTS,
    (*_NODE_AROUND, "jest.config.*", "**/jest.setup.*"),
    _NODE_SHARED,
    ("**/node_modules/jest*/**", "**/node_modules/@jest/**", "**/node_modules/.bin/**"),
    r"JEST_WORKER_ID|\bjest\b|process\.exit\(0?\)",
    ("--bail=0",),
    apart=True,
)
VITEST = Runner(
    "vitest",
    r"(?:.*/)?vitest",
    _NODE_TESTS,
    (*_NODE_AROUND, "vite.config.*", "vitest.*"),
    _NODE_SHARED,
    ("**/node_modules/vitest/**", "**/node_modules/@vitest/**", "**/node_modules/.bin/**"),
    r"VITEST|(?:from|import|require)\b.{0,3}['\"]vitest\b|import\.meta\.vitest|process\.exit\(0?\)",
    ("--reporter=default", "--reporter=junit", f"--outputFile.junit={_REPORT}", "--bail=0"),
    apart=True,
)
GO = Runner(
    "go",
    r"(?:.*/)?go",
    ("**/*_test.go",),
    ("**/testdata/**",),
    words=r"testing\.Testing\(|\.test\"|\b(?:os|syscall)\.Exit\(0\)|flag\.Lookup\(\"test|\"testing\"",
)
CARGO = Runner(
    "cargo",
    r"(?:.*/)?cargo",
    ("**/tests/*.rs", "**/tests/*/main.rs", "**/tests.rs"),
    ("**/tests/**", "**/testdata/**", "**/snapshots/**", ".config/nextest.toml", ".cargo/**"),
    {"Cargo.toml": r"lib|test|profile\..*", "*.rs": _RUST_TESTS},
    words=r"process::exit\(0\)|cfg!\(test\)|cfg\(not\(test\)\)|RUST_TEST_",
    reporting=("--no-fail-fast",),
    apart=True,
)
RSPEC = Runner(
    "rspec",
    r"(?:.*/)?rspec",
    ("**/spec/**/*_spec.rb",),
    ("**/spec/**", ".rspec*"),
    shadows=("lib/rspec/**", "lib/rspec.rb"),
    words=r"\bRSpec\b|\bexit!?\s*\(?(?:0|true)",
    reporting=("--no-fail-fast",),
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


def runner_of(argv: Sequence[str], paths: Collection[str], recipe: bytes = b"") -> Runner | None:
    """The runner that a program names, or that its rule in the Makefile or its script in
    `package.json` names, which is the `recipe`, else the one that the files speak for."""
    rule = rf'\b{re.escape(argv[-1])}"?\s*:'
    said = re.split(rule, recipe.decode("utf-8", "replace"), maxsplit=1)[-1]
    if found := _named(argv) or _named(re.findall(r"[\w./-]+", said)):
        return found[0]
    for runner, patterns in _BY_FILES:
        if any(matches_any(patterns, path) for path in paths):
            return runner
    return None


def reporting_argv(runner: Runner | None, argv: Sequence[str]) -> tuple[str, ...]:
    """The arguments with which a program writes a report to the file that stands for `{report}`,
    if its runner can, and goes on after a failure; () if it cannot be asked, because it does not
    name the runner itself."""
    found = _named(argv)
    if found is None or runner is None or not runner.reporting or found[0] is not runner:
        return ()
    ends = [at for at, word in enumerate(argv) if word == "--" and at > found[1]]
    at = found[1] + 1 if runner.first else min([*ends, len(argv)])
    return (*argv[:at], *runner.reporting, *argv[at:])


def _named(argv: Sequence[str]) -> tuple[Runner, int] | None:
    for at, word in enumerate(argv):
        for runner in RUNNERS:
            is_test = runner not in (GO, CARGO) or {"test", "nextest"} & set(argv[at + 1 :])
            if re.fullmatch(runner.program, word) and is_test:
                return runner, at
    return None


# ── a test that must fail ───────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Alarm:
    """A test of ours that must fail: the end of the file at `path`, or all of it if it is new. A
    report names it by the function `test`, and `mark` is in the output if it has failed."""

    path: str
    text: str
    test: str
    mark: str


_NOUNS = ("order", "total", "rounding", "join", "parts", "prefix", "length", "merge")
_SUM = "said = '{left} ' + str({a} + {b})\n"
_PY = f"def test_{{name}}():\n    {_SUM}    assert said == '{{left}} {{wrong}}'\n"
_CASE = (
    "import unittest\n\n\nclass Test{title}(unittest.TestCase):\n    def test_{name}(self):\n"
    f"        {_SUM}        self.assertEqual(said, '{{left}} {{wrong}}')\n"
)
_JEST = (
    "test('test_{name}', () => {{\n  const said = '{left} ' + ({a} + {b});\n"
    "  expect(said).toBe('{left} {wrong}');\n}});\n"
)
_VITEST = _JEST.replace("test(", "run_{name}(").replace("expect(", "claim_{name}(")
_NODE = _VITEST.replace("(said).toBe(", ".strictEqual(said, ")
_TEXTS = {
    "pytest": _PY,
    "unittest": _CASE,
    "jest": _JEST,
    "vitest": "import {{ expect as claim_{name}, test as run_{name} }} from 'vitest';\n" + _VITEST,
    "node": (
        "const claim_{name} = require('node:assert');\nconst run_{name} = require('node:test');\n"
        + _NODE
    ),
    "node module": (
        "import claim_{name} from 'node:assert';\nimport run_{name} from 'node:test';\n" + _NODE
    ),
    "go": (
        'package {package}\n\nimport "testing"\n\nfunc Test{title}(t *testing.T) {{\n'
        '\tif sum := {a} + {b}; sum != {wrong} {{\n\t\tt.Fatal("{left}", sum)\n\t}}\n}}\n'
    ),
    "cargo": (
        "#[cfg(test)]\nmod {name} {{\n    #[test]\n    fn test_{name}() {{\n"
        '        assert_eq!({a} + {b}, {wrong}, "{left} {{}}", {a} + {b});\n    }}\n}}\n'
    ),
    "rspec": (
        "RSpec.describe 'sums' do\n  it 'test_{name}' do\n"
        "    expect(\"{left} #{{{a} + {b}}}\").to eq('{left} {wrong}')\n  end\nend\n"
    ),
}


def alarm(runner: Runner, model: str, text: bytes, digits: str, *, inside: bool) -> Alarm:
    """A failing test in or beside the test file `model` with this `text`, named by random
    `digits`."""
    number = int(digits, 16)
    noun = _NOUNS[number % len(_NOUNS)]
    name = f"{noun}_{digits[:10]}"
    a, b = number % 89 + 2, number % 71 + 3
    title, left = name.title().replace("_", ""), f"{noun} {digits[10:]}"
    package = re.search(rb"(?m)^package +(\w+)", text)
    words = {"name": name, "title": title, "left": left, "a": a, "b": b, "wrong": a + b + 1}
    words["package"] = package[1].decode() if package else "main"
    form = _TEXTS[_form(runner, model, text)].format(**words)
    test = f"Test{title}" if runner is GO else f"test_{name}"
    path, form = (model, f"\n{form}") if inside else (_beside(model, name), form)
    return Alarm(path, form, test, f"{left} {a + b}")


def _form(runner: Runner, model: str, text: bytes) -> str:
    if runner is PYTEST and b"unittest" in text:
        return UNITTEST.name
    if runner is NODE and not model.endswith((".cjs", ".cts")):
        is_module = model.endswith((".mjs", ".mts")) or re.search(
            rb"(?m)^(?:import|export)\b", text
        )
        return "node module" if is_module else NODE.name
    return runner.name


def is_data(path: str) -> bool:
    """True if tests read the file, and no runner runs it."""
    return re.match(_DATA, path) is not None


def _beside(model: str, name: str) -> str:
    path = PurePosixPath(model)
    ending = r"(?:[._](?:test|spec))?(?:\.\w+)?\Z"
    return str(path.with_name(re.sub(ending, rf"s_{name}\g<0>", path.name, count=1)))


# ── shared files ────────────────────────────────────────────────────────────────────────────


def owned(pattern: str, path: str, text: bytes) -> bytes:
    """The part of a shared file that is the runner's; all of it if it cannot be taken apart."""
    if path.endswith(".json"):
        shape = _json(text)
        if shape is None:
            return text
        own = {key: value for key, value in shape.items() if re.fullmatch(pattern, key)}
        return json.dumps(own, sort_keys=True).encode() if own else b""
    return b"".join(block for is_own, block in _blocks(pattern, path, text) if is_own)


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
    kept = b"".join(block for is_own, block in _blocks(pattern, path, ours) if not is_own)
    return _ended(kept) + owned(pattern, path, theirs)


def _blocks(pattern: str, path: str, text: bytes) -> list[tuple[bool, bytes]]:
    """The sections of a TOML or INI file, or the parts of a source file, and whether each is the
    runner's."""
    if path.endswith(".rs"):
        return [(at % 2 == 1, part) for at, part in enumerate(re.split(pattern.encode(), text))]
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
