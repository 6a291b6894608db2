"""Text into data with places; the hostile and the ambiguous are refused by name and place."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from playbook_supervisor.errors import CheckError
from playbook_supervisor.formats.located import MAX_DEPTH, Document, Plain
from playbook_supervisor.formats.strict_yaml import MAX_BYTES, load

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=["libyaml", "pure Python"])
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each of PyYAML's two parsers."""
    if request.param == "libyaml" and not yaml.__with_libyaml__:
        pytest.skip("PyYAML is installed without libyaml")
    monkeypatch.setattr(yaml, "__with_libyaml__", request.param == "libyaml")
    return str(request.param)


def read(text: str, source: str = "f.yaml") -> Document:
    return load(text.encode(), source)


def refused(text: str | bytes, source: str = "f.yaml") -> CheckError:
    data = text if isinstance(text, bytes) else text.encode()
    with pytest.raises(CheckError) as caught:
        load(data, source)
    assert caught.value.guidance, "an error says how to fix it"
    return caught.value


def value_of(text: str) -> object:
    scalar = read(text).data
    assert isinstance(scalar, Plain)
    return scalar.value


# ── what is read ────────────────────────────────────────────────────────────────────────────


def test_a_quoted_scalar_is_only_text(parser: str) -> None:
    data = read("a: \"true\"\nb: 'null'\nc: |\n  12\nd: >-\n  x\n  y\n").data
    assert data == {"a": "true", "b": "null", "c": "12\n", "d": "x y"}
    assert isinstance(data, dict)
    assert not any(isinstance(each, Plain) for each in data.values())


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("", None),
        ("null", None),
        ("nUll", "nUll"),
        ("true", True),
        ("yes", "yes"),
        ("12", 12),
        ("013", "013"),
        ("0o17", 15),
        ("0xfF", 255),
        ("1_000", "1_000"),
        ("1:30", "1:30"),
        ("-.5e1", -5.0),
        ("01.5", "01.5"),
        ("-1e999", "-1e999"),
        (".inf", ".inf"),
        ("９", "９"),
        ("1" * 5000, "1" * 5000),
    ],
)
def test_a_plain_scalar_has_a_value_by_the_core_schema(text: str, meaning: object) -> None:
    value = value_of(text)
    assert value == meaning
    assert type(value) is type(meaning)


def test_an_empty_file_is_the_empty_scalar(parser: str) -> None:
    for text in ("", "# only a comment\n", "---\n", "\ufeff"):
        assert read(text).data == ""


def test_a_byte_order_mark_does_not_shift_positions(parser: str) -> None:
    document = read("\ufeffa: b\n")
    assert document.data == {"a": "b"}
    assert document.position(("a",)) == (1, 4)


def test_line_ends_of_other_systems_are_accepted(parser: str) -> None:
    assert read("a: b\r\nc: |\r\n  x\r\n  y\r\n").data == {"a": "b", "c": "x\ny\n"}


def test_text_similar_to_a_refused_construct_is_read(parser: str) -> None:
    text = '"<<": 1\na: "&x *y !z %t"\nb: x & y * z ! %\nc: "\ttab"\nd: |\n  x\n  \ty\n'
    assert read(text).data == {
        "<<": "1",
        "a": "&x *y !z %t",
        "b": "x & y * z ! %",
        "c": "\ttab",
        "d": "x\n\ty\n",
    }


# ── places ──────────────────────────────────────────────────────────────────────────────────


def test_every_value_and_every_key_has_a_position(parser: str) -> None:
    """kai NFR10."""
    document = read("# top\nname: é x\nsteps:\n  - id: one\n    pre: [a, b]\n  - id: two\n")
    assert document.position(()) == (2, 1)
    assert document.position(("name",)) == (2, 7)
    assert document.position(("steps", 0)) == (4, 5)
    assert document.position(("steps", 0, "pre", 1)) == (5, 14)
    assert document.key_position(("steps", 0, "pre")) == (5, 5)
    assert document.key_position(("steps", 1)) == (6, 5)


def test_a_missing_value_has_the_position_of_its_nearest_ancestor(parser: str) -> None:
    document = read("steps:\n  - id: one\n")
    assert document.position(("steps", 0, "command")) == (2, 5)
    assert document.position(("steps", 7, "id")) == (2, 3)
    assert document.position(("steps", -1)) == (2, 3)
    assert document.position(("steps", "id")) == (2, 3)
    assert document.position(("args",)) == (1, 1)
    assert document.position(("steps", 0, "id", "deeper")) == (2, 9)


# ── what is refused ─────────────────────────────────────────────────────────────────────────

HOSTILE = [
    ("a: &anchor b\n", 1, 4, "anchors"),
    ("a: *alias\n", 1, 4, "anchors"),
    ("*alias : b\n", 1, 1, "anchors"),
    ("a: !!python/object/apply:os.system [x]\n", 1, 4, "tags"),
    ("a: ! b\n", 1, 4, "tags"),
    ("%YAML 1.1\n---\na: b\n", 1, 1, "directives"),
    ("%FOO bar\n---\na: b\n", 1, 1, "directives"),
    ("base:\n  <<: {a: 1}\n", 2, 3, "merge keys"),
    ("? |\n  a\n: c\n", 1, 3, "a key is"),
    ("{[a]: b}\n", 1, 2, "a key is"),
    ('a: "\\0"\n', 1, 4, "NUL"),
    ("a: b\0c\n", 1, 5, "U+0000"),
    ("a: \x1b[31m\n", 1, 4, "U+001B"),
    ("a: b\u2028c: d\n", 1, 5, "U+2028"),
    ("[" * (MAX_DEPTH + 1), 1, MAX_DEPTH + 1, "nested deeper"),
    ("- " * (MAX_DEPTH + 1) + "x", 1, 2 * MAX_DEPTH + 1, "nested deeper"),
]

FAULTY = [
    ("a: 1\nb: 2\na: 3\n", 3, 1, "`a` appears for the second time (first on line 1)"),
    ("a: b\n---\nc: d\n", 2, 1, "second document"),
    ("a:\n\tb: c\n", 2, 1, "tab"),
    ("-\ta: b\n", 1, 2, "tab"),
    ("? \n: b\n", 1, 2, "without a key"),
    ("key: value\nother\n", 2, 1, "neither `key: value`"),
    ("a: 1\n<<<<<<< HEAD\nb: 2\n=======\nb: 3\n>>>>>>> x\n", 2, 1, "git has left a conflict"),
    ("a: b: c\n", 1, 5, "one `:` too many"),
    ("a: 'x\n", 1, 4, "never closed"),
    ("a: @x\n", 1, 4, "cannot begin with `@`"),
    ("a: *\n", 1, 4, "cannot begin with `*`"),
    ("a: !<\n", 1, 4, "cannot begin with `!`"),
    ("a: >x\n b\n", 1, 5, "after `|` or `>`"),
    ("{a: b\n", 1, 1, "bracket is not closed"),
    ("a: [b]]\n", 1, 7, "does not fit the list or mapping"),
    ("a: 'b' c\n", 1, 8, "does not fit the list or mapping"),
    ("a: b\n... c\n", 2, 5, "after the end of the document"),
]


@pytest.mark.parametrize(("text", "line", "col", "message"), HOSTILE)
def test_unused_constructs_are_refused_with_their_position(
    text: str, line: int, col: int, message: str, parser: str
) -> None:
    """cat FR-1.5."""
    error = refused(text)
    assert (error.code, error.where) == ("PB-CHECK-HOSTILE", f"f.yaml:{line}:{col}")
    assert message in error.message


@pytest.mark.parametrize(("text", "line", "col", "message"), FAULTY)
def test_invalid_yaml_is_explained_at_the_place_to_correct(
    text: str, line: int, col: int, message: str, parser: str
) -> None:
    error = refused(text)
    assert (error.code, error.where) == ("PB-CHECK-YAML", f"f.yaml:{line}:{col}")
    assert message in error.message


@pytest.mark.parametrize("escape", [r"\q", r"\x1", r"\ud800", r"\U00110000", r"\UFFFFFFFF"])
def test_an_unknown_escape_is_refused(escape: str, parser: str) -> None:
    assert refused(f'a: "{escape}"\n').where.startswith("f.yaml:1:")


def test_a_document_marker_within_quotes_is_refused(parser: str) -> None:
    error = refused('a: "b\n---\nc"\n')
    assert "within quotes" in error.message


@pytest.mark.parametrize(
    ("data", "where"),
    [(b"a: \xff\n", "1:4"), (b"\xff\xfea\0", "1:1"), ("é: ü\nb: ".encode() + b"\xc3", "2:4")],
)
def test_bytes_that_are_not_utf_8_are_refused_with_their_position(data: bytes, where: str) -> None:
    """cat FR-1.5."""
    error = refused(data)
    assert error.where == f"f.yaml:{where}"
    assert "UTF-8" in error.message


def test_the_size_is_checked_before_anything_else() -> None:
    error = refused(b"\xff" * (MAX_BYTES + 1))
    assert error.code == "PB-CHECK-HOSTILE"
    assert "1,048,577 bytes; at most 1,048,576" in error.message


def test_a_caller_may_set_a_higher_limit() -> None:
    data = b"- %s\n" % (b"x" * 997) * (MAX_BYTES // 1000 + 1)
    assert len(load(data, "journal.yaml", limit=2 * MAX_BYTES).data) == MAX_BYTES // 1000 + 1


@pytest.mark.parametrize("source", ["f.yaml", "f.json"])
def test_a_file_of_nothing_but_brackets_is_refused(source: str) -> None:
    with pytest.raises(CheckError, match="too many values") as caught:
        load(b"[" + b"[]," * 3_000 + b"[]]", source, limit=10_000)
    assert caught.value.code == "PB-CHECK-HOSTILE"


def test_the_deepest_nesting_allowed_is_read(parser: str) -> None:
    for text in ("[" * MAX_DEPTH + "]" * MAX_DEPTH, "- " * MAX_DEPTH + "x"):
        assert isinstance(read(text).data, list)


# ── JSON ────────────────────────────────────────────────────────────────────────────────────


def test_json_is_read_into_the_same_documents() -> None:
    document = read(
        '{"a": [1, true, {}],\r\n  "b": null, "c": "\\ud83d\\ude00\\/"\n, "d": -1.5e3}', "f.json"
    )
    assert document.data == {"a": ["1", "true", {}], "b": "", "c": "😀/", "d": "-1.5e3"}
    assert document.position(("a", 1)) == (1, 11)
    assert document.key_position(("b",)) == (2, 3)
    assert document.position(("c",)) == (2, 19)
    assert document.position(("d",)) == (3, 8)


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ('{"a": 1, "a": 2}', "1:10", "second time"),
        ("", "1:1", "missing"),
        ('["a" "b"]', "1:6", "`,` or the closing `]`"),
        ('{"a" 1}', "1:6", "`:`"),
        ('{"a": 1\n  "b": 2}', "2:3", "closing `}`"),
        ("{a: 1}", "1:2", "double quotes"),
        ('"x', "1:1", "not well formed"),
        ('["a\tb"]', "1:4", "not well formed"),
        ("[NaN]", "1:2", "`NaN` is not a number"),
        ("01", "1:2", "after the end"),
        (
            '{\n<<<<<<< HEAD\n"a": 1\n=======\n"a": 2\n>>>>>>> x\n}',
            "2:1",
            "git has left a conflict",
        ),
        ('["\\ud800"]', "1:2", "surrogate"),
        ('["\\u0000"]', "1:2", "NUL"),
        ('{"a":' * 100_000, f"1:{5 * MAX_DEPTH + 1}", "nested deeper"),
    ],
)
def test_invalid_json_is_refused(text: str, where: str, message: str) -> None:
    error = refused(text, "f.json")
    assert error.where == f"f.json:{where}"
    assert message in error.message


# ── any input ───────────────────────────────────────────────────────────────────────────────

YAML_ISH = st.text(
    alphabet=st.sampled_from("ab:-?[]{},#&*!|>'\"%@` \t\n\r\\0~<é\ufeff"), max_size=60
)


@given(st.one_of(st.binary(max_size=80), YAML_ISH.map(str.encode), st.text().map(str.encode)))
@example(b"? ? ? a")
@example(b"- - ? - : -")
@pytest.mark.parametrize("source", ["f.yaml", "f.json"])
@pytest.mark.parametrize("with_libyaml", [True, False])
def test_any_bytes_are_a_document_or_a_check_error(
    source: str, with_libyaml: bool, data: bytes
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(yaml, "__with_libyaml__", with_libyaml and yaml.__with_libyaml__)
        try:
            document = load(data, source)
        except CheckError as error:
            line, col = error.where.removeprefix(f"{source}:").split(":")
            assert int(line) >= 1
            assert int(col) >= 1
        else:
            assert document.position(()) >= (1, 1)


MEASURE = """
import resource, sys
from playbook_supervisor.errors import CheckError
from playbook_supervisor.formats.strict_yaml import load
resource.setrlimit(resource.RLIMIT_AS, (2 ** 30, 2 ** 30))
unit = 1 if sys.platform == "darwin" else 1024
bomb = b"a: &a [x,x]\\n" + b"".join(b"%c: &%c [*%c,*%c]\\n" % (c + 1, c + 1, c, c)
                                    for c in range(97, 121))
hostile = {
    "flow": b"[" * 100_000, "flow mapping": b"{a: " * 100_000, "block": b"- " * 100_000,
    "explicit": b"? " * 100_000, "indented": b"".join(b" " * n + b"a:\\n" for n in range(1400)),
    "bomb": bomb, "line": b"a: " + b"x" * 10_000_000, "long": b"a: '" + b"x" * 1_000_000 + b"'",
    "items": b"[" + b"a," * 520_000 + b"]", "empty items": b"- \\n" * 340_000,
    "pairs": b"[" + b"a: b," * 200_000 + b"]", "open": b"[a, " * 100_000,
    "comments": b"#\\n" * 500_000, "quotes": b"'" * 1_000_000, "keys": b"? a\\n" * 200_000,
}
for name, data in hostile.items():
    for source in ("f.yaml", "f.json"):
        try:
            load(data, source)
            found = "read"
        except CheckError as error:
            found = error.code
        print(f"{name} {source} {found}", file=sys.stderr)
try:  # the usage that Linux reports begins with that of the parent; this does not
    status = open("/proc/self/status").read()
    print(int(status.split("VmHWM:")[1].split()[0]) * 1024 // 2 ** 20)
except OSError:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit // 2 ** 20)
"""


def test_hostile_files_cost_neither_a_crash_nor_two_hundred_mebibytes() -> None:
    done = subprocess.run(
        [sys.executable, "-c", MEASURE], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    print(f"peak memory over 30 hostile files: {done.stdout.strip()} MiB")
    assert int(done.stdout) <= 200
    assert "bomb f.yaml PB-CHECK-HOSTILE" in done.stderr
    assert "long f.yaml read" in done.stderr
