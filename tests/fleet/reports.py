"""What came of a run of chaos: every promise that was broken, and the figures."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from fleet import chains, ledger
from fleet.chains import Answer
from fleet.chaos import Chaos
from fleet.faults import KILLS
from fleet.ledger import Attempt, Overlap
from fleet.machines import DEADLY, GATE
from fleet.people import CANCELLED

THAW = 1.5
"""Seconds after the thaw of a whole machine in which its leash, frozen too, ends its agents."""
_DEATHS = 5
"""The lapsed leases in a row after which a session is stuck."""


def report(chaos: Chaos) -> dict[str, Any]:
    """The judgement: `broken` lists the promises that were not kept, and is empty if all were."""
    attempts, found = chaos.site.attempts(), chaos.site.chains()
    settled = {session: chain.tip.done for session, chain in found.items()}
    overlaps = ledger.overlaps(attempts)
    thawed = [each for each in overlaps if _after_thaw(each, chaos.happened.thaws)]
    bad = {chaos.crowd.refused, chaos.crowd.deadly} - {""}
    unknown = sorted(found.keys() - chaos.asked.keys() - bad)
    broken = {
        "unexpected": chaos.happened.unexpected,
        "sessions lost, or ended as they must not": _ends(chaos, found),
        "settled steps begun again": ledger.begun_after(attempts, settled),
        "an attempt's id given twice": ledger.repeated(attempts),
        "done without work": ledger.not_worked(attempts, settled),
        "two agents at once": [str(each) for each in overlaps if each not in thawed],
        "answers": _answers(chaos, found),
        "audit": _audited(chaos),
        "bad sessions": _bad(chaos, attempts, found) if bad else [],
        **{
            judge.__name__: [line for chain in found.values() for line in judge(chain)]
            for judge in (chains.broken_lines, chains.dropped, chains.undone, chains.done_twice)
        },
        "unpublished": [
            line
            for session, chain in found.items()
            if session in chaos.asked
            for line in chains.unpublished(chain)
        ],
    }
    return {
        "seed": chaos.plan.seed,
        "clocks ahead, s": [machine.clock for machine in chaos.workers],
        "disks of their own": sum(machine.disk for machine in chaos.workers),
        "broken": {name: lines for name, lines in broken.items() if lines},
        "sessions": len(chaos.asked),
        "ended": _counted(chain.tip.status for chain in found.values()),
        "sessions that a failed submission left at a remote": unknown,
        "faults": dict(sorted(chaos.happened.counts.items())),
        "lasted for three leases": sorted(chaos.happened.lasting),
        "kills": sum(chaos.happened.counts[name] for name in KILLS),
        "steps begun": len(attempts),
        "steps cut off": ledger.cut_off(attempts),
        "ended, but not accepted": sum(each.ended for each in attempts)
        - sum(map(len, settled.values())),
        "claims": sum(link.kind == "claim" for chain in found.values() for link in chain.links),
        "answers accepted": sum(len(each.answers) for each in chaos.asked.values()),
        "answers that went with a restored database": sum(
            len(each.taken_back) for each in chaos.asked.values()
        ),
        "agents at work after a thaw, s": _spread([each.seconds for each in thawed]),
        "kill to next claim, s": _spread(_next_claims(chaos, attempts, found)),
        "answer to agent at work, s": _spread(_after_answers(chaos, attempts)),
        "cancel to last sign of its agent, s": _spread(_after_cancels(chaos, attempts)),
        "logged": _logged([machine.log for machine in chaos.workers]),
    }


# ── judges ──────────────────────────────────────────────────────────────────────────────────


def _ends(chaos: Chaos, found: dict[str, chains.Chain]) -> list[str]:
    expected = {
        each.session: ("completed", "aborted") if each.cancelled else ("completed",)
        for each in chaos.asked.values()
    }
    return chains.ended_wrong(found, expected)


def _answers(chaos: Chaos, found: dict[str, chains.Chain]) -> list[str]:
    wrong = []
    for asked in chaos.asked.values():
        if chain := found.get(asked.session):
            may_count = [*asked.answers, *asked.unknown, *asked.taken_back]
            if asked.cancelled:  # at a gate, it is the answer
                may_count.append(Answer(GATE, CANCELLED))
            wrong += chains.answers_unasked(chain, may_count)
            if not asked.cancelled and not chaos.happened.took_back(asked.answered):
                wrong += chains.answers_lost(chain, asked.answers)
    return wrong


def _bad(chaos: Chaos, attempts: Sequence[Attempt], found: dict[str, chains.Chain]) -> list[str]:
    """Where a session that behaves badly was not stopped, or has done what it must not."""
    refused, deadly, wrong = chaos.crowd.refused, chaos.crowd.deadly, []
    shown = json.loads(chaos.desk.playbook("fleet", "status", "--json").out)["sessions"]
    rows = {each["session"]: each for each in shown}
    for session, code in {refused: "PB-FLEET-REFUSED", deadly: "PB-FLEET-DIED"}.items():
        row = rows.get(session, {})
        if (row.get("state"), row.get("error", {}).get("code")) != ("stuck", code):
            wrong.append(f"{session} is not stuck with {code}: {row}")
    begun = [each for each in attempts if each.session == deadly and each.step == DEADLY]
    if len(begun) > _DEATHS * (1 + len(chaos.happened.restores)):
        wrong.append(f"{deadly} was taken although it had killed its workers: {len(begun)} times")
    for session, steps in {refused: 0, deadly: 1}.items():
        if len(found[session].tip.done) > steps:
            wrong.append(f"{session} has done {', '.join(found[session].tip.done)}")
    return wrong


def _audited(chaos: Chaos) -> list[str]:
    """What `playbook audit` finds in a mirror of each remote, a day later.

    On the same day, what a machine wrote whose clock is ahead can be in the future.
    """
    wrong = []
    later = chaos.site.machine("later", clock=86_400)
    for bare in sorted(chaos.site.remotes.glob("*.git")):
        mirror = chaos.site.folder / "audited" / bare.name
        mirror.parent.mkdir(exist_ok=True)
        chains.git(mirror.parent, "clone", "--quiet", "--mirror", str(bare), str(mirror))
        done = later.playbook("audit", "--all", cwd=mirror)
        sessions = len(chains.read(bare))
        if done.code or f"{sessions} session" not in done.out + done.err:
            wrong.append(f"{bare.name}: {done.out[:2000]}{done.err}")
    return wrong


def _after_thaw(overlap: Overlap, thaws: Sequence[tuple[float, str]]) -> bool:
    machines = (overlap.first.machine, overlap.second.machine)
    return any(
        name in machines and 0 <= overlap.start + overlap.seconds - at <= THAW for at, name in thaws
    )


# ── figures ─────────────────────────────────────────────────────────────────────────────────


def _next_claims(
    chaos: Chaos, attempts: Sequence[Attempt], found: dict[str, chains.Chain]
) -> list[float]:
    """From each kill to the next claim of the sessions whose step was at work there."""
    claims = {
        link.commit for chain in found.values() for link in chain.links if link.kind == "claim"
    }
    claimed: dict[str, list[float]] = {}
    for push in chains.pushes(chaos.site.pushes):
        if push.new in claims:
            claimed.setdefault(push.ref.rpartition("/")[2], []).append(push.at)
    cut = {
        (at, each.session)
        for at, name, machine in chaos.happened.faults
        if name in KILLS
        for each in attempts
        if each.machine == machine and not each.ended
        if each.began <= at + 1 and at - 1 <= each.last <= at + 1
    }
    later = ((at, [time for time in claimed.get(session, ()) if time > at]) for at, session in cut)
    return [min(times) - at for at, times in later if times]


def _after_answers(chaos: Chaos, attempts: Sequence[Attempt]) -> list[float]:
    step = GATE.partition("#")[0]
    return [
        min(begun) - asked.answered
        for asked in chaos.asked.values()
        if asked.answers
        if (begun := [each.began for each in attempts if _of(each, asked.session, step)])
    ]


def _after_cancels(chaos: Chaos, attempts: Sequence[Attempt]) -> list[float]:
    return [
        max(0.0, each.last - asked.cancelled)
        for asked in chaos.asked.values()
        if asked.cancelled
        for each in attempts
        if each.session == asked.session and not each.ended and each.last > asked.cancelled
    ]


def _of(attempt: Attempt, session: str, step: str) -> bool:
    return (attempt.session, attempt.step) == (session, step)


_TOLD = {
    "overtaken workers refused": r"given up: ",
    "put off": r"put off: ",
    "stuck": r"stuck: ",
    "errors of a worker": r"PB-BUG|Traceback",
}


def _logged(logs: Iterable[Path]) -> dict[str, int]:
    text = "".join(log.read_text() for log in logs if log.exists())
    return {name: len(re.findall(form, text)) for name, form in _TOLD.items()}


def _spread(figures: Sequence[float]) -> dict[str, float]:
    if not figures:
        return {"count": 0}
    return {
        "count": len(figures),
        "median": round(median(figures), 2),
        "largest": round(max(figures), 2),
    }


def _counted(words: Iterable[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for word in words:
        found[word] = found.get(word, 0) + 1
    return found
