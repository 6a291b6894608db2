"""JSON that a person also edits is written with the layout of its file."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.hypothesis_strategies import data, keys, laid_out

from playbook_supervisor.errors import CheckError
from playbook_supervisor.formats.strict_json import write_json
from playbook_supervisor.formats.strict_yaml import load


def rewritten(text: str) -> str:
    return write_json(load(text.encode(), "x.json").data, text.encode()).decode()


@pytest.mark.parametrize(
    "text",
    [
        '{\n    "a": [\n        1.50,\n        -0,\n        null\n    ],\n    "b": {}\n}\n',
        '{\r\n\t"ä": [],\r\n\t"b": true\r\n}',
        f'\ufeff{{\n "a": {"9" * 5_000}\n}}\n',
    ],
)
def test_a_file_keeps_its_indentation_line_ends_and_numbers(text: str) -> None:
    assert rewritten(text) == text


def test_a_file_without_indentation_gets_some() -> None:
    assert rewritten('{"a":[1,{"b":""}]}') == (
        '{\n  "a": [\n    1,\n    {\n      "b": ""\n    }\n  ]\n}'
    )


@given(document=st.dictionaries(keys, data, max_size=4).flatmap(laid_out))
def test_any_document_has_the_same_data_afterwards(document: str) -> None:
    try:
        done = rewritten(document)
    except CheckError:
        return
    assert json.loads(done) == json.loads(document)
    assert rewritten(done) == done
