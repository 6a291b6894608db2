"""Small projects of newcomers: `greet` works with a name, and the tests show it.

Each has a change to make, a test of the change, and the way in which its tests are run.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.scratch_project import Project

CHANGE = "greet the world without a name"
BRANCH = CHANGE.replace(" ", "-")
REVIEW = f".playbooks/reviews/{BRANCH}.md"


@dataclass(frozen=True)
class Newcomer:
    """A project as it begins: `files`, the program it needs, and the check that `init` finds.

    `code` becomes `right`, and `test` is extended by `more`.
    """

    name: str
    needs: str
    files: dict[str, str]
    check: tuple[str, ...]
    code: str
    right: str
    test: str
    more: str

    def begun(self, root: Path, home: Path) -> Project:
        """The repository after its first commit, with a bare remote. Skips if a program lacks."""
        if not shutil.which(self.needs):
            pytest.skip(f"needs {self.needs}")
        project = begun(root, home, self.files)
        remote = root.with_name("remote.git")
        subprocess.run(["git", "init", "-q", "--bare", str(remote)], check=True)
        project.git("remote", "add", "origin", str(remote))
        project.git("push", "-q", "-u", "origin", "main")
        return project

    def agent(self, project: Project) -> str:
        """It forgets the test at first; the reviewer notices."""
        tested = self.files[self.test] + self.more
        failed = f"verdict: FAIL\n\n{self.test}: no test greets without a name.\n"
        steps = {
            "change": [
                {"say": "greet has a default name.", "write": {self.code: self.right}},
                {"say": "The default name has a test.", "write": {self.test: tested}},
            ],
            "review": [
                {"say": "The default name has no test.", "write": {REVIEW: failed}},
                {"say": "Nothing is missing.", "write": {REVIEW: "verdict: PASS\n"}},
            ],
        }
        return project.script(json.dumps({"steps": steps}))


def begun(root: Path, home: Path, files: dict[str, str]) -> Project:
    project = Project(root, home)
    root.mkdir()
    project.git("init", "-q")
    for path, text in files.items():
        project.write(path, text)
    project.commit("Begin")
    return project


PYTHON = Newcomer(
    "python",
    "python3",
    {
        "greet.py": 'def greet(name):\n    return f"Hello, {name}!"\n',
        "tests/test_greet.py": (
            "import sys\nimport unittest\n\n"
            "sys.path.insert(0, '.')\n\nfrom greet import greet\n\n\n"
            "class TestGreet(unittest.TestCase):\n"
            '    def test_a_name(self):\n        self.assertEqual(greet("Ada"), "Hello, Ada!")\n'
        ),
        "tests/__init__.py": "",
        ".gitignore": "__pycache__/\n",
    },
    ("python3", "-m", "unittest", "discover", "-s", "tests"),
    "greet.py",
    'def greet(name="world"):\n    return f"Hello, {name}!"\n',
    "tests/test_greet.py",
    '\n    def test_no_name(self):\n        self.assertEqual(greet(), "Hello, world!")\n',
)
NODE = Newcomer(
    "node",
    "npm",
    {
        "package.json": '{"name": "greet", "type": "module", "scripts": {"test": "node --test"}}\n',
        "src/greet.js": "export const greet = (name) => `Hello, ${name}!`;\n",
        "test/greet.test.js": (
            'import assert from "node:assert";\nimport test from "node:test";\n'
            'import { greet } from "../src/greet.js";\n\n'
            'test("a name", () => assert.equal(greet("Ada"), "Hello, Ada!"));\n'
        ),
    },
    ("npm", "test"),
    "src/greet.js",
    'export const greet = (name = "world") => `Hello, ${name}!`;\n',
    "test/greet.test.js",
    'test("no name", () => assert.equal(greet(), "Hello, world!"));\n',
)
GO = Newcomer(
    "go",
    "go",
    {
        "go.mod": "module example.org/greet\n\ngo 1.19\n",
        "greet.go": (
            "package greet\n\nfunc Greet(name string) string {\n"
            '\treturn "Hello, " + name + "!"\n}\n'
        ),
        "greet_test.go": (
            'package greet\n\nimport "testing"\n\nfunc TestName(t *testing.T) {\n'
            '\tif Greet("Ada") != "Hello, Ada!" {\n\t\tt.Fatal(Greet("Ada"))\n\t}\n}\n'
        ),
    },
    ("go", "test", "./..."),
    "greet.go",
    "package greet\n\nfunc Greet(name string) string {\n"
    '\tif name == "" {\n\t\tname = "world"\n\t}\n'
    '\treturn "Hello, " + name + "!"\n}\n',
    "greet_test.go",
    "\nfunc TestNoName(t *testing.T) {\n"
    '\tif Greet("") != "Hello, world!" {\n\t\tt.Fatal(Greet(""))\n\t}\n}\n',
)
MAKE = Newcomer(
    "make",
    "make",
    {
        "Makefile": "test:\n\t@sh tests/greet.sh\n",
        "greet": '#!/bin/sh\necho "Hello, $1!"\n',
        "tests/greet.sh": 'set -e\n[ "$(sh greet Ada)" = "Hello, Ada!" ]\n',
    },
    ("make", "test"),
    "greet",
    '#!/bin/sh\necho "Hello, ${1:-world}!"\n',
    "tests/greet.sh",
    '[ "$(sh greet)" = "Hello, world!" ]\n',
)
NEWCOMERS = (PYTHON, NODE, GO, MAKE)
