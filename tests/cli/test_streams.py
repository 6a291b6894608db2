"""What a stream shows that has not all characters, as that of a machine without UTF-8."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

import playbook_supervisor
from playbook_supervisor.cli import output

Made = Callable[[str], BytesIO]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Made:
    """Give the program streams of an encoding; what comes back is behind its stdout."""

    def make(encoding: str) -> BytesIO:
        behind = BytesIO()
        for name, raw in (("stdout", behind), ("stderr", BytesIO())):
            stream = TextIOWrapper(raw, encoding=encoding, write_through=True)
            monkeypatch.setattr(f"sys.{name}", stream)
        output.configure_streams()
        return behind

    return make


def signs_of_ours() -> set[str]:
    """What is not ASCII in the texts of the rooms that print, docstrings aside."""
    house = Path(playbook_supervisor.__file__).parent
    found = set()
    for path in [*house.glob("render/*.py"), *house.glob("cli/*.py")]:
        nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
        explains = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        for node in nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found |= set(node.value) if id(node) not in explains else set()
    return {sign for sign in found if not sign.isascii() and sign.isprintable()}


def test_ascii_alone_shows_stand_ins_of_our_signs(made: Made) -> None:
    behind = made("ascii")
    output.write("plan ✓ 45 s · a → b\ncheck ✗ …\npr – skipped")
    assert behind.getvalue() == b"plan + 45 s | a -> b\ncheck x ...\npr - skipped\n"


def test_every_sign_of_ours_has_one(made: Made) -> None:
    signs = signs_of_ours()
    assert {*"✓✗–…·→"} <= signs
    behind = made("ascii")
    output.write("".join(sorted(signs)))
    assert b"\\" not in behind.getvalue()


def test_what_a_stream_can_show_it_shows(made: Made) -> None:
    behind = made("latin-1")
    output.write("é · ✓")
    assert behind.getvalue() == "é · +\n".encode("latin-1")
    behind = made("utf-8")
    output.write("é · ✓ …")
    assert behind.getvalue().decode() == "é · ✓ …\n"


@pytest.mark.parametrize("text", ["é", "\U0001f600", "日本"])
def test_any_other_character_is_escaped_as_in_json(made: Made, text: str) -> None:
    """A line of JSON in between, as for a model, stays one."""
    behind = made("ascii")
    output.write(f'"{text}"')
    assert json.loads(behind.getvalue().decode("ascii")) == text


def test_a_file_name_that_is_no_text_is_shown_by_any_stream(made: Made) -> None:
    for encoding in ("ascii", "utf-8"):
        behind = made(encoding)
        output.write("a\udcff")
        assert behind.getvalue() == b"a\\udcff\n"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "utf-8"])
def test_json_says_the_same_by_any_stream(made: Made, encoding: str) -> None:
    """Data are read by programs, and by those as UTF-8: nothing stands in for anything there."""
    behind = made(encoding)
    output.write_json({"said": "é ✓ … \U0001f600"})
    assert json.loads(behind.getvalue().decode("utf-8")) == {"said": "é ✓ … \U0001f600"}
