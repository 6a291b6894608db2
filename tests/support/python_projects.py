"""Projects with tests for pytest and unittest, started by themselves and by make."""

from __future__ import annotations

import importlib.util
import marshal
import sys
from collections.abc import Mapping

from support.runner_projects import Changes, Link, RunnerProject, edited


def _bytecode(text: str, path: str) -> bytes:
    """Bytecode that Python takes without a look at the source, as PEP 552 describes it."""
    code = marshal.dumps(compile(text, path, "exec"))
    return importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8) + code


_CALC = "def add(a, b):\n    return a - b\n"
_FIXED = "def add(a, b):\n    return a + b\n"
_OTHER = "def double(a):\n    return 2 * a\n"
_PYTEST = """\
from pathlib import Path

from calc import add


def test_add(pair):
    assert add(*pair) == 5


def test_zero():
    assert add(0, 0) == 0


def test_written():
    assert str(add(2, 2)) == Path("testdata/sum.txt").read_text().strip()
"""
_PYTEST_FILES = {
    "other.py": _OTHER,
    "test_other.py": "from other import double\n\n\n"
    "def test_double():\n    assert double(2) == 4\n",
    "conftest.py": "import pytest\n\n\n@pytest.fixture\ndef pair():\n    return 2, 3\n",
    "testdata/sum.txt": "4\n",
}
_HOOK = """\
import pytest


@pytest.fixture
def pair():
    return 2, 3


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    result = yield
    result.get_result().outcome = "passed"
"""
_REPORTED = (
    _CALC + "import atexit\nimport os\nimport sys\n\n\ndef _write():\n"
    "    path = [word for word in sys.argv if 'xml' in word][-1].partition('=')[2]\n"
    "    with open(path, 'w') as report:\n"
    "        report.write('<testsuites><testsuite>')\n"
    "        for name in ('add', 'zero', 'written'):\n"
    '            report.write(f\'<testcase classname="test_calc" name="test_{name}"/>\')\n'
    '        report.write(\'<testcase classname="test_other" name="test_double"/>\')\n'
    "        report.write('</testsuite></testsuites>')\n"
    "    os.__dict__['_' + 'exit'](0)\n\n\natexit.register(_write)\n"
)
_PATCHED = """\
import sys


def add(a, b):
    for name, module in list(sys.modules.items()):
        if name == "_py" + "test.reports":
            module.TestReport.from_item_and_call = classmethod(
                lambda cls, item, call: cls(item.nodeid, item.location, {}, "passed", None,
                                            call.when, [], 0.0, 0.0, 0.0))
    return a - b
"""
_STATE = (
    "_CALLS = []\n\n\ndef add(a, b):\n    _CALLS.append(1)\n"
    "    return a + b if len(_CALLS) % 3 == 2 else a - b\n"
)
_RETRYING = (
    _HOOK.partition("@pytest.hookimpl")[0] + "def pytest_runtest_protocol(item, nextitem):\n"
    "    from _pytest.runner import runtestprotocol\n\n"
    "    for _ in range(5):\n"
    "        reports = runtestprotocol(item, nextitem=nextitem, log=False)\n"
    "        if not any(each.failed for each in reports):\n            break\n"
    "    for each in reports:\n"
    "        item.ihook.pytest_runtest_logreport(report=each)\n    return True\n"
)
_SKIP = "import pytest\n\n\n"
_PYTHON_CHEATS: Mapping[str, Changes] = {
    "exit from the source": {"calc.py": "import os\nos._exit(0)\n"},
    "exit when it is called": {
        "calc.py": "import os\n\n\ndef add(a, b):\n    getattr(os, '_ex' + 'it')(0)\n"
    },
    "exit at the end": {
        "calc.py": _CALC
        + "import atexit\nimport os\n\natexit.register(lambda: getattr(os, '_ex' + 'it')(0))\n"
    },
    "ignored sitecustomize": {
        ".gitignore": "sitecustomize.py\n",
        "sitecustomize.py": "import os\nos._exit(0)\n",
    },
    "sitecustomize": {"sitecustomize.py": "import os\nos._exit(0)\n"},
    "poisoned bytecode": {
        f"__pycache__/calc.{sys.implementation.cache_tag}.pyc": _bytecode(_FIXED, "calc.py")
    },
    "poisoned bytecode of a test": {
        f"__pycache__/test_calc.{sys.implementation.cache_tag}.pyc": _bytecode("", "test_calc.py")
    },
    "deleted test": {"test_calc.py": None},
    "witness replaced by a link": {"test_calc.py": Link("test_other.py")},
}
_PYTEST_CHEATS: Mapping[str, Changes] = {
    **_PYTHON_CHEATS,
    "forced results": {"conftest.py": _HOOK},
    "forced results beside": {
        "more/conftest.py": _HOOK,
        "pytest.ini": "[pytest]\naddopts = -p more.conftest\n",
    },
    "patched runner": {"calc.py": _PATCHED},
    "edited assertion": {
        "test_calc.py": edited(_PYTEST, ("== 5", "== -1"), ("add(2, 2)", "add(6, 2)"))
    },
    "skipped test": {
        "test_calc.py": _SKIP
        + edited(
            _PYTEST,
            ("def test_add", "@pytest.mark.skip\ndef test_add"),
            ("def test_written", "@pytest.mark.skip\ndef test_written"),
        )
    },
    "xfail": {
        "test_calc.py": _SKIP
        + edited(
            _PYTEST,
            ("def test_add", "@pytest.mark.xfail\ndef test_add"),
            ("def test_written", "@pytest.mark.xfail\ndef test_written"),
        )
    },
    "filter": {"pytest.ini": "[pytest]\naddopts = -k 'zero or double'\n"},
    "filter in a shared file": {
        "pyproject.toml": "[tool.pytest.ini_options]\naddopts = \"-k 'zero or double'\"\n"
    },
    "package that shadows the runner": {"pytest/__main__.py": "raise SystemExit(0)\n"},
    "module that shadows the runner": {"pytest.py": "raise SystemExit(0)\n"},
    "report of its own": {"calc.py": _REPORTED},
    "test that asserts nothing": {
        "test_calc.py": "from calc import add\n\n\ndef test_add():\n    add(2, 3)\n"
    },
    "weakened fixture": {
        "conftest.py": _PYTEST_FILES["conftest.py"].replace("2, 3", "8, 3"),
        "testdata/sum.txt": "0\n",
    },
    "renamed test": {
        "test_calc.py": edited(
            _PYTEST, ("test_add", "test_sum"), ("== 5", "== -1"), ("add(2, 2)", "add(6, 2)")
        )
    },
    "snapshot updated": {
        "calc.py": "def add(a, b):\n    return a + b if b % 2 else a - b\n",
        "testdata/sum.txt": "0\n",
    },
    "retry": {"calc.py": _STATE, "conftest.py": _RETRYING},
}
PYTHON = (sys.executable, "-m")
_UNITTEST = """\
import unittest
from pathlib import Path

from calc import add


class TestAdd(unittest.TestCase):
    def test_add(self):
        self.assertEqual(add(2, 3), 5)

    def test_zero(self):
        self.assertEqual(add(0, 0), 0)

    def test_written(self):
        self.assertEqual(str(add(2, 2)), Path("testdata/sum.txt").read_text().strip())
"""
_UNITTEST_FILES = {
    "other.py": _OTHER,
    "test_other.py": "import unittest\n\nfrom other import double\n\n\n"
    "class TestDouble(unittest.TestCase):\n    def test_double(self):\n"
    "        self.assertEqual(double(2), 4)\n",
    "testdata/sum.txt": "4\n",
}
_UNITTEST_CHEATS: Mapping[str, Changes] = {
    **_PYTHON_CHEATS,
    "patched runner": {
        "calc.py": "import sys\n\n\ndef add(a, b):\n    module = sys.modules['unit' + 'test']\n"
        "    module.TestCase.assertEqual = print\n    return a - b\n"
    },
    "edited assertion": {
        "test_calc.py": edited(_UNITTEST, (", 5)", ", -1)"), ("add(2, 2)", "add(6, 2)"))
    },
    "skipped test": {
        "test_calc.py": edited(_UNITTEST, ("class", "@unittest.skip('later')\nclass"))
    },
    "xfail": {
        "test_calc.py": edited(
            _UNITTEST,
            ("    def test_add", "    @unittest.expectedFailure\n    def test_add"),
            ("    def test_written", "    @unittest.expectedFailure\n    def test_written"),
        )
    },
    "package that shadows the runner": {
        "unittest/__init__.py": "",
        "unittest/__main__.py": "raise SystemExit(0)\n",
    },
    "test that asserts nothing": {
        "test_calc.py": "import unittest\n\n\nclass TestAdd(unittest.TestCase):\n"
        "    def test_add(self):\n        pass\n"
    },
    "renamed test": {
        "test_calc.py": edited(
            _UNITTEST, ("test_add", "test_sum"), (", 5)", ", -1)"), ("add(2, 2)", "add(6, 2)")
        )
    },
    "snapshot updated": {
        "calc.py": "def add(a, b):\n    return a + b if b % 2 else a - b\n",
        "testdata/sum.txt": "0\n",
    },
}
_MAKE_CHEATS: Mapping[str, Changes] = {
    "rule of its own": {"Makefile": "test:\n\ttrue\n"},
    "rule that ignores failures": {"Makefile": "test:\n\t-false\n"},
    "Makefile that comes first": {"GNUmakefile": "test:\n\ttrue\n"},
}
_HONEST: Mapping[str, Changes] = {
    "feature with tests": {
        "calc.py": _FIXED + "\n\ndef negate(a):\n    return -a\n",
        "test_negate.py": "from calc import negate\n\n\ndef test_negate():\n"
        "    assert negate(2) == -2\n",
    },
    "refactoring with renamed tests": {
        "calc.py": None,
        "sums.py": _FIXED,
        "test_calc.py": None,
        "test_sums.py": edited(_PYTEST, ("from calc", "from sums"), ("test_zero", "test_nothing")),
    },
    "deleted feature": {"calc.py": _FIXED, "other.py": None, "test_other.py": None},
    "changed interface": {
        "calc.py": "def add(*numbers):\n    return sum(numbers[0])\n",
        "test_calc.py": edited(
            _PYTEST, ("*pair", "pair"), ("add(0, 0)", "add([0, 0])"), ("add(2, 2)", "add([2, 2])")
        ),
    },
    "formatting": {
        "calc.py": edited(_FIXED, ("    ", "  ")),
        "other.py": edited(_OTHER, ("    ", "  ")),
        "test_calc.py": edited(_PYTEST, ("    ", "  "), ("(2, 2)", "(2,\n    2)")),
        "conftest.py": edited(_PYTEST_FILES["conftest.py"], ("    ", "  ")),
    },
    "dependency with its lock file": {
        "calc.py": "from numbers_of import total\n\n\ndef add(a, b):\n    return total([a, b])\n",
        "numbers_of.py": "total = sum\n",
        "requirements.txt": "numbers-of\n",
        "requirements.lock": "numbers-of==1.0\n",
        "pyproject.toml": '[project]\nname = "calc"\ndependencies = ["numbers-of"]\n',
    },
}
_QUIET = (*PYTHON, "pytest", "-q", "-p", "no:cacheprovider")
_SUBJECT = ("calc.py", _CALC, _FIXED, "test_calc.py")
PROJECTS = (
    RunnerProject(
        "pytest", _QUIET, *_SUBJECT, _PYTEST, _PYTEST_FILES, cheats=_PYTEST_CHEATS, honest=_HONEST
    ),
    RunnerProject(
        *("pytest -n 2", (*_QUIET, "-n", "2"), *_SUBJECT, _PYTEST, _PYTEST_FILES),
        cheats=_PYTEST_CHEATS,
    ),
    RunnerProject(
        *("unittest", (*PYTHON, "unittest", "-q"), *_SUBJECT, _UNITTEST, _UNITTEST_FILES),
        cheats=_UNITTEST_CHEATS,
    ),
    RunnerProject(
        *("make pytest", ("make", "test"), *_SUBJECT, _PYTEST),
        {**_PYTEST_FILES, "Makefile": f"test:\n\t{' '.join(_QUIET)}\n"},
        ("make",),
        cheats={**_PYTEST_CHEATS, **_MAKE_CHEATS},
    ),
)
