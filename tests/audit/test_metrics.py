"""Time, cost and retries in journals; what is not recorded is unknown."""

from __future__ import annotations

from pathlib import Path

import pytest
from collected_journals import beside, files, session
from hypothesis import given, settings
from hypothesis import strategies as st

from playbook_supervisor.audit.metrics import DurationStats, Known, Metrics, WaitTimes, measure
from playbook_supervisor.audit.session_record import SessionFile, SessionFiles, SessionRecord, read
from playbook_supervisor.cli.render import metrics_tables

JOURNALS = Path(__file__).parents[1] / "journals"


def record(journal: str, session: str = "", playbook: str = "") -> SessionRecord:
    def file(name: str, text: str) -> SessionFile | None:
        return SessionFile(name, text.encode()) if text else None

    files = SessionFiles(
        "",
        SessionFile("journal.yaml", journal.encode()),
        file("session.yaml", session),
        file("playbook.yaml", playbook),
    )
    return read(files)


def source(twin: str, **changes: str) -> SessionRecord:
    """A session of the collection, each old text replaced by its new one."""
    journal, session, playbook = (
        (JOURNALS / twin / name).read_text("utf-8")
        for name in ("journal.yaml", "session.yaml", "playbook.yaml")
    )
    for old, new in changes.items():
        assert old in journal + session
        journal, session = journal.replace(old, new), session.replace(old, new)
    return record(journal, session, playbook)


def journal(*entries: str) -> SessionRecord:
    """A journal of these entries, in flow style, and nothing else of its session."""
    text = "schema: 1\nentries:\n" + "".join(f"  - {{{entry}}}\n" for entry in entries)
    return record(text)


def entry(seconds: int, more: str = "", *, step: str = "plan") -> str:
    times = f'started_at: "1970-01-01T00:00:00Z", completed_at: "1970-01-01T00:{seconds:02}:00Z"'
    return f"step_id: {step}, status: done, decision: auto, {times}{more}"


def all_of(*sources: SessionRecord) -> Metrics:
    return measure(sources)


class TestTime:
    def test_a_step_took_what_its_times_say_without_waiting_for_people(self) -> None:
        """kai P2-6."""
        steps = {each.name: each for each in all_of(source("ours")).steps}
        assert steps["plan"].lasted == DurationStats(1, 59_500, 59_500, 59_500)
        assert steps["tasks"].lasted == DurationStats(2, 59_750, 60_000, 119_500)
        assert steps["pr"].lasted == DurationStats(1, 60_000, 60_000, 60_000)  # of six minutes
        assert steps["old"].lasted is None
        assert steps["pr"].command == "/feature.pr"

    def test_waiting_for_a_resume_after_an_answer_is_not_work(self) -> None:
        """Neither before the launch nor after the return."""
        at = '"1970-01-01T00:00:{:02}Z"'.format
        gates = ", ".join(
            f"{{reason: gate_always, opened_at: {at(since)}, answered_at: {at(to)}}}"
            for since, to in ((0, 10), (42, 44))
        )
        known = f", launched_at: {at(40)}, returned_at: {at(42)}, gates: [{gates}]"
        (step,) = all_of(journal(entry(59, known))).steps
        assert step.lasted == DurationStats(1, 2_000, 2_000, 2_000)

    def test_median_and_90th_percentile(self) -> None:
        (step,) = all_of(journal(*map(entry, (10, 1, 2, 3, 4, 5, 6, 7, 8, 9)))).steps
        assert step.lasted == DurationStats(10, 330_000, 540_000, 3_300_000)

    def test_a_stated_duration_counts_only_where_times_are_missing(self) -> None:
        stated = "step_id: plan, status: done, decision: auto, duration_seconds: 45"
        (step,) = all_of(journal(stated, entry(1, ", duration_seconds: 9999"))).steps
        assert step.lasted == DurationStats(2, 52_500, 60_000, 105_000)

    @pytest.mark.parametrize(
        "more",
        [
            "duration_seconds: -1",
            "duration_seconds: 1e300",
            "duration_seconds: soon",
            'started_at: "1970-01-01T00:00:02Z", completed_at: "1970-01-01T00:00:01Z"',
            'started_at: "0001-01-01T00:00:00Z", completed_at: "9999-01-01T00:00:00Z"',
            'started_at: "1970-01-01T00:00:02Z"',
        ],
    )
    def test_what_cannot_be_a_duration_is_unknown(self, more: str) -> None:
        (step,) = all_of(journal(f"step_id: plan, status: failed, decision: auto, {more}")).steps
        assert (step.lasted, step.failed, step.attempts) == (None, 1, 1)

    def test_the_duration_of_an_interrupted_attempt_is_unknown(self) -> None:
        steps = {each.name: each for each in all_of(source("kai-resumed")).steps}
        assert (steps["implement"].attempts, steps["implement"].failed) == (2, 1)
        assert steps["implement"].lasted == DurationStats(1, 17, 17, 17)

    def test_waiting_is_counted_by_reason_without_autonomous_gates(self) -> None:
        both = all_of(source("ours"), source("ours-open"))
        assert both.gates == (
            WaitTimes("postcondition_fail", 3, 1, DurationStats(2, 119_000, 179_000, 238_000)),
            WaitTimes("gate_always", 1, 0, DurationStats(1, 300_000, 300_000, 300_000)),
        )
        alone = source("ours", **{'"Ana <ana@example.org>"': "autonomous"})
        assert [each.reason for each in all_of(alone).gates] == ["postcondition_fail"]

    def test_waiting_during_a_step_has_its_own_reasons_and_is_no_work(self) -> None:
        asked = all_of(source("ours-asking"))
        assert asked.gates == (
            WaitTimes("permission", 2, 1, DurationStats(1, 600_000, 600_000, 600_000)),
            WaitTimes("question", 1, 0, DurationStats(1, 120_000, 120_000, 120_000)),
        )
        tasks = next(step for step in asked.steps if step.name == "tasks")
        assert tasks.lasted == DurationStats(1, 360_000, 360_000, 360_000)

    def test_a_gate_without_sense_is_no_gate(self) -> None:
        gates = ", gates: [{reason: because}, {reason: consent}, x]"
        assert all_of(journal(entry(1, gates))).gates == ()


class TestTrouble:
    def test_retries_are_distinguished(self) -> None:
        together = all_of(source("ours"), source("ours-open"), source("kai"))
        assert together.retries == {"automatic": 1, "asked": 1, "interrupted": 1, "unknown": 1}
        again = {(each.name, each.command): each.again for each in together.steps}
        assert again["implement", "/speckit.implement"] == 2
        assert again["plan", "/speckit.plan"] == 0

    def test_an_attempt_that_was_not_launched_does_not_count(self) -> None:
        waits = 'step_id: pr, status: in_progress, started_at: "1970-01-01T00:00:00Z"'
        runs = f'{waits}, launched_at: "1970-01-01T00:00:01Z"'
        foreign = record(f"entries:\n  - {{{waits}}}\n")
        tries = [all_of(each).steps[0].tries for each in (journal(waits), journal(runs), foreign)]
        assert tries == [0, 1, 1]

    def test_escalations_are_counted_by_trigger_and_unnamed_ones_as_such(self) -> None:
        assert all_of(source("ours"), source("kai")).escalations == {"postcondition_fail": 3}
        nameless = source("original/escalation")
        assert all_of(nameless).escalations == {"unnamed": 1}

    def test_the_success_rate_is_that_of_ended_sessions(self) -> None:
        """kai P2-6, P3-3."""
        failed = source("kai", **{'"completed"': "failed"})
        unread = source("kai", **{'"completed"': "over"})
        gone = read(SessionFiles("", SessionFile("journal.yaml")))
        together = all_of(source("ours"), source("kai-open"), failed, unread, gone)
        assert together.ends == {"completed": 1, "failed": 1, "aborted": 0, "open": 1, "unknown": 2}
        assert together.success_rate == 0.5
        assert together.sessions == 5
        assert together.lasted == DurationStats(3, 3_000_000, 3_000_000, 6_960_000)
        assert all_of(source("kai-open")).success_rate is None


class TestCost:
    def test_cost_and_tokens_are_summed_by_step_and_model(self) -> None:
        used = ", agent: {model: opus, cost_usd: 0.5, input_tokens: 10, output_tokens: 1}"
        metrics = all_of(journal(entry(1, used), entry(1, used), entry(1, step="tasks")))
        (model,) = metrics.models
        assert (model.name, model.cost_usd) == ("opus", Known(1.0, 2, 2))
        plan, tasks = metrics.steps
        assert plan.input_tokens == Known(20, 2, 2)
        assert (tasks.cost_usd, tasks.output_tokens) == (None, None)

    def test_an_unknown_value_is_not_zero(self) -> None:
        costs = (", agent: {cost_usd: 0.5}", "", ", agent: {cost_usd: free}")
        odd = (", agent: {cost_usd: -1}", ", agent: {cost_usd: 1e300}", ", agent: none")
        (step,) = all_of(journal(*(entry(1, cost) for cost in (*costs, *odd)))).steps
        assert step.cost_usd == Known(0.5, 1, 6)
        assert not list(metrics_tables.sheets(all_of()))


class TestShown:
    def test_tables_fit_into_eighty_columns_and_say_what_is_not_known(self) -> None:
        long = entry(59, ", agent: {model: m, cost_usd: 250000}", step="s" * 90)
        metrics = all_of(
            source("ours"),
            source("kai", sample="another"),
            journal(long, long.replace("250000", "99999")),
        )
        for sheet in metrics_tables.sheets(metrics):
            lines = list(metrics_tables.plain(sheet))
            assert max(map(len, lines)) <= 80
            assert len({len(line) for line in lines}) == 1
        steps, *_ = metrics_tables.sheets(metrics)
        names = [row[0] for row in steps[1:]]
        assert "another plan" in names
        assert any(name.endswith("…") for name in names)
        assert any(row[-1] == "–" for row in steps[1:])
        assert "3.5e+05" in {row[-1] for row in steps[1:]}

    def test_an_incomplete_sum_is_marked(self) -> None:
        many = ", agent: {input_tokens: 2500000, output_tokens: 3e9}"
        few = entry(1, ", agent: {input_tokens: 940}", step="tasks")
        metrics = all_of(journal(entry(1, many), entry(2), few))
        used = next(sheet for sheet in metrics_tables.sheets(metrics) if sheet[0][0] == "used by")
        assert used[1:] == (("plan", "–", "≥2500.0k", "≥3.0G"), ("tasks", "–", "0.9k", "–"))


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
@settings(max_examples=50)
def test_any_journal_can_be_measured(data: bytes) -> None:
    text = b"entries:\n  - step_id: plan\n    agent: {cost_usd: 1}\n    status: " + data
    metrics = measure([read(SessionFiles("", SessionFile("journal.yaml", text)))])
    assert metrics.sessions == 1
    assert metrics_tables.as_json(metrics)["sessions"]["total"] == 1


class TestLoopsAndChildren:
    def test_a_loop_is_one_step_with_its_items(self) -> None:
        steps = {each.name: each for each in all_of(source("ours-loop")).steps}
        assert list(steps) == ["plan", "build", "fix"]
        assert steps["build"].lasted == DurationStats(4, 60_000, 120_000, 300_000)
        assert [
            (i.number, i.item, i.status, i.attempts, i.worked) for i in steps["build"].items
        ] == [
            (1, "alpha", "done", 1, 60_000),
            (2, "beta", "done", 2, 180_000),
            (3, "gamma", "done", 1, 60_000),
        ]
        printed = metrics_tables.as_json(all_of(source("ours-loop")))["steps"][1]["items"][1]
        assert printed["total_seconds"] == 180
        (table, *_) = metrics_tables.sheets(all_of(source("ours-loop")))
        assert table[2][0] == "build[3]"

    def test_a_round_that_another_follows_is_no_failure(self) -> None:
        measured = all_of(source("ours-loop"))
        assert measured.retries == {"automatic": 1, "round": 2}
        (fix,) = (each for each in measured.steps if each.name == "fix")
        assert (fix.tries, fix.failed, fix.again) == (3, 0, 2)

    def test_the_time_of_a_tree_counts_once(self) -> None:
        """Without the time at the gates of the child."""
        measured = all_of(collected("ours-tree"))
        assert measured.ends["completed"] == measured.sessions == 1
        assert measured.lasted == DurationStats(1, 1_200_000, 1_200_000, 1_200_000)
        steps = {(each.playbook, each.name): each for each in measured.steps}
        release = steps["release-all", "release"]
        assert release.lasted == DurationStats(1, 300_000, 300_000, 300_000)  # of 14 minutes
        assert steps["ship", "pr"].lasted == DurationStats(1, 89_000, 89_000, 89_000)
        work = [each.lasted.total for each in measured.commands if each.lasted]
        assert work == [299_000, 179_000, 89_000]
        assert [each.reason for each in measured.gates] == ["gate_always"]
        assert [each.cost_usd for each in measured.models] == [Known(0.5, 1, 1)]

    def test_a_result_from_the_cache_was_not_worked_for(self) -> None:
        cached = entry(20, ", cached_from: 20260219-a7k/plan#1")
        (step,) = all_of(journal(cached, entry(30, ", attempt: 2"))).steps
        assert (step.attempts, step.tries) == (2, 1)
        assert step.lasted == DurationStats(1, 1_800_000, 1_800_000, 1_800_000)


def collected(name: str) -> SessionRecord:
    """A session of the collection with its child session."""
    contents = files(name)
    return read(session(contents), beside(contents, name))
