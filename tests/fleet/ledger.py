"""What the steps themselves have written, and what must not be read there.

A step appends a line when it begins, a few times a second while it works, and when it ends. The
time is the one since the machine's start, which cannot be set. What no step wrote did not happen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby, pairwise
from pathlib import Path

BEAT = 0.2
"""Seconds between two signs of life of a step."""

_NEWEST = 65_536  # bytes
FROZEN = 1.5
"""Seconds without a sign of life after which a step counts as frozen."""

STEP = f"""\
#!/bin/sh
# Does the work of a step, for $FLEET_WORK beats, and writes it down.
say() {{
  read -r now _ </proc/uptime
  printf '%s %s %s %s %s %s %s\\n' "$1" "$PLAYBOOK_SESSION" "$PLAYBOOK_STEP" \\
    "$PLAYBOOK_DIRECTIVE" $$ "$now" "$FLEET_MACHINE" >>"$FLEET_LEDGER"
}}
case $PLAYBOOK_STEP in *-stubborn) trap '' TERM ;; esac
say begin
echo "Working on $PLAYBOOK_STEP"
left=${{FLEET_WORK:-5}}
case $PLAYBOOK_STEP in *-deadly)
  sleep {BEAT}
  pid=$$ above=
  while [ "$pid" -gt 1 ]; do
    read -r stat <"/proc/$pid/stat"
    set -- ${{stat##*) }}
    pid=$2 above="$pid $above"
    if tr '\\0' ' ' <"/proc/$pid/cmdline" | grep -q ' fleet worker'; then
      kill -9 $above
      exit
    fi
  done
esac
while [ "$left" -gt 0 ]; do
  sleep {BEAT}
  say alive
  left=$((left - 1))
done
mkdir -p work
echo "$PLAYBOOK_DIRECTIVE" >"work/$PLAYBOOK_STEP"
say end
"""
"""The program of an agent. A step whose name ends in `-stubborn` ignores SIGTERM, and one whose
name ends in `-deadly` kills all that it descends from, up to the fleet's worker."""


@dataclass(frozen=True)
class Attempt:
    """One process that worked at a step. Times are seconds since the machine's start."""

    session: str
    step: str
    directive: str
    machine: str
    pid: int
    beats: tuple[float, ...]
    """Its signs of life."""
    ended: bool

    def __str__(self) -> str:
        return (
            f"{self.session} {self.directive} on {self.machine} "
            f"from {self.began:.2f} to {self.last:.2f}{'' if self.ended else ', cut off'}"
        )

    @property
    def began(self) -> float:
        return self.beats[0]

    @property
    def last(self) -> float:
        return self.beats[-1]

    @property
    def periods(self) -> list[tuple[float, float]]:
        """From when to when it was at work: without the times for which it was frozen."""
        found = [(self.began, self.began)]
        for before, beat in pairwise(self.beats):
            start = found[-1][0] if beat - before < FROZEN else beat
            found[-1:] = [(start, beat)] if start != beat else [found[-1], (beat, beat)]
        return found

    @property
    def number(self) -> int:
        return int(self.directive.rpartition("#")[2])


@dataclass(frozen=True)
class Overlap:
    """A time at which two attempts of a session were at work."""

    first: Attempt
    second: Attempt
    start: float
    seconds: float

    def __str__(self) -> str:
        return f"at {self.start:.2f} for {self.seconds:.2f} s: {self.first}; {self.second}"


def now() -> float:
    """Seconds since the machine's start, as the steps read them."""
    return float(Path("/proc/uptime").read_text().split()[0])


def read(path: Path) -> list[Attempt]:
    if not path.exists():
        return []
    return attempts(path.read_text().splitlines())


def attempts(lines: Iterable[str]) -> list[Attempt]:
    """The attempts of a ledger's lines. ValueError for a line that no step writes."""
    found: dict[tuple[str, ...], Attempt] = {}
    for line in lines:
        event, session, step, directive, pid, at, machine = line.split(" ")
        key = (session, directive, pid, machine)
        before = found.get(key)
        if event == "begin":
            if before:
                raise ValueError(f"one process has begun a step twice: {line}")
            beats: tuple[float, ...] = (float(at),)
        elif before and event in ("alive", "end"):
            beats = (*before.beats, float(at))
        else:
            raise ValueError(f"this is no line of a step that has begun: {line}")
        found[key] = Attempt(
            session, step, directive, machine, int(pid), beats, ended=event == "end"
        )
    return sorted(found.values(), key=lambda each: each.began)


def at_work(path: Path) -> set[str]:
    """The machines on which a step gives signs of life now."""
    if not path.exists():
        return set()
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _NEWEST))
        lines = file.read().decode().splitlines()[1:]  # the first one may be a part of a line
    last = {tuple(line.split(" ")[1:5]): line.split(" ") for line in lines}
    recent = now() - 1
    return {words[6] for words in last.values() if words[0] != "end" and float(words[5]) > recent}


# ── judges ──────────────────────────────────────────────────────────────────────────────────


def overlaps(found: Sequence[Attempt]) -> list[Overlap]:
    """All times at which two attempts of a session were at work.

    One that gives a single sign of life while another works overlaps with it for 0 seconds.
    """
    return [
        Overlap(first, second, max(start, begin), min(stop, end) - max(start, begin))
        for each in by_session(found).values()
        for first, second in combinations(each, 2)
        for start, stop in first.periods
        for begin, end in second.periods
        if max(start, begin) < min(stop, end)
        or (start == stop and begin < start < end)
        or (begin == end and start < begin < stop)
    ]


def repeated(found: Sequence[Attempt]) -> list[str]:
    """Attempts whose id, which is the key against doubles outside, was given to two processes."""
    return [
        f"{first} and {second} have one id"
        for each in by_session(found).values()
        for first, second in combinations(each, 2)
        if first.directive == second.directive
    ]


def begun_after(found: Sequence[Attempt], settled: Mapping[str, Sequence[str]]) -> list[str]:
    """Attempts at a step that was done already. `settled` has, by session, the ids that are done.

    An attempt that was cut off, or whose end was not accepted, may be followed by another one.
    """
    done = {
        (each.session, each.step): each
        for each in found
        if each.ended and each.directive in settled.get(each.session, ())
    }
    return [
        f"{each} began although {first} was done"
        for each in found
        if (first := done.get((each.session, each.step)))
        and (each.number > first.number or each.began > first.last)
    ]


def not_worked(found: Sequence[Attempt], settled: Mapping[str, Sequence[str]]) -> list[str]:
    """Ids that are done by the journal, although no process came to the end of them."""
    ended = {(each.session, each.directive) for each in found if each.ended}
    return [
        f"{session} {directive} is done, but no step has ended it"
        for session, directives in settled.items()
        for directive in directives
        if (session, directive) not in ended
    ]


def most_at_once(found: Sequence[Attempt], key: Callable[[Attempt], str]) -> dict[str, int]:
    """The largest number of attempts at work at one time, by key."""
    changes = sorted(
        (time, change, key(each))
        for each in found
        for start, stop in each.periods
        for time, change in ((start, 1), (stop, -1))
    )
    now_at_work: dict[str, int] = {}
    most: dict[str, int] = {}
    for _, change, name in changes:  # at the same time, an end comes first
        now_at_work[name] = now_at_work.get(name, 0) + change
        most[name] = max(most.get(name, 0), now_at_work[name])
    return most


def cut_off(found: Sequence[Attempt]) -> int:
    """How many attempts did not come to their end."""
    return sum(not each.ended for each in found)


def by_session(found: Sequence[Attempt]) -> dict[str, list[Attempt]]:
    """The attempts of each session, in the order in which they began."""
    ordered = sorted(found, key=lambda each: (each.session, each.began))
    return {name: list(each) for name, each in groupby(ordered, key=lambda each: each.session)}
