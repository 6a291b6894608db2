"""Answers from a browser: what is recorded, what goes on, and what is refused."""

from __future__ import annotations

import html
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from cli.scripts import GATED, WORKS
from cli.terminal import Terminal
from cli.test_permissions import ABOVE, ASKS, asking
from support.scratch_project import FEATURE, Project

from inbox.serving import Served, serving

pytestmark = pytest.mark.measured

GRACE = "Grace <grace@example.org>"
POLICY = """\
match: {step: publish}
answered_by: ["grace@example.org"]
"""


class Page:
    """The page of the gate that waits, and the form on it."""

    def __init__(self, served: Served, client: httpx.Client) -> None:
        self.served, self.client = served, client
        until(self._is_listed)
        self.load()

    def _is_listed(self) -> bool:
        found = re.search(r'href="(/gate/[^"]+)"', self.client.get("/").text)
        self.path = html.unescape(found[1]) if found else ""
        return found is not None

    def load(self) -> str:
        self.text = html.unescape(self.client.get(self.path).text)
        (self.state,) = re.findall(r'name="state" value="(\w+)"', self.text)
        return self.text

    def answer(self, choice: str, words: str = "", **fields: str) -> httpx.Response:
        form = {"state": self.state, "choice": choice, "words": words} | fields
        return self.served.post(self.client, self.path, form)


def until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.fixture
def gated(project: Project) -> Project:
    project.write(".playbooks/playbooks/gated.yaml", GATED)
    return project


def begin(project: Project, *args: str) -> None:
    args = args or ("gated",)
    done = project.playbook("run", *args, "--agent", project.script(WORKS))
    assert done.code == 4, done.err


def last_gate(project: Project) -> dict[str, str]:
    gate: dict[str, str] = project.journal()[-1]["gates"][-1]
    return gate


def test_an_answer_is_journaled_with_its_person_and_the_inbox(gated: Project) -> None:
    begin(gated)
    with serving(gated) as served, served.visitor() as client:
        page = Page(served, client)
        assert "Run /feature.pr (step publish) now" in page.text
        done = page.answer("continue", "read the diff")
        assert done.status_code == 303
        shown = client.get(done.headers["location"]).text
        assert "Your answer is recorded. To go on: <code>playbook resume</code>" in shown
        assert "0 gates wait" not in client.get("/").text
    gate = last_gate(gated)
    assert (gate["by"], gate["via"]) == ("Ada Example <ada@example.org>", "inbox")
    assert (gate["text"], gate["resolution"]) == ("continue: read the diff", "continue")
    assert gated.playbook("resume").code == 0
    shown = gated.playbook("show").out
    assert "continue by Ada Example <ada@example.org> via inbox after" in shown
    assert "&lt;ada@example.org&gt; via inbox after" in gated.playbook("show", "--html", "-").out
    assert gated.playbook("audit").code == 0


def test_a_runner_that_waits_at_its_prompt_goes_on(gated: Project) -> None:
    agent = gated.script(WORKS)
    with Terminal(gated, "run", "gated", "--agent", agent) as runner:
        runner.until("abort > ")
        with serving(gated) as served, served.visitor() as client:
            done = Page(served, client).answer("continue")
            assert done.headers["location"].endswith("?after=driven")
            assert runner.end() == 0, runner.shown
            until(lambda: "completed" in client.get("/").text)


def test_a_runner_that_waits_with_patience_goes_on_with_a_permission(project: Project) -> None:
    agent = asking(project).script(ASKS)
    with project.spawn("run", "ask", "--agent", agent, "--patience", "60") as runner:
        until(
            lambda: project.sessions and "gate:" in (project.session / "session.yaml").read_text()
        )
        with serving(project) as served, served.visitor() as client:
            page = Page(served, client)
            assert "npm test" in page.text
            assert page.answer("deny", "use pnpm").status_code == 303
            until(lambda: len(project.journal()) > 0 and project.journal()[0]["status"] == "failed")
        runner.wait(60)
    assert project.journal()[0]["error"].endswith("no tests: deny: use pnpm")
    assert project.journal()[0]["gates"][0]["text"] == "deny: use pnpm"


def test_the_inbox_goes_on_by_itself_where_the_settings_say_so(gated: Project) -> None:
    gated.write(".playbooks/config.yaml", "inbox: {resume: true}\n")
    begin(gated)
    with serving(gated) as served, served.visitor() as client:
        done = Page(served, client).answer("continue")
        assert done.headers["location"].endswith("?after=resumed")
        until(lambda: gated.manifest()["status"] == "completed")


def test_a_resume_that_fails_says_why_on_the_page_of_the_session(gated: Project) -> None:
    gated.write(".playbooks/config.yaml", "inbox: {resume: true}\n")
    begin(gated)
    (gated.root.with_name("project-script.yaml")).unlink()
    with serving(gated) as served, served.visitor() as client:
        location = Page(served, client).answer("continue").headers["location"]
        until(lambda: "could not continue this session" in client.get(location).text)
        assert gated.manifest()["status"] == "in_progress"
        gated.script(WORKS)
        assert gated.playbook("resume").code == 0
        assert "could not continue" not in client.get(location).text, "it has gone on since"


def test_an_invited_person_answers_under_their_name_where_a_policy_wants_it(gated: Project) -> None:
    gated.write(".playbooks/policies/grace.yaml", POLICY)
    begin(gated)
    with serving(gated) as served, served.visitor() as owner:
        refused = Page(served, owner).answer("continue", "it is fine")
        assert refused.status_code == 403
        assert "grace@example.org" in refused.text
        assert "it is fine" in refused.text, "what was typed is not lost"
        with Terminal(gated, "inbox", "invite", GRACE, "--url", served.url) as invitation:
            token = re.findall(r"token=(\S+)", invitation.until("It works once"))[0]
            assert invitation.end() == 0
        with served.client() as grace:
            assert served.enter(grace, token).status_code == 303
            assert Page(served, grace).answer("continue").status_code == 303
    assert last_gate(gated)["by"] == GRACE


def test_what_is_no_answer_records_nothing_and_keeps_the_words(gated: Project) -> None:
    words = "continue or abort?"
    begin(gated)
    with serving(gated) as served, served.visitor() as client:
        page = Page(served, client)
        refused = page.answer("perhaps", words)
        assert refused.status_code == 422
        assert "does not answer this gate" in html.unescape(refused.text)
        assert html.escape(words) in refused.text
        assert page.answer("continue").status_code == 303
    assert len(gated.journal()[0]["gates"]) == 1


def test_an_answer_to_what_has_changed_is_refused_and_shown_anew(gated: Project) -> None:
    begin(gated)
    with serving(gated) as served, served.visitor() as client:
        page = Page(served, client)
        gated.write("README.md", "# Another project\n")
        refused = page.answer("continue", "as I saw it")
        assert refused.status_code == 409
        assert "something has changed since this was shown" in refused.text
        assert "Another project" in refused.text
        assert "as I saw it" in refused.text
        assert "answered_at" not in last_gate(gated)
        page.load()
        assert page.answer("continue").status_code == 303


def test_a_gate_that_was_answered_elsewhere_says_by_whom(gated: Project) -> None:
    begin(gated)
    with serving(gated) as served, served.visitor() as client:
        page = Page(served, client)
        assert gated.playbook("answer", "skip, not today").code == 0
        late = page.answer("continue")
        assert late.status_code == 409
        shown = html.unescape(late.text)
        assert "publish#1?1 does not wait any more" in shown
        assert "<code>skip</code> by Ada Example <ada@example.org>: skip, not today" in shown
        assert client.get(page.path).status_code == 410
    assert last_gate(gated)["resolution"] == "skip"


def test_of_two_browsers_one_answers(gated: Project) -> None:
    begin(gated)
    with serving(gated) as served, served.visitor() as first, served.visitor() as second:
        pages = [Page(served, first), Page(served, second)]
        with ThreadPoolExecutor() as pool:
            done = pool.map(
                lambda each: each[0].answer(each[1]).status_code,
                zip(pages, ("continue", "skip"), strict=True),
            )
        assert sorted(done) == [303, 409]
    assert len(gated.journal()[0]["gates"]) == 1


def test_a_question_is_answered_by_an_option_or_in_words(project: Project) -> None:
    asking(project)
    done = project.playbook("run", "ask", "--agent", project.script(ASKS))
    assert done.code == 4
    with serving(project) as served, served.visitor() as client:
        assert Page(served, client).answer("allow").status_code == 303
        assert project.playbook("resume").code == 4
        page = Page(served, client)
        assert "Which shell?" in page.text
        empty = page.answer("answer", **{"words-0": " "})
        assert (empty.status_code, last_gate(project).get("answered_at")) == (422, None)
        assert page.answer("answer", **{"words-0": "", "option-0": "2"}).status_code == 303
    assert last_gate(project)["text"] == "2"
    assert project.playbook("resume").code == 4
    assert project.journal()[1]["output"] == "it is for 2"


def test_a_gate_of_a_child_session_is_answered_in_its_parent(project: Project) -> None:
    asking(project).write(".playbooks/playbooks/above.yaml", ABOVE)
    assert project.playbook("run", "above", "--agent", project.script(ASKS)).code == 4
    with serving(project) as served, served.visitor() as client:
        page = Page(served, client)
        assert "go#1 → build#1?1" in page.text
        assert page.answer("allow").status_code == 303
    assert project.playbook("resume").code == 4


def test_abort_ends_the_session(gated: Project) -> None:
    begin(gated)
    with serving(gated) as served, served.visitor() as client:
        done = Page(served, client).answer("abort", "wrong branch")
        assert done.headers["location"].endswith("?after=ended")
        assert "aborted" in client.get("/").text
    assert gated.manifest()["status"] == "aborted"


def test_a_gate_shows_all_that_the_decision_needs(project: Project) -> None:
    """Verdicts, what each step left, the changes, the last words, the timeline and the journal."""
    run = project.playbook("run", "auto-feature", FEATURE, "--agent", project.script(WORKS))
    assert run.code == 4
    with serving(project) as served, served.visitor() as client:
        text = Page(served, client).text
    for said in (
        "Run /feature.pr (step pr) now",
        f"agreement_pass: .agreements/{FEATURE}/check-report.md says PASS",
        "implement#2",
        "made.py",
        "+1",
        "Timeline",
        "one test is red",
    ):
        assert said in text, said


def test_an_answer_on_another_branch_is_refused_by_name(gated: Project) -> None:
    begin(gated)
    with serving(gated) as served, served.visitor() as client:
        page = Page(served, client)
        gated.git("switch", "-q", "-c", "other")
        done = page.answer("continue")
        said = html.unescape(done.text)
        assert done.status_code == 409
        assert f"is on branch {FEATURE}, and other is checked out here" in said
        gated.git("switch", "-q", FEATURE)
        until(lambda: page.answer("continue").status_code == 303)
    assert last_gate(gated)["resolution"] == "continue"
