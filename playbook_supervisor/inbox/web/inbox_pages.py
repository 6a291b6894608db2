"""The pages of the inbox. They share their templates with `show --html`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from playbook_supervisor.cli.render import html
from playbook_supervisor.cli.render.html import session_values
from playbook_supervisor.commands.views.queries import SessionView
from playbook_supervisor.drivers.notifications import page_path
from playbook_supervisor.inbox.commands.feed import Listing
from playbook_supervisor.inbox.commands.gate_facts import GateFacts
from playbook_supervisor.inbox.commands.repository import AnyRow, Row
from playbook_supervisor.kernel.answers import meanings_of
from playbook_supervisor.kernel.gates import ASKED, PLANNED
from playbook_supervisor.kernel.vocabulary import Resolution

_LABELS = {Resolution.ALLOW: "Allow once", Resolution.ANSWER: "Send the answer"}


@dataclass(frozen=True, slots=True)
class Choice:
    """A button: the word that it sends, and its label. `usual`: the playbook has planned it."""

    word: str
    label: str
    meaning: str
    usual: bool = False


def listing_page(listing: Listing, person: str, now: int) -> str:
    """All sessions. `now` in ms since the epoch."""
    state = str(listing.version)
    frame = _frame(person, now, "", state)
    return html.render("list.html", listing=listing, link=link, **frame)


def gate_page(
    row: Row,
    facts: GateFacts,
    person: str,
    now: int,
    *,
    refused: str = "",
    typed: Sequence[str] = (),
    chosen: Sequence[Sequence[str]] = (),
) -> str:
    """One open gate. `refused` says why an answer was not taken; `typed` are its words, `chosen`
    the numbers of its options, for each question.
    """
    return html.render(
        "gate.html",
        shown=facts,
        choices=_choices(facts),
        failed=facts.record.reason not in PLANNED | ASKED,
        refused=refused,
        typed=tuple(typed),
        chosen=tuple(chosen),
        row=row,
        link=link,
        session_link=session_link,
        **session_values(facts.view, now) | _frame(person, now, row.topic, facts.state),
    )


def session_page(
    row: Row, view: SessionView, person: str, now: int, *, said: str = "", failure: str = ""
) -> str:
    """One session. `said` tells what an answer has led to, `failure` why it is not continued."""
    frame = _frame(person, now, row.topic, "")
    values = session_values(view, now) | frame
    return html.render("session.html", row=row, link=link, said=said, failure=failure, **values)


def enter_page(token: str, name: str) -> str:
    """Asks a person to use a link in this browser; `name` is empty for this machine's user."""
    return html.render("enter.html", token=token, name=name, **_frame("", 0, "", "", live=False))


def message_page(
    heading: str, *lines: str, person: str = "", back: str = "", back_words: str = ""
) -> str:
    """A few sentences, with a link."""
    return html.render(
        "message.html",
        heading=heading,
        lines=lines,
        back=back,
        back_words=back_words,
        **_frame(person, 0, "", "", live=False),
    )


def again_page(address: str) -> str:
    """Opens the address once more, from a page of ours: browsers then send our cookie along."""
    return html.render("again.html", address=address)


def link(row: AnyRow) -> str:
    """The page of the session's open gate, else of the session."""
    if not isinstance(row, Row):
        return page_path(row.key, row.session_id, row.gate)
    return page_path(row.key, row.session_id, row.seen.gate.id if row.seen.gate else "")


def session_link(row: AnyRow) -> str:
    """The page of the session."""
    return page_path(row.key, row.session_id)


def _choices(facts: GateFacts) -> list[Choice]:
    reason, meanings = facts.record.reason, meanings_of(facts.record.reason)
    usual = Resolution.CONTINUE if reason in PLANNED else Resolution.ANSWER
    choices = [
        Choice(word, _LABELS.get(each, word.capitalize()), meanings[each], each is usual)
        for each, word in zip(facts.choices, facts.words, strict=True)
    ]
    if facts.settings and Resolution.ACCEPT in facts.choices:
        choices.insert(1, Choice(facts.settings, "Take settings", "use those of now: check again"))
    return choices


def _frame(
    person: str, now: int, topic: str, state: str, *, live: bool = True
) -> dict[str, object]:
    return {"person": person, "now": now, "topic": topic, "state": state, "live": live}
