"""The expressions of spec-kit's workflow files."""

from __future__ import annotations

import pytest

from playbook_supervisor.dialects.speckit_expressions import (
    MAX_CHARACTERS,
    MAX_DEPTH,
    Comparison,
    Expression,
    ExpressionError,
    Literal,
    Not,
    Reference,
    condition,
    template,
)

A, B, C = (Reference((name,)) for name in "abc")
THREE = Comparison(A, Literal(3))


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("a", A),
        ("a == 3", THREE),
        ("(a)", A),
        ("not a == 3", Not(THREE)),
        ("not not a", A),
        ("a != true", Comparison(A, Literal(value=True), equal=False)),
        ("a == none", Comparison(A, Literal(None))),
        ("a == -1.5", Comparison(A, Literal(-1.5))),
        ("steps.a-b.list[0].c", Reference(("steps", "a-b", "list", 0, "c"))),
        ("a['b c']", Reference(("a", "b c"))),
        ("'it\\'s' == \"\\\"}}\\n\"", Comparison(Literal("it's"), Literal('"}}\n'))),
        ("'and' == android", Comparison(Literal("and"), Reference(("android",)))),
    ],
)  # fmt: skip
def test_an_expression_is_read_by_precedence(text: str, expression: Expression) -> None:
    assert condition(text) == expression
    assert condition(f"  {{{{ {text} }}}} ") == expression


@pytest.mark.parametrize(
    ("text", "column", "said"),
    [
        ("{{ a", 5, "`}}` is missing"),
        ("{{ a }", 6, "this is no expression"),
        ("{{}}", 3, "a value is expected"),
        ("{{ a b }}", 6, "`b` is not expected"),
        ("{{ a == b == c }}", 14, "cannot be chained"),
        ("{{ a == }}", 9, "a value is expected"),
        ("{{ and }}", 4, "a value is expected"),
        ("{{ a. }}", 7, "a name is expected"),
        ("{{ a[b] }}", 6, "a number or a text"),
        ("{{ a[-1] }}", 6, "a number or a text"),
        ("{{ (a }}", 7, "`)` is expected"),
        ("{{ a not b }}", 10, "`in` is expected"),
        ("{{ 'x }}", 4, "this is no expression"),
        ("{{ a + 1 }}", 6, "this is no expression"),
        ("{{ a(1) }}", 5, "`(` is not expected"),
        ("{{ 3a }}", 4, "this is no expression"),
    ],
)
def test_anything_else_is_an_error_at_its_column(text: str, column: int, said: str) -> None:
    with pytest.raises(
        ExpressionError, match=said.replace("(", r"\(").replace(")", r"\)")
    ) as error:
        template(text)
    assert error.value.column == column


@pytest.mark.parametrize(
    ("text", "operator"),
    [
        ("a == 3 and b", "and"),
        ("not (a or b)", "or"),
        ("a not in []", "not in"),
        ("a <= -1.5", "<="),
        ("a | f('k', [b])", "|"),
        ("[1, 'x']", "["),
    ],
)
def test_an_operator_without_a_counterpart_is_named(text: str, operator: str) -> None:
    with pytest.raises(ExpressionError) as error:
        condition(text)
    assert str(error.value) == f"`{operator}` has no counterpart here"


def test_a_template_is_text_and_expressions() -> None:
    assert template("x {{ a }}{{b}} y }}") == ("x ", A, B, " y }}")
    assert template("") == ()


@pytest.mark.parametrize("text", ["{{ a }} and {{ b }}", "{{ a }} == 3", "x {{ a }}"])
def test_a_condition_is_one_expression(text: str) -> None:
    with pytest.raises(ExpressionError, match="one expression"):
        condition(text)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 100_000,
        "a[" * 100_000,
        f"a{' ' * MAX_CHARACTERS} == 3",
        "(" * MAX_DEPTH,
    ],
)
def test_a_hostile_expression_is_refused_at_once(text: str) -> None:
    with pytest.raises(ExpressionError):
        condition(text)


def test_many_negations_are_read_without_recursion() -> None:
    assert condition("not " * 400 + "a") == A
