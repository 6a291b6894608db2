"""Every page is readable and usable: two themes, narrow, enlarged, by keyboard, without motion."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from support.scratch_project import Project

from inbox import scenes
from inbox.browser import DESK, PHONE, Page, opened
from inbox.serving import serving
from playbook_supervisor.commands import demo

pytestmark = pytest.mark.long

_LOOKS = (Path(__file__).parent / "looks.js").read_text("utf-8")
_NARROW = 320


def look(page: Page) -> list[str]:
    """The faults of the page, with all that it has folded."""
    page.execute_script("for (const each of document.querySelectorAll('details')) each.open = true")
    width = page.execute_script("return innerWidth")
    faults: list[str] = page.execute_script(_LOOKS, width < 600)
    return faults


def looks(page: Page) -> Iterator[tuple[int, bool, list[str]]]:
    """The faults at each width and in each theme."""
    for width in (_NARROW, PHONE, DESK):
        for dark in (False, True):
            page.set_width(width)
            page.prefer(dark=dark)
            yield width, dark, look(page)


def pages_of(page: Page) -> Iterator[str]:
    """The list, and each page that it leads to; those of gates also with a refusal."""
    yield "the list"
    for link in [each.get_property("href") for each in page.all(".card a")]:
        page.get(str(link))
        yield page.title
        if page.all("form"):
            page.write("textarea", "abort")
            page.press(".choices button")
            yield f"{page.title}, after an answer"


@pytest.fixture
def full(project: Project, pristine: Path, tmp_path: Path) -> Project:
    """Of every kind of page one: gates before, during and after steps, what runs and has ended."""
    made = demo.prepare(tmp_path / "demo")
    done = Project(made.root, project.home, dict(made.env)).playbook(
        "run", made.playbook, *made.args, "--agent", made.agent
    )
    assert done.code == 4, done.err
    for name, steps, actions, code in (
        ("asks", scenes.ASKS, scenes.ASKS_ACTIONS, 4),
        ("fails", scenes.FAILS, scenes.FAILS_ACTIONS, 4),
        ("ended", scenes.FAILS, "  build: {say: done}\n", 0),
    ):
        other = Project.copied(pristine, tmp_path / name, home=project.home)
        scenes.waits(other, name, steps, actions, code=code)
        assert project.playbook("inbox", "add", str(other.root)).code == 0
    assert project.playbook("inbox", "add", str(made.root)).code == 0
    name = f"{'a-long-folder-name/' * 9}{'module_' * 20}.py"
    project.write(f"{name}", "short\n")
    scenes.waits(project, "allow", scenes.ALLOW, scenes.ALLOW_ACTIONS)
    project.write(name, f"{'x' * 400}\n" * 20)
    return project


def test_no_page_has_faults_at_any_width_in_any_theme(full: Project, page: Page) -> None:
    with opened(full, page):
        faults = [
            f"{title} at {width}{', dark' if dark else ''}: {fault}"
            for title in pages_of(page)
            for width, dark, found in looks(page)
            for fault in found
        ]
    assert faults == []


def test_pages_without_a_visitor_have_no_faults(project: Project, page: Page) -> None:
    with serving(project) as inbox:
        for address in (inbox.link(), inbox.url, f"{inbox.url}/enter?token=wrong"):
            page.get(address)
            assert [each for each in looks(page) if each[2]] == [], address
        page.get("about:blank")


def test_what_decides_is_on_the_first_screen_of_a_phone(full: Project, page: Page) -> None:
    with opened(full, page):
        for link in [each.get_property("href") for each in page.all(".card.waits a")]:
            page.get(str(link))
            for selector in (".question", ".choices button"):
                for each in page.all(selector):
                    box = each.rect
                    assert 0 <= box["y"] <= 844 - box["height"], (page.title, each.text)


@pytest.mark.parametrize("width", [PHONE, DESK])
def test_a_page_at_twice_its_size_loses_nothing(full: Project, page: Page, width: int) -> None:
    """Enlarged by the browser, which leaves half the width; and with twice the size of text."""
    with opened(full, page):
        for title in pages_of(page):
            page.set_width(width // 2 if width == DESK else _NARROW, height=400)
            assert look(page) == [], title
            page.set_width(width)
            page.execute_script("document.documentElement.style.fontSize = '200%'")
            assert look(page) == [], title
            page.execute_script("document.documentElement.style.fontSize = ''")


def test_a_page_moves_only_if_the_person_likes_it(project: Project, page: Page) -> None:
    scenes.ship(project)
    with opened(project, page):
        page.press(".card.waits a")
        for still in (False, True):
            page.prefer(still=still)
            moving = page.execute_script(
                "return [...document.querySelectorAll('*')].filter(each => {"
                "  const style = getComputedStyle(each);"
                "  return style.scrollBehavior !== 'auto' || style.animationName !== 'none'"
                "    || parseFloat(style.transitionDuration) > 0 }).length"
            )
            assert bool(moving) is not still


def test_everything_is_decided_by_keyboard_alone(project: Project, page: Page) -> None:
    scenes.ship(project)
    with serving(project) as inbox:
        page.get(inbox.link())
        for reached in ("Open the inbox", "ship on", "Words for the journal", "Continue"):
            tab_to(page, reached)
            if reached == "Words for the journal":
                ActionChains(page).send_keys("by keyboard").perform()
            else:
                page.leave(lambda: ActionChains(page).send_keys(Keys.ENTER).perform(), reached)
        page.shows("Your answer is recorded")
        page.get("about:blank")
    assert scenes.answered(project)[0][2] == "continue: by keyboard"


def test_every_control_of_a_gate_has_a_focus_that_is_seen(full: Project, page: Page) -> None:
    with opened(full, page):
        for link in [each.get_property("href") for each in page.all(".card.waits a")]:
            page.get(str(link))
            tab_to(page, "Journal")


_FOCUS = """
const focused = document.activeElement;
const style = getComputedStyle(focused), box = focused.getBoundingClientRect();
const at = document.elementFromPoint(
  box.left + Math.min(box.width / 2, 30), box.top + Math.min(box.height / 2, 8));
const free = !!at && (focused.contains(at) || at.contains(focused));
const outlined = parseFloat(style.outlineWidth) >= 2 && style.outlineStyle !== "none";
return [focused.labels?.[0]?.textContent ?? focused.textContent, outlined && free];
"""


def tab_to(page: Page, words: str) -> None:
    """Press the tabulator until what has these words is focused; each focus must be seen."""
    for _ in range(80):
        ActionChains(page).send_keys(Keys.TAB).perform()
        told = page.until(lambda: seen_focus(page), "focus that is seen")
        if words in told:
            return
    raise AssertionError(f"{words} is out of reach at {page.current_url}")


def seen_focus(page: Page) -> str:
    """The words of what is focused, as soon as the page has stopped moving."""
    told, seen = page.execute_script(_FOCUS)
    return str(told) if seen else ""
