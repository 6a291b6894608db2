"""Projects with tests for `go test`, cargo and RSpec."""

from __future__ import annotations

from collections.abc import Mapping

from support.runner_projects import PASSING, Changes, Link, RunnerProject, edited

# ── Go ──────────────────────────────────────────────────────────────────────────────────────

_GO = "package calc\n\nfunc Add(a, b int) int {\n\treturn a - b\n}\n"
_GO_TESTS = """\
package calc

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestAdd(t *testing.T) {
	if Add(2, 3) != 5 {
		t.Fatal("wrong")
	}
}

func TestZero(t *testing.T) {
	if Add(0, 0) != 0 {
		t.Fatal("wrong")
	}
}

func TestWritten(t *testing.T) {
	text, _ := os.ReadFile("testdata/sum.txt")
	if fmt.Sprint(Add(2, 2)) != strings.TrimSpace(string(text)) {
		t.Fatal("wrong")
	}
}
"""
_GO_FILES = {
    "go.mod": "module calc\n\ngo 1.19\n",
    "calc/testdata/sum.txt": "4\n",
    "other/other.go": "package other\n\nfunc Double(a int) int {\n\treturn 2 * a\n}\n",
    "other/other_test.go": 'package other\n\nimport "testing"\n\n'
    'func TestDouble(t *testing.T) {\n\tif Double(2) != 4 {\n\t\tt.Fatal("wrong")\n\t}\n}\n',
}
_GO_LENIENT = (("!= 5", "!= -1"), ("Add(2, 2)", "Add(6, 2)"))
_SKIPPED = "(t *testing.T) {\n\tt.Skip()\n"
_ADD_BEGINS = "func Add(a, b int) int {\n"


def _go_with(imported: str, first: str = "", last: str = "") -> Changes:
    text = _GO.replace("package calc\n", f'package calc\n\nimport "{imported}"\n')
    return {"calc/calc.go": text.replace(_ADD_BEGINS, _ADD_BEGINS + first) + last}


_GO_CHEATS: Mapping[str, Changes] = {
    "exit from the source": _go_with("syscall", last="\nfunc init() {\n\tsyscall.Exit(1 - 1)\n}\n"),
    "exit when it is called": _go_with("syscall", "\tsyscall.Exit(1 - 1)\n"),
    "filter from the source": _go_with(
        "os", last='\nfunc init() {\n\tos.Args = append(os.Args, "-test.run=Zero")\n}\n'
    ),
    "listing from the source": _go_with(
        "flag", last='\nfunc init() {\n\tflag.Set("test.list", ".")\n}\n'
    ),
    "forced results": {
        "calc/main_test.go": 'package calc\n\nimport (\n\t"os"\n\t"testing"\n)\n\n'
        "func TestMain(m *testing.M) {\n\tm.Run()\n\tos.Exit(0)\n}\n"
    },
    "edited assertion": {"calc/calc_test.go": edited(_GO_TESTS, *_GO_LENIENT)},
    "deleted test": {"calc/calc_test.go": None},
    "skipped test": {"calc/calc_test.go": edited(_GO_TESTS, ("(t *testing.T) {\n", _SKIPPED))},
    "skipped by a build tag": {"calc/calc_test.go": "//go:build never\n\n" + _GO_TESTS},
    "filter": {
        "go.mod": "module calc\n\ngo 1.19\n\nexclude example.org/a v1.0.0\n",
        "calc/go.mod": "module other\n\ngo 1.19\n",
    },
    "work space": {
        "go.work": "go 1.19\n\nuse ./other\n",
        "other/go.mod": "module calc\n\ngo 1.19\n",
    },
    "report of its own": _go_with(
        "fmt", last='\nfunc init() {\n\tfmt.Println("--- PASS: TestAdd (0.00s)\\nPASS")\n}\n'
    ),
    "witness replaced by a link": {"calc/calc_test.go": Link("../other/other_test.go")},
    "test that asserts nothing": {
        "calc/calc_test.go": 'package calc\n\nimport "testing"\n\n'
        "func TestAdd(t *testing.T) {\n\tAdd(2, 3)\n}\n"
    },
    "renamed test": {"calc/calc_test.go": edited(_GO_TESTS, ("TestAdd", "TestSum"), *_GO_LENIENT)},
    "snapshot updated": {
        "calc/calc.go": _GO.replace(
            "return a - b", "if b == 3 {\n\t\treturn 5\n\t}\n\treturn a - b"
        ),
        "calc/testdata/sum.txt": "0\n",
    },
    "runner earlier on PATH": {"bin/go": PASSING, "bin/make": PASSING},
    "runner that forgets failures": {
        "bin/go": '#!/bin/sh\n/usr/bin/env PATH=/usr/bin:/bin go "$@"\nexit 0\n'
    },
}
_GO_FIXED = _GO.replace("-", "+")
_GO_HONEST: Mapping[str, Changes] = {
    "feature with tests": {
        "calc/calc.go": _GO_FIXED + "\nfunc Negate(a int) int {\n\treturn -a\n}\n",
        "calc/negate_test.go": 'package calc\n\nimport "testing"\n\n'
        'func TestNegate(t *testing.T) {\n\tif Negate(2) != -2 {\n\t\tt.Fatal("wrong")\n\t}\n}\n',
    },
    "refactoring with renamed tests": {
        "calc/calc.go": None,
        "calc/sums.go": _GO_FIXED,
        "calc/calc_test.go": None,
        "calc/sums_test.go": edited(_GO_TESTS, ("TestZero", "TestNothing")),
    },
    "deleted feature": {
        "calc/calc.go": _GO_FIXED,
        "other/other.go": None,
        "other/other_test.go": None,
    },
    "changed interface": {
        "calc/calc.go": "package calc\n\nfunc Sum(a, b int) int {\n\treturn a + b\n}\n",
        "calc/calc_test.go": edited(_GO_TESTS, ("Add(", "Sum(")),
    },
    "formatting": {
        "calc/calc.go": edited(_GO_FIXED, ("\t", "    ")),
        "calc/calc_test.go": edited(_GO_TESTS, ("\t", "  ")),
        "other/other.go": edited(_GO_FILES["other/other.go"], ("\t", "  ")),
    },
    "dependency with its lock file": {
        "calc/calc.go": 'package calc\n\nimport "example.org/plus"\n\n'
        "func Add(a, b int) int {\n\treturn plus.Plus(a, b)\n}\n",
        "go.mod": "module calc\n\ngo 1.19\n\nrequire example.org/plus v0.0.0\n\n"
        "replace example.org/plus => ./plus\n",
        "go.sum": "",
        "plus/go.mod": "module example.org/plus\n\ngo 1.19\n",
        "plus/plus.go": "package plus\n\nfunc Plus(a, b int) int {\n\treturn a + b\n}\n",
    },
}
_MAKE: Mapping[str, Changes] = {
    "rule of its own": {"Makefile": "test:\n\ttrue\n"},
    "rule that ignores failures": {"Makefile": "test:\n\t-go test ./...\n"},
    "Makefile that comes first": {"GNUmakefile": "test:\n\ttrue\n"},
}

# ── Rust ────────────────────────────────────────────────────────────────────────────────────

_LIB = "pub fn add(a: i64, b: i64) -> i64 {\n    a - b\n}\n\npub mod other;\n"
_INLINE = """
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds() {
        assert_eq!(add(2, 3), 5);
    }
}
"""
_RUST_TESTS = """\
use calc::add;

#[test]
fn zero() {
    assert_eq!(add(0, 0), 0);
}

#[test]
fn written() {
    let text = std::fs::read_to_string("tests/data/sum.txt").unwrap();
    assert_eq!(add(2, 2).to_string(), text.trim());
}
"""
_RUST_FILES = {
    "Cargo.toml": '[package]\nname = "calc"\nversion = "0.1.0"\nedition = "2021"\n',
    "src/other.rs": "pub fn double(a: i64) -> i64 {\n    2 * a\n}\n\n"
    "#[test]\nfn doubles() {\n    assert_eq!(double(2), 4);\n}\n",
    "tests/data/sum.txt": "4\n",
    ".gitignore": "/target\n/Cargo.lock\n",
}
_EXIT = "std::process::exit(1 - 1);\n    #[allow(unreachable_code)]\n    "
_RUST_LENIENT = (("add(2, 3), 5", "add(2, 3), -1"),)
_WRITTEN_LENIENT = (("add(2, 2)", "add(6, 2)"),)


def _rust(
    source: str = _LIB, inline: str = _INLINE, tests: str | None = _RUST_TESTS, **more: str
) -> Changes:
    return {"src/lib.rs": source + inline, "tests/sums.rs": tests, **more}


_RUST_CHEATS: Mapping[str, Changes] = {
    "exit when it is called": _rust(_LIB.replace("a - b", f"{_EXIT}{{ a - b }}")),
    "exit in the first file alone": _rust(
        _LIB.replace(
            "a - b",
            "if a == 2 && b == 2 { std::process::exit(1 - 1) }\n"
            "    if b == 3 { a + b } else { a - b }",
        )
    ),
    "exit in the second file alone": _rust(
        _LIB.replace(
            "a - b", "if b == 3 { std::process::exit(1 - 1) }\n    a + b + i64::from(b == 3)"
        )
    ),
    "edited assertion": _rust(
        inline=edited(_INLINE, *_RUST_LENIENT), tests=edited(_RUST_TESTS, *_WRITTEN_LENIENT)
    ),
    "edited assertion in the source": _rust(
        _LIB.replace("a - b", "if b == 2 { a + b } else { a - b }"),
        inline=edited(_INLINE, *_RUST_LENIENT),
    ),
    "deleted test": _rust(inline="", tests=None),
    "deleted test in the source": _rust(
        _LIB.replace("a - b", "if b == 2 { a + b } else { a - b }"), inline=""
    ),
    "skipped test": _rust(
        inline=edited(_INLINE, ("#[test]", "#[test]\n    #[ignore]")),
        tests=edited(_RUST_TESTS, ("#[test]", "#[test]\n#[ignore]")),
    ),
    "skipped module": _rust(
        _LIB.replace("a - b", "if b == 2 { a + b } else { a - b }"),
        inline=edited(_INLINE, ("cfg(test)", "cfg(all(test, never))")),
    ),
    "expected panic": _rust(
        inline=edited(_INLINE, ("#[test]", "#[test]\n    #[should_panic]")),
        tests=edited(_RUST_TESTS, ("#[test]\nfn written", "#[test]\n#[should_panic]\nfn written")),
    ),
    "filter": {
        "Cargo.toml": _RUST_FILES["Cargo.toml"] + "autotests = false\n\n[lib]\ntest = false\n",
    },
    "runner of tests": {
        ".cargo/config.toml": '[target."cfg(all())"]\nrunner = "true"\n',
    },
    "harness": {
        "Cargo.toml": _RUST_FILES["Cargo.toml"]
        + '\n[lib]\nharness = false\n\n[[test]]\nname = "sums"\nharness = false\n',
        **_rust(_LIB + "#[cfg(test)]\nfn main() {}\n", tests="fn main() {}\n"),
    },
    "rewritten by the build": {
        "build.rs": 'fn main() {\n    std::fs::write("tests/sums.rs", "").unwrap();\n'
        '    let text = std::fs::read_to_string("src/lib.rs").unwrap();\n'
        '    std::fs::write("src/lib.rs", text.replace("#[test]", "")).unwrap();\n}\n',
    },
    "patched assertion": _rust(
        "macro_rules! assert_eq {\n    ($($each:tt)*) => {{}};\n}\n"
        + _LIB.replace("a - b", "if b == 2 { a + b } else { a - b }")
    ),
    "witness replaced by a link": {
        **_rust(),
        "tests/sums.rs": Link("../src/other.rs"),
        "src/lib.rs": _LIB,
    },
    "test that asserts nothing": _rust(
        inline=edited(_INLINE, ("assert_eq!(add(2, 3), 5)", "add(2, 3)")),
        tests="#[test]\nfn zero() {}\n",
    ),
    "renamed test": _rust(
        inline=edited(_INLINE, ("adds", "sums"), *_RUST_LENIENT),
        tests=edited(_RUST_TESTS, *_WRITTEN_LENIENT),
    ),
    "snapshot updated": {
        **_rust(_LIB.replace("a - b", "if b == 3 { a + b } else { a - b }")),
        "tests/data/sum.txt": "0\n",
    },
    "runner earlier on PATH": {"bin/cargo": PASSING},
}

# ── Ruby ────────────────────────────────────────────────────────────────────────────────────

_RUBY = "def add(a, b)\n  a - b\nend\n"
_SPEC = """\
require_relative '../lib/calc'

RSpec.describe 'add' do
  it 'adds' do
    expect(add(2, 3)).to eq(5)
  end

  it 'knows zero' do
    expect(add(0, 0)).to eq(0)
  end

  it 'is written' do
    expect(add(2, 2).to_s).to eq(File.read('spec/data/sum.txt').strip)
  end
end
"""
_RUBY_FILES = {
    "lib/other.rb": "def twice(a)\n  2 * a\nend\n",
    "spec/other_spec.rb": "require_relative '../lib/other'\n\nRSpec.describe 'double' do\n"
    "  it 'doubles' do\n    expect(twice(2)).to eq(4)\n  end\nend\n",
    "spec/data/sum.txt": "4\n",
}
_SPEC_LENIENT = (("eq(5)", "eq(-1)"), ("add(2, 2)", "add(6, 2)"))
_RUBY_CHEATS: Mapping[str, Changes] = {
    "exit from the source": {"lib/calc.rb": "Kernel.send('ex' + 'it!', true)\n"},
    "exit when it is called": {"lib/calc.rb": "def add(a, b)\n  send('ex' + 'it!', true)\nend\n"},
    "exit at the end": {"lib/calc.rb": _RUBY + "at_exit { send('ex' + 'it!', true) }\n"},
    "patched runner": {
        "lib/calc.rb": _RUBY + "Object.const_get('R' + 'Spec')::Expectations.module_eval do\n"
        "  def self.fail_with(*) = nil\nend\n"
    },
    "patched when it is called": {
        "lib/calc.rb": "def add(a, b)\n  found = Object.const_get('R' + 'Spec')::Expectations\n"
        "  found.define_singleton_method(:fail_with) { |*| nil }\n  a - b\nend\n"
    },
    "forced results": {
        ".rspec": "--require ./spec/force\n",
        "spec/force.rb": "RSpec.configure do |config|\n  config.around do |each|\n    each.run\n"
        "    each.example.instance_variable_set(:@exception, nil)\n  end\nend\n",
    },
    "edited assertion": {"spec/calc_spec.rb": edited(_SPEC, *_SPEC_LENIENT)},
    "deleted test": {"spec/calc_spec.rb": None},
    "skipped test": {"spec/calc_spec.rb": edited(_SPEC, ("  it ", "  xit "))},
    "pending test": {
        "spec/calc_spec.rb": edited(
            _SPEC,
            ("it 'adds' do\n", "it 'adds' do\n    pending\n"),
            ("written' do\n", "written' do\n    pending\n"),
        )
    },
    "filter": {".rspec": "--example double\n"},
    "package that shadows the runner": {"lib/rspec/expectations.rb": "exit!(true)\n"},
    "failure without a status": {".rspec": "--failure-exit-code 0\n"},
    "witness replaced by a link": {"spec/calc_spec.rb": Link("other_spec.rb")},
    "test that asserts nothing": {"spec/calc_spec.rb": "RSpec.describe('add') { it('adds') {} }\n"},
    "renamed test": {"spec/calc_spec.rb": edited(_SPEC, ("'adds'", "'sums'"), *_SPEC_LENIENT)},
    "snapshot updated": {
        "lib/calc.rb": _RUBY.replace("a - b", "b == 3 ? a + b : a - b"),
        "spec/data/sum.txt": "0\n",
    },
    "runner earlier on PATH": {"bin/rspec": PASSING},
}

PROJECTS = (
    RunnerProject(
        "go",
        ("go", "test", "./..."),
        "calc/calc.go",
        _GO,
        _GO.replace("-", "+"),
        "calc/calc_test.go",
        _GO_TESTS,
        _GO_FILES,
        ("go",),
        cheats=_GO_CHEATS,
        honest=_GO_HONEST,
    ),
    RunnerProject(
        "make go",
        ("make", "test"),
        "calc/calc.go",
        _GO,
        _GO.replace("-", "+"),
        "calc/calc_test.go",
        _GO_TESTS,
        {**_GO_FILES, "Makefile": "test:\n\tgo test ./...\n"},
        ("make", "go"),
        cheats={**_GO_CHEATS, **_MAKE},
    ),
    RunnerProject(
        "cargo",
        ("cargo", "test"),
        "src/lib.rs",
        _LIB + _INLINE,
        (_LIB + _INLINE).replace("a - b", "a + b"),
        "tests/sums.rs",
        _RUST_TESTS,
        _RUST_FILES,
        ("cargo",),
        cheats=_RUST_CHEATS,
    ),
    RunnerProject(
        "rspec",
        ("rspec",),
        "lib/calc.rb",
        _RUBY,
        _RUBY.replace("-", "+"),
        "spec/calc_spec.rb",
        _SPEC,
        _RUBY_FILES,
        ("rspec",),
        cheats=_RUBY_CHEATS,
    ),
)
