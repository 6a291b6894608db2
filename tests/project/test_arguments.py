"""Arguments given by a person, bound to those that a playbook declares."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playbook_supervisor.errors import ArgumentError
from playbook_supervisor.formats.sanitize import printable
from playbook_supervisor.kernel.error_policy import ErrorPolicy
from playbook_supervisor.kernel.model import Arg, Playbook, Step
from playbook_supervisor.kernel.vocabulary import ArgType, Autonomy, Transform
from playbook_supervisor.project.expressions.arguments import (
    as_text,
    bind,
    hint,
    transformed,
    wanted,
)
from playbook_supervisor.records import replace

FEATURE = Arg("feature", "Feature number or folder", required=True)
URL = Arg("target-url", "Where the application runs", required=False)
STEP = Step("plan", "/speckit.plan", Autonomy.AUTO, ErrorPolicy.STOP)


def playbook(*args: Arg) -> Playbook:
    return Playbook("auto-feature", "", "1.0", args, (STEP,))


def refused(declared: Playbook, *given_args: str) -> ArgumentError:
    with pytest.raises(ArgumentError) as caught:
        bind(declared, given_args)
    assert caught.value.code == "PB-ARG-INVALID"
    return caught.value


def test_a_positional_argument_and_a_named_one_mean_the_same() -> None:
    declared = playbook(FEATURE)
    assert bind(declared, ["013"]) == bind(declared, ["feature=013"]) == {"feature": "013"}


def test_positional_arguments_follow_the_order_of_declaration() -> None:
    assert bind(playbook(FEATURE, URL), ["013", "http://localhost"]) == {
        "feature": "013",
        "target-url": "http://localhost",
    }


def test_named_ones_come_in_any_order_and_are_returned_in_that_of_declaration() -> None:
    bound = bind(playbook(FEATURE, URL), ["target-url=x", "013"])
    assert list(bound.items()) == [("feature", "013"), ("target-url", "x")]


def test_an_optional_argument_that_is_not_given_is_empty() -> None:
    assert bind(playbook(FEATURE, URL), ["013"])["target-url"] == ""


@pytest.mark.parametrize("text", ["https://host/?q=1", "a b=c", "1=2", "=x"])
def test_free_text_with_an_equals_sign_stays_one_positional_argument(text: str) -> None:
    assert bind(playbook(FEATURE), [text]) == {"feature": text}
    assert bind(playbook(FEATURE), ["feature=a=b"]) == {"feature": "a=b"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("featuer=013", "no arg is called featuer; did you mean feature?"),
        ("Feature=013", "no arg is called Feature; did you mean feature?"),
        ("colour=red", "no arg is called colour"),
    ],
)
def test_a_misspelt_name_is_refused_with_the_names_that_there_are(text: str, said: str) -> None:
    error = refused(playbook(FEATURE, URL), text)
    assert said in error.message
    assert error.guidance.startswith("It takes feature (required): ")


@pytest.mark.parametrize(
    "typed", ["013", "no", " l'été, déjà ", '"quoted"', "{{x}}", "--flag", "1:30"]
)
def test_a_value_stays_what_was_typed(typed: str) -> None:
    assert bind(playbook(FEATURE), [typed]) == {"feature": typed}


def test_a_missing_required_argument_is_named_with_what_it_wants_and_an_example() -> None:
    """cat FR-2.1."""
    error = refused(playbook(FEATURE, URL))
    assert error.message == "auto-feature: feature is missing"
    assert error.guidance == (
        "It takes feature (required): Feature number or folder, "
        "target-url (optional): Where the application runs. "
        "For example: playbook run auto-feature 013 [target-url=TARGET-URL]"
    )
    assert error.details == (
        "feature (required): Feature number or folder",
        "target-url (optional): Where the application runs",
    )


@pytest.mark.parametrize("nothing", ["", "  ", "feature="])
def test_a_required_argument_without_a_value_is_missing(nothing: str) -> None:
    assert "feature is missing" in refused(playbook(FEATURE), nothing).message


def test_one_error_reports_all_problems() -> None:
    error = refused(playbook(FEATURE, URL), "feature=", "x\x07", "target-url=b", "c", "d")
    assert error.message == (
        "auto-feature: feature is given twice; target-url is given twice; "
        'too many arguments: "d"; feature is missing'
    )


def test_an_argument_given_by_position_and_by_name_is_refused() -> None:
    assert "feature is given twice" in refused(playbook(FEATURE), "013", "feature=014").message
    assert "feature is given twice" in refused(playbook(FEATURE), "feature=014", "013").message


def test_too_many_arguments_are_quoted() -> None:
    assert 'too many arguments: "b"' in refused(playbook(FEATURE), "a", "b").message
    assert 'too many arguments: "b", "c"' in refused(playbook(FEATURE), "a", "b", "c").message


def test_a_playbook_without_arguments_says_so() -> None:
    error = refused(playbook(), "013")
    assert error.guidance == "It takes no arguments: playbook run auto-feature"
    assert bind(playbook(), []) == {}


@pytest.mark.parametrize("broken", ["a\nb", "a\r\nb", "a\u2028b"])
def test_a_line_break_is_refused_with_what_to_do_instead(broken: str) -> None:
    error = refused(playbook(FEATURE), f"feature={broken}")
    assert error.message == (
        "auto-feature: feature must be one line: put longer text into a file, and give its path"
    )


@pytest.mark.parametrize("hostile", ["\x1b[2Jx", "a\x00", "\u202eabc", "\ud800", "a\tb"])
def test_an_argument_with_control_characters_is_refused_and_not_repeated(hostile: str) -> None:
    error = refused(playbook(FEATURE), hostile)
    assert error.message == "auto-feature: feature contains control characters"


def test_a_surplus_argument_is_shown_without_its_control_characters() -> None:
    assert '"red"' in refused(playbook(), "\x1b[31mred").message


@given(st.lists(st.text(max_size=12), max_size=4))
def test_any_arguments_are_bound_or_refused(given_args: list[str]) -> None:
    declared = playbook(FEATURE, URL)
    message = ""
    try:
        bound = bind(declared, given_args)
    except ArgumentError as error:
        message = error.message
    else:
        assert list(bound) == ["feature", "target-url"]
        assert bound["feature"].strip()
    assert printable(message) == message


# ── types, defaults and transforms (version 1.1) ────────────────────────────────────────────


COUNT = Arg("count", "How many", required=False, type=ArgType.NUMBER)
DRAFT = Arg("draft", "Whether it is a draft", required=False, type=ArgType.BOOLEAN)
KIND = Arg("kind", "What it is", required=True, type=ArgType.ENUM, values=("bug", "feature"))
TOKEN = Arg("token", "For the forge", required=True, secret=True)


def transforming(transform: Transform) -> Playbook:
    return playbook(Arg("title", "A title", required=True, transform=transform))


@pytest.mark.parametrize("number", ["0", "-3", "2.50", "1e6", "007", "12345678901234567890"])
def test_a_number_stays_as_it_was_typed(number: str) -> None:
    """cat FR-2.2."""
    assert bind(playbook(COUNT), [f"count={number}"]) == {"count": number}
    assert bind(playbook(COUNT), [f" {number} "]) == {"count": number}


@pytest.mark.parametrize("text", ["ten", "1,5", "0x10", "nan", "inf", "1_000", "--1", "1.", "٣"])
def test_what_is_no_number_is_refused(text: str) -> None:
    message = refused(playbook(COUNT), text).message
    assert message == f'auto-feature: count must be a number, not "{text}"'


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        *[(typed, "true") for typed in ("true", "Yes", "on", "1", "y", " TRUE ")],
        *[(typed, "false") for typed in ("false", "NO", "off", "0", "n")],
    ],
)
def test_a_boolean_becomes_true_or_false(typed: str, value: str) -> None:
    """cat FR-2.2."""
    assert bind(playbook(DRAFT), [typed]) == {"draft": value}


def test_what_is_neither_true_nor_false_is_refused() -> None:
    message = refused(playbook(DRAFT), "maybe").message
    assert message == 'auto-feature: draft must be true or false, not "maybe"'


def test_an_enum_takes_one_of_its_values_and_says_which_one_was_meant() -> None:
    """cat FR-2.2, FR-2.4."""
    assert bind(playbook(KIND), ["bug"]) == {"kind": "bug"}
    message = refused(playbook(KIND), "featur").message
    assert message == (
        'auto-feature: kind must be one of bug, feature, not "featur"; did you mean feature?'
    )
    assert "must be one of" in refused(playbook(KIND), "Bug").message


@pytest.mark.parametrize("given_args", [[], ["base="], ["base= "]])
def test_a_default_applies_where_no_value_is_given(given_args: list[str]) -> None:
    """cat FR-2.5."""
    declared = playbook(Arg("base", "The branch", required=True, default="main"))
    assert bind(declared, given_args) == {"base": "main"}
    assert bind(declared, ["dev"]) == {"base": "dev"}


def test_a_default_can_be_made_of_the_args_before_it() -> None:
    """cat FR-2.3, FR-2.5."""
    slug = Arg("slug", "A name", False, default="fix-{{title}}", transform=Transform.KEBAB_CASE)
    declared = playbook(Arg("title", "A sentence", required=True), slug)
    assert bind(declared, ["Add {{x}} & more"])["slug"] == "fix-add-x-more"
    assert bind(declared, ["Add it", "own"])["slug"] == "own"


def test_a_default_must_fit_its_type_as_a_given_value_must() -> None:
    declared = playbook(replace(COUNT, default="many"))
    assert 'count must be a number, not "many"' in refused(declared).message
    assert bind(declared, ["3"]) == {"count": "3"}
    assert bind(playbook(replace(DRAFT, default="yes")), []) == {"draft": "true"}


@pytest.mark.parametrize(
    ("typed", "kebab", "snake", "camel"),
    [
        ("Add a Login Page", "add-a-login-page", "add_a_login_page", "addALoginPage"),
        ("  --already_mixed.case!! ", "already-mixed-case", "already_mixed_case", None),
        ("HTTPServer2Beta v10", "http-server2-beta-v10", "http_server2_beta_v10", None),
        ("Über Größe", "über-größe", "über_größe", "überGröße"),
        ("e\u0301te\u0301 2026", "été-2026", "été_2026", "été2026"),
        ("हिन्दी पाठ", "हिन्दी-पाठ", "हिन्दी_पाठ", "हिन्दीपाठ"),
        ("日本語 テスト", "日本語-テスト", "日本語_テスト", "日本語テスト"),
        ("../../etc/passwd", "etc-passwd", "etc_passwd", "etcPasswd"),
        ("a1", "a1", "a1", "a1"),
    ],
)
def test_a_transform_writes_the_words_of_a_value_in_its_way(
    typed: str, kebab: str, snake: str, camel: str | None
) -> None:
    """cat FR-2.3."""
    assert bind(transforming(Transform.KEBAB_CASE), [typed]) == {"title": kebab}
    assert bind(transforming(Transform.SNAKE_CASE), [typed]) == {"title": snake}
    if camel is not None:
        assert bind(transforming(Transform.CAMEL_CASE), [typed]) == {"title": camel}


def test_a_value_of_which_a_transform_leaves_nothing_is_refused() -> None:
    message = refused(transforming(Transform.KEBAB_CASE), "?!").message
    assert message == 'auto-feature: title has no letter or digit to make kebab-case of: "?!"'


@given(st.text(max_size=30), st.sampled_from([Transform.KEBAB_CASE, Transform.SNAKE_CASE]))
def test_a_transformed_value_stays_as_it_is(text: str, transform: Transform) -> None:
    once = transformed(text, transform)
    assert transformed(once, transform) == once
    assert not once.startswith(("-", "_"))


def test_a_secret_arg_takes_the_name_of_a_secret_and_keeps_that() -> None:
    bound = bind(playbook(TOKEN), ["GH_TOKEN"], is_secret={"GH_TOKEN"}.__contains__)
    assert bound == {"token": "GH_TOKEN"}


@pytest.mark.parametrize(
    "given_args",
    [
        ["ghp_1234secret"],
        ["token=ghp_1234secret"],
        ["token=gh p;1234secret"],
        ["a=1", "ghp_1234secret"],
        ["GH_TOKEN", "ghp_1234secret"],
        ["Z2hwXzEyMzRzZWNyZXQ="],
    ],
)
def test_the_value_of_a_secret_is_refused_and_not_repeated(given_args: list[str]) -> None:
    declared = playbook(TOKEN)
    with pytest.raises(ArgumentError) as caught:
        bind(declared, given_args, is_secret={"GH_TOKEN"}.__contains__)
    said = f"{caught.value.message} {caught.value.guidance} {caught.value.details}"
    assert "1234secret" not in said
    assert "Z2hw" not in said


def test_a_handle_is_a_name_even_where_anything_is_known() -> None:
    with pytest.raises(ArgumentError, match="must be the name of a secret"):
        bind(playbook(TOKEN), ["GH TOKEN"], is_secret=lambda _: True)


def test_all_faults_of_typed_arguments_come_in_one_error_with_an_example() -> None:
    """cat FR-2.1, FR-2.6."""
    error = refused(playbook(KIND, COUNT, DRAFT, TOKEN), "idea", "count=ten", "draft=x")
    assert error.message == (
        'auto-feature: kind must be one of bug, feature, not "idea"; '
        'count must be a number, not "ten"; draft must be true or false, not "x"; token is missing'
    )
    assert error.details == (
        "kind (required, bug|feature): What it is",
        "count (optional, number): How many",
        "draft (optional, true|false): Whether it is a draft",
        "token (required, name of a secret): For the forge",
    )
    assert error.guidance.endswith(
        "For example: playbook run auto-feature bug [count=1] [draft=true] TOKEN"
    )


def test_what_an_arg_takes_says_its_default_and_its_transform() -> None:
    arg = Arg("slug", "A name", True, default="two words", transform=Transform.KEBAB_CASE)
    assert wanted(arg) == "slug (optional, made kebab-case, default two words): A name"
    assert "playbook run auto-feature [slug='two words']" in refused(playbook(arg), "?").guidance


@pytest.mark.parametrize(
    ("arg", "shown"),
    [
        (FEATURE, "<feature>"),
        (URL, "[target-url=…]"),
        (COUNT, "[count=number]"),
        (replace(KIND, required=False), "[kind=bug|feature]"),
        (replace(KIND, default="bug"), "[kind=bug]"),
    ],
)
def test_a_hint_shows_an_arg_as_usage_lines_do(arg: Arg, shown: str) -> None:
    assert hint(arg) == shown


def test_a_value_of_a_program_that_is_no_json_is_refused() -> None:
    with pytest.raises(ArgumentError, match="of the type object"):
        as_text(object())
