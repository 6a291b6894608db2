"""`check`, `probe`, `list`, `index` and `schema`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.scratch_project import FEATURE, Project

from cli.scripts import GATED, conforms

BROKEN = GATED.replace("steps:", "stpes:").replace('version: "1.0"', 'version: "1.0"\nowner: me')


class TestCheck:
    def test_prints_every_problem_of_every_file_with_its_place(self, project: Project) -> None:
        """kai FR8; cat FR-1.3: many files; each problem on a line, with its guidance."""
        project.write("good.yaml", GATED)
        project.write("bad.yaml", BROKEN)
        done = project.playbook("check", "good.yaml", "bad.yaml", "none.yaml")
        assert done.code == 1
        lines = done.out.splitlines()
        assert any(line.startswith("bad.yaml:") and "`stpes`" in line for line in lines)
        assert "none.yaml:1:1: error: there is no such file" in done.out
        assert done.err.startswith("3 files: ")
        project.write("huge.yaml", "#" * 2_000_000)
        assert "[PB-IO-READ]" in project.playbook("check", "huge.yaml").out

    def test_says_that_everything_is_fine(self, project: Project) -> None:
        """With `--strict` a warning fails the check."""
        text = GATED.replace("    autonomy", "    postconditions: [pr_created]\n    autonomy")
        project.write("good.yaml", text)
        fine = project.playbook("check", "good.yaml", "--strict")
        assert (fine.code, fine.out, fine.err) == (0, "", "1 file: fine\n")
        project.write("so-so.yaml", GATED)
        warned = project.playbook("check", "so-so.yaml")
        assert (warned.code, warned.err) == (0, "1 file: 0 errors, 1 warning\n")
        assert project.playbook("check", "so-so.yaml", "--strict").code == 1

    def test_prints_one_json_object(self, project: Project) -> None:
        project.write("bad.yaml", BROKEN)
        for option in (["--format", "json"], ["--format=json"], ["--json"]):
            done = project.playbook("check", "bad.yaml", *option)
            (file,) = conforms("check", done.json)["files"]
            assert (done.code, done.err) == (1, "")
            assert (file["file"], file["ok"]) == ("bad.yaml", False)
            assert {problem["severity"] for problem in file["problems"]} == {"error"}

    def test_annotates_on_github_and_escapes_quoted_text(self, project: Project) -> None:
        name = "a,b:c%.yaml"
        project.write(name, BROKEN)
        done = project.playbook("check", name, "--format", "github")
        assert done.code == 1
        lines = done.out.splitlines()
        assert lines
        for line in lines:
            assert line.startswith("::error file=a%2Cb%3Ac%25.yaml,line=")
            assert ",col=" in line
            assert ",title=PB-CHECK-" in line

    def test_prints_no_control_characters(self, project: Project) -> None:
        project.write("evil.yaml", GATED + "\x1b]0;title\x07: 1\n")
        done = project.playbook("check", "evil.yaml")
        assert done.code == 1
        assert "\x1b" not in done.out + done.err

    def test_knows_the_commands_of_the_file_s_project(
        self, project: Project, tmp_path: Path
    ) -> None:
        text = GATED.replace("/feature.pr", "/no.such")
        project.write(".playbooks/playbooks/other.yaml", text)
        inside = project.playbook("check", ".playbooks/playbooks/other.yaml")
        assert (
            "`/no.such` was not found where claude reads commands: .claude/skills, " in inside.out
        )
        assert "the file is named `other`, but the playbook `gated`" in inside.out
        (tmp_path / "loose.yaml").write_text(text)
        outside = project.playbook("check", "loose.yaml", cwd=tmp_path)
        assert (outside.code, "is not found" in outside.out) == (0, False)


class TestProbe:
    def test_evaluates_conditions_and_triggers(self, project: Project) -> None:
        """kai FR3, FR4: 0 if all hold, 2 if not, with evidence."""
        held = project.playbook("probe", "spec_exists")
        assert held.code == 0
        assert held.out == f"spec_exists  held  specs/{FEATURE}/spec.md, 3 lines\n"
        project.write(f".qa/{FEATURE}/verdict.md", "---\nverdict: FAIL\n---\n")
        mixed = project.playbook("probe", "spec_exists", "plan_exists", "verdict_fail", "--json")
        assert mixed.code == 2
        told = conforms("probe", mixed.json)["conditions"]
        assert [each["held"] for each in told] == [True, False, True]
        assert told[2]["evidence"].endswith("verdict.md: FAIL")
        assert "agreement_breaking  not held" in project.playbook("probe", "agreement_breaking").out

    @pytest.mark.parametrize(
        ("typed", "meant"), [("013-playbok-create", FEATURE), ("nothing-like", "")]
    )
    def test_a_mistyped_feature_is_told(self, project: Project, typed: str, meant: str) -> None:
        done = project.playbook("probe", "spec_exists", "--feature", typed)
        hint = f"; did you mean {meant}?" if meant else ""
        assert done.code == 2
        assert done.err == (f"note: no folder, feature file or branch is named {typed} yet{hint}\n")
        assert project.playbook("probe", "spec_exists", "--feature", "013").err == ""

    def test_evaluates_the_given_feature(self, project: Project) -> None:
        """The named feature, else the session's, else the branch's."""
        project.write("specs/014-other/spec.md", "# Other\n")
        named = project.playbook("probe", "spec_exists", "--feature", "014")
        assert "specs/014-other/spec.md" in named.out
        project.playbook("begin", "auto-feature", "014")
        of_session = project.playbook("probe", "spec_exists")
        assert "specs/014-other/spec.md" in of_session.out
        (session,) = project.sessions
        project.playbook("abort")
        assert f"specs/{FEATURE}/" in project.playbook("probe", "spec_exists").out
        for how in (["--session", session.name], []):
            env = {} if how else {"PLAYBOOK_SESSION": session.name}
            again = project.playbook("probe", "spec_exists", *how, env=env)
            assert "specs/014-other/spec.md" in again.out

    def test_refuses_an_unknown_condition(self, project: Project) -> None:
        for word in ("plan_exist", "subagent_error"):
            done = project.playbook("probe", word)
            assert (done.code, "PB-COND-UNKNOWN" in done.err) == (1, True)
        assert "did you mean plan_exists?" in project.playbook("probe", "plan_exist").err
        assert "did you mean file_exists?" in project.playbook("probe", "file_exist=x").err

    def test_evaluates_conditions_with_parameters(self, project: Project) -> None:
        """The quotes around a program of its own are the shell's."""
        project.write(".playbooks/config.yaml", "checks: {test: {run: [git, --version]}}\n")
        done = project.playbook(
            "probe", f"file_exists=specs/{FEATURE}/spec.md", "command_succeeds=test"
        )
        assert done.code == 0
        assert "held  check test: exit 0 in " in done.out
        assert done.err == "checking test\n"
        failed = project.playbook("probe", "command_fails=cli git no-such-command", "--json")
        (told,) = conforms("probe", failed.json)["conditions"]
        assert (told["name"], told["held"]) == ("command_fails='cli git no-such-command'", True)

    def test_compares_with_the_last_launch_of_the_session(self, project: Project) -> None:
        unknown = "could not be checked: nothing is known of the tree at the launch"
        assert unknown in project.playbook("probe", "changes_made=src/**").out
        project.playbook("begin", "auto-feature", "013")
        assert unknown in project.playbook("probe", "changes_made=src/**").out
        assert "no commit since the launch" in project.playbook("probe", "commits_made").out

    def test_starts_no_program_of_an_agents_choice(self, project: Project) -> None:
        """An agent may run `probe` without asking; a check of its own would be any program."""
        agent = {"CLAUDECODE": "1"}
        without = project.playbook("probe", "command_succeeds=cli touch ran", env=agent)
        assert (without.code, "PB-STATE-HUMAN-ONLY" in without.err) == (3, True)
        project.playbook("begin", "auto-feature", "013")
        own = project.playbook("probe", "command_succeeds=cli touch ran", env=agent)
        assert (own.code, "an agent can make only the checks" in own.err) == (1, True)
        assert not (project.root / "ran").exists()


class TestList:
    def test_shows_playbooks_and_why_one_cannot_run(self, project: Project) -> None:
        """kai P2-1."""
        project.write(".playbooks/playbooks/bad.yaml", BROKEN)
        project.write(".playbooks/playbooks/gated.yaml", GATED)
        listed = project.playbook("list", cwd=project.root / "specs")
        assert listed.code == 0
        said = " ".join(listed.out.split())
        assert "gated 1 step - One step behind a gate" in said
        assert "auto-validate 2 steps <feature> Plan the tests of a feature and run them" in said
        assert "cannot run: line" in listed.out
        shape = conforms("list", project.playbook("list", "--json").json)
        assert [each["name"] for each in shape["playbooks"] if "problem" in each] == ["gated"]

    def test_suggests_init_in_an_empty_project(self, project: Project) -> None:
        for file in (project.root / ".playbooks/playbooks").iterdir():
            file.unlink()
        empty = project.playbook("list")
        assert (empty.code, empty.out) == (0, "")
        assert "playbook init" in empty.err
        project.git("rm", "-rq", "--cached", ".")
        (project.root / ".playbooks/playbooks").rmdir()
        (project.root / ".playbooks").rmdir()
        missing = project.playbook("list")
        assert (missing.code, "PB-STATE-NOT-INITIALISED" in missing.err) == (3, True)


def test_the_index_is_updated(project: Project) -> None:
    assert project.playbook("index", "--check").code == 1
    assert project.playbook("index").err == "index rewritten\n"
    assert project.playbook("index", "--check").code == 0
    assert project.playbook("index").err == "the index is up to date\n"


def test_schemas_are_printed(project: Project) -> None:
    assert json.loads(project.playbook("schema").out)["title"].startswith("Playbook")
    assert json.loads(project.playbook("schema", "run").out)["required"]
    unknown = project.playbook("schema", "../errors")
    assert (unknown.code, "there are audit, check, config" in unknown.err) == (1, True)


class TestCompletion:
    @pytest.mark.parametrize(
        ("words", "offered"),
        [
            ("playbook run auto-validate --from ", {"qa-plan", "qa-run"}),
            ("playbook probe spec", {"spec_exists"}),
            ("playbook stat", {"status"}),
            ("playbook run --from ", set()),
            ("playbook schema play", {"playbook"}),
            ("playbook prove te", {"test"}),
        ],
    )
    def test_offers_what_fits(self, project: Project, words: str, offered: set[str]) -> None:
        settings = "checks: {test: {run: [make, test]}, lint: {run: [make, lint]}}\n"
        project.write(".playbooks/config.yaml", settings)
        assert self.complete(project, words) == offered

    def test_offers_sessions(self, project: Project) -> None:
        project.playbook("begin", "auto-validate", "013")
        name = project.session.name
        assert self.complete(project, "playbook show ") == {name}
        assert self.complete(project, f"playbook show {name[-3:-1]}") == {name}
        assert self.complete(project, "playbook abort ") == {name}

    def test_is_silent_outside_a_project(self, project: Project, tmp_path: Path) -> None:
        assert self.complete(project, "playbook run ", cwd=tmp_path) == set()

    def complete(self, project: Project, words: str, cwd: Path | None = None) -> set[str]:
        env = {
            "_PLAYBOOK_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split(" ")) - 1),
        }
        done = project.playbook(env=env, cwd=cwd)
        assert done.err == ""
        return {line.partition(",")[2] for line in done.out.split()}
