"""Output on streams that cannot encode every character."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

import playbook_supervisor
from playbook_supervisor.cli import output, streams

pytestmark = pytest.mark.measured

Made = Callable[[str], BytesIO]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Made:
    """Give the program streams of an encoding; returns what stdout wrote."""

    def make(encoding: str) -> BytesIO:
        behind = BytesIO()
        for name, raw in (("stdout", behind), ("stderr", BytesIO())):
            stream = TextIOWrapper(raw, encoding=encoding, write_through=True)
            monkeypatch.setattr(f"sys.{name}", stream)
        streams.prepare()
        return behind

    return make


def signs_of_ours() -> set[str]:
    """Every non-ASCII character in the strings of the modules that print."""
    house = Path(playbook_supervisor.__file__).parent
    found = set()
    for path in house.glob("cli/**/*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
        explains = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        for node in nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found |= set(node.value) if id(node) not in explains else set()
    return {sign for sign in found if not sign.isascii() and sign.isprintable()}


def test_an_ascii_stream_shows_replacements(made: Made) -> None:
    behind = made("ascii")
    output.write("plan ✓ 45 s · a → b\ncheck ✗ …\npr – skipped")
    assert behind.getvalue() == b"plan + 45 s | a -> b\ncheck x ...\npr - skipped\n"


def test_every_sign_has_a_replacement(made: Made) -> None:
    signs = signs_of_ours()
    assert {*"✓✗–…·→"} <= signs
    behind = made("ascii")
    output.write("".join(sorted(signs)))
    assert b"\\" not in behind.getvalue()


def test_a_stream_shows_what_it_can_encode(made: Made) -> None:
    behind = made("latin-1")
    output.write("é · ✓")
    assert behind.getvalue() == "é · +\n".encode("latin-1")
    behind = made("utf-8")
    output.write("é · ✓ …")
    assert behind.getvalue().decode() == "é · ✓ …\n"


def test_any_other_character_is_escaped_as_in_json(made: Made) -> None:
    """A JSON line within the text stays valid."""
    behind = made("ascii")
    output.write('"é\U0001f600"')
    assert json.loads(behind.getvalue().decode("ascii")) == "é\U0001f600"


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_json_is_equal_on_any_stream(made: Made, encoding: str) -> None:
    """Programs read JSON, so nothing in it is replaced."""
    behind = made(encoding)
    output.write_json({"said": "é ✓ … \U0001f600"})
    assert json.loads(behind.getvalue().decode("utf-8")) == {"said": "é ✓ … \U0001f600"}
