"""Editing JSON that a person keeps: what is not edited stays, byte for byte."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.hypothesis_strategies import data, keys, laid_out

from playbook_supervisor.errors import CheckError, PlaybookError
from playbook_supervisor.formats.json_edit import JsonText

SPREAD = """\
{
    "model": "opus",

    "permissions": {
        "allow": ["Read", "Bash(git status)"],
        "deny": [
            "Bash(rm *)"
        ]
    }
}
"""


def read(text: str) -> JsonText:
    return JsonText(text.encode(), "x.json", "PB-X")


def text_of(edited: JsonText) -> str:
    return edited.encode().decode()


def appended(text: str, path: tuple[str | int, ...], item: object) -> str:
    return text_of(read(text).append(path, item))


class TestAppending:
    def test_follows_the_layout_of_the_list(self) -> None:
        done = appended(SPREAD, ("permissions", "allow"), "WebSearch")
        assert done == SPREAD.replace('status)"]', 'status)", "WebSearch"]')
        done = appended(SPREAD, ("permissions", "deny"), "WebSearch")
        assert done == SPREAD.replace('rm *)"', 'rm *)",\n            "WebSearch"')

    def test_takes_the_indentation_of_the_document(self) -> None:
        done = appended(SPREAD, ("hooks", "Stop"), {"hooks": []})
        added = ',\n    "hooks": {\n        "Stop": [\n            {\n                "hooks": []\n'
        added += "            }\n        ]\n    }\n}\n"
        assert done == SPREAD.removesuffix("\n}\n") + added

    def test_begins_a_line_where_the_last_item_does(self) -> None:
        assert appended('{"a": [1,2]}', ("a",), 3) == '{"a": [1,2, 3]}'
        assert appended('{"a": [1\n, 2]}', ("a",), 3) == '{"a": [1\n, 2,\n3]}'

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            ("{}", '{\n  "a": [\n    1\n  ]\n}'),
            ("{ }\n", '{\n  "a": [\n    1\n  ]\n}\n'),
            ('{"a":[]}', '{"a":[1]}'),
            ('{"b": 1}', '{"b": 1, "a": [1]}'),
            ('{\n\t"a": []\n}', '{\n\t"a": [\n\t\t1\n\t]\n}'),
            ('{\n"a": [\n]\n}', '{\n"a": [\n  1\n]\n}'),
            ('{\r\n  "b": 1\r\n}\r\n', '{\r\n  "b": 1,\r\n  "a": [\r\n    1\r\n  ]\r\n}\r\n'),
            ('\ufeff{"a":[0]}', '\ufeff{"a":[0, 1]}'),
            ('{"b": 1,\n "c": 2}', '{"b": 1,\n "c": 2,\n "a": [\n   1\n ]}'),
            ('{"b": 1\n\n,\n\n"c": 2}', '{"b": 1\n\n,\n\n"c": 2,\n"a": [\n  1\n]}'),
        ],
    )
    def test_fits_into_any_layout(self, before: str, after: str) -> None:
        assert appended(before, ("a",), 1) == after

    def test_does_not_escape_readable_text(self) -> None:
        assert appended('{"a": ["ä"]}', ("a",), "ö") == '{"a": ["ä", "ö"]}'

    def test_uses_the_last_of_two_equal_keys(self) -> None:
        assert appended('{"a": 1, "a": [1]}', ("a",), 2) == '{"a": 1, "a": [1, 2]}'

    def test_reaches_into_lists(self) -> None:
        assert appended('{"a": [{"b": []}]}', ("a", 0, "b"), 1) == '{"a": [{"b": [1]}]}'

    @pytest.mark.parametrize(
        ("text", "message", "where"),
        [
            ('{"a": 1}', "a must be a list", "x.json:1:7"),
            ('{"a": {}}', "a must be a list", "x.json:1:7"),
            ("[]", "the document must be an object", "x.json:1:1"),
            ('{\n  "p": null}', "p must be an object", "x.json:2:8"),
        ],
    )
    def test_refuses_another_type(self, text: str, message: str, where: str) -> None:
        path = ("p", "a") if '"p"' in text else ("a",)
        with pytest.raises(CheckError) as caught:
            appended(text, path, 1)
        assert (caught.value.code, caught.value.message) == ("PB-X", message)
        assert caught.value.where == where
        assert "nothing was written" in caught.value.guidance


class TestReplacing:
    def test_keeps_one_line_on_one_line(self) -> None:
        done = text_of(read('{"a": {"b": 1}, "c": 2}').replace(("a",), {"d": [1]}))
        assert done == '{"a": {"d": [1]}, "c": 2}'

    def test_keeps_several_lines_on_several(self) -> None:
        done = text_of(read(SPREAD).replace(("permissions",), {"deny": []}))
        assert json.loads(done) == {"model": "opus", "permissions": {"deny": []}}
        assert done.endswith('"permissions": {\n        "deny": []\n    }\n}\n')


class TestRemoving:
    @pytest.mark.parametrize(
        ("before", "path", "after"),
        [
            ('{"a": [1, 2, 3]}', ("a", 0), '{"a": [2, 3]}'),
            ('{"a": [1, 2, 3]}', ("a", 1), '{"a": [1, 3]}'),
            ('{"a": [1, 2, 3]}', ("a", 2), '{"a": [1, 2]}'),
            ('{"a": [1], "b": 2}', ("a", 0), '{"b": 2}'),
            ('{"a": {"c": [1]}, "b": 2}', ("a", "c", 0), '{"b": 2}'),
            ('{ "a": {"c": [1]} }', ("a", "c", 0), "{}"),
        ],
    )
    def test_removes_the_comma_and_emptied_containers(
        self, before: str, path: tuple[str | int, ...], after: str
    ) -> None:
        assert text_of(read(before).remove(path)) == after


class TestReading:
    def test_returns_the_data_at_a_path(self) -> None:
        document = read('{"a": [{"b": -1.5e3}, true, null, "\\ud800", 12]}')
        assert document.get("a", 0, "b") == -1500
        assert document.get("a", 1) is True
        assert document.get("a", 4) == 12
        for nothing in (("b",), ("a", "b"), ("a", 5), ("a", 0, "b", "c"), ("a", 0, 0)):
            assert document.get(*nothing) is None

    def test_a_number_of_any_length_stays_as_it_is(self) -> None:
        long = "9" * 5_000
        assert appended(f'{{"a": [{long}]}}', ("a",), 1) == f'{{"a": [{long}, 1]}}'

    @pytest.mark.parametrize(
        ("text", "message", "place"),
        [
            ("", "not JSON: Expecting value", "1:1"),
            ('{\n  // no\n  "a": 1}', "not JSON: Expecting property name", "2:3"),
            ('{"a" 1}', "not JSON: Expecting ':'", "1:6"),
            ('{"a": 1 "b": 2}', "not JSON: Expecting ','", "1:9"),
            ("[1", "not JSON: Expecting ','", "1:3"),
            ("{} {}", "not JSON: Extra data", "1:4"),
            ("[NaN]", "`NaN` is not a number", "1:2"),
            ('["\t"]', "not JSON: Invalid control character", "1:3"),
            ("[" * 10_000, "nested deeper than 64 levels", "1:65"),
        ],
    )
    def test_refuses_invalid_json_with_its_position(
        self, text: str, message: str, place: str
    ) -> None:
        with pytest.raises(CheckError) as caught:
            read(text)
        assert caught.value.message.startswith(message)
        assert (caught.value.code, caught.value.where) == ("PB-X", f"x.json:{place}")

    def test_refuses_invalid_utf_8_with_its_position(self) -> None:
        with pytest.raises(CheckError) as caught:
            JsonText(b'{\n "a": "\xff"}', "x.json", "PB-X")
        assert (caught.value.code, caught.value.where) == ("PB-X", "x.json:2:8")


# ── properties ──────────────────────────────────────────────────────────────────────────────

documents = st.dictionaries(keys, data, max_size=4).flatmap(laid_out)


def kept(before: str, after: str) -> bool:
    """Whether `after` is `before` with one piece put in, blanks of an empty holder aside."""
    start = next((i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), None)
    start = len(before) if start is None else start
    rest = before[start:]
    return any(
        after.endswith(rest[blank:]) and not rest[:blank].strip()
        for blank in range(len(rest) + 1)
        if not rest[:blank].strip()
    )


@given(document=documents)
def test_every_document_is_read_and_written_unchanged(document: str) -> None:
    assert read(document).get() == json.loads(document)
    assert text_of(read(document)) == document


@given(document=documents, key=keys, item=data)
def test_appending_inserts_one_piece(document: str, key: str, item: object) -> None:
    before = json.loads(document)
    if not isinstance(before.get(key, []), list):
        with pytest.raises(PlaybookError):
            appended(document, (key,), item)
        return
    after = appended(document, (key,), item)
    assert json.loads(after) == before | {key: [*before.get(key, []), item]}
    assert kept(document, after)


@given(document=documents, item=data)
def test_an_appended_item_can_be_removed(document: str, item: object) -> None:
    added = read(document).append(("ours", "list"), item)
    without = text_of(added.remove(("ours", "list", 0)))
    assert json.loads(without) == json.loads(document)
    assert without == document or not json.loads(document)


@given(data=st.binary(max_size=40) | documents.map(str.encode))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    place, back = "", b""
    try:
        back = JsonText(data, "x.json", "PB-X").encode()
    except CheckError as error:
        place = error.where
    assert back == data or place.startswith("x.json:")
