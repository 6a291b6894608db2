"""A person decides in a real browser: every kind of gate, with script and without."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest
from support.scratch_project import Project

from inbox import scenes
from inbox.browser import REQUIRED, Page, browser, opened

RESUMES = "inbox: {resume: true}\n"

both = pytest.mark.parametrize("script", [True, False], ids=["script", "no script"])
"""With script and without."""


def until_ended(project: Project) -> None:
    scenes.until(lambda: project.manifest()["status"] == "completed", "the session ends")


def seen_at_once(page: Page, *selectors: str) -> bool:
    """Whether all of these are in the window without scrolling."""
    page.execute_script("scrollTo(0, 0)")
    return all(
        page.execute_script(
            "const box = document.querySelector(arguments[0]).getBoundingClientRect();"
            "return box.top >= 0 && box.bottom <= innerHeight",
            selector,
        )
        for selector in selectors
    )


def test_a_person_comes_in_by_the_link_and_decides(project: Project, page: Page) -> None:
    scenes.ship(project)
    with opened(project, page) as served:
        page.shows("1 gate waits for you")
        page.press(".card.waits a")
        assert "Run /do.publish (step publish) now" in page.text(".question")
        page.write("#words", "read the diff")
        page.press("[value=continue]")
        page.shows("Your answer is recorded. To go on: playbook resume")
        assert page.hosts() == {urlsplit(served.url).netloc}
    assert scenes.answered(project) == [
        ("publish#1?1", "continue", "continue: read the diff", "inbox")
    ]


@pytest.mark.long
@both
def test_a_gate_before_a_step_is_decided_and_the_session_goes_on(
    project: Project, page: Page, script: bool
) -> None:
    page.allow_script(script)
    scenes.ship(project, RESUMES)
    with opened(project, page):
        page.press(".card.waits a")
        assert seen_at_once(page, ".question", "[value=continue]", "[value=skip]")
        assert "1 file, +2" in page.text("#changes + .diff")
        page.press("[value=continue]")
        page.shows("the session goes on")
        until_ended(project)
        if script:
            page.shows("completed")
        else:
            page.refresh()
            page.shows("completed")


@pytest.mark.long
@both
def test_what_failed_is_seen_at_once_and_retry_or_accept_settles_it(
    project: Project, page: Page, script: bool
) -> None:
    page.allow_script(script)
    scenes.waits(project, "fails", scenes.FAILS, scenes.FAILS_ACTIONS, RESUMES)
    with opened(project, page):
        page.press(".card.waits a")
        assert "1 of 2 tests is red: greet() raises TypeError" in page.text(".question")
        assert seen_at_once(
            page, ".question", "[value=continue]", "[value=retry]", "[value=accept]"
        )
        page.write("#words", "the network was down")
        page.press("[value=retry]" if script else "[value=accept]")
        page.shows("Your answer is recorded")
        until_ended(project)
    decided = "retry" if script else "accept"
    words = f"{decided}: the network was down"
    assert scenes.answered(project) == [("build#1?1", decided, words, "inbox")]


@pytest.mark.long
@both
@pytest.mark.parametrize(
    ("choice", "words", "reply"),
    [
        ("allow", "", "allow"),
        ("always", "", "allow"),
        ("deny", "use pnpm, and do not continue without", "deny: use pnpm, and do not continue"),
    ],
)
def test_a_permission_shows_the_exact_call_and_the_agent_gets_the_answer(
    project: Project, page: Page, script: bool, choice: str, words: str, reply: str
) -> None:
    page.allow_script(script)
    scenes.waits(project, "allow", scenes.ALLOW, scenes.ALLOW_ACTIONS, RESUMES)
    with opened(project, page):
        page.press(".card.waits a")
        assert page.one(".call pre").text == "npm test -- --watch=false"
        assert "allows Bash(npm test *) in this session" in page.text(".call")
        page.write("#words", words)
        page.press(f"[value={choice}]")
        page.shows("the session goes on")
        until_ended(project)
    assert project.journal()[0]["output"].startswith(f"the person said {reply}")
    assert project.playbook("audit").code == 0


@pytest.mark.long
def test_a_long_call_is_shown_whole(project: Project, page: Page) -> None:
    lines = [f"echo {number} {'x' * 90}" for number in range(30)]
    command = "\\n".join([*lines, "rm -rf /"])
    actions = scenes.ALLOW_ACTIONS.replace("npm test -- --watch=false", command)
    scenes.waits(project, "allow", scenes.ALLOW, actions)
    with opened(project, page):
        page.press(".card.waits a")
        assert page.one(".call pre").text.splitlines() == [*lines, "rm -rf /"]
        page.write("#words", "no")
        page.press("[value=deny]")
    assert scenes.answered(project)[0][1] == "deny"


@pytest.mark.long
def test_a_call_that_is_too_long_to_be_kept_says_so(project: Project, page: Page) -> None:
    command = "\\n".join(f"echo {number} {'x' * 90}" for number in range(60))
    actions = scenes.ALLOW_ACTIONS.replace("npm test -- --watch=false", command)
    scenes.waits(project, "allow", scenes.ALLOW, actions)
    with opened(project, page):
        page.press(".card.waits a")
        assert "echo 20 xxx" in page.one(".call pre").text.splitlines()[20]
        assert "The call is longer than what is kept of it" in page.text(".call")


@pytest.mark.long
@both
def test_questions_are_answered_by_options_and_own_words(
    project: Project, page: Page, script: bool
) -> None:
    """`stop` is a word like any other there: only the button aborts."""
    page.allow_script(script)
    scenes.waits(project, "asks", scenes.ASKS, scenes.ASKS_ACTIONS, RESUMES)
    with opened(project, page):
        page.press(".card.waits a")
        page.click("[name=option-0][value='2']")
        page.click("[name=option-1][value='1']")
        page.click("[name=option-1][value='3']")
        page.press("[value=answer]")
        page.shows("choose an option for each question, or write words")
        assert scenes.answered(project)[0][1] == ""
        chosen = [each.get_attribute("value") for each in page.all(".option input:checked")]
        assert chosen == ["2", "1", "3"]
        page.write("#words-2", "stop")
        page.press("[value=answer]")
        page.shows("the session goes on")
        until_ended(project)
    said = " ".join(project.journal()[0]["output"].split())
    assert said == "the person said 2 1, 3 stop"


@pytest.mark.long
@both
def test_words_that_name_another_choice_are_refused_and_kept(
    project: Project, page: Page, script: bool
) -> None:
    page.allow_script(script)
    scenes.ship(project)
    with opened(project, page):
        page.press(".card.waits a")
        page.write("#words", "please skip this")
        page.press("[value=continue]")
        assert "your words name another choice" in page.text("[role=alert]")
        assert page.one("#words").get_property("value") == "please skip this"
        assert scenes.answered(project)[0][1] == ""
        page.press("[value=skip]")
        page.shows("Your answer is recorded")
    assert scenes.answered(project)[0][1:3] == ("skip", "skip: please skip this")


@pytest.mark.long
@both
def test_abort_is_behind_its_disclosure(project: Project, page: Page, script: bool) -> None:
    page.allow_script(script)
    scenes.ship(project)
    with opened(project, page):
        page.press(".card.waits a")
        assert not page.one("[value=abort]").is_displayed()
        page.click(".abort summary")
        page.press("[value=abort]")
        page.shows("the session has ended")
    assert project.manifest()["status"] == "aborted"


@pytest.mark.long
@both
def test_back_shows_what_became_of_the_gate(project: Project, page: Page, script: bool) -> None:
    page.allow_script(script)
    scenes.ship(project)
    with opened(project, page):
        page.press(".card.waits a")
        page.write("#words", "read it")
        page.press("[value=continue]")
        page.shows("Your answer is recorded")
        page.back()
        if not script:  # it may be shown as it was left
            page.press("[value=continue]" if page.all("form") else "a.button")
        page.shows("publish#1?1 does not wait any more")
        page.shows("continue: read it")
        page.press("a.button")
        page.shows("ship on 013-playbook-create")


@pytest.mark.long
def test_back_from_an_answer_after_a_refused_one_asks_for_no_confirmation(
    project: Project, page: Page
) -> None:
    scenes.ship(project)
    with opened(project, page):
        page.press(".card.waits a")
        page.write("#words", "skip this")
        page.press("[value=continue]")
        page.shows("your words name another choice")
        page.press("[value=skip]")
        page.shows("Your answer is recorded")
        page.back()
        page.shows("publish#1?1 does not wait any more")


@pytest.mark.long
def test_a_diff_of_ten_thousand_lines_a_long_name_and_a_log_are_readable(
    project: Project, page: Page
) -> None:
    name = f"{'a-long-folder-name/' * 9}{'module_' * 20}.py"
    actions = scenes.SHIP_ACTIONS.replace(
        "[building, the package is built]", f"[{', '.join(f'line {n}' for n in range(60))}]"
    )
    scenes.waits(project, "ship", scenes.SHIP, actions)
    project.write(name, "".join(f"line {number} {'x' * 150}\n" for number in range(10_000)))
    project.write("<img src=x onerror=alert(1)>.html", "<script>alert(1)</script>\n")
    with opened(project, page):
        page.press(".card.waits a")
        assert "3 files, +10003" in page.text(".diff > p")
        took = page.execute_script(
            "const [page] = performance.getEntriesByType('navigation');"
            "return page.domComplete - page.requestStart"
        )
        assert took < 10_000, f"{took} ms"
        page.shows("module_module_", ".diff")
        for summary in page.all(".diff summary, details.log summary"):
            page.execute_script("arguments[0].parentElement.open = true", summary)
        page.shows("line 59", "details.log pre")
        assert "<script>alert(1)</script>" in page.text(".diff")
        assert page.execute_script("return document.documentElement.scrollWidth") == 390


@pytest.mark.long
def test_what_a_page_must_not_load_is_refused_and_noticed(project: Project, page: Page) -> None:
    """So the other tests would fail if a page of ours did that."""
    with opened(project, page):
        page.execute_script(
            "const image = document.createElement('img');"
            "image.src = 'http://localhost:9/image.png'; document.body.append(image);"
            "document.body.setAttribute('onclick', 'alert(1)'); document.body.click()"
        )
        page.until(lambda: len(page.look_for_faults()) >= 2, "faults")
        assert all("Content Security Policy" in fault for fault in page.faults)
        assert "localhost:9" in page.hosts()
        page.faults.clear()


@pytest.mark.parametrize(
    ("required", "outcome"), [("", pytest.skip.Exception), ("1", pytest.fail.Exception)]
)
def test_without_a_browser_these_tests_are_skipped_or_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, required: str, outcome: type[BaseException]
) -> None:
    monkeypatch.setenv(REQUIRED, required)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(outcome), browser(tmp_path):
        pass
