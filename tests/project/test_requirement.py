"""Conditions with parameters, by their canonical text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playbook_supervisor.errors import ConditionError
from playbook_supervisor.kernel.vocabulary import Condition
from playbook_supervisor.project.expressions.requirement import (
    PLAIN,
    Requirement,
    requirement,
    usage,
)


@given(st.sampled_from(Condition), st.lists(st.text(max_size=8), max_size=3))
def test_the_canonical_text_is_read_as_it_was_written(
    condition: Condition, given: list[str]
) -> None:
    required = Requirement(condition, tuple(given))
    read = requirement(required.name)
    if len(given) > 1 and "CHECK" in usage(condition):
        options = len(given) if condition is Condition.PROVED else 1
        assert 1 <= len(read.parameters) <= options
    else:
        assert read == required
    assert requirement(read.name) == read


def test_a_check_of_its_own_needs_no_quotes_twice() -> None:
    """A shell takes those around `cli make test`."""
    quoted = requirement("command_succeeds='cli make test'")
    assert quoted.parameters == ("cli make test",)
    assert requirement("command_succeeds=cli make test") == quoted
    assert requirement("command_fails=cli make 'a b'").parameters == ("cli make 'a b'",)


def test_options_of_proved_follow_its_check_wherever_they_are_written() -> None:
    wanted = ("cli make test", "without=alarm,runner", "new_tests=required")
    assert requirement("proved=without=alarm,runner cli make test new_tests=required") == (
        Requirement(Condition.PROVED, wanted)
    )
    assert not Requirement(Condition.PROVED, wanted).flaw
    assert "is no option of `proved`" in Requirement(Condition.PROVED, ("test", "red=no")).flaw


@pytest.mark.parametrize("name", ["plan_exist", "", "=x", "file_exists='"])
def test_what_is_no_condition_is_refused(name: str) -> None:
    with pytest.raises(ConditionError) as caught:
        requirement(name)
    assert caught.value.code == "PB-COND-UNKNOWN"


@pytest.mark.parametrize(
    ("name", "flaw"),
    [
        *((str(condition), "") for condition in PLAIN),
        ("plan_exists=x", "write `plan_exists`"),
        ("file_exists=a b", "write `file_exists=PATH`"),
        ("file_exists=a", ""),
        ("file_contains=a", "write `file_contains=PATH TEXT`"),
        ("file_contains=a 'x\ny'", ""),
        ("verdict_pass=../a.md", "'../a.md' leads out of the repository"),
        ("changes_within", "write `changes_within=GLOB…`"),
        ("changes_made=src/** ../x", "'../x' leads out of the repository"),
        ("branch_exists=--all", "'--all' is not a name that git allows"),
        ("tag_exists='v*'", "'v*' is not a name that git allows"),
        ("tag_exists='v\t1'", "'v 1' contains a control character"),
        ("command_succeeds=test", ""),
    ],
)
def test_parameters_are_checked(name: str, flaw: str) -> None:
    assert requirement(name).flaw == flaw
