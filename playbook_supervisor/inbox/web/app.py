"""The routes of the inbox: each reads or decides by one function of `commands`, and shows it."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route

from playbook_supervisor.cli.render import html
from playbook_supervisor.commands.views.queries import view_of
from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.inbox.commands import admission, answering, gate_facts
from playbook_supervisor.inbox.commands.admission import Answerer
from playbook_supervisor.inbox.commands.answering import Recorded, Submission
from playbook_supervisor.inbox.commands.feed import Feed, Listing
from playbook_supervisor.inbox.commands.repository import Row
from playbook_supervisor.inbox.web import inbox_pages
from playbook_supervisor.inbox.web.access import ENTER, Access, Visitor
from playbook_supervisor.inbox.web.events import Broker, follow
from playbook_supervisor.inbox.web.limits import Gatekeeper, RefusedError, cookies_of, form_of
from playbook_supervisor.kernel.answers import read_answer
from playbook_supervisor.kernel.directives import Finish
from playbook_supervisor.kernel.vocabulary import Resolution
from playbook_supervisor.system.process import peer_process

_YEAR = 365 * 24 * 3600
_STYLES = ("page.css", "diff.css", "inbox.css")
_ASSETS = {"Cache-Control": "private, max-age=600"}
_STATUS = {
    "PB-STATE-CHANGED": 409,
    "PB-FLEET-ANSWERED": 409,
    "PB-STATE-NO-GATE": 409,
    "PB-STATE-HUMAN-ONLY": 403,
    "PB-POLICY-ANSWER": 403,
}
_MOST_QUESTIONS = 16
_SAID = {
    "resumed": "Your answer is recorded, and the session goes on.",
    "driven": "Your answer is recorded, and the runner goes on.",
    "client": "Your answer is recorded. Claude Code goes on at your next message there.",
    "recorded": "Your answer is recorded. To go on: `playbook resume`, or let the inbox do that "
    "(`inbox: {resume: true}` in the settings).",
    "ended": "Your answer is recorded, and the session has ended.",
}
"""The effect of an answer, by the word in the address of the page that follows it."""

Fields = Mapping[str, Sequence[str]]


class UnknownError(Exception):
    """The browser is not known; `page` says what its person can do."""

    def __init__(self, page: Response) -> None:
        super().__init__()
        self.page = page


class InboxApp:
    """The pages. `entered` is told the name of each person who uses a link, and the browser;
    `on_look` is called every few seconds.
    """

    def __init__(
        self,
        feed: Feed,
        access: Access,
        *,
        proxied: bool,
        entered: Callable[[str, str], None],
        on_look: Callable[[], None] = lambda: None,
    ) -> None:
        self._feed, self._access = feed, access
        self._proxied, self._entered, self._on_look = proxied, entered, on_look
        self._lists = ListPages()
        self.broker = Broker()

    def app(self) -> Gatekeeper:
        routes = [
            Route("/", self._listing),
            Route("/gate/{key}/{session}", self._gate, methods=["GET", "POST"]),
            Route("/session/{key}/{session}", self._session),
            Route(ENTER, self._enter, methods=["GET", "POST"]),
            Route("/events", self._events),
            Route("/style.css", _asset("text/css", lambda: str(html.style(*_STYLES)))),
            Route("/live.js", _asset("text/javascript", lambda: html.script("live.js"))),
            Route("/icon.svg", _asset("image/svg+xml", lambda: html.script("icon.svg"))),
        ]
        handlers = {
            RefusedError: _refused,
            UnknownError: lambda _, error: error.page,
            PlaybookError: _failed,
            404: _missing,
        }
        pages = Starlette(routes=routes, exception_handlers=handlers, lifespan=self._lifespan)  # type: ignore[arg-type]
        return Gatekeeper(pages, self._access)

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        following = asyncio.create_task(follow(self._feed, self.broker, self._on_look))
        try:
            yield
        finally:
            following.cancel()
            with suppress(asyncio.CancelledError):
                await following

    # ── pages ───────────────────────────────────────────────────────────────────────────────

    def _listing(self, request: Request) -> Response:
        person = self._visitor(request).shown
        return _page(self._lists.page(self._feed.current(), person, _now()))

    def _session(self, request: Request) -> Response:
        person, row = self._visitor(request).shown, self._row(request)
        after = request.query_params.get("after", "")
        said = _SAID.get(after, "")
        if (place := self._feed.places.get(after)) is not None:
            said = f"Your answer is recorded. {place.after_answer}"
        failure = "" if row.seen.driver or row.elsewhere else answering.failure(row)
        view = view_of(row.seen)
        return _page(
            inbox_pages.session_page(row, view, person, _now(), said=said, failure=failure)
        )

    async def _gate(self, request: Request) -> Response:
        fields = await form_of(request, self._access.site) if request.method == "POST" else None
        return await run_in_threadpool(self._decide, request, fields)

    def _decide(self, request: Request, fields: Fields | None) -> Response:
        """Show the gate; with the fields of its form, take the answer."""
        visitor, row = self._visitor(request), self._row(request)
        refusal: PlaybookError | None = None
        if fields is not None:
            try:
                return self._answer(request, row, fields, visitor)
            except PlaybookError as error:
                refusal, row = error, self._found(request) or row
        facts = gate_facts.facts_of(row)
        meant = request.query_params.get("id", "")
        if facts is None or meant not in ("", facts.gate.id):
            return _closed(row, meant, visitor, refusal, _text_of(fields or {}))
        asked = len(facts.questions)
        shown = inbox_pages.gate_page(
            row,
            facts,
            visitor.shown,
            _now(),
            refused=_refusal_of(refusal, asked=asked) if refusal else "",
            typed=_typed_of(fields or {}, asked),
            chosen=_chosen_of(fields or {}, asked),
        )
        return _page(shown, _STATUS.get(refusal.code, 422) if refusal else 200)

    def _answer(self, request: Request, row: Row, fields: Fields, visitor: Visitor) -> Response:
        given = Submission(
            gate=request.query_params.get("id", ""),
            state="".join(fields.get("state", [])),
            text=_text_of(fields),
        )
        who = self._answerer(request, visitor)
        if row.elsewhere is not None:
            answering.answer_elsewhere(self._feed.places[row.key], row, given, who)
            self._feed.poll_places()
            after = row.key
        else:
            after = _after_answer(row, answering.answer(row, given, who))
            self._feed.poll([row.seen.root / ".playbooks"])
        address = f"{inbox_pages.session_link(row)}?after={after}"
        return RedirectResponse(address, status_code=303)

    async def _events(self, request: Request) -> Response:
        cookies = cookies_of(request.headers)
        known = await run_in_threadpool(self._access.visitor, cookies)
        if known is None or self.broker.full:
            return PlainTextResponse("No more listeners.\n", 503 if self.broker.full else 401)
        headers = {"X-Accel-Buffering": "no"}
        stream = self.broker.stream(lambda: self._access.visitor(cookies) is not None)
        return StreamingResponse(stream, media_type="text/event-stream", headers=headers)

    # ── people ──────────────────────────────────────────────────────────────────────────────

    async def _enter(self, request: Request) -> Response:
        if request.method != "POST":
            return await run_in_threadpool(self._offer, request)
        fields = await form_of(request, self._access.site)
        return await run_in_threadpool(self._admit, request, "".join(fields.get("token", [])))

    def _offer(self, request: Request) -> Response:
        """Nothing is used up by looking at a link: programs that preview links do so, too."""
        token = request.query_params.get("token", "")
        name = self._access.offered(token, _now())
        return _invalid() if name is None else _page(inbox_pages.enter_page(token, name))

    def _admit(self, request: Request, token: str) -> Response:
        if self._access.offered(token, _now()) is None:  # what follows takes longer
            return _invalid()
        self._require_person(request)
        browser = _browser_of(request.headers.get("user-agent", ""))
        entered = self._access.enter(token, browser, _now())
        if entered is None:
            return _invalid()
        cookie, name = entered
        self._entered(name, browser)
        response = RedirectResponse("/", status_code=303)
        site = self._access.site
        response.set_cookie(
            site.cookie,
            cookie,
            max_age=_YEAR if name else None,  # the owner's is only in this process's memory
            secure=site.secure,
            httponly=True,
            samesite="strict",
        )
        return response

    def _require_person(self, request: Request) -> None:
        """StateError PB-STATE-HUMAN-ONLY if an agent of a repository that is shown asks."""
        who = self._answerer(request, Visitor("", ""))
        for row in self._feed.one_of_each():
            admission.require_person(row, who)
        if self._feed.places:
            admission.require_person_anywhere(who)

    def _visitor(self, request: Request) -> Visitor:
        found = self._access.visitor(cookies_of(request.headers))
        if found is not None:
            return found
        if request.headers.get("sec-fetch-site") in ("cross-site", "same-site"):
            # A link in a message: the browser does not send our cookie along with it.
            address = request.url.path
            address += f"?{request.url.query}" if request.url.query else ""
            raise UnknownError(_page(inbox_pages.again_page(address)))
        shown = inbox_pages.message_page(
            "This browser is not known",
            "Open the link that `playbook inbox` prints in its terminal, or the one that you "
            "were invited with. Each link works once, in one browser.",
        )
        raise UnknownError(_page(shown, 401))

    def _answerer(self, request: Request, visitor: Visitor) -> Answerer:
        peer = peer_process.find(request.scope.get("client"), request.scope.get("server"))
        return Answerer(visitor.name, peer, self._proxied)

    def _row(self, request: Request) -> Row:
        if (row := self._found(request)) is None:
            raise HTTPException(404)
        return row

    def _found(self, request: Request) -> Row | None:
        return self._feed.find(request.path_params["key"], request.path_params["session"])


def _asset(kind: str, content: Callable[[], str]) -> Callable[[Request], Response]:
    return lambda _: Response(content(), media_type=kind, headers=_ASSETS)


def _page(text: str, status: int = 200) -> Response:
    return HTMLResponse(text.encode("utf-8", "replace"), status)


def _closed(
    row: Row, meant: str, visitor: Visitor, refusal: PlaybookError | None, sent: str
) -> Response:
    gate = gate_facts.gate_of(view_of(row.seen), meant)
    lines = [refusal.message] if refusal and refusal.code != "PB-STATE-CHANGED" else []
    if gate is not None and gate.answered_at is not None:
        by = f" by {first_line(gate.by)}" if gate.by else ""
        lines.append(f"It was answered `{gate.resolution}`{by}: {first_line(gate.text, 400)}")
    if refusal:
        lines.append(f"Your answer was not recorded: {sent}")
    if row.seen.gate is not None:
        back, words = inbox_pages.link(row), f"Now {row.seen.gate.id} waits"
    else:
        back, words = inbox_pages.session_link(row), "Show the session"
    shown = inbox_pages.message_page(
        f"{first_line(meant, 60) or 'The gate'} does not wait any more",
        *lines,
        person=visitor.shown,
        back=back,
        back_words=words,
    )
    return _page(shown, 409 if refusal else 410)


def _invalid() -> Response:
    shown = inbox_pages.message_page(
        "This link is not valid",
        "It was used before, is too old, or was revoked. `playbook inbox` shows a new one in its "
        "terminal; a person who was invited needs a new invitation.",
    )
    return _page(shown, 403)


def _missing(*_: object) -> Response:
    shown = inbox_pages.message_page("There is nothing here", back="/", back_words="Inbox")
    return _page(shown, 404)


def _refused(_: Request, error: RefusedError) -> Response:
    return PlainTextResponse(f"{error.sentence}\n", error.status, headers={"Connection": "close"})


def _failed(_: Request, error: PlaybookError) -> Response:
    shown = inbox_pages.message_page(
        "That did not work",
        f"{error.message} ({error.code})",
        error.guidance,
        back="/",
        back_words="Inbox",
    )
    return _page(shown, _STATUS.get(error.code, 500))


def _browser_of(agent: str) -> str:
    """`Firefox on Android`: what a person recognises in a list."""
    browsers = ("Edg", "OPR", "Firefox", "Chrome", "Safari")
    systems = ("Android", "iPhone", "iPad", "Windows", "Mac OS X", "Linux")
    names = {"Edg": "Edge", "OPR": "Opera", "Mac OS X": "macOS"}
    browser = next((each for each in browsers if each in agent), "a browser")
    system = next((each for each in systems if each in agent), "")
    shown = names.get(browser, browser)
    return f"{shown} on {names.get(system, system)}" if system else shown


def _now() -> int:
    return time.time_ns() // 1_000_000


# ── forms ───────────────────────────────────────────────────────────────────────────────────


def _text_of(fields: Fields) -> str:
    """`continue: looks good`; for questions of an agent a line each, with options by number.

    Empty if a question is left out. `stop` is the answer to a question, and does not abort.
    """
    choice = _first(fields, "choice")
    if choice != Resolution.ANSWER:
        words = " ".join(_first(fields, "words").split())
        return f"{choice}: {words}" if words else choice
    lines = [
        _reply(fields, number) for number in range(_MOST_QUESTIONS) if f"words-{number}" in fields
    ]
    if not (lines and all(lines)):
        return ""
    text = "\n".join(lines)
    said = read_answer(text, (Resolution.ANSWER, Resolution.ABORT)).resolution
    return text if said is Resolution.ANSWER else f"{Resolution.ANSWER}: {text}"


def _typed_of(fields: Fields, questions: int) -> tuple[str, ...]:
    if not questions:
        return (_first(fields, "words"),)
    return tuple(_first(fields, f"words-{number}") for number in range(questions))


def _chosen_of(fields: Fields, questions: int) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(fields.get(f"option-{number}", ())) for number in range(questions))


def _refusal_of(error: PlaybookError, *, asked: int) -> str:
    """The reason of a refusal for a person who has pressed a button. `asked`: questions."""
    if error.code != "PB-ARG-ANSWER":
        return f"{error.message}. {error.guidance}".strip()
    if asked:
        return "That does not answer this gate: choose an option for each question, or write words."
    return (
        "That does not answer this gate: your words name another choice than the button. "
        "Leave that word out, or press its button."
    )


def _after_answer(row: Row, answered: Recorded) -> str:
    if isinstance(answered.snapshot.directive, Finish):
        return "ended"
    if answered.resumes:
        return "resumed"
    if row.seen.client is not None and row.seen.client.lives:
        return "client"
    return "driven" if row.seen.driver is not None else "recorded"


def _reply(fields: Fields, number: int) -> str:
    words = " ".join(_first(fields, f"words-{number}").split())
    chosen = [each for each in fields.get(f"option-{number}", ()) if re.fullmatch(r"[0-9]+", each)]
    return words or ", ".join(chosen)


def _first(fields: Fields, name: str) -> str:
    return next(iter(fields.get(name, ())), "")


# ── lists ─────────────────────────────────────────────────────────────────────────────────────

_FRESH = 2.0  # seconds: the page tells how long a gate has been waiting


class ListPages:
    """Renders a version of the listing once. Any thread may ask; one at a time renders."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._version = 0
        self._pages: dict[str, tuple[float, str]] = {}

    def page(self, listing: Listing, person: str, now: int) -> str:
        """The page for a person. `now` in ms since the epoch."""
        with self._lock:
            if listing.version != self._version:
                self._version = listing.version
                self._pages.clear()
            rendered_at, page = self._pages.get(person, (float("-inf"), ""))
            if time.monotonic() - rendered_at > _FRESH:
                page = inbox_pages.listing_page(listing, person, now)
                self._pages[person] = time.monotonic(), page
            return page
