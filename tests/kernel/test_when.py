"""`when`: a fixed little grammar about earlier steps."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playbook_supervisor.kernel.directives import Answer
from playbook_supervisor.kernel.when import WhenError, evaluate, parse

DATA = {
    "verdict": "PASS",
    "count": 3,
    "half": 0.5,
    "ok": True,
    "bad": False,
    "none": None,
    "list": [{"name": "x"}, "y"],
    "a-b": {"c_d": "é"},
    "long": "x" * 100,
}


def facts(step: str, fact: str) -> object:
    known = {"approved": True, "skipped": False, "json": DATA, "arg": step != "scope" or "full"}
    if step == "lost":
        raise LookupError(f"the output of {step} is not known")
    return known[fact]


@pytest.mark.parametrize(
    ("expression", "holds"),
    [
        ("$review.approved", True),
        ("$review.skipped", False),
        ("$b.json.ok", True),
        ("$b.json.bad", False),
        ('$b.json.verdict == "PASS"', True),
        ('$b.json.verdict=="FAIL"', False),
        ('  $b.json.verdict  !=\t"FAIL" ', True),
        (r'$b.json.verdict == "P\u0041SS"', True),
        ("$b.json.count == 3", True),
        ("$b.json.count != -3", True),
        ("$b.json.ok == true", True),
        ("$b.json.ok == 1", False),
        ("$b.json.count == true", False),
        ("$b.json.none == null", True),
        ('$b.json.list[0].name == "x"', True),
        ('$b.json.list[1] == "x"', False),
        ("$b.json != null", True),
        ('$scope == "full"', True),
        ("$with-tests", True),
        ('$b.json.a-b.c_d == "é"', True),
    ],
)
def test_an_expression_is_true_or_false(expression: str, holds: bool) -> None:
    """tyr 24."""
    assert evaluate(expression, facts).answer is (Answer.HELD if holds else Answer.NOT_HELD)


@pytest.mark.parametrize(
    ("expression", "evidence"),
    [
        ("!$review.approved", "$review.approved is true"),
        ('$b.json.verdict != "PASS"', '$b.json.verdict is "PASS"'),
        ("$b.json.list == 1", "$b.json.list is a list"),
        ("$b.json.a-b == 1", "$b.json.a-b is an object"),
        ('$b.json.long == "x"', '$b.json.long is "' + "x" * 58 + "…"),
    ],
)
def test_the_evidence_is_the_value_that_decides(expression: str, evidence: str) -> None:
    probed = evaluate(expression, facts)
    assert (probed.name, probed.evidence, probed.code) == ("when", evidence, "")


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("$b.json.nothing", "$b.json has no `nothing`"),
        ('$b.json.nothing != "x"', "$b.json has no `nothing`"),
        ("$b.json.list[2] == 1", "$b.json.list has no `[2]`"),
        ("$b.json.verdict.length == 4", "$b.json.verdict has no `length`"),
        ("$lost.json.x == 1", "the output of lost is not known"),
        ("$b.json.count", "$b.json.count is 3, neither true nor false: compare it"),
        ("!$b.json", "$b.json is an object, neither true nor false: compare it"),
    ],
)
def test_what_is_not_there_is_an_error_and_never_silently_false(expression: str, said: str) -> None:
    probed = evaluate(expression, facts)
    assert (probed.answer, probed.code) == (Answer.ERROR, "PB-STEP-DATA")
    assert probed.evidence == said


@pytest.mark.parametrize(
    ("expression", "column", "said"),
    [
        ("", 1, "a reference such as"),
        ("true", 1, "a reference such as"),
        ("!!$a.approved", 2, "a reference such as"),
        ("$1a", 1, "a reference such as"),
        ("$a b", 3, "the expression ends here"),
        ("!$a == 1", 1, "write `!=`"),
        ("$a.", 4, "one of approved, skipped, done, failed, json is expected"),
        ("$a.stdout", 4, "one of approved, skipped, done, failed, json is expected"),
        ("$a.approved.x", 12, "`approved` is true or false and has no parts"),
        ("$a.json.", 8, "a name such as `.verdict` or a number"),
        ("$a.json[-1]", 8, "a name such as `.verdict` or a number"),
        ("$a.json.x ==", 13, "a value such as"),
        ("$a.json.x == $b.json.x", 14, "a value such as"),
        ('$a.json.x == "y', 14, "a value such as"),
        (r'$a.json.x == "\y"', 14, "is not a text as JSON writes it"),
        ("$a.json.x = 1", 10, "the expression ends here"),
        ("$a.json.x == 1 && $a.approved", 15, "the expression ends here"),
        ("$a.approved == true", 1, "write it by itself"),
        ("$a.json.f()", 10, "the expression ends here"),
        ("$a.approved\n", 12, "the expression ends here"),
    ],
)
def test_anything_outside_the_grammar_is_an_error_with_its_column(
    expression: str, column: int, said: str
) -> None:
    with pytest.raises(WhenError, match=said) as caught:
        parse(expression)
    assert caught.value.column == column


@pytest.mark.parametrize(
    ("expression", "column"),
    [("$a.approved", 1), ("$task2", 1), ("!$tas.k", 2), ("$task.kind == x", 15), ("$task[x]", 6)],
)
def test_a_where_asks_about_the_item_and_nothing_else(expression: str, column: int) -> None:
    with pytest.raises(WhenError) as caught:
        parse(expression, "task")
    assert caught.value.column == column


@given(st.text(max_size=40) | st.text('$a.json[0]!= "x\\', max_size=30))
def test_no_text_does_more_than_parse_or_fail_at_one_of_its_columns(text: str) -> None:
    try:
        reference, column = parse(text).reference, 1
    except WhenError as error:
        reference, column = "", error.column
    assert reference in text
    assert 1 <= column <= len(text) + 1


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ),
    st.none() | st.booleans() | st.integers() | st.text(),
)
def test_equality_is_that_of_json(value: object, literal: object) -> None:
    text = json.dumps(literal)
    equal = evaluate(f"$a.json.x == {text}", lambda *_: {"x": value})
    differs = evaluate(f"$a.json.x != {text}", lambda *_: {"x": value})
    assert equal.held == (json.dumps(value) == text)
    assert differs.held == (not equal.held)
