"""What changes while a page is open: the page tells it, and no words are lost in silence."""

from __future__ import annotations

import statistics
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from support.scratch_project import Project
from support.web_server import Request, served

from inbox import scenes
from inbox.browser import Page, opened

pytestmark = pytest.mark.long

TRIES = 20
_WATCH = """
window.shown = {};
new MutationObserver(() => {
  const [found] = document.querySelector("main").textContent.match(arguments[0]) ?? [];
  if (found && !(found in shown)) shown[found] = Date.now() / 1000;
}).observe(document.body, {childList: true, subtree: true});
"""


def seconds_until_shown(page: Page, words: str, project: Project) -> float:
    """From the last write of the journal until the page showed the words."""
    page.shows(words)
    shown = page.execute_script("return shown")[words]
    return float(shown) - (project.session / "journal.yaml").stat().st_mtime


def test_an_open_page_shows_that_its_gate_was_answered_elsewhere(
    project: Project, page: Page
) -> None:
    scenes.ship(project)
    with opened(project, page):
        page.press(".card.waits a")
        page.execute_script(_WATCH, "does not wait any more")
        assert project.playbook("answer", "continue, from the terminal").code == 0
        assert seconds_until_shown(page, "does not wait any more", project) < 1.0
        page.shows("It was answered continue by")
        page.shows("continue, from the terminal")
        assert page.all("form") == []


def test_words_that_were_typed_stay_and_are_said_not_to_be_sent(
    project: Project, page: Page
) -> None:
    scenes.ship(project)
    with opened(project, page):
        page.press(".card.waits a")
        page.write("#words", "half a sentence")
        assert project.playbook("answer", "skip").code == 0
        page.shows("publish#1?1 does not wait any more", "#news")
        page.shows("It was answered skip by", "#news")
        page.shows("Your words were not sent.", "#news")
        assert page.one("#words").get_property("value") == "half a sentence"
        page.press("[value=continue]")
        page.shows("Your answer was not recorded: continue: half a sentence")
    assert scenes.answered(project)[0][1] == "skip"


def test_a_page_in_use_offers_the_new_state_and_keeps_the_words(
    project: Project, page: Page
) -> None:
    scenes.ship(project)
    with opened(project, page):
        page.press(".card.waits a")
        page.write("#words", "half a sentence")
        project.write("greet.py", "import os\n")
        page.execute_script("show()")
        page.shows("This has changed since you began to answer.", "#news")
        page.click("#news button")
        page.shows("import os", ".diff")
        assert page.one("#words").get_property("value") == "half a sentence"
        assert page.text("body").count("This has changed") == 0
        page.press("[value=continue]")
        page.shows("Your answer is recorded")
    assert scenes.answered(project)[0][2] == "continue: half a sentence"


def test_what_a_person_reads_stays_where_it_is(project: Project, page: Page) -> None:
    """What is open, the focus and the place on the page, when the page is shown anew."""
    scenes.ship(project)
    project.write("long.txt", "a line\n" * 200)
    with opened(project, page):
        page.press(".card.waits a")
        page.prefer(still=True)
        page.click(".journal summary")
        page.until(lambda: page.switch_to.active_element.text == "Journal", "focus")
        place = page.execute_script("return scrollY")
        assert place > 0
        project.write("new.py", "import os\n")
        page.execute_script("show()")
        page.until(lambda: "3 files" in page.text(".diff > p"), "new state")
        assert page.one(".journal").get_property("open") is True
        assert page.switch_to.active_element.text == "Journal"
        assert abs(page.execute_script("return scrollY") - place) < 100


def test_a_button_that_is_pressed_twice_answers_once(project: Project, page: Page) -> None:
    scenes.ship(project)
    with opened(project, page):
        page.press(".card.waits a")
        page.leave(
            lambda: page.execute_script(
                "const button = document.querySelector('[value=continue]');"
                "button.click(); button.click()"
            ),
            "two clicks",
        )
        page.shows("Your answer is recorded")
    assert [each[1] for each in scenes.answered(project)] == ["continue"]


def test_a_link_in_another_site_opens_the_gate(project: Project, page: Page) -> None:
    """The cookie is not sent along with it, so the inbox opens the address once more."""
    scenes.ship(project)
    with opened(project, page) as inbox:
        gate = page.one(".card.waits a").get_property("href")

        def message(request: Request) -> None:
            request.answer(f'<a id="link" href="{gate}">A gate waits</a>', Content_Type="text/html")

        icon = {"/favicon.ico": lambda request: request.answer(status=204)}
        with served({"/message": message, **icon}) as site:
            assert urlsplit(site.url).hostname != urlsplit(inbox.url).hostname
            for script in (True, False):
                page.allow_script(script)
                page.get(f"{site.url}/message")
                page.press("#link")
                page.shows("Run /do.publish (step publish) now")
                assert page.current_url == gate
                page.press("[value=continue]" if not script else "nav a")
        page.shows("Your answer is recorded")


def test_the_list_shows_what_runs_with_its_last_line_and_what_ended(
    project: Project, page: Page, pristine: Path, tmp_path: Path
) -> None:
    """Two repositories, without loading the page again."""
    other = Project.copied(pristine, tmp_path / "shop", home=project.home)
    assert project.playbook("inbox", "add", str(other.root)).code == 0
    with opened(project, page):
        page.shows("Nothing waits for you")
        page.shows("No session is open. Begin one with playbook run")
        scenes.ship(other)
        page.shows("1 gate waits for you")
        page.shows("shop · waits")
        scenes.book(project, "long", scenes.FAILS)
        scenes.settings(project, "  build: {say: [first, running the tests], hang: true}\n")
        with scenes.running(project, "run", "long"):
            page.shows("Running 1")
            page.shows("running the tests")
        page.shows("Open, without a driver 1")
        assert other.playbook("answer", "abort").code == 0
        page.shows("Nothing waits for you")
        page.shows("Ended today 1")
        page.shows("aborted after")
        assert page.title == "playbook inbox"


def test_an_inbox_that_has_ended_is_told(project: Project, page: Page) -> None:
    scenes.ship(project)
    with opened(project, page) as inbox:
        page.press(".card.waits a")
        inbox.terminal.interrupt()
        page.shows("The inbox cannot be reached. What you see may be out of date.", "#news")
        page.get("about:blank")
    page.look_for_faults()
    assert all("/events" in fault for fault in page.faults)
    page.faults.clear()


def test_a_gate_is_shown_within_a_second(
    project: Project, page: Page, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the write of the journal to the list in the browser."""
    steps = "".join(
        f"  - {{id: s{number}, command: /do.build, autonomy: gate_always}}\n"
        for number in range(TRIES + 1)
    )
    actions = "".join(f"  s{number}: {{say: done}}\n" for number in range(TRIES + 1))
    scenes.waits(project, "many", steps, actions)
    with opened(project, page):
        page.execute_script(_WATCH, "[(]step s[0-9]+[)]")
        took = []
        for number in range(1, TRIES + 1):
            assert project.playbook("answer", "continue").code == 0
            assert project.playbook("resume").code == 4
            took.append(seconds_until_shown(page, f"(step s{number})", project))
    middle, longest = statistics.median(took), max(took)
    with capsys.disabled():
        print(f"\n  a gate is shown after {middle:.2f} s, {longest:.2f} s at most, {TRIES} tries")
    assert middle < 1.0
