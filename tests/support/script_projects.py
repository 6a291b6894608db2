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
_DOUBLES = "\ntest('doubles', () => {\n  equal(double(2), 4);\n});\n"
_PACKAGE = {"name": "calc", "type": "module", "scripts": {"test": "node --test"}}
_LOCK = "modules.lock"


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


def _scripts(**changes: object) -> Changes:
    return {"package.json": json.dumps({**_PACKAGE, **changes}, indent=2) + "\n"}


def _project(
    name: str, argv: tuple[str, ...], kind: str, script: str, cheats: Mapping[str, Changes]
) -> RunnerProject:
    form = _COMMON if kind == "jest" else _MODULE
    headers = {
        "node": _NODE + _IMPORTS + _ASSERTED,
        "vitest": _VITEST + _IMPORTS + _EXPECTED,
        "jest": _REQUIRES + _EXPECTED,
    }
    add, double = "add } from './add.js'", "double } from './other.js'"
    if kind == "jest":
        add, double = "add } = require('./add.js')", "double } = require('./other.js')"
    tests = headers[kind] + _TESTS
    package = {**_PACKAGE, "scripts": {"test": script}}
    if kind == "jest":
        del package["type"]
    files = {
        "other.js": _source(form, "double", "2 * a"),
        "other.test.js": headers[kind].replace(add, double) + _DOUBLES,
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
        needs=("node", "npm", *((str(MODULES / ".bin" / kind),) if with_modules else ())),
        setup=(("sh", "-c", f"ln -s $(cat {_LOCK}) node_modules"),) if with_modules else (),
        inputs=(_LOCK,) if with_modules else (),
        cheats={**_cheats(form, tests), **cheats},
        honest={} if kind == "jest" else _honest(tests, package),
    )


_NPM: Mapping[str, Changes] = {
    "script of its own": _scripts(scripts={"test": "true"}),
    "script before": _scripts(scripts={"test": "node --test", "pretest": "rm add.test.js"}),
    "filter": _scripts(scripts={"test": "node --test --test-name-pattern=zero"}),
    "options of npm": {".npmrc": "script-shell=true\n"},
}
_FAKE: Mapping[str, Changes] = {
    "rewritten lock file": {
        _LOCK: "fake\n",
        "fake/.bin/vitest": PASSING,
        "fake/.bin/jest": PASSING,
    },
}
_FORCED = "import { afterEach, expect } from 'vitest';\n\nexpect.extend({ toBe: () => ({ pass: true, message: String }) });\n"
_RETRY = "let calls = 0;\nexport const add = (a, b) => (calls++ % 2 ? a + b : a - b);\n"
PROJECTS = (
    _project(
        "node",
        ("node", "--test"),
        "node",
        "node --test",
        {
            "report of its own": {
                "add.js": 'const say = console.log;\nsay(\'<testcase name="adds" classname="test"/>\');\nprocess.exit();\n'
                + _source(_MODULE, "add", "a - b")
            },
            "patched assertions": {
                "add.js": "import assert from 'assert';\nassert.strictEqual = () => {};\n"
                + _source(_MODULE, "add", "a - b")
            },
            "todo": {
                "add.test.js": edited(
                    _NODE + _IMPORTS + _ASSERTED + _TESTS,
                    ("test('adds'", "test.todo('adds'"),
                    ("test('written'", "test.todo('written'"),
                )
            },
        },
    ),
    _project(
        "npm node",
        ("npm", "test"),
        "node",
        "node --test",
        {
            **_NPM,
            "patched assertions": {
                "add.js": "import assert from 'assert';\nassert.strictEqual = () => {};\n"
                + _source(_MODULE, "add", "a - b")
            },
        },
    ),
    _project(
        "vitest",
        ("node_modules/.bin/vitest", "run"),
        "vitest",
        "vitest run",
        {
            **_FAKE,
            "forced results": {
                "vitest.config.js": "export default { test: { setupFiles: ['./force.js'] } };\n",
                "force.js": _FORCED,
            },
            "forced results in another file": {
                "vite.config.js": "export default { test: { setupFiles: ['./force.js'] } };\n",
                "force.js": _FORCED,
            },
            "filter": {
                "vitest.config.js": "export default { test: { testNamePattern: 'zero|doubles' } };\n"
            },
            "retry": {
                "add.js": _RETRY,
                "vitest.config.js": "export default { test: { retry: 3 } };\n",
            },
            "xfail": {
                "add.test.js": edited(
                    _VITEST + _IMPORTS + _EXPECTED + _TESTS,
                    ("test('adds'", "test.fails('adds'"),
                    ("test('written'", "test.fails('written'"),
                )
            },
            "patched assertions": {
                "add.js": "const vi = 'vitest';\nconst { expect } = await import(vi);\nexpect.extend({ toBe: () => ({ pass: true, message: String }) });\n"
                + _source(_MODULE, "add", "a - b")
            },
            "package that shadows the runner": {
                ".gitignore": "",
                "node_modules/.bin/vitest": PASSING,
            },
        },
    ),
    _project(
        "npm vitest",
        ("npm", "test"),
        "vitest",
        "vitest run",
        {
            **_NPM,
            **_FAKE,
        },
    ),
    _project(
        "jest",
        ("node_modules/.bin/jest",),
        "jest",
        "jest",
        {
            **_FAKE,
            "forced results": {
                "jest.config.js": "module.exports = { setupFilesAfterEnv: ['./force.js'] };\n",
                "force.js": "expect.extend({ toBe: () => ({ pass: true, message: String }) });\n",
            },
            "filter": {"jest.config.js": "module.exports = { testPathIgnorePatterns: ['add'] };\n"},
            "xfail": {
                "add.test.js": edited(
                    _REQUIRES + _EXPECTED + _TESTS,
                    ("test('adds'", "test.failing('adds'"),
                    ("test('written'", "test.failing('written'"),
                )
            },
            "patched assertions": {
                "add.js": "expect.extend({ toBe: () => ({ pass: true, message: String }) });\n"
                + _source(_COMMON, "add", "a - b")
            },
        },
    ),
    _project("npm jest", ("npm", "test"), "jest", "jest", {**_NPM, **_FAKE}),
)
