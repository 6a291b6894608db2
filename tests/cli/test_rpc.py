"""The run and resume contract: requests on stdin, envelopes on stdout, and tokens."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support.scratch_project import Project

import playbook_supervisor
from cli.scripts import conforms
from cli.terminal import Terminal
from playbook_supervisor.commands.api.rpc import read_request
from playbook_supervisor.errors import ArgumentError, StorageError
from playbook_supervisor.project.playbooks.schema import schema_text
from playbook_supervisor.records import replace

SEED = """\
name: inbox-triage
args:
  tag:
    default: "family"
steps:
  - id: collect
    command: cli bin/inbox list --json
    output: json
  - id: approve
    command: cli bin/inbox apply --approve
    stdin: $collect.stdout
    approval: required
  - id: execute
    command: cli bin/inbox apply --execute
    stdin: $collect.stdout
    condition: $approve.approved
"""
"""A workflow file as in the seed."""
INBOX = """\
#!/bin/sh
# Stands in for a mail program: lists messages, and notes each change that it was asked for.
case "$1" in
  list) echo '[{"id": 7, "from": "Ada"}]' ;;
  slow) echo begun >>changes; sleep 600 ;;
  fail) test -e mended && echo mended && exit 0; echo "the server is away" >&2; exit 3 ;;
  long) i=0; while [ $i -lt 2000 ]; do echo "line $i of a long list"; i=$((i+1)); done ;;
  tell) echo "$2" ;;
  *) echo "$@" >>changes; cat >>changes; echo done ;;
esac
"""
TRIAGE = """\
name: inbox-triage
description: Sort the inbox
version: "1.1"
args:
  - {name: tag, description: The tag that sorted messages get, required: false, default: family}
steps:
  - {id: collect, command: cli bin/inbox list, autonomy: auto, error_policy: stop, output: json}
  - id: apply
    command: "cli bin/inbox tag {{tag}}"
    stdin: $collect.stdout
    approval: required
    autonomy: auto
    error_policy: stop
"""
SEED_RUN = {
    "action": "run",
    "pipeline": "inbox-triage",
    "argsJson": '{"tag":"family"}',
    "cwd": ".",
    "timeoutMs": 30000,
    "maxOutputBytes": 512000,
}
"""As in the seed, but for the values of `pipeline` and `cwd`."""
SEED_PAUSED = {
    "ok": True,
    "status": "needs_approval",
    "output": [],
    "requiresApproval": {"prompt": "Apply changes?", "items": [], "resumeToken": "..."},
}


@pytest.fixture
def inbox(project: Project) -> Project:
    """A project with a mail program and a playbook that uses it."""
    project.write("bin/inbox", INBOX).chmod(0o755)
    project.write(".playbooks/playbooks/inbox-triage.yaml", TRIAGE)
    project.commit("Sort the inbox")
    return project


def one_step(command: str, extra: str = "") -> str:
    return (
        'name: one\ndescription: One step\nversion: "1.1"\nargs: []\nsteps:\n'
        f"  - {{id: only, command: {command}, autonomy: auto, error_policy: stop{extra}}}\n"
    )


def ask(project: Project, request: Any, *, apart: bool = False, **options: Any) -> Any:
    """The envelope that answers a request; it conforms to a schema, and the exit code is 0.

    With `apart`, a process of its own answers: it may be interrupted anywhere.
    """
    text = request if isinstance(request, str) else json.dumps(request)
    playbook = project.process if apart else project.playbook
    done = playbook("rpc", input=text, **options)
    assert done.code == 0, done.err
    assert "Traceback" not in done.err
    return conforms("run" if "ending" in done.json else "error", done.json)


def test_a_path_of_thousands_of_characters_gets_a_short_answer(inbox: Project) -> None:
    long, deep = "a" * 6000, "/" + "a/" * 3000
    for request in (
        {"action": "run", "pipeline": "inbox-triage", "cwd": deep},
        {"action": "run", "pipeline": long},
        {"action": "resume", "approve": True, "token": long},
    ):
        envelope = ask(inbox, request)
        assert envelope["error"]["code"].startswith(("PB-IO-", "PB-ARG-"))
        assert len(json.dumps(envelope)) < 4000


def resume(project: Project, token: str, *, approve: bool, **more: Any) -> Any:
    return ask(project, {"action": "resume", "token": token, "approve": approve, **more})


def paused(project: Project) -> Any:
    """The envelope of a run that waits at its gate."""
    return ask(project, SEED_RUN)


def token_of(envelope: Any) -> str:
    token: str = (envelope.get("requiresApproval") or envelope)["resumeToken"]
    return token


def changes(project: Project) -> str:
    file = project.root / "changes"
    return file.read_text() if file.exists() else ""


class TestAnEnvelope:
    def test_has_the_keys_of_the_contract(self, inbox: Project) -> None:
        """tyr 6, 8, 9, 10, 22, 23: run, pause, approve; the seed's examples field by field."""
        conforms("request", SEED_RUN)
        waits = paused(inbox)
        for key, value in SEED_PAUSED.items():
            assert type(waits[key]) is type(value)
        approval = waits["requiresApproval"]
        assert approval.keys() == SEED_PAUSED["requiresApproval"].keys()  # type: ignore[attr-defined]
        assert (waits["ok"], waits["status"]) == (True, "needs_approval")
        assert waits["output"] == [{"id": 7, "from": "Ada"}]
        assert "apply" in approval["prompt"]
        assert any('"from": "Ada"' in item for item in approval["items"])
        assert changes(inbox) == ""

        request = {"action": "resume", "token": token_of(waits), "approve": True}
        done = ask(inbox, conforms("request", request))
        assert (done["ok"], done["status"], done["output"]) == (True, "ok", ["done"])
        assert not {"requiresApproval", "resumeToken", "error"} & done.keys()
        assert changes(inbox).startswith("tag family")
        assert inbox.playbook("audit").code == 0

    def test_says_cancelled_once_it_is_denied(self, inbox: Project) -> None:
        """tyr 9, 22: no further side effects."""
        waits = paused(inbox)
        denied = resume(inbox, token_of(waits), approve=False)
        assert (denied["ok"], denied["status"], denied["ending"]) == (True, "cancelled", "aborted")
        assert changes(inbox) == ""
        assert inbox.manifest()["status"] == "aborted"
        assert inbox.playbook("audit").code == 0

    def test_of_a_failure_has_a_structured_error_and_a_token(self, inbox: Project) -> None:
        """tyr 11: the token runs the failed step again, or ends the session."""
        failed = ask(inbox, {"action": "run", "pipeline": one_step("cli bin/inbox fail")})
        assert (failed["ok"], failed["ending"]) == (False, "failed")
        assert failed["error"]["code"] == "PB-STEP-FAILED"
        assert failed["error"]["guidance"]
        assert failed["error"]["step"] == "only"
        assert "status" not in failed
        again = resume(inbox, token_of(failed), approve=True)
        assert (again["ok"], again["error"]["code"]) == (False, "PB-STEP-FAILED")
        inbox.write("mended", "")
        mended = resume(inbox, token_of(again), approve=True)
        assert (mended["status"], mended["output"]) == ("ok", ["mended"])

    def test_of_a_condition_that_does_not_hold_says_what_to_do(self, inbox: Project) -> None:
        """The journal has no guidance of its own for it."""
        text = one_step("cli bin/inbox list", ', postconditions: [{file_exists: "made.txt"}]')
        error = ask(inbox, {"action": "run", "pipeline": text})["error"]
        assert (error["code"], error["step"]) == ("PB-COND-POSTCONDITION", "only")
        assert error["guidance"].startswith("Fix it, or run the step again: `playbook resume 2")

    def test_is_printed_by_run_and_resume_too(self, inbox: Project) -> None:
        """tyr 9: one shape. Asking again gives the same token."""
        ran = inbox.playbook("run", "inbox-triage", "--json")
        again = inbox.playbook("resume", "--json")
        assert (ran.code, again.code) == (4, 4)
        token = token_of(conforms("run", ran.json))
        assert token_of(conforms("run", again.json)) == token
        done = inbox.playbook("resume", "--token", token, "--approve", "--json")
        assert (done.code, done.json["status"], done.json["output"]) == (0, "ok", ["done"])

    def test_never_holds_a_secret(self, inbox: Project) -> None:
        env = {"MAIL_TOKEN": "hunter2-hunter2"}
        said = ask(inbox, {"action": "run", "pipeline": LEAKS}, env=env)
        assert said["status"] == "ok"
        assert "hunter2" not in json.dumps(said)
        assert "[redacted]" in said["output"][0]

    def test_has_the_last_words_if_the_output_is_gone(self, inbox: Project) -> None:
        waits = paused(inbox)
        (inbox.root / ".git/playbook" / waits["session"] / "output.json").unlink()
        again = inbox.playbook("resume", "--json").json
        assert again["output"] == ['[{"id": 7, "from": "Ada"}]']

    def test_of_a_paused_run_is_a_failure_with_a_token(self, inbox: Project) -> None:
        ran = playbook_supervisor.run("inbox-triage", cwd=inbox.root)
        said = playbook_supervisor.envelope(replace(ran, why="paused"))
        assert (said["ok"], said["error"]["code"]) == (False, "PB-STATE-PAUSED")
        assert resume(inbox, token_of(said), approve=True)["status"] == "ok"

    def test_has_cut_outputs(self, inbox: Project) -> None:
        """tyr 25: `maxOutputBytes` holds for each step, and the cut is marked."""
        request = {"action": "run", "pipeline": one_step("cli bin/inbox long")}
        whole = ask(inbox, request)
        assert len(whole["output"]) == 2000
        cut = ask(inbox, {**request, "maxOutputBytes": 1000})
        text = "\n".join(cut["output"])
        assert "bytes left out" in text
        assert len(text.encode()) < 1100


LEAKS = one_step("cli printenv MAIL_TOKEN")


class TestARequest:
    @pytest.mark.parametrize(
        ("request_", "code", "said"),
        [
            ("", "PB-ARG-REQUEST", "not JSON"),
            ('{"action": "run", "action": "run"}', "PB-ARG-REQUEST", "'action' twice"),
            ({"action": "rum"}, "PB-ARG-REQUEST", "did you mean run?"),
            ({"action": "run"}, "PB-ARG-REQUEST", "pipeline is missing"),
            ({"action": "run", "pipeline": "x", "cwdd": "."}, "PB-ARG-REQUEST", "did you mean cwd"),
            ({"action": "resume", "token": "t", "approve": 1}, "PB-ARG-REQUEST", "true or false"),
            ({**SEED_RUN, "timeoutMs": 0}, "PB-ARG-REQUEST", "timeoutMs must be a whole number"),
            ({**SEED_RUN, "argsJson": "[1]"}, "PB-ARG-REQUEST", "argsJson is not a JSON object"),
            ({**SEED_RUN, "argsJson": '{"a b": 1}'}, "PB-ARG-INVALID", "no arg can be called"),
            ({**SEED_RUN, "argsJson": '{"tga": 1}'}, "PB-ARG-INVALID", "did you mean tag?"),
            ({**SEED_RUN, "cwd": "../.."}, "PB-IO-ESCAPE", "leads outside"),
            ({**SEED_RUN, "pipeline": "/etc/passwd"}, "PB-IO-ESCAPE", "not a file of this"),
        ],
    )
    def test_that_is_wrong_is_refused_and_begins_nothing(
        self, inbox: Project, request_: Any, code: str, said: str
    ) -> None:
        """tyr 6, 7, 26."""
        refused = ask(inbox, request_)
        assert (refused["ok"], refused["error"]["code"], refused["output"]) == (False, code, [])
        assert said in refused["error"]["message"]
        assert inbox.sessions == []

    def test_has_a_limited_size(self, inbox: Project) -> None:
        refused = ask(inbox, json.dumps({"action": "run", "pipeline": "x" * 5_000_000}))
        assert "larger than" in refused["error"]["message"]

    def test_takes_args_of_every_type_of_json(self, inbox: Project) -> None:
        """tyr 6: each value is bound as its text; a number stays as it was written."""
        values = {"tag": 1.5, "flag": True, "list": ["a", 2], "none": None, "text": "été"}
        args = "".join(f"  - {{name: {key}, description: x, required: false}}\n" for key in values)
        text = one_step("cli bin/inbox tell {{tag}}|{{flag}}|{{list}}|{{none}}|{{text}}")
        text = text.replace("args: []\n", f"args:\n{args}")
        text = text.replace("command: cli", 'command: "cli').replace("{{text}}", '{{text}}"')
        argument = json.dumps(values).replace("1.5", "1.50")
        said = ask(inbox, {"action": "run", "pipeline": text, "argsJson": argument})
        assert said["output"] == ['1.50|true|["a",2]||été']

    def test_may_hold_the_playbook(self, inbox: Project) -> None:
        """tyr 7: the text is kept with the session."""
        text = one_step("cli bin/inbox list", ", output: json")
        said = ask(inbox, {"action": "run", "pipeline": text})
        assert (said["status"], said["output"]) == ("ok", [{"id": 7, "from": "Ada"}])
        assert (inbox.session / "playbook.yaml").read_text() == text

    @pytest.mark.parametrize("relative", [True, False])
    def test_may_name_a_file(self, inbox: Project, *, relative: bool) -> None:
        """tyr 7: a path inside the workspace, also an absolute one."""
        file = Path(".playbooks/playbooks/inbox-triage.yaml")
        path = file if relative else inbox.root / file
        assert ask(inbox, {"action": "run", "pipeline": str(path)})["status"] == "needs_approval"

    def test_may_hold_a_workflow_file_of_the_contract(self, inbox: Project) -> None:
        """tyr 7, 12, 24: it is read like a file of that form."""
        waits = ask(inbox, {"action": "run", "pipeline": SEED, "argsJson": "{}"})
        assert "apply --approve" in waits["requiresApproval"]["prompt"]
        assert resume(inbox, token_of(waits), approve=True)["status"] == "ok"
        assert "apply --execute" in changes(inbox)

    def test_with_a_wrong_playbook_lists_its_problems(self, inbox: Project) -> None:
        text = one_step("cli bin/inbox list").replace("error_policy: stop", "error_policy: stopp")
        error = ask(inbox, {"action": "run", "pipeline": text})["error"]
        assert error["code"] == "PB-CHECK-INVALID"
        assert error["where"].startswith("pipeline.yaml:6:")
        assert "details" in error["guidance"]
        undefined = one_step("cli bin/inbox list", ", postconditions: [command_succeeds: lint]")
        error = ask(inbox, {"action": "run", "pipeline": undefined})["error"]
        assert error["code"] == "PB-CHECK-UNDEFINED"
        assert inbox.sessions == []

    def test_works_in_a_folder_of_the_workspace(self, inbox: Project) -> None:
        """tyr 26: symbolic links are resolved."""
        inbox.write("below/mine.yaml", one_step("cli bin/inbox list"))
        (inbox.root / "link").symlink_to("below")
        (inbox.root / "out").symlink_to("/tmp")
        request = {"action": "run", "pipeline": "./mine.yaml"}
        assert ask(inbox, {**request, "cwd": "link"})["status"] == "ok"
        assert ask(inbox, {**request, "cwd": str(inbox.root / "below")})["status"] == "ok"
        assert ask(inbox, {**request, "cwd": "out"})["error"]["code"] == "PB-IO-ESCAPE"

    def test_from_a_terminal_is_a_mistake_of_usage(self, inbox: Project) -> None:
        done = inbox.playbook("rpc", "--pipeline")
        assert (done.code, conforms("error", done.json)["ok"]) == (1, False)
        later = inbox.playbook("--log-level", "error", "rpc", "--pipeline")
        assert (later.code, later.json["ok"]) == (1, False)


class TestATime:
    def test_that_is_over_ends_the_work_and_leaves_the_session(self, inbox: Project) -> None:
        """tyr 6, 25: the group is killed, and a token goes on."""
        text = one_step("cli bin/inbox slow")
        late = ask(inbox, {"action": "run", "pipeline": text, "timeoutMs": 1500})
        assert (late["ok"], late["error"]["code"]) == (False, "PB-STATE-DEADLINE")
        assert late["ending"] == "interrupted"
        assert inbox.manifest()["status"] == "in_progress"
        ended = resume(inbox, token_of(late), approve=False)
        assert ended["status"] == "cancelled"

    def test_that_is_over_before_the_work_leaves_the_token(self, inbox: Project) -> None:
        token = token_of(paused(inbox))
        request = {"action": "resume", "token": token, "approve": True, "timeoutMs": 1}
        late = ask(inbox, request, apart=True)
        assert (late["error"]["code"], token_of(late)) == ("PB-STATE-DEADLINE", token)
        assert resume(inbox, token, approve=True)["status"] == "ok"


class TestAToken:
    def test_works_once(self, inbox: Project) -> None:
        token = token_of(paused(inbox))
        assert resume(inbox, token, approve=True)["ok"]
        for approve in (True, False):
            refused = resume(inbox, token, approve=approve)
            assert refused["error"]["code"] == "PB-STATE-TOKEN-USED"
        assert changes(inbox).count("tag") == 1

    def test_that_is_forged_or_foreign_changes_nothing(self, inbox: Project) -> None:
        token = token_of(paused(inbox))
        before = (inbox.session / "journal.yaml").read_bytes()
        session, place, nonce = token.split("~")
        turned = nonce[:-1] + ("0" if nonce[-1] != "0" else "1")
        for forged, code in [
            (f"{session}~{place}~{turned}", "PB-STATE-TOKEN-FOREIGN"),
            (f"{session}~session~{nonce}", "PB-STATE-TOKEN-FOREIGN"),
            (f"20200101-abc~{place}~{nonce}", "PB-STATE-TOKEN-FOREIGN"),
            (f"{token}\n", "PB-ARG-TOKEN"),
            (f"../{token}", "PB-ARG-TOKEN"),
            (token.upper(), "PB-ARG-TOKEN"),
            ("--approve", "PB-ARG-TOKEN"),
            ("x" * 1_000_000, "PB-ARG-TOKEN"),
        ]:
            refused = resume(inbox, forged, approve=True)
            assert refused["error"]["code"] == code, forged[:80]
        assert (inbox.session / "journal.yaml").read_bytes() == before
        assert resume(inbox, token, approve=True)["status"] == "ok"

    @pytest.mark.parametrize(
        "options",
        [
            ["--approve"],
            ["--token", "x", "--approve", "--deny"],
            ["20260219-a7k", "--token", "x", "--approve"],
        ],
    )
    def test_needs_one_decision(self, inbox: Project, options: list[str]) -> None:
        refused = inbox.playbook("resume", *options)
        assert (refused.code, "PB-ARG-USAGE" in refused.err) == (1, True)

    def test_stays_with_its_clone(self, inbox: Project, tmp_path: Path) -> None:
        token = token_of(paused(inbox))
        inbox.git("add", "--all")
        inbox.git("commit", "-q", "-m", "Keep the session")
        inbox.git("clone", "-q", ".", str(tmp_path / "clone"))
        clone = Project(tmp_path / "clone", inbox.home, inbox.env)
        refused = resume(clone, token, approve=True)
        assert refused["error"]["code"] == "PB-STATE-TOKEN-FOREIGN"
        assert clone.playbook("status").code == 0
        nowhere = ask(inbox, {"action": "resume", "token": token, "approve": True}, cwd=tmp_path)
        assert nowhere["error"]["code"] == "PB-STATE-NO-REPOSITORY"

    def test_of_a_failure_is_refused_at_a_gate_and_after_the_end(self, inbox: Project) -> None:
        text = TRIAGE.replace("inbox list", "inbox fail").replace(", output: json", "")
        token = token_of(ask(inbox, {"action": "run", "pipeline": text}))
        inbox.write("mended", "")
        assert inbox.playbook("resume", "--retry").code == 4
        refused = resume(inbox, token, approve=False)["error"]
        assert (refused["code"], "apply#1?1" in refused["message"]) == (
            "PB-STATE-TOKEN-STALE",
            True,
        )
        assert inbox.playbook("abort").code == 0
        assert "is aborted" in resume(inbox, token, approve=True)["error"]["message"]

    def test_that_a_policy_refuses_stays_good(self, inbox: Project) -> None:
        policy = "match: {playbook: inbox-triage}\nanswered_by: ['grace@example.org']\n"
        inbox.write(".playbooks/policies/people.yaml", policy)
        inbox.commit("Let Grace answer")
        waits = paused(inbox)
        refused = resume(inbox, token_of(waits), approve=True)
        assert refused["error"]["code"] == "PB-POLICY-ANSWER"
        assert changes(inbox) == ""
        inbox.git("config", "user.email", "grace@example.org")
        assert resume(inbox, token_of(waits), approve=True)["status"] == "ok"

    def test_whose_work_cannot_begin_is_replaced(self, inbox: Project) -> None:
        """The decision is recorded: what follows needs a token of the session."""
        token = token_of(paused(inbox))
        refused = inbox.playbook(
            "resume", "--token", token, "--approve", "--json", "--agent", "nonsense:x"
        )
        assert (refused.code, conforms("error", refused.json)["ok"]) == (1, False)
        assert refused.json["session"] == inbox.session.name
        again = refused.json["resumeToken"]
        assert again != token
        assert resume(inbox, again, approve=True)["status"] == "ok"

    def test_reaches_a_gate_of_a_child(self, inbox: Project) -> None:
        """The output of a child is that of the run."""
        top = one_step("playbook inbox-triage")
        waits = ask(inbox, {"action": "run", "pipeline": top})
        assert waits["gate"]["id"] == "only#1/apply#1?1"
        assert token_of(waits).split("~")[1] == "only.1.apply.1.1"
        assert waits["output"] == [{"id": 7, "from": "Ada"}]
        done = resume(inbox, token_of(waits), approve=True)
        assert (done["status"], done["output"]) == ("ok", ["done"])


class TestTwoRequests:
    def test_with_one_token_carry_it_out_once(self, inbox: Project) -> None:
        token = token_of(paused(inbox))
        command = ("resume", "--token", token, "--approve", "--json")
        with inbox.spawn(*command) as first, inbox.spawn(*command) as second:
            outs = [json.loads(process.communicate()[0]) for process in (first, second)]
        won = [out for out in outs if out["ok"]]
        (lost,) = [out for out in outs if not out["ok"]]
        assert [each["status"] for each in won] == ["ok"]
        assert lost["error"]["code"] in ("PB-STATE-TOKEN-USED", "PB-STATE-DRIVEN")
        assert changes(inbox).count("tag") == 1


class TestARequestThatIsEnded:
    def started(self, project: Project) -> Iterator[None]:
        """Wait until the slow step has begun."""
        while "begun" not in changes(project):
            time.sleep(0.01)
            yield

    def test_by_sigterm_answers_with_a_token(self, inbox: Project) -> None:
        request = {"action": "run", "pipeline": one_step("cli bin/inbox slow")}
        with inbox.spawn("rpc") as process:
            assert process.stdin
            process.stdin.write(json.dumps(request).encode())
            process.stdin.close()
            process.stdin = None
            for _ in self.started(inbox):
                assert process.poll() is None
            process.send_signal(signal.SIGTERM)
            out, _ = process.communicate()
        said = conforms("run", json.loads(out))
        assert (process.returncode, said["error"]["code"]) == (0, "PB-STATE-INTERRUPTED")
        assert resume(inbox, token_of(said), approve=False)["status"] == "cancelled"

    def test_by_sigkill_can_be_repeated_with_its_token(self, inbox: Project) -> None:
        """The decision is recorded before the work begins, and the answer never came."""
        text = one_step("cli bin/inbox slow", ", approval: required")
        token = token_of(ask(inbox, {"action": "run", "pipeline": text}))
        with inbox.spawn("resume", "--token", token, "--approve", "--json") as process:
            for _ in self.started(inbox):
                assert process.poll() is None
            os.kill(process.pid, signal.SIGKILL)
            process.communicate()
        assert resume(inbox, token, approve=False)["error"]["code"] == "PB-STATE-TOKEN-USED"
        late = resume(inbox, token, approve=True, timeoutMs=1500)
        assert late["error"]["code"] == "PB-STATE-DEADLINE"
        assert resume(inbox, token, approve=True)["error"]["code"] == "PB-STATE-TOKEN-USED"
        assert resume(inbox, token_of(late), approve=False)["status"] == "cancelled"


@given(data=st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
@example(data=b'{"action": "resume", "token": "\\u0000", "approve": true}')
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_get_an_answer(tmp_path: Path, data: bytes) -> None:
    with suppress(ArgumentError, StorageError):  # any other error fails the test
        read_request(data, tmp_path)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=5,
)
KEYS = sorted(json.loads(schema_text("request"))["properties"])


@given(request=st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=9), JSON, max_size=5))
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_request_is_read_only_if_it_conforms_to_its_schema(
    tmp_path: Path, request: dict[str, Any]
) -> None:
    try:
        read_request(json.dumps(request).encode(), tmp_path)
    except (ArgumentError, StorageError):
        return
    jsonschema.validate(request, json.loads(schema_text("request")))


@pytest.mark.measured
def test_no_request_is_read_from_a_terminal(inbox: Project) -> None:
    with Terminal(inbox, "rpc") as terminal:
        terminal.until("the request is read from stdin, which is a terminal")
        assert terminal.end() == 1
