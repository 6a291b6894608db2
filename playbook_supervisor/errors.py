"""Every way in which this program says no, on one page.

An error says what, where and how to mend it, and carries a stable code. The family of the code
decides the exit code. `CODES` is what `docs/errors.md` is generated from.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import ClassVar


TextPosition = tuple[int, int]
"""Line and column in a file, counted from 1."""


class PlaybookError(Exception):
    """The base of every error that we report (Catalyst E-7: `{code, message, guidance, cause?}`).

    `message` is one sentence and `guidance` says how to fix it. `source` is a file, folder or
    session, `position` a line and column in that file, `cause` the text of the underlying error.
    `details` are further lines for machines and `--json`; the message is clear without them.
    """

    exit_code: ClassVar[int] = 70

    def __init__(
        self,
        code: str,
        message: str,
        *,
        where: str = "",
        position: TextPosition | None = None,
        guidance: str = "",
        cause: str = "",
        details: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.source = where
        self.position = position
        self.guidance = guidance or CODES.get(code, "")
        self.cause = cause
        self.details = details

    @property
    def where(self) -> str:
        """`file:line:col`, a path, a session, or an empty string."""
        return ":".join(map(str, (self.source, *(self.position or ()))))

    def as_mapping(self) -> dict[str, str]:
        """The JSON shape of an error; `where` and `cause` only where there is one."""
        shape = {"code": self.code, "message": self.message, "guidance": self.guidance}
        if self.where:
            shape["where"] = self.where
        if self.cause:
            shape["cause"] = self.cause
        return shape


class CheckError(PlaybookError):
    """A file that a person wrote does not conform (exit 1)."""

    exit_code = 1


class ArgumentError(PlaybookError):
    """What was asked for on the command line or by a caller is not possible (exit 1)."""

    exit_code = 1


class StateError(PlaybookError):
    """A session is not in the state that the request needs, or cannot be trusted (exit 3)."""

    exit_code = 3


class PolicyError(PlaybookError):
    """The project's policies do not let this person, or this program, do it (exit 3)."""

    exit_code = 3


class StorageError(PlaybookError):
    """The disk refused; what stood there before still stands (exit 3)."""

    exit_code = 3


class GitError(PlaybookError):
    """Git, or the lack of it, stands in the way (exit 3)."""

    exit_code = 3


class AgentError(PlaybookError):
    """The agent could not be had, or its work failed (exit 2)."""

    exit_code = 2


class ConditionError(PlaybookError):
    """A condition does not hold or could not be asked (exit 2)."""

    exit_code = 2


def naming(said: str, session: str) -> str:
    """The same, with that id behind each command that may mean another session without one."""
    if not session:
        return said
    import re

    return re.sub(_MEANS_ONE, rf"\g<0> {session}", said)


_MEANS_ONE = r"\bplaybook (?:abort|answer|pause|repair|resume)\b(?! [0-9]{8}-)"

CODES: dict[str, str] = {
    # what a person wrote
    "PB-CHECK-YAML": "Mend the YAML at the place named; one document, no tags, anchors or tabs.",
    "PB-CHECK-HOSTILE": "Playbooks are small plain YAML; take the construct out.",
    "PB-CHECK-SCHEMA": "Write one of the allowed keys and values; `playbook schema` prints them.",
    "PB-CHECK-RULE": "Mend the rule named; docs/format.md explains each.",
    "PB-CHECK-LINT-ASKS": "Run that command yourself, before the playbook.",
    "PB-CHECK-LINT-FEATURE": "Declare the arg `feature`.",
    "PB-CHECK-LINT-GATE": "Give the publishing step `gate_always`.",
    "PB-CHECK-LINT-NAME": "Give the file and the playbook one name.",
    "PB-CHECK-LINT-ORDER": "Move the step that provides it before the one that needs it.",
    "PB-CHECK-LINT-RETRY": "Take a trigger out, or write `gate` or `stop`.",
    "PB-CHECK-LINT-TRIGGER": "Give the step postconditions, or take the trigger out.",
    "PB-CHECK-LINT-UNSEEN": "Name a condition that holds once the work is done.",
    "PB-CHECK-VERSION": 'Write `version: "1.0"`.',
    "PB-CHECK-INVALID": "Run `playbook check FILE` and mend what it lists.",
    "PB-CHECK-CONFIG": "Mend `.playbooks/config.yaml`; docs/config.md shows every key.",
    "PB-CHECK-POLICY": "Mend the policy at the place named; docs/policies.md shows every key.",
    "PB-CHECK-POLICY-UNUSED": "Correct the pattern, or take the rule out.",
    "PB-CHECK-SETTINGS": "Mend the client's settings at the place named: plain JSON, no comments.",
    "PB-CHECK-COMMAND": "Install the command, or correct its name in the playbook.",
    "PB-CHECK-STALE": "Run `playbook index`, then `git add .playbooks/_index.yaml`.",
    # what was asked for
    "PB-ARG-USAGE": "See `playbook --help`.",
    "PB-ARG-INVALID": "Give the arguments as the message shows.",
    "PB-ARG-AGENT": "Write --agent exec:PROGRAM or script:FILE, or name it in config.yaml.",
    "PB-ARG-FEATURE": "Name the feature by its number or its folder, as in `013`.",
    "PB-ARG-PLAYBOOK": "`playbook list` shows what there is.",
    "PB-ARG-STEP": "`playbook show` lists the steps.",
    "PB-ARG-ANSWER": "Answer with one of the choices that the question names.",
    "PB-ARG-BASE": "Name a commit: a branch, a tag or an id; without --base it is HEAD.",
    "PB-ARG-BRANCH": "Give --branch a name that git allows and that no other branch is in.",
    # the state of things
    "PB-STATE-NO-SESSION": "Begin one: `playbook run PLAYBOOK FEATURE`.",
    "PB-STATE-OPEN": "Resume it, abort it, or begin in a second worktree: `playbook start`.",
    "PB-STATE-DRIVEN": "Wait for it, or end the process that drives it.",
    "PB-STATE-BUSY": "Another process holds the session for longer than it should; try again.",
    "PB-STATE-REFUSED": "`playbook next` prints what is outstanding.",
    "PB-STATE-NO-GATE": "`playbook status` shows what the session waits for.",
    "PB-STATE-ELSEWHERE": "Change into the worktree that is named, and repeat it there.",
    "PB-STATE-NO-WORKTREE": "`playbook status --all` shows where each session lives.",
    "PB-STATE-ENDED": "Begin a new session; `playbook resume --retry` takes up a failed one.",
    "PB-STATE-CORRUPT": "`playbook repair` shows the difference and can put the copy back.",
    "PB-STATE-NEWER": "Upgrade playbook: `uv tool upgrade playbook-supervisor`.",
    "PB-STATE-TAMPERED": "`playbook repair` shows it; --take accepts it, --restore undoes it.",
    "PB-STATE-DIVERGED": "The journal and the playbook disagree; `playbook repair` shows where.",
    "PB-STATE-INTERRUPTED": "`playbook resume` runs the step again.",
    "PB-STATE-NOT-STARTED": "Another step of the group failed first; `playbook resume --retry`.",
    "PB-STATE-ABORTED": "Begin a new session.",
    "PB-STATE-NO-REPOSITORY": "Change into a git repository, or `git init` one.",
    "PB-STATE-NOT-INITIALISED": "Run `playbook init`.",
    "PB-STATE-NO-PLAYBOOK": "Put the playbook that it ran beside session.yaml, as playbook.yaml.",
    "PB-STATE-SPECKIT": "Switch to the branch that the message names.",
    "PB-STATE-HUMAN-ONLY": "Say it at the client's own prompt, or in a terminal of your own.",
    "PB-STATE-NO-HOOKS": "Start Claude Code at the repository's root; type /playbook.run there.",
    # conditions
    "PB-COND-PRECONDITION": "Provide what is missing, then `playbook resume --retry`.",
    "PB-COND-POSTCONDITION": "Mend it, or run the step again: `playbook resume --retry`.",
    "PB-COND-TRIGGER": "Answer the gate; the finding stands in the report named.",
    "PB-COND-UNKNOWN": "`playbook probe --help` lists the conditions and triggers.",
    # agents and executors
    "PB-AGENT-NONE": "Install Claude Code, or name an agent: --agent exec:PROGRAM.",
    "PB-AGENT-FAILED": "The agent's last lines say why; mend it and run the step again.",
    "PB-AGENT-NO-RECEIPT": "Retry the step, or run the command by hand and continue.",
    "PB-AGENT-CRASHED": "The agent died; `playbook resume --retry` runs the step again.",
    "PB-AGENT-TIMEOUT": "Give it more time (--timeout, --idle-timeout), or split the step.",
    "PB-AGENT-API": "Try again later: `playbook resume --retry`.",
    "PB-AGENT-BUDGET": "Raise the limit: `playbook resume --retry` with --max-cost-usd and so on.",
    "PB-AGENT-COMMAND": "Install the command where Claude Code looks for it, or correct its name.",
    "PB-AGENT-EMPTY": "Mend the command or the hook that the message names.",
    "PB-AGENT-LIMIT": "`playbook resume --retry` then; `agents.claude.wait_for_limit: true` waits.",
    "PB-AGENT-PERMISSION": "Add the rule to `agents.claude.allowed_tools` in config.yaml.",
    "PB-AGENT-REFUSED": "Say it differently in the command, or give the step another model.",
    "PB-AGENT-SCRIPT": "Mend the script file of the embedded agent.",
    # what the project insists on
    "PB-POLICY-ANSWER": "One of those people answers, from any terminal; the gate stays open.",
    "PB-POLICY-SKIP": "Begin where those steps run, or let one of those people say --from.",
    "PB-POLICY-TIGHTENS": "Nothing: a session of this playbook runs as the policy asks.",
    # the machine
    "PB-IO-WRITE": "Make room or permission, then repeat; nothing was half-written.",
    "PB-IO-READ": "Make the file readable, then repeat.",
    "PB-IO-ESCAPE": "Paths stay inside the repository, symbolic links included.",
    "PB-IO-PROGRAM": "Install the program, or put it on PATH.",
    "PB-GIT-FAILED": "Git's own message says why.",
    "PB-GIT-DIRTY": "Commit or stash the changes: a new worktree would not have them.",
    "PB-GIT-BASE": "Commit it there, or name the branch that has it: --base BRANCH.",
    "PB-GIT-TAKEN": "Choose another place or another branch.",
    "PB-GIT-UNFINISHED": "Settle what is named, then repeat; --force throws it away.",
    "PB-GIT-COMMIT": "Commit the session's folder yourself; `commit_sessions: never` ends this.",
    "PB-GIT-PUSH": "`git push` when it suits you; `push_sessions: false` ends this.",
    # ourselves
    "PB-BUG": "Please report it with the file named.",
}
"""Every stable code with its cure, by family."""
