"""What a retry is told about the attempt before it. The command itself never changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from playbook_supervisor.formats.directive_line import defused, quoted
from playbook_supervisor.formats.sanitize import first_line, last_words, one_line, printable
from playbook_supervisor.kernel import requests
from playbook_supervisor.kernel.answers import words_of
from playbook_supervisor.kernel.state import INTERRUPTED, UNTIL, Entry
from playbook_supervisor.kernel.vocabulary import Place, Resolution

_MOST_EVIDENCE, _MOST_LINES, _MOST_WORDS = 1_000, 1_500, 500  # characters
_AUTONOMOUS = "autonomous"


def feedback(attempts: Sequence[Entry], printed: Sequence[str] = ()) -> str:
    """What did not hold at the last attempt, and the words of people; empty for a first attempt.

    `attempts` are those of one step, oldest first; the last one is about to run. `printed` are
    lines of the checks that failed at the one before.
    """
    if len(attempts) < 2:
        return ""
    former = attempts[-2]
    begins = f"This step was tried before ({former.id}), and that attempt did not succeed."
    if former.error_code == UNTIL:
        begins = f"This step is repeated until something holds; {former.id} was the round before."
    lines = [
        begins,
        *_why(former),
        *quoted(printed),
        *_asked(former),
        *_words(attempts[-2:]),
        "What it wrote may still be there.",
    ]
    return defused("\n".join(lines))


def _why(former: Entry) -> Iterator[str]:
    if former.error_code == INTERRUPTED:
        yield "It was interrupted before it ended."
    elif former.error:
        yet = " yet" if former.error_code == UNTIL else ""
        yield f"What did not hold{yet}: {first_line(former.error, _MOST_EVIDENCE)}"
    for line in former.evidence:
        yield f"What held: {first_line(line)}"
    if former.error_cause:
        yield "Its last lines:"
        cause = printable(former.error_cause, keep_newlines=True)
        yield from quoted([last_words(cause, _MOST_LINES)])


def _asked(former: Entry) -> Iterator[str]:
    """What the agent asked people in the attempt before, and what they answered."""
    for gate in former.gates:
        if gate.place is not Place.DURING or gate.resolution is None:
            continue
        said = one_line(words_of(gate.text, gate.resolution), _MOST_WORDS)
        if gate.resolution is Resolution.ANSWER:
            asked = " / ".join(requests.questions(gate.request))
            yield f"You asked: {one_line(asked, _MOST_WORDS)} A person answered: {said}"
        else:
            decided = "denied" if gate.resolution is Resolution.DENY else "allowed"
            call = requests.described(gate.request)
            yield f"A person has {decided} this: {call}{f' ({said})' if said else ''}"


def _words(attempts: Sequence[Entry]) -> Iterator[str]:
    """What people said at the gates, if it is more than the choice."""
    for gate in (gate for entry in attempts for gate in entry.gates):
        lines = printable(gate.text, keep_newlines=True)[:_MOST_WORDS].split("\n")
        said = [line.rstrip() for line in lines if line.strip()]
        only_a_choice = "".join(said).casefold() in ("", gate.resolution)
        if only_a_choice or gate.place is Place.DURING or gate.by == _AUTONOMOUS:
            continue
        if len(said) == 1:
            yield f"A person said: {said[0]}"
        else:
            yield "A person said:"
            yield from quoted(said)
