"""What a session is held to beyond its playbook, and that nothing makes it freer (kai P3-2)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator
from support.stored_sessions import Scene, ask, finish, playbook, unsynced, work

from playbook_supervisor.commands import repair
from playbook_supervisor.commands.views import session_diff
from playbook_supervisor.errors import PlaybookError, PolicyError, StateError
from playbook_supervisor.kernel.directives import Outcome
from playbook_supervisor.kernel.error_policy import ErrorPolicy
from playbook_supervisor.kernel.model import Playbook, Step
from playbook_supervisor.kernel.vocabulary import (
    Autonomy,
    Condition,
    GateReason,
    Mode,
    Resolution,
    SessionStatus,
)
from playbook_supervisor.project.expressions.requirement import PLAIN
from playbook_supervisor.project.playbooks.schema import read_playbook, schema_text
from playbook_supervisor.project.policies import policy_files
from playbook_supervisor.project.policies.session_policy import (
    LADDER,
    Demand,
    Policy,
    effects,
    emit_policy,
    policy_from_json,
    policy_to_json,
    read_policy,
    tightened,
)
from playbook_supervisor.project.settings.config import CheckSpec, Config
from playbook_supervisor.sessions.files.local_state import Launch
from playbook_supervisor.sessions.files.principal import Principal
from playbook_supervisor.sessions.gate.gate_context import gate_context
from playbook_supervisor.sessions.gate.gate_text import lines
from playbook_supervisor.sessions.tree.session_tree import SessionTree

ADA = "Ada Example <ada@example.org>"
RITA = "Rita <Rita@Release.example.org>"
RELEASE = "*@release.example.org"
SETTINGS = Config(checks={"test": CheckSpec("test", ("make", "test"))})
CONTINUE = Resolution.CONTINUE


def one(autonomy: Autonomy, *postconditions: str, command: str = "/x") -> Playbook:
    made = Step("a", command, autonomy, ErrorPolicy.STOP, postconditions=postconditions)
    return Playbook("sample", "", "1.0", (), (made,))


def rules(text: str) -> tuple[policy_files.PolicyRule, ...]:
    found, faults = policy_files.examine(text.encode(), ".playbooks/policies/team.yaml", SETTINGS)
    assert not faults
    return found


def held(text: str, made: Playbook) -> Step:
    """The one step of the playbook under these rules."""
    (only,) = tightened(made, policy_files.merged(rules(text), made)).steps
    return only


# ── what it makes of a playbook ─────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("written", "demanded", "becomes"),
    [
        ("auto", "gate_on_breaking", "gate_on_breaking"),
        ("auto", "gate_always", "gate_always"),
        ("gate_on_breaking", "auto", "gate_on_breaking"),
        ("gate_always", "gate_on_breaking", "gate_always"),
    ],
)
def test_the_stricter_of_two_autonomies_applies(written: str, demanded: str, becomes: str) -> None:
    text = f"match: {{step: a}}\nautonomy: {demanded}\n"
    assert held(text, one(Autonomy(written))).autonomy == becomes


@pytest.mark.parametrize("demand", ["autonomy: auto", "postconditions: [plan_exists]"])
def test_a_skipped_step_gets_a_gate(demand: str) -> None:
    """It neither runs unasked nor is it silently skipped."""
    found = held(f"match: {{step: a}}\n{demand}\n", one(Autonomy.SKIP))
    assert found.autonomy is Autonomy.GATE_ALWAYS


def test_postconditions_are_added_to_those_of_the_step() -> None:
    text = "match: {step: a}\npostconditions: [plan_exists, tasks_exists, plan_exists]\n"
    found = held(text, one(Autonomy.AUTO, Condition.TASKS_EXISTS))
    assert found.postconditions == (Condition.TASKS_EXISTS, Condition.PLAN_EXISTS)


def test_postconditions_with_values_are_written_as_in_a_playbook() -> None:
    text = """
match: {step: a}
postconditions:
  - command_succeeds: test
  - changes_within: [src/**, 'docs/a b/**']
  - file_contains: {path: README.md, text: "the {thing}"}
  - changes_within: ['src/**', docs/a b/**]
"""
    found = held(text, one(Autonomy.AUTO, "command_succeeds=test"))
    assert found.postconditions == (
        "command_succeeds=test",
        "changes_within=src/** 'docs/a b/**'",
        "file_contains=README.md 'the {thing}'",
    )
    kept = policy_files.merged(rules(text), one(Autonomy.AUTO))
    assert read_policy(emit_policy(kept), "policy.yaml") == kept


@pytest.mark.parametrize(
    ("pattern", "command", "matches"),
    [
        ("/feature.pr", "/feature-pr", True),
        ("/feature-pr", "/Feature.PR", True),
        ("/feature.*", "/feature-pr", True),
        ("/feature.p", "/feature.pr", False),
    ],
)
def test_no_other_spelling_of_a_command_escapes_a_pattern(
    pattern: str, command: str, matches: bool
) -> None:
    text = f"match: {{command: '{pattern}'}}\nautonomy: gate_always\n"
    found = held(text, one(Autonomy.AUTO, command=command))
    assert (found.autonomy is Autonomy.GATE_ALWAYS) is matches


CONDITIONS = [*PLAIN, "command_succeeds=test", "changes_within=src/** 'docs/a: #b/**'"]
DEMANDS = st.builds(
    Demand,
    st.just("a"),
    st.sampled_from(["one.yaml", "two: #.yaml"]),
    st.none() | st.sampled_from(LADDER),
    st.lists(st.sampled_from(CONDITIONS), max_size=3, unique=True).map(tuple),
    st.lists(st.sampled_from([RELEASE, "*", "ada@example.org"]), max_size=2).map(tuple),
)
PLAYBOOKS = st.builds(
    one, st.sampled_from(list(Autonomy)), st.sampled_from(CONDITIONS), command=st.just("/x")
)


@given(PLAYBOOKS, st.lists(DEMANDS, max_size=4).map(lambda many: Policy(tuple(many))))
def test_policies_only_tighten(made: Playbook, policy: Policy) -> None:
    """kai FR2: an autonomy may be raised, never lowered, in any combination."""
    (before,), (after,) = made.steps, tightened(made, policy).steps
    order = (Autonomy.SKIP, *LADDER)
    assert order.index(after.autonomy) >= order.index(before.autonomy)
    assert after.postconditions[: len(before.postconditions)] == before.postconditions
    assert tightened(tightened(made, policy), policy) == tightened(made, policy)
    said = effects(made, policy)
    assert (after != before) == any(
        each.was != each.autonomy or each.postconditions for each in said
    )
    assert all(each.summary for each in said)


@given(st.lists(DEMANDS, max_size=4).map(lambda many: Policy(tuple(many))))
def test_kept_policies_are_read_again(policy: Policy) -> None:
    assert read_policy(emit_policy(policy), "policy.yaml") == policy
    assert policy_from_json(policy_to_json(policy)) == policy


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("schema: 1\ndemands: [\n", "policy.yaml:3:1"),
        ("schema: 1\ndemands:\n  - {step: a}\n", "policy.yaml:3:3"),
        ("schema: 1\ndemands: [{step: a, policy: x, autonomy: skip}]\n", "policy.yaml:2:10"),
        (
            "schema: 1\ndemands: [{step: a, policy: x, postconditions: [file_exists=/y]}]\n",
            "policy.yaml:2:10",
        ),
    ],
)
def test_an_invalid_kept_policy_is_refused_with_its_place(text: str, told: str) -> None:
    with pytest.raises(StateError) as caught:
        read_policy(text.encode(), "policy.yaml")
    assert (caught.value.code, caught.value.where) == ("PB-STATE-CORRUPT", told)


# ── the project's files ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "1:1: the file has no rules"),
        ("3", "1:1: must be a mapping of keys to values"),
        ("autonomy: auto", "1:1: match: is missing"),
        ("{match: {}, autonomy: auto}", "1:9: match: names no steps"),
        ("{match: {step: a}}", "1:2: match: requires nothing"),
        ("{match: {stp: a}, autonomy: auto}", "1:10: match.stp: unknown key"),
        ("{match: {step: a}, autonomy: skip}", "1:30: autonomy: must be one of auto,"),
        ("{match: {step: a}, postconditions: [plan_exist]}", "1:37: `plan_exist` is not a valid"),
        ("{match: {step: a}, postconditions: }", "1:20: `postconditions` has no value"),
        ("{match: {step: a}, postconditions: [file_exists]}", "1:37: `file_exists` needs a value"),
        ("{match: {step: a}, postconditions: [command_fails: tset]}", "1:37: the config defi"),
        ("{match: {step: a}, postconditions: [file_exists: '{{x}}']}", "1:37: `{{x}}`: a policy"),
        ("{match: {command: pr}, autonomy: auto}", "1:19: match.command: must begin with `/`"),
        (f"{{match: {{step: {'a' * 201}}}, autonomy: auto}}", "1:16: match.step: has 201 char"),
        ("{match: {step: a}, answered_by: []}", "1:33: answered_by: names no one"),
        ("{match: {step: a}, answered_by: [team]}", "1:33: answered_by: `team` is not an e-mail"),
    ],
)
def test_each_problem_of_a_policy_is_reported_with_its_place(
    tmp_path: Path, text: str, told: str
) -> None:
    file = tmp_path / policy_files.FOLDER / "team.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    with pytest.raises(PlaybookError) as caught:
        policy_files.project_rules(tmp_path, Config())
    error = caught.value
    assert error.code == "PB-CHECK-POLICY"
    line = error.details[0].removeprefix(f"{policy_files.FOLDER}/team.yaml:")
    assert line.startswith(told)
    assert line.removeprefix(told.partition(" ")[0]).strip().startswith(error.message[:20])


def test_the_schema_that_ships_for_editors_agrees(tmp_path: Path) -> None:
    validator = Draft7Validator(json.loads(schema_text("policy")))
    rule: dict[str, object] = {"match": {"command": "/feature.*"}, "autonomy": "gate_always"}
    tests = {"match": {"step": "a"}, "answered_by": ["*@qa.example.org"], "reason": "witnesses"}
    for fine in (rule, tests, [rule, {**rule, "answered_by": ["*", "*@x", "role:r_*"]}]):
        assert not list(validator.iter_errors(fine))
    wrong: list[object] = [[], 3, {}, {**rule, "autonomy": "skip"}, {**rule, "answered_by": ["x"]}]
    wrong += [{"match": rule["match"]}, {**rule, "match": {}}, {**rule, "match": {"command": "x"}}]
    wrong += [{**rule, "postconditions": ["plan_exist"]}, {**rule, "why": "x"}]
    for each in wrong:
        assert list(validator.iter_errors(each)), each


def test_the_schema_has_the_conditions_of_playbooks() -> None:
    names = ("condition", "globs", "path")
    ours, theirs = (json.loads(schema_text(name))["definitions"] for name in ("policy", "playbook"))
    assert [ours[name] for name in names] == [theirs[name] for name in names]


def test_policies_are_read_by_name_and_other_files_are_skipped(tmp_path: Path) -> None:
    assert policy_files.project_rules(tmp_path, Config()) == ()
    folder = tmp_path / policy_files.FOLDER
    folder.mkdir(parents=True)
    rule = "- {match: {step: %s}, autonomy: auto}\n"
    (folder / "b.yml").write_text(rule % "first" + rule % "second")
    (folder / "a.json").write_text('{"match": {"step": "third"}, "autonomy": "auto"}')
    (folder / ".c.yaml.swp").write_text("[")
    (folder / "README.md").write_text("[")
    found = policy_files.project_rules(tmp_path, Config())
    assert [(rule.demand.policy, rule.line, rule.step) for rule in found] == [
        ("a.json", 1, "third"),
        ("b.yml", 1, "first"),
        ("b.yml", 2, "second"),
    ]


def test_a_policy_linked_from_outside_the_repository_is_refused(tmp_path: Path) -> None:
    (tmp_path / "outside.yaml").write_text("match: {step: a}\nautonomy: auto\n")
    folder = tmp_path / "project" / policy_files.FOLDER
    folder.mkdir(parents=True)
    (folder / "x.yaml").symlink_to(tmp_path / "outside.yaml")
    with pytest.raises(PlaybookError) as caught:
        policy_files.project_rules(tmp_path / "project", None)
    assert caught.value.code == "PB-IO-ESCAPE"


# ── a session under them ────────────────────────────────────────────────────────────────────

ALWAYS = GateReason.GATE_ALWAYS
GUARDED = Policy((Demand("b", "team.yaml", Autonomy.GATE_ALWAYS, (), (RELEASE,)),))


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    return unsynced(monkeypatch, tmp_path)


def begun(scene: Scene, policy: Policy | None = GUARDED) -> SessionTree:
    session_id = scene.store.create(
        playbook="sample", text=playbook("a", "b"), feature="013-x", args={}, policy=policy
    )
    tree = SessionTree(scene.store, session_id)
    tree.begin()
    return tree


def at_the_gate(scene: Scene) -> SessionTree:
    tree = begun(scene)
    tree.report("a#1", Outcome(output="done"))
    return tree


def test_the_session_runs_the_tightened_playbook_and_keeps_the_authors(scene: Scene) -> None:
    tree = at_the_gate(scene)
    snapshot = tree.look()
    assert ask(snapshot).reason == "gate_always"
    assert scene.file(tree, "playbook.yaml").read_bytes() == playbook("a", "b")
    assert "gate_always" in scene.file(tree, "policy.yaml").read_text()
    assert lines(gate_context(snapshot))[0] == f"answered by: {RELEASE} (policy team.yaml)"


def test_only_those_who_are_named_answer_and_the_gate_stays_open(scene: Scene) -> None:
    tree = at_the_gate(scene)
    gate = ask(tree.look()).id
    for by, named in (
        (ADA, "Ada"),
        (Mode.AUTONOMOUS.value, "autonomous mode"),
        ("", "a person without"),
    ):
        with pytest.raises(PolicyError, match=f"^{named}.* may not answer for `b`: .*team.yaml"):
            tree.answer(gate, CONTINUE, "continue", Principal(by))
    assert ask(scene.again(tree).look()).id == gate
    assert "answered_at" not in scene.journal(tree)[-1]["gates"][-1]
    tree.answer(gate, CONTINUE, "continue", Principal(RITA))
    assert work(tree.advance()).id == "b#1"


def test_two_policies_that_name_people_must_agree() -> None:
    policy = Policy(
        (
            Demand("b", "x.yaml", answered_by=(RELEASE,)),
            Demand("b", "y.yaml", answered_by=("r*@*",)),
        )
    )
    policy.admit("b", ALWAYS, CONTINUE, RITA)
    with pytest.raises(PolicyError, match="the policy y"):
        policy.admit("b", ALWAYS, CONTINUE, "Sam <sam@release.example.org>")


@pytest.mark.parametrize(
    ("role", "admitted"),
    [("release", True), ("release_eu", True), ("Release", False), ("dev", False), ("", False)],
)
def test_a_policy_can_name_roles_of_the_fleets_database(role: str, admitted: bool) -> None:
    """A role has its own case, and an e-mail address that looks like one is none."""
    policy = Policy((Demand("b", "x.yaml", answered_by=("role:release*",)),))
    for by in (RITA, "Eve <role:release@evil.example>"):
        if admitted:
            policy.admit("b", ALWAYS, CONTINUE, by, role)
        else:
            with pytest.raises(PolicyError, match="requires role:release") as caught:
                policy.admit("b", ALWAYS, CONTINUE, by, role)
            assert (f"as the database role {role}" in caught.value.message) is bool(role)
    with pytest.raises(PolicyError):
        policy.admit("b", ALWAYS, CONTINUE, Mode.AUTONOMOUS.value, role)


def test_people_can_be_named_for_the_gates_of_one_reason() -> None:
    policy = Policy((Demand("b", "x.yaml", answered_by=(RELEASE,), reason=GateReason.PERMISSION),))
    policy.admit("b", ALWAYS, CONTINUE, ADA)
    policy.admit("b", GateReason.PERMISSION, Resolution.DENY, RITA)
    with pytest.raises(PolicyError, match="the policy x"):
        policy.admit("b", GateReason.PERMISSION, Resolution.ALLOW, ADA)
    assert policy.answerers("b", ALWAYS) == ()
    assert policy.answerers("b", GateReason.PERMISSION) == (f"{RELEASE} (policy x.yaml)",)
    policy.admit_start(read_playbook(playbook("a", "b", "c"), "x"), "c", lambda: ADA)


def test_guarded_steps_are_not_skipped_from_elsewhere(scene: Scene) -> None:
    made = read_playbook(playbook("a", "b", "c"), "x")
    GUARDED.admit_start(made, "", lambda: pytest.fail("no person needs to be asked"))
    GUARDED.admit_start(made, "b", lambda: pytest.fail("no person needs to be asked"))
    GUARDED.admit_start(made, "c", lambda: RITA)
    with pytest.raises(PolicyError) as caught:
        GUARDED.admit_start(made, "c", lambda: ADA)
    assert caught.value.code == "PB-POLICY-SKIP"


def test_the_policies_apply_on_another_machine(scene: Scene) -> None:
    elsewhere = scene.cloned(at_the_gate(scene))
    with pytest.raises(PolicyError):
        elsewhere.answer(ask(elsewhere.look()).id, CONTINUE, "continue", Principal(ADA))
    elsewhere.answer("b#1?1", CONTINUE, "continue", Principal(RITA))
    assert finish(elsewhere, elsewhere.advance()).manifest.status is SessionStatus.COMPLETED


# ── attempts to loosen them ─────────────────────────────────────────────────────────────────


def test_a_policy_that_was_edited_stops_the_session_until_a_person_has_looked(scene: Scene) -> None:
    tree = at_the_gate(scene)
    before = scene.file(tree, "policy.yaml").read_bytes()
    scene.edit(tree, "policy.yaml", ("release.example.org", "example.org"))
    again = scene.again(tree)
    with pytest.raises(StateError, match="pinned policy was changed") as caught:
        again.look()
    assert caught.value.code == "PB-STATE-TAMPERED"
    (difference,) = session_diff.differences(scene.fresh(), again.id)
    assert (difference.file, difference.what) == ("policy.yaml", "the pinned policies were changed")
    assert difference.changes[0][0] == "demand 1"
    repair.restore(scene.fresh(), again.id)
    assert scene.file(tree, "policy.yaml").read_bytes() == before
    assert not session_diff.differences(scene.fresh(), again.id)
    assert ask(scene.again(tree).look()).id == "b#1?1"


def test_a_person_may_take_an_edited_policy(scene: Scene) -> None:
    tree = at_the_gate(scene)
    with scene.store.open(tree.id) as opened:
        opened.runtime.begun = Launch(1, "abc", {})
        opened.write()
    scene.edit(tree, "policy.yaml", (RELEASE, "*@example.org"))
    again = scene.again(tree)
    repair.take(scene.fresh(), again.id)
    with again.store.open(again.id) as opened:
        assert opened.runtime.begun == Launch(1, "abc", {})  # what else was known stays known
    again.answer("b#1?1", CONTINUE, "continue", Principal(ADA))
    assert work(scene.again(tree).advance()).id == "b#1"


def test_comments_in_it_may_be_added(scene: Scene) -> None:
    tree = at_the_gate(scene)
    for remark in ("as agreed in May", "as agreed in June"):
        scene.edit(tree, "policy.yaml", ("schema: 1", f"# {remark}\nschema: 1"))
        assert not session_diff.differences(scene.store, tree.id)
        assert ask(scene.again(tree).look()).id == "b#1?1"
        (scene.store.runtime(tree.id) / "policy.json").unlink()  # the copy serves, too
    assert ask(scene.again(tree).look()).id == "b#1?1"


@pytest.mark.parametrize("text", ["schema: 1\ndemands: [", "schema: 2\n"])
def test_one_that_cannot_be_read_any_more_counts_as_changed(scene: Scene, text: str) -> None:
    tree = at_the_gate(scene)
    scene.file(tree, "policy.yaml").write_text(text)
    again = scene.again(tree)
    with pytest.raises(StateError, match="pinned policy was changed"):
        again.look()
    (difference,) = session_diff.differences(scene.fresh(), again.id)
    assert difference.what.startswith("it cannot be read")


def test_one_that_was_removed_comes_back(scene: Scene) -> None:
    tree = at_the_gate(scene)
    scene.file(tree, "policy.yaml").unlink()
    (difference,) = session_diff.differences(scene.store, tree.id)
    assert difference.what == "it is missing"
    again = scene.again(tree)
    assert ask(again.look()).id == "b#1?1"
    assert "policy.yaml had disappeared" in again.store.notices[0]
    assert scene.file(tree, "policy.yaml").is_file()


def test_one_that_is_added_later_is_refused(scene: Scene) -> None:
    tree = begun(scene, None)
    scene.file(tree, "policy.yaml").write_bytes(emit_policy(GUARDED))
    again = scene.again(tree)
    with pytest.raises(StateError, match="put there by something else"):
        again.look()
    (difference,) = session_diff.differences(scene.fresh(), again.id)
    assert difference.what == "it did not exist when the session began"
    repair.restore(scene.fresh(), again.id)
    assert not scene.file(tree, "policy.yaml").exists()
    assert work(scene.again(tree).look()).id == "a#1"
