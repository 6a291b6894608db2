"""The verdict of a report, and whether it says breaking, in the shapes of real reports."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playbook_supervisor.formats.sanitize import printable
from playbook_supervisor.project.conditions.verdicts import Reading, read_report

SHAPES = (
    "verdict: {}",
    "**Verdict**: {}",
    "**Verdict:** {}",
    "**VERDICT: {}**",
    "## Verdict: {}",
    "### **Verdict**: **{}**",
    "- Verdict: {}",
    "* **Verdict**: `{}`",
    "## Verdict\n\n**{}** — all checks ran",
    "## Verdict\n{}",
    "Verdict\n-------\n\n{}.",
    "| Verdict | {} |",
    "| **Verdict** | **{}** | see below |",
    '"verdict": "{}"',
    "## Verdict\n\n**[{}]** Every check ran",
    "## Verdict\n\n[{}]",
    "**Verdict**: **[{}]**",
    "## QA Verdict: 013-playbook-create — {}",
    "## QA Verdict: X — {}",
    "## QA Verdict: 013-x – {} (12 of 12)",
    "# QA Verdict: v1.2_login - **{}**",
    "3. Verdict: {}",
    "## Verdict\n\n**{}**: the work meets the agreement",
    "Overall verdict: {}",
    "**Overall Verdict**: {} (12 of 12)",
    "**Final Verdict**: {}",
    "## 7. Final verdict\n\n**{}** — no finding",
    "## 2) Agreement Check Verdict: {}",
    "| Final verdict | {} |",
    "---\nverdict: {}\n---\n# Report\n",
    "---\r\ntitle: x\r\nverdict: {}\r\n---\r\n# Report\r\n",
    '\ufeff---\nverdict: "{}"\n...\n# Report\n',
)
WORDS = {
    "PASS": "PASS",
    "pass": "PASS",
    "Passed": "PASS",
    "FAIL": "FAIL",
    "FAILED": "FAIL",
    "stale": "STALE",
}


def verdict(text: str) -> str:
    return read_report(text, yaml=False).verdict


def breaking(text: str) -> str:
    return read_report(text, yaml=False).breaking


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("word", "meant"), WORDS.items())
def test_every_shape_of_real_reports_is_read(shape: str, word: str, meant: str) -> None:
    """kai data model, `agreement_pass` and `qa_verdict_pass`."""
    assert read_report(shape.format(word), yaml=False) == Reading(meant)


@pytest.mark.parametrize(
    "line", ["verdict: PASS", 'verdict: "PASS"', "verdict: passed # ok", "score: 1\nverdict: PASS"]
)
def test_a_yaml_report_states_its_verdict_by_a_key(line: str) -> None:
    assert read_report(line, yaml=True) == Reading("PASS")


@pytest.mark.parametrize(
    "rest", [".", ", with notes", " — fine", " - fine", " (12 of 12)", "!", ": x"]
)
def test_punctuation_a_dash_or_a_bracket_may_follow(rest: str) -> None:
    assert verdict(f"Verdict: PASS{rest}") == "PASS"


@pytest.mark.parametrize(
    "line",
    [
        "Verdict: PASS | FAIL",
        "Verdict: PASS/FAIL",
        "Verdict: PASS or FAIL",
        "Verdict: PASS, FAIL or STALE",
        "Verdict: PASS (or FAIL)",
        "Verdict: [PASS|FAIL]",
        "Verdict: [PASS] / [FAIL]",
        "Verdict: [PASS",
        "## Verdict\n\n[PASS] or [FAIL]",
        "## Verdict\n\n- [x] PASS\n- [ ] FAIL",
        "## Verdict\n\nPASS | FAIL",
        "| Verdict | PASS | FAIL |",
        "| Verdict | PASS / FAIL |",
        "| Verdict |",
        "Verdict: PASSABLE",
        "Verdict: PASS with remarks",
        "Verdict: pending",
        "Verdict:",
        "Verdict PASS",
        "Verdict: see below\n\nPASS",
        "Previous Check: FAIL with 2 failures",
        "The last verdict: FAIL",
        "Previous Verdict: FAIL",
        "Final verdicts: FAIL",
        "The overall verdict: FAIL",
        "Finally, a verdict: PASS",
        "## QA Verdict: 013-x — PASS | FAIL",
        "## QA Verdict: 013-x — PASS or not",
        "## QA Verdict: pending — PASS",
        "## QA Verdict: FAIL — PASS",
        "## QA Verdict: what we hope — PASS",
        "QA Verdict: 013-x — PASS",
        "> Verdict: FAIL",
        "We FAIL to see why it should PASS.",
        "PASS",
        "",
    ],
)
def test_templates_and_sentences_that_mention_a_word_state_no_verdict(line: str) -> None:
    reading = read_report(line, yaml=False)
    assert (reading.verdict, reading.reason) == ("", "no verdict")
    assert "what is read: the key `verdict`" in reading.hint


def test_the_same_word_again_behind_the_dash_is_still_one_verdict() -> None:
    assert verdict("Verdict: PASS — passed 12 of 12, 0 FAIL") == "PASS"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Verdict: FAIL\n\nafter mending:\n\nVerdict: PASS\n", "FAIL in line 1 and PASS in line 5"),
        ("Verdict: PASS\n\n## Verdict\n\n**FAIL** — sorry\n", "PASS in line 1 and FAIL in line 5"),
        ("---\nverdict: PASS\n---\n\n## Verdict: FAIL\n", "PASS in line 2 and FAIL in line 5"),
        ("---\nverdict: FAIL\n---\nVerdict: PASS\n", "FAIL in line 2 and PASS in line 4"),
        ("Verdict: PASS\n\nVerdict: FAIL with 2 findings", "PASS in line 1 and FAIL in line 3"),
        ("Verdict: PASS\n\nStatus: STALE", "PASS in line 1 and `status: STALE` in line 3"),
        ("Verdict: PASS (2 tests failed)", "PASS and `2 tests failed` in line 1"),
        ("Verdict: PASS (2 of 9 scenarios fail)", "PASS and `2 of 9 scenarios fail` in line 1"),
        ("Verdict: PASS, 12 passed 2 failed", "PASS and `12 passed 2 failed` in line 1"),
        (
            "Verdict: PASS, but the login test failed",
            "PASS and `but the login test failed` in line 1",
        ),
        ("## Verdict\n\n**PASS** — one test failed", "PASS and `one test failed` in line 3"),
        ("Verdict: PASS\n\n**[FAIL]** 2 findings", "PASS in line 1 and FAIL in line 3"),
        ("Verdict: PASS\n- **Failed**: 2", "PASS in line 1 and `failed: 2` in line 2"),
        ("Verdict: PASS\nPassed: 10, Failed: 2", "PASS in line 1 and `Failed: 2` in line 2"),
        ("Verdict: PASS\n| Failed tests | 2 |", "PASS in line 1 and `failed tests: 2` in line 2"),
        (
            "Verdict: PASS\nTests: 10 passed, 2 failed",
            "PASS in line 1 and `tests: 10 passed, 2 failed` in line 2",
        ),
        ("Verdict: PASS\n### Login\nResult: FAIL", "PASS in line 1 and `result: FAIL` in line 3"),
        ("Verdict: PASS\n\nVerdict: pending", "PASS in line 1 and `pending` in line 3"),
        ("Verdict: PASS\n\nVerdict: PASS | FAIL", "PASS in line 1 and `PASS | FAIL` in line 3"),
        (
            "Verdict: PASS\n## Final verdict\n[PASS] if all hold\n[FAIL] if not",
            "PASS in line 1 and `PASS or FAIL` in line 3",
        ),
        ("Verdict: PASS (pending review)", "PASS and `pending review` in line 1"),
        ("Verdict: PASS\n3. Verdict: FAIL", "PASS in line 1 and FAIL in line 2"),
        ("Verdict: PASS\n- S2 login: **FAIL**", "PASS in line 1 and `s2 login: FAIL` in line 2"),
        ("Verdict: PASS\n### S3 login — FAIL", "PASS in line 1 and `s3 login: FAIL` in line 2"),
        ("Verdict: PASS\nOverall: FAIL", "PASS in line 1 and `overall: FAIL` in line 2"),
        ("Verdict: PASS\nStatus: failing", "PASS in line 1 and `status: failing` in line 2"),
        ("Verdict: PASS\nStatus: ❌", "PASS in line 1 and `status: failing` in line 2"),
        ("Verdict: PASS\nThe verdict is FAIL.", "PASS in line 1 and `verdict: FAIL.` in line 2"),
        (
            "Verdict: PASS\n2 of 9 scenarios fail.",
            "PASS in line 1 and `2 of 9 scenarios fail` in line 2",
        ),
        ("Verdict: PASS\n2 failed, 10 passed in 3 s", "PASS in line 1 and `2 failed` in line 2"),
        ("Verdict: PASS\n- [FAIL] `id` is gone", "PASS in line 1 and FAIL in line 2"),
        (
            "Verdict: PASS\nFailing tests: test_login",
            "PASS in line 1 and `failing tests: test_login` in line 2",
        ),
        (
            "Verdict: PASS\n## Failed scenarios\n\n- S3",
            "PASS in line 1 and `failed scenarios: S3` in line 4",
        ),
        (
            "| Verdict | PASS |\n\n| Scenario | Result |\n|---|---|\n| S1 | ❌ FAIL |",
            "PASS in line 1 and `result: FAIL` in line 5",
        ),
        (
            "Verdict: PASS\n| Suite | Passed | Failed |\n|:--|--:|--:|\n| unit | 311 | 1 |",
            "PASS in line 1 and `failed: 1` in line 4",
        ),
        (
            "Verdict: PASS\n| Scenario | Expected | Result |\n|---|---|---|\n| S1 | 404 | FAIL |",
            "PASS in line 1 and `result: FAIL` in line 4",
        ),
        (
            "| Verdict | PASS |\n|---|---|\n| Failed | 2 |",
            "PASS in line 1 and `failed: 2` in line 3",
        ),
    ],
)
def test_a_report_that_contradicts_itself_has_not_passed(text: str, said: str) -> None:
    reading = read_report(text, yaml=False)
    assert (reading.contradiction, reading.said) == (said, said)
    assert reading.verdict != "PASS"


@pytest.mark.parametrize(
    "key",
    [
        "status: FAIL",
        "result: failed",
        "passed: false",
        "success: no",
        "failed: 2",
        "tests_failed: 1",
        "failures: [login]",
        "summary: {failed: 2}",
        "scenarios: [{id: a, status: FAIL}]",
        "qa_verdict: STALE",
        "state: blocked",
        "result: failure",
        "failed_tests: test_login",
        "scenarios: {login: FAIL}",
    ],
)
def test_other_keys_contradict_a_verdict_too(key: str) -> None:
    said = read_report(f"---\nverdict: PASS\n{key}\n---\n", yaml=False).said
    assert said.startswith("PASS in line 2 and `")
    assert said.endswith("` in line 3")
    assert read_report(f"{key}\nverdict: PASS\n", yaml=True).verdict != "PASS"
    assert read_report(key, yaml=True).reason == "no verdict"


@pytest.mark.parametrize(
    "honest",
    [
        "Previous Check: FAIL with 2 failures",
        "## Scenarios\n\n| Scenario | Result |\n|---|---|\n| login | FAIL → fixed |",
        "- [FAIL] login, fixed in 1234567",
        "Status: FAIL → fixed → PASS",
        "Passed: 12\nFailed: 0\nErrors: none",
        "Tests: 12 passed, 0 failed",
        "Result: PASS",
        "## History\n\nVerdict: FAIL\n\n### The first run\n\nStatus: FAIL\n",
        "FAIL was before.",
        "All that should fail does, and nothing else has failed.",
        "Failed scenarios: none",
        "Non-blocking failures: 2",
        "Root cause of failure: a clock",
        "Fail-safe: yes",
        "Test: `pytest` fails without the flag",
        "Errors: handled\nFailed logins: 3 tested\nKnown failures: 2",
        "## Failure modes\n\nThere are three.",
        "> Verdict: FAIL",
        "```\nVerdict: FAIL\n```",
        "| Suite | Passed | Failed |\n|:--|--:|--:|\n| unit | 312 | 0 |",
        "| Scenario | Before | After |\n|---|---|---|\n| login | FAIL | PASS |",
        "| Scenario | Run 1 | Run 2 |\n|---|---|---|\n| login | FAIL | PASS |",
        "| Scenario | Expected | Result |\n|---|---|---|\n| wrong key | FAIL | PASS |",
        "| Run | Verdict |\n|---|---|\n| 1 | FAIL |\n| 2 | PASS |",
        "| Word | Meaning |\n|---|---|\n| FAIL | a scenario does not hold |",
        "| Windows | ❌ |\n| Linux | ✅ |",
        "- Any unmet criterion: FAIL\n- FAIL: one does not hold",
        "## Failing tests\n\n- none",
        "## Failed scenarios\n\n- S3 failed in the first run, fixed in 1234567",
        "2 failed logins lock the account.\n0 failed, 12 passed",
        "Status: approved\nFailures: n/a\nTests: red before, green after",
        "The status is FAIL if a file is missing.",
    ],
)
def test_an_honest_report_still_passes(honest: str) -> None:
    for text in (f"---\nverdict: PASS\n---\n{honest}\n", f"{honest}\n\n# End\n\nVerdict: PASS\n"):
        assert read_report(text, yaml=False) == Reading("PASS")


@pytest.mark.parametrize(
    "rest",
    [
        " — 0 failed",
        " (12 passed, 0 failed)",
        " (no failures)",
        ", none of the tests failed",
        " (previously FAIL)",
        " — the 2 failures of the first run are fixed",
        " — failures: 0",
    ],
)
def test_a_verdict_may_say_that_nothing_fails(rest: str) -> None:
    assert read_report(f"Verdict: PASS{rest}", yaml=False) == Reading("PASS")


@pytest.mark.parametrize(
    "key", ["runs: [{verdict: FAIL}]", "previous_verdict: FAIL", "history: {failed: 3}"]
)
def test_keys_about_an_earlier_run_contradict_nothing(key: str) -> None:
    assert read_report(f"verdict: PASS\n{key}\n", yaml=True) == Reading("PASS")


@pytest.mark.parametrize(
    "template",
    [
        "**[PASS]** Every check ran.\n\nor\n\n**[FAIL]** N findings.",
        "`**[PASS]** …` or `**[FAIL]** …`",
        "**[PASS]** Every check ran, or **[FAIL]** N findings",
        "PASS — if all hold\n\nFAIL — if not",
    ],
)
def test_two_words_below_one_heading_are_no_verdict(template: str) -> None:
    reading = read_report(f"## Verdict\n\n{template}\n", yaml=False)
    assert (reading.verdict, reading.reason) == ("", "no verdict")


@pytest.mark.parametrize(
    "hidden", ["```\nVerdict: FAIL\n", "<!--\nVerdict: FAIL\n", "~~~ text\n```\n~~\n"]
)
def test_what_has_no_end_hides_no_verdict(hidden: str) -> None:
    kind = "comment" if hidden.startswith("<") else "code fence"
    reading = read_report(f"Verdict: PASS\n\n{hidden}", yaml=False)
    assert (reading.verdict, reading.reason) == ("", f"the {kind} in line 3 has no end")
    assert verdict(f"Verdict: FAIL\n\n{hidden}") == "FAIL"


@pytest.mark.parametrize("other", SHAPES[:3] + SHAPES[15:])
@pytest.mark.parametrize("words", [("PASS", "FAIL"), ("FAIL", "PASS"), ("STALE", "PASS")])
def test_no_order_of_two_verdicts_makes_a_pass(other: str, words: tuple[str, str]) -> None:
    text = f"{other.format(words[0])}\n\nLater:\n\n**Verdict**: {words[1]}\n"
    assert verdict(text) == ("STALE" if "STALE" in words else "FAIL")
    same = f"{other.format(words[0])}\n\nLater:\n\n**Verdict**: {words[0]}\n"
    assert verdict(same) == words[0]


def test_the_body_counts_where_the_front_matter_has_no_verdict() -> None:
    assert verdict("---\ntitle: x\n---\nVerdict: PASS\n") == "PASS"


@pytest.mark.parametrize("value", ["", "pending", "PASS | FAIL", "[PASS]", "{a: 1}"])
def test_an_open_verdict_in_the_front_matter_hides_the_body(value: str) -> None:
    reading = read_report(f"---\nverdict: {value}\n---\nVerdict: PASS\n", yaml=False)
    assert reading.verdict == ""
    assert reading.reason.startswith("no PASS, FAIL or STALE but `verdict: ")


@pytest.mark.parametrize("fence", ["```", "~~~", "````", "  ```"])
def test_code_fences_are_ignored(fence: str) -> None:
    text = f"{fence}yaml\nverdict: PASS\n``\nbreaking changes: 3\n[BREAKING] x\n{fence}\n"
    assert read_report(text, yaml=False).reason == "no verdict"
    assert verdict(f"{text}Verdict: FAIL\n") == "FAIL"


def test_a_fence_is_closed_by_its_own_kind_only() -> None:
    assert verdict("````\n```\nverdict: PASS\n````\nVerdict: FAIL\n") == "FAIL"
    assert verdict("```\n~~~\n``` not a close\nverdict: PASS\n```") == ""


def test_comments_are_ignored() -> None:
    assert verdict("<!-- one line -->\nVerdict: PASS\n") == "PASS"
    assert verdict("<!--\nVerdict: PASS\n-->\n") == ""


@pytest.mark.parametrize(
    "front", ["verdict: [", "a: 1\na: 2", "x: !!python/none y", "just words", "- a"]
)
def test_front_matter_that_does_not_parse_says_so(front: str) -> None:
    reading = read_report(f"---\n{front}\n---\nVerdict: PASS\n", yaml=False)
    assert reading.verdict == ""
    assert reading.reason.startswith("front matter that does not parse (")


def test_front_matter_that_is_never_closed_does_not_parse() -> None:
    assert read_report("---\nverdict: PASS\n", yaml=False).reason == (
        "front matter that does not parse (it is not closed by a line of three dashes)"
    )


def test_a_rule_at_the_top_is_not_taken_for_front_matter() -> None:
    assert verdict("---\nA report\n\nVerdict: PASS\n") == "PASS"
    assert verdict("---\n# A report\n---\nVerdict: PASS\n") == "PASS"


@pytest.mark.parametrize(
    "text", ["- PASS", "PASS", "verdict: *x", "verdict: PASS\n---\nverdict: FAIL"]
)
def test_yaml_that_is_not_a_mapping_does_not_parse(text: str) -> None:
    reading = read_report(text, yaml=True)
    assert reading.verdict == ""
    assert reading.reason.startswith("YAML that does not parse (")


def test_a_yaml_report_without_the_key_has_no_verdict() -> None:
    for text in ("result: PASS\n", "# Verdict: PASS\n"):
        reading = Reading("", "no verdict", hint="the key `verdict` is missing")
        assert read_report(text, yaml=True) == reading


# ── breaking ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("front", "said"),
    [
        ("breaking_changes: 2", "breaking_changes: 2"),
        ('breaking_changes: "1"', "breaking_changes: 1"),
        ("adr_violations: 1", "adr_violations: 1"),
        ("breaking: true", "breaking: true"),
        ("breaking_changes: [a, b]", "breaking_changes: 2"),
        ("breaking_changes: 0\nadr_violations: 3", "adr_violations: 3"),
    ],
)
def test_the_front_matter_says_breaking(front: str, said: str) -> None:
    """kai FR6."""
    assert breaking(f"---\n{front}\n---\n") == said
    assert read_report(front, yaml=True).breaking == said


@pytest.mark.parametrize(
    "front",
    [
        "breaking_changes: 0",
        "breaking: false",
        "breaking_changes: []",
        "breaking: none",
        "breaking:",
    ],
)
def test_none_in_the_front_matter_is_not_breaking(front: str) -> None:
    assert breaking(f"---\n{front}\n---\n") == ""


@pytest.mark.parametrize(
    "line",
    [
        "Breaking changes: 2",
        "- **Breaking changes**: 1 (the API)",
        "| Breaking changes | 3 | FAIL |",
        "| ADR violations | 1 |",
        "breaking_changes: 10",
        "- [BREAKING] the field `id` is gone",
        "### F1 **[ADR_VIOLATION]**",
        "| F2 | [BREAKING] | high |",
        "breaking: true",
        "**Breaking**: yes (the API)",
        "| Breaking | true |",
        "**[FAIL]** 2 breaking changes",
        "**[FAIL]** one breaking change: `id` is gone",
        "FAIL — 3 ADR violations",
    ],
)
def test_a_summary_or_a_tagged_finding_says_breaking(line: str) -> None:
    said = breaking(f"# Report\n\n{line}\n\nVerdict: PASS\n")
    assert said
    assert said == line.replace("*", "").replace("`", "")


@pytest.mark.parametrize(
    "line",
    [
        "Breaking changes: 0",
        "Breaking changes: none",
        "| Breaking changes | 0 |",
        "There are 2 breaking changes: none of ours",
        "No [BREAKING] findings.",
        "0 [ADR_VIOLATION] findings",
        "breaking: false",
        "Breaking: no (2 considered)",
        "**[FAIL]** 2 findings, no breaking changes",
        "**[PASS]** 2 breaking changes were taken back",
        "[breaking](https://example.org) news",
        "```\n[BREAKING] example\n```",
    ],
)
def test_a_report_that_counts_none_is_not_breaking(line: str) -> None:
    assert breaking(line) == ""


def test_a_report_whose_front_matter_does_not_parse_may_still_say_breaking() -> None:
    assert breaking("---\nbreaking_changes: 2\nx: [\n---\n") == "breaking_changes: 2"


def test_what_is_shown_of_a_report_is_short_and_printable() -> None:
    said = breaking("[BREAKING] \x1b[2J\x1b]0;x\x07" + "a" * 5000)
    assert len(said) <= 120
    assert said == printable(said)


# ── hostile text ────────────────────────────────────────────────────────────────────────────

TOKENS = (
    "--- verdict : PASS FAIL | # * ``` ~~~ [BREAKING] breaking_changes 9 <!-- --> Verdict ... { "
    "[PASS] Final QA 013-x — 7."
)
PIECES = st.sampled_from([*TOKENS.split(), *" \n\r\t\0é[", "- "])


@given(st.one_of(st.text(), st.lists(PIECES, max_size=30).map("".join)), st.booleans())
def test_any_text_is_read_and_yields_one_of_four_verdicts(text: str, yaml: bool) -> None:
    reading = read_report(text, yaml=yaml)
    assert reading.verdict in ("", "PASS", "FAIL", "STALE")
    assert bool(reading.reason) is (reading.said == "")
    assert not (reading.contradiction and reading.verdict == "PASS")
    shown = reading.reason + reading.breaking + reading.said
    assert printable(shown) == shown


@given(st.lists(PIECES, max_size=30).map("".join), st.sampled_from(["PASS", "FAIL"]))
def test_prose_around_a_statement_does_not_change_it(prose: str, word: str) -> None:
    """Text in a fence or in a quotation states nothing, wherever it stands."""
    quoted = "".join(f"> {line}\n" for line in prose.splitlines())
    assert verdict(f"Verdict: {word}\n\n{quoted}") == word
    assert verdict(f"{quoted}\nFinal Verdict: {word}\n") == word


UNITS = (
    *"|# *_`9\n",
    *(
        "verdict: ",
        "Verdict: PASS ",
        "PASS - ",
        "## Final Verdict: a-",
        "[",
        "a-a - ",
        "| Verdict | PASS |",
        "breaking changes: ",
    ),
    *("- ", "---\n", "a:\n", "<!--", "```\n", "no [", "[BREAKING"),
)


@pytest.mark.unmeasured
@pytest.mark.parametrize("unit", UNITS)
def test_much_hostile_text_is_read_in_one_pass(unit: str) -> None:
    for head, size in (
        ("", 200_000),
        ("---\n", 30_000),
        ("Verdict: PASS", 30_000),
        ("| ", 30_000),
    ):
        text = head + unit * (size // len(unit))
        assert read_report(text, yaml=False).verdict in ("", "PASS")


def test_an_empty_section_about_the_verdict_states_nothing() -> None:
    assert read_report("## Verdict\n\n## Notes\nverdict: PASS\n", yaml=False).verdict == "PASS"
    assert read_report("## Verdict\n\n## Notes\nnone\n", yaml=False).verdict == ""
