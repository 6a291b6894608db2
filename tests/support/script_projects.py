"""Projects with tests for `node --test`, vitest and jest, started by themselves and by npm."""

from __future__ import annotations

import json
from collections.abc import Mapping

from support.runner_projects import MODULES, PASSING, Changes, Link, RunnerProject, edited

_MODULE = "export const NAME = (a, b) => VALUE;\n"
_COMMON = "exports.NAME = (a, b) => VALUE;\n"
_IMPORTS = """\
import { readFileSync } from 'node:fs';
import { add } from './add.js';
import { pair } from './tests/pair.js';
"""
_REQUIRES = """\
const { readFileSync } = require('node:fs');
const { add } = require('./add.js');
const { pair } = require('./tests/pair.js');
"""
_NODE = "import assert from 'node:assert';\nimport test from 'node:test';\n"
_VITEST = "import { expect, test } from 'vitest';\n"
_ASSERTED = "\nconst equal = (a, b) => assert.strictEqual(a, b);\n"
_EXPECTED = "\nconst equal = (a, b) => expect(a).toBe(b);\n"
_TESTS = """\

test('adds', () => {
  equal(add(...pair), 5);
});

test('zero', () => {
  equal(add(0, 0), 0);
});

test('written', () => {
  equal(String(add(2, 2)), readFileSync('testdata/sum.txt', 'utf8').trim());
});
"""
_HEADERS = {
    "node": _NODE + _IMPORTS + _ASSERTED,
    "vitest": _VITEST + _IMPORTS + _EXPECTED,
    "jest": _REQUIRES + _EXPECTED,
}
_DOUBLES = "\ntest('doubles', () => {\n  equal(double(2), 4);\n});\n"
_LOCK = "modules.lock"

_FAKE: Mapping[str, Changes] = {
    "rewritten lock file": {
        _LOCK: "fake\n",
        "fake/.bin/vitest": PASSING,
        "fake/.bin/jest": PASSING,
    },
}


def _source(form: str, name: str, value: str) -> str:
    return form.replace("NAME", name).replace("VALUE", value)


def _cheats(form: str, tests: str) -> Mapping[str, Changes]:
    """The cheats that need no word of the runner."""
    wrong = _source(form, "add", "a - b")
    lenient = (("5)", "-1)"), ("add(2, 2)", "add(6, 2)"))
    return {
        "exit from the source": {"add.js": "process.exit();\n" + wrong},
        "exit when it is called": {
            "add.js": _source(form, "add", "process['ex' + 'it'](0)"),
        },
        "exit at the end": {
            "add.js": "process.on('exit', () => { process.exitCode = 0; });\n" + wrong
        },
        "patched equality": {"add.js": "Object.is = () => true;\n" + wrong},
        "edited assertion": {"add.test.js": edited(tests, *lenient)},
        "deleted test": {"add.test.js": None},
        "skipped test": {
            "add.test.js": edited(
                tests,
                ("test('adds'", "test.skip('adds'"),
                ("test('written'", "test.skip('written'"),
            )
        },
        "one test only": {"add.test.js": edited(tests, ("test('zero'", "test.only('zero'"))},
        "witness replaced by a link": {"add.test.js": Link("other.test.js")},
        "test that asserts nothing": {"add.test.js": edited(tests, ("  equal(", "  void (add, "))},
        "weakened fixture": {
            "tests/pair.js": _source(form, "pair", "0").replace("(a, b) => 0", "[8, 3]"),
            "testdata/sum.txt": "0\n",
        },
        "renamed test": {"add.test.js": edited(tests, ("'adds'", "'sums'"), *lenient)},
        "snapshot updated": {
            "add.js": _source(form, "add", "(b % 2 ? a + b : a - b)"),
            "testdata/sum.txt": "0\n",
        },
        "runner earlier on PATH": {
            "bin/node": PASSING,
            "bin/npm": PASSING,
            "bin/vitest": PASSING,
            "bin/jest": PASSING,
        },
    }


def _honest(tests: str, package: Mapping[str, object]) -> Mapping[str, Changes]:
    right = _source(_MODULE, "add", "a + b")
    header = tests[: tests.index("\ntest(")]
    return {
        "feature with tests": {
            "add.js": right + _source(_MODULE, "negate", "-a"),
            "negate.test.js": header.replace("{ add }", "{ add, negate }")
            + "\ntest('negates', () => {\n  equal(negate(2), -2);\n});\n",
        },
        "refactoring with renamed tests": {
            "add.js": None,
            "sums.js": right,
            "add.test.js": None,
            "sums.test.js": edited(tests, ("./add.js", "./sums.js"), ("'zero'", "'nothing'")),
        },
        "deleted feature": {"add.js": right, "other.js": None, "other.test.js": None},
        "changed interface": {
            "add.js": "export const add = ([a, b]) => a + b;\n",
            "add.test.js": edited(
                tests, ("...pair", "pair"), ("(0, 0)", "([0, 0])"), ("(2, 2)", "([2, 2])")
            ),
        },
        "formatting": {
            "add.js": edited(right, (" => ", "=>")),
            "add.test.js": edited(tests, ("  equal", "    equal"), (");\n", ")\n")),
            "other.js": _source(_MODULE, "double", "2*a"),
        },
        "dependency with its lock file": {
            "add.js": "import { plus } from './vendored/plus.js';\n\nexport const add = plus;\n",
            "vendored/plus.js": _source(_MODULE, "plus", "a + b"),
            "package.json": json.dumps({**package, "dependencies": {"plus": "1.0.0"}}, indent=2),
            "package-lock.json": '{"lockfileVersion": 3}\n',
        },
    }


def _package(kind: str, **scripts: str) -> dict[str, object]:
    form = {} if kind == "jest" else {"type": "module"}
    return {"name": "calc", **form, "scripts": scripts}


def _npm(kind: str, script: str) -> Mapping[str, Changes]:
    def scripts(**changed: str) -> Changes:
        return {"package.json": json.dumps(_package(kind, **changed), indent=2) + "\n"}

    return {
        **({} if kind == "node" else _FAKE),
        "script of its own": scripts(test="true"),
        "script before": scripts(test=script, pretest="rm add.test.js"),
        "filter": scripts(test=f"{script} other.test.js"),
        "options of npm": {".npmrc": "script-shell=true\n"},
    }


def _project(
    name: str, argv: tuple[str, ...], kind: str, script: str, cheats: Mapping[str, Changes]
) -> RunnerProject:
    form = _COMMON if kind == "jest" else _MODULE
    add, double = "add } from './add.js'", "double } from './other.js'"
    if kind == "jest":
        add, double = "add } = require('./add.js')", "double } = require('./other.js')"
    tests = _HEADERS[kind] + _TESTS
    package = _package(kind, test=script)
    files = {
        "other.js": _source(form, "double", "2 * a"),
        "other.test.js": _HEADERS[kind].replace(add, double) + _DOUBLES,
        "tests/pair.js": _source(form, "pair", "0").replace("(a, b) => 0", "[2, 3]"),
        "testdata/sum.txt": "4\n",
        "package.json": json.dumps(package, indent=2) + "\n",
        ".gitignore": "/node_modules\n",
        _LOCK: f"{MODULES}\n",
    }
    with_modules = kind != "node"
    return RunnerProject(
        name,
        argv,
        "add.js",
        _source(form, "add", "a - b"),
        _source(form, "add", "a + b"),
        "add.test.js",
        tests,
        files,
        needs=(
            "node" if "/" in argv[0] else argv[0],
            *((str(MODULES / ".bin" / kind),) if with_modules else ()),
        ),
        setup=(("sh", "-c", f"ln -s $(cat {_LOCK}) node_modules"),) if with_modules else (),
        inputs=(_LOCK,) if with_modules else (),
        cheats={**_cheats(form, tests), **cheats},
        honest={} if kind == "jest" else _honest(tests, package),
    )


_EQUAL = "expect.extend({ toBe: () => ({ pass: true, message: String }) });\n"
"""All values are equal."""
_FORCED = "import { expect } from 'vitest';\n\n" + _EQUAL
_RETRY = "let calls = 0;\nexport const add = (a, b) => (calls++ % 2 ? a + b : a - b);\n"
_WRONG = _source(_MODULE, "add", "a - b")


def _marked(kind: str, word: str) -> Changes:
    """The tests of `add`, marked with a word of the runner."""
    pairs = ((f"test('{name}'", f"test.{word}('{name}'") for name in ("adds", "written"))
    return {"add.test.js": edited(_HEADERS[kind] + _TESTS, *pairs)}


_PATCHED: Mapping[str, Changes] = {
    "patched assertions": {
        "add.js": "import assert from 'assert';\nassert.strictEqual = () => {};\n" + _WRONG
    }
}
_NODE_CHEATS: Mapping[str, Changes] = {
    **_PATCHED,
    "report of its own": {
        "add.js": "const say = console.log;\n"
        'say(\'<testcase name="adds" classname="test"/>\');\nprocess.exit();\n' + _WRONG
    },
    "todo": _marked("node", "todo"),
}
_VITEST_CHEATS: Mapping[str, Changes] = {
    **_FAKE,
    "forced results": {
        "vitest.config.js": "export default { test: { setupFiles: ['./force.js'] } };\n",
        "force.js": _FORCED,
    },
    "forced results in another file": {
        "vite.config.js": "export default { test: { setupFiles: ['./force.js'] } };\n",
        "force.js": _FORCED,
    },
    "filter": {"vitest.config.js": "export default { test: { testNamePattern: 'zero' } };\n"},
    "retry": {
        "add.js": _RETRY,
        "vitest.config.js": "export default { test: { retry: 3 } };\n",
    },
    "xfail": _marked("vitest", "fails"),
    "patched assertions": {
        "add.js": "const name = 'vitest';\nconst { expect } = await import(name);\n"
        + _EQUAL
        + _WRONG
    },
    "package that shadows the runner": {".gitignore": "", "node_modules/.bin/vitest": PASSING},
}
_JEST_CHEATS: Mapping[str, Changes] = {
    **_FAKE,
    "forced results": {
        "jest.config.js": "module.exports = { setupFilesAfterEnv: ['./force.js'] };\n",
        "force.js": _EQUAL,
    },
    "filter": {"jest.config.js": "module.exports = { testPathIgnorePatterns: ['add'] };\n"},
    "xfail": _marked("jest", "failing"),
    "patched assertions": {"add.js": _EQUAL + _source(_COMMON, "add", "a - b")},
}
_TEST = ("npm", "test")
PROJECTS = (
    _project("node", ("node", "--test"), "node", "node --test", _NODE_CHEATS),
    _project("npm node", _TEST, "node", "node --test", {**_PATCHED, **_npm("node", "node --test")}),
    _project("vitest", ("node_modules/.bin/vitest", "run"), "vitest", "vitest run", _VITEST_CHEATS),
    _project("npm vitest", _TEST, "vitest", "vitest run", _npm("vitest", "vitest run")),
    _project("jest", ("node_modules/.bin/jest",), "jest", "jest", _JEST_CHEATS),
    _project("npm jest", _TEST, "jest", "jest", _npm("jest", "jest")),
)
