"""Every error that we report, on one page.

An error says what is wrong, where, and how to fix it, and has a stable code. The class decides the
exit code. `docs/errors.md` is generated from `CODES`.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import ClassVar


TextPosition = tuple[int, int]
"""Line and column in a file, counted from 1."""


class PlaybookError(Exception):
    """The base of every error that we report.

    `message` is one sentence. `source` is a file, folder or session, `position` a line and column
    in that file, `cause` the text of the underlying error. `details` are further lines for
    machines and `--json`; the message is clear without them. `session` is the id for commands
    in the guidance, set where it is known, and `resume_token` what resumes that session.
    """

    exit_code: ClassVar[int] = 70

    def __init_subclass__(cls, *, exit_code: int) -> None:
        cls.exit_code = exit_code

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
        self.session = ""
        self.resume_token = ""
        self._guidance = guidance or _GUIDANCE.get(code, _UNKNOWN)
        self.cause = cause
        self.details = details

    @property
    def guidance(self) -> str:
        """The sentence that says how to fix it."""
        return with_session(self._guidance, self.session)

    @property
    def where(self) -> str:
        """`file:line:col`, a path, a session, or an empty string."""
        return ":".join(map(str, (self.source, *(self.position or ()))))

    def reword(self, change: Callable[[str], str]) -> None:
        """Change all of its texts, for instance to name places as their reader knows them."""
        self.message, self.source = change(self.message), change(self.source)
        self._guidance, self.cause = change(self._guidance), change(self.cause)
        self.details = tuple(change(each) for each in self.details)

    def as_mapping(self) -> dict[str, str]:
        """The error's form in JSON; `where` and `cause` are left out if empty."""
        shape = {"code": self.code, "message": self.message, "guidance": self.guidance}
        if self.where:
            shape["where"] = self.where
        if self.cause:
            shape["cause"] = self.cause
        return shape


class CheckError(PlaybookError, exit_code=1):
    """A file that a person wrote is not valid."""


class ArgumentError(PlaybookError, exit_code=1):
    """An argument of the command line or of a caller is not valid."""


class StateError(PlaybookError, exit_code=3):
    """The session's state does not allow the request, or cannot be trusted."""


class PolicyError(PlaybookError, exit_code=3):
    """A policy of the project does not allow this person or program to do it."""


class StorageError(PlaybookError, exit_code=3):
    """A file cannot be read or written; its former content is unchanged."""


class GitError(PlaybookError, exit_code=3):
    """Git failed, or the repository's state does not allow the request."""


class FleetError(PlaybookError, exit_code=3):
    """The fleet's database, its repositories or another worker do not allow the request."""


class AgentError(PlaybookError, exit_code=2):
    """The agent could not be started, or its work failed."""


class StepError(PlaybookError, exit_code=2):
    """A step that needs no agent failed."""


class ConditionError(PlaybookError, exit_code=2):
    """A condition does not hold or could not be evaluated."""


def with_session(template: str, session: str) -> str:
    """Fill in ` {session}`, so that a command names its session; without an id, leave it out."""
    return template.replace(" {session}", f" {session}" if session else "")


def guidance(code: str, session: str, own: str = "") -> str:
    """The guidance of an error, its `own` or that of its code, with commands for that session."""
    if own and own != CODES.get(code):
        return own
    return with_session(_GUIDANCE.get(code, _UNKNOWN), session)


_UNKNOWN = "Correct what the message names, then `playbook resume {session} --retry`."
"""The guidance of a code that is not ours, as a package's, and gives none."""

_GUIDANCE: dict[str, str] = {
    # files that people write
    "PB-CHECK-YAML": "Correct the YAML there: one document, no tags, no anchors, no tabs.",
    "PB-CHECK-HOSTILE": "Remove the construct: playbooks are small files of plain YAML.",
    "PB-CHECK-SCHEMA": "Use one of the allowed keys and values; `playbook schema` prints them.",
    "PB-CHECK-RULE": "Follow the rule that the message names.",
    "PB-CHECK-ALLOW": "Write `# playbook: allow CODE because REASON` there, or remove it.",
    "PB-CHECK-CHILD": "Correct the step, or the playbook that it runs.",
    "PB-CHECK-CYCLE": "Remove one of the steps, or give it a `when` that ends the repetition.",
    "PB-CHECK-DIALECT": "Write it as the message says; docs/dialects.md has what is translated.",
    "PB-CHECK-TRANSLATED": "`playbook import FILE` writes the playbook that it is read as.",
    "PB-CHECK-LINT-ASKS": "Run that command yourself, before the playbook.",
    "PB-CHECK-LINT-CODE": "Name a code that a failure of this step can have.",
    "PB-CHECK-LINT-FEATURE": "Declare the arg `feature`.",
    "PB-CHECK-LINT-GATE": "Give the publishing step `gate_always`.",
    "PB-CHECK-LINT-NAME": "Use the same name for the file and the playbook.",
    "PB-CHECK-LINT-ORDER": "Move the step that provides it before the one that needs it.",
    "PB-CHECK-LINT-REFUSED": "Give the file a name that does not begin like that.",
    "PB-CHECK-LINT-RETRY": "Remove the trigger, or set `error_policy` to `gate` or `stop`.",
    "PB-CHECK-LINT-TRIGGER": "Give the step postconditions, or remove the trigger.",
    "PB-CHECK-LINT-UNSEEN": "Name a condition that holds once the work is done.",
    "PB-CHECK-VERSION": 'Write `version: "1.0"`.',
    "PB-CHECK-INVALID": "Run `playbook check FILE` and fix what it lists.",
    "PB-CHECK-CONFIG": "Correct `.playbooks/config.yaml`; `playbook schema config` has every key.",
    "PB-CHECK-POLICY": "Correct the policy there; `playbook schema policy` describes every key.",
    "PB-CHECK-POLICY-UNUSED": "Correct the pattern, or remove the rule.",
    "PB-CHECK-DENIED": "Remove the rule from `permissions.deny` there, or narrow it down.",
    "PB-CHECK-SETTINGS": "Correct the client's settings there: plain JSON, without comments.",
    "PB-CHECK-ONE-WAY": "To run it in both ways, remove the key from its front matter.",
    "PB-CHECK-COMMAND": "Install the command, or correct its name in the playbook.",
    "PB-CHECK-NAMESPACE": "Use a namespace that there is, or install the package that provides it.",
    "PB-CHECK-AGENT": "Name an agent of the settings (`agents`), or one that is known.",
    "PB-CHECK-UNDEFINED": "Define it under `checks` in .playbooks/config.yaml.",
    "PB-CHECK-SECRET": "Write `{{secret:NAME}}` under `env` or `headers`, where NAME is an"
    " environment variable or a name under `secrets` in the config. If it is no secret, end the"
    " line with `# playbook: allow PB-CHECK-SECRET because REASON`.",
    "PB-CHECK-MACHINE": "Provide on this machine what the message names.",
    "PB-CHECK-STALE": "Run `playbook index`, then `git add .playbooks/_index.yaml`.",
    # arguments
    "PB-ARG-USAGE": "See `playbook help --all`.",
    "PB-ARG-INVALID": "Give the arguments as the message shows.",
    "PB-ARG-AGENT": "Use --agent exec:PROGRAM or script:FILE, or name it in config.yaml.",
    "PB-ARG-FEATURE": "Name the feature by its number or its folder, as in `013`.",
    "PB-ARG-PLAYBOOK": "`playbook list` shows the playbooks.",
    "PB-ARG-STEP": "`playbook show` lists the steps.",
    "PB-ARG-ANSWER": "Answer with one of the choices that the question names.",
    "PB-ARG-REQUEST": "Send one JSON object; `playbook schema request` describes it.",
    "PB-ARG-TOKEN": "Give the `resumeToken` of the last answer, whole and unchanged.",
    "PB-ARG-INBOX": "See `playbook inbox --help`.",
    "PB-ARG-BASE": "Name a commit: a branch, a tag or an id; without --base it is HEAD.",
    "PB-ARG-BRANCH": "Choose a name that git allows and that conflicts with no other branch.",
    # the state of a session
    "PB-STATE-NO-SESSION": "Begin one: `playbook run PLAYBOOK FEATURE`.",
    "PB-STATE-OPEN": "Resume it, abort it, or begin in a second worktree: `playbook start`.",
    "PB-STATE-BRANCH": "Check out the session's branch: `git switch BRANCH`.",
    "PB-STATE-DRIVEN": "Wait for it, or end the process that drives it.",
    "PB-STATE-BUSY": "Another process has locked the session for unusually long; try again.",
    "PB-STATE-REFUSED": "`playbook next` prints what is outstanding.",
    "PB-STATE-NO-GATE": "`playbook status` shows what the session waits for.",
    "PB-STATE-CHANGED": "Look at the gate as it is now, and answer again.",
    "PB-STATE-NO-EXTRA": "Install the extra with the command that the message names.",
    "PB-STATE-NO-LOG": "`playbook show` lists the attempts; logs are kept where they ran.",
    "PB-STATE-OLDER": (
        "Merge that branch or switch to it; `playbook repair {session} --take` takes this copy."
    ),
    "PB-STATE-ELSEWHERE": "Change into the worktree that the message names, and try again there.",
    "PB-STATE-NO-WORKTREE": "`playbook status --all` shows the worktree of each session.",
    "PB-STATE-ENDED": (
        "Begin a new session; `playbook resume {session} --retry` continues a failed one."
    ),
    "PB-STATE-CORRUPT": (
        "`playbook repair {session}` shows the difference and can restore the copy."
    ),
    "PB-STATE-NEWER": "Upgrade playbook: `uv tool upgrade playbook-supervisor`.",
    "PB-STATE-TAMPERED": (
        "`playbook repair {session}` shows the change; --take accepts it, --restore undoes it."
    ),
    "PB-STATE-UNCONFIRMED": (
        "A person must check it at a terminal: `playbook repair {session}`; --take accepts it."
    ),
    "PB-STATE-DIVERGED": (
        "The journal and the playbook disagree; `playbook repair {session}` shows where."
    ),
    "PB-STATE-INTERRUPTED": "`playbook resume {session}` runs the step again.",
    "PB-STATE-DEADLINE": "`playbook resume {session}` continues; allow it more time.",
    "PB-STATE-PAUSED": "`playbook resume {session}` continues.",
    "PB-STATE-TOKEN-FOREIGN": "Use it in the repository that made it, whole and unchanged.",
    "PB-STATE-TOKEN-STALE": "`playbook resume --json` of that session gives the token of now.",
    "PB-STATE-TOKEN-USED": "`playbook resume --json` of that session gives the token of now.",
    "PB-STATE-NOT-STARTED": (
        "Another step of the group failed first; `playbook resume {session} --retry`."
    ),
    "PB-STATE-KEPT": "`playbook abort {session}` ends it and keeps its journal.",
    "PB-STATE-ABORTED": "Begin a new session.",
    "PB-STATE-NO-REPOSITORY": "Change into a git repository, or `git init` one.",
    "PB-STATE-NOT-INITIALISED": "Run `playbook init`.",
    "PB-STATE-NO-PLAYBOOK": "Put the playbook that it ran beside session.yaml, as playbook.yaml.",
    "PB-STATE-SPECKIT": "Switch to the branch that the message names.",
    "PB-STATE-HUMAN-ONLY": "Type it at the client's own prompt, or in a terminal of your own.",
    "PB-STATE-NO-HOOKS": "Start Claude Code at the repository's root; type /playbook.run there.",
    # conditions
    "PB-COND-PRECONDITION": "Provide what is missing, then `playbook resume {session} --retry`.",
    "PB-COND-POSTCONDITION": "Fix it, or run the step again: `playbook resume {session} --retry`.",
    "PB-COND-CHECK": "Make the check end, and let it change only files that git ignores.",
    "PB-COND-SENT-BACK": "The next attempt is told what the person said.",
    "PB-COND-OUTPUT": "Provide it, or let a step make it: `playbook resume {session} --retry`.",
    "PB-COND-TRIGGER": "Answer the gate; the message names the report that contains the finding.",
    "PB-COND-UNTIL": "The next round is told what does not hold yet.",
    "PB-COND-WITNESSES": "Look at the changed tests, and accept them or send the step back.",
    "PB-COND-UNKNOWN": "`playbook probe --help` lists the conditions and triggers.",
    # agents and executors
    "PB-AGENT-NONE": "Install Claude Code, or name one of the agents that `playbook doctor` finds.",
    "PB-AGENT-FAILED": "The agent's last lines say why; fix that and run the step again.",
    "PB-AGENT-NO-RECEIPT": "Retry the step, or run the command by hand and continue.",
    "PB-AGENT-CRASHED": "The agent died; `playbook resume {session} --retry` runs the step again.",
    "PB-AGENT-TIMEOUT": "Give it more time (--timeout, --idle-timeout), or split the step.",
    "PB-AGENT-API": "Try again later: `playbook resume {session} --retry`.",
    "PB-AGENT-BUDGET": "Raise the limit, as in `playbook resume {session} --retry --max-turns N`.",
    "PB-AGENT-COMMAND": "Install the command where the agent looks for it, or correct its name.",
    "PB-AGENT-EMPTY": "Fix what the message names, or try the agent by hand, in its terminal.",
    "PB-AGENT-LOGIN": "Log in to the agent (`claude`, then /login), or correct its API key.",
    "PB-AGENT-HOOK": "Change the hook or the step: .claude/settings.json and plugins have hooks.",
    "PB-AGENT-OUTPUT": (
        "Let the step write less at once, or the agent more (CLAUDE_CODE_MAX_OUTPUT_TOKENS for "
        "Claude Code); `playbook resume {session} --retry`."
    ),
    "PB-AGENT-CONTEXT": "Split the step, or let it read less at once.",
    "PB-AGENT-ENDED": "`playbook show` has the agent's last words; `playbook resume --retry`.",
    "PB-AGENT-SILENT": "Give the step a postcondition that proves its work, or let it say a word.",
    "PB-AGENT-PROMPT": "Correct the prompt of the step, in the playbook or in its Markdown file.",
    "PB-AGENT-RATE": "Try again later: `playbook resume {session} --retry`.",
    "PB-AGENT-LIMIT": (
        "Try again after the reset; a session that begins with `wait_for_limit: true` for the "
        "agent, in config.yaml, waits for it."
    ),
    "PB-AGENT-PERMISSION": (
        "Add the rule to `allowed_tools` of the agent in config.yaml; "
        "`playbook resume {session} --retry --accept-config`."
    ),
    "PB-AGENT-REFUSED": "Reword the command, or give the step another model.",
    "PB-AGENT-SCRIPT": "Correct the script file of the embedded agent.",
    "PB-STEP-CHILD": "`playbook show` with the child session's id has its steps and its error.",
    "PB-STEP-CRASHED": "`playbook resume {session} --retry` runs the step again.",
    "PB-STEP-DATA": "Let the earlier step print what this one uses, or correct the reference.",
    "PB-STEP-DEPTH": "Let the playbooks call each other less deeply, or raise `limits.max_depth`.",
    "PB-STEP-UNDO": "Put the checkout in order, then `playbook resume --retry`.",
    "PB-STEP-ITEMS": "Correct the list, or `max`, and begin a new session.",
    "PB-STEP-FAILED": "Its last lines say why; fix that and run the step again.",
    "PB-STEP-FORGE": "gh's last lines say why; fix that and run the step again.",
    "PB-STEP-GIT": "Git's last lines say why; fix that and run the step again.",
    "PB-STEP-HTTP": "The answer says why; correct the request, or set `expect_status`.",
    "PB-STEP-INPUT": "Correct the step's command, or what it has under `with`.",
    "PB-STEP-MCP": "The server's own words say why; correct `arguments`, or mend the server.",
    "PB-STEP-NETWORK": "Check the address and the network, then run the step again.",
    "PB-STEP-OUTPUT": "Let the step print what `output` and `output_schema` promise.",
    "PB-STEP-PROGRAM": "Install the program, or put it on PATH.",
    "PB-STEP-SECRET": "Set that environment variable, or name a program for it under `secrets`.",
    "PB-STEP-TIMEOUT": "Raise `timeout_seconds` of the step or --timeout, or split the step.",
    # the fleet
    "PB-FLEET-DATABASE": "Start the database, or correct PLAYBOOK_FLEET; `playbook fleet doctor`.",
    "PB-FLEET-NOT-UP": "Run `playbook fleet up`; for an older schema `playbook fleet migrate`.",
    "PB-FLEET-NEWER": "Upgrade playbook here, for example `uv tool upgrade playbook-supervisor`.",
    "PB-FLEET-TAKEN": "Submit it again: it gets another id.",
    "PB-FLEET-ANSWERED": "`playbook fleet status` shows what waits now.",
    "PB-FLEET-OVERTAKEN": "Nothing to do: another worker continues the session.",
    "PB-FLEET-BRANCH": (
        "Look at what was pushed to the branch, make room for the session's commits, then "
        "`playbook fleet retry {session}`."
    ),
    "PB-FLEET-DIED": (
        "Look at what the step needs, such as its memory, and at the workers' logs, then "
        "`playbook fleet retry {session}`."
    ),
    "PB-FLEET-BRANCH-REFUSED": (
        "Let the repository's rules admit the branch, then `playbook fleet retry {session}`."
    ),
    "PB-FLEET-REFUSED": (
        "Give the account the right to read the repository and to push to it, or change the rule "
        "that the remote names; then try again."
    ),
    "PB-FLEET-REPOSITORY": "Use an https or ssh address without credentials.",
    "PB-FLEET-SETTINGS": "Correct worker.yaml; `playbook schema worker` describes every key.",
    "PB-FLEET-STUCK": "Correct what the message names, then `playbook fleet retry {session}`.",
    # policies
    "PB-POLICY-ANSWER": "One of those people must answer, from any terminal; the gate stays open.",
    "PB-POLICY-DENIED": "A person may change `allow` and `deny` in .playbooks/config.yaml.",
    "PB-POLICY-ISOLATION": "`playbook doctor --isolation` says what is isolated here.",
    "PB-POLICY-SKIP": "Begin where those steps run, or let one of those people use --from.",
    "PB-POLICY-TIGHTENS": "Nothing to do: sessions of this playbook run as the policy demands.",
    # files and programs
    "PB-IO-WRITE": "Free some space or fix the permissions, then try again.",
    "PB-IO-READ": "Make the file readable, then try again.",
    "PB-IO-ESCAPE": "Use paths inside the repository only; this includes symbolic links.",
    "PB-IO-LIMIT": "Raise the limit (`ulimit -a` shows them), or end other programs; try again.",
    "PB-IO-PROGRAM": "Install the program, or put it on PATH.",
    "PB-GIT-FAILED": "Git's own message says why.",
    "PB-GIT-DIRTY": "Commit or stash the changes: a new worktree would not have them.",
    "PB-GIT-BASE": "Commit it there, or name the branch that has it: --base BRANCH.",
    "PB-GIT-TAKEN": "Choose another place or another branch.",
    "PB-GIT-UNFINISHED": "Resolve what the message lists, then try again; --force discards it.",
    "PB-GIT-COMMIT": "Commit the session's folder yourself, or set `commit_sessions: never`.",
    "PB-GIT-REMOTE": "Check the address, the network and the credentials, then try again.",
    "PB-GIT-PUSH": "Run `git push` yourself, or set `push_sessions: false`.",
    # our own bugs
    "PB-BUG": "Please report it, and attach the file that the message names.",
}

CODES = {code: with_session(template, "") for code, template in _GUIDANCE.items()}
"""Every stable code with its guidance, by family."""

LASTING = frozenset(
    {
        "PB-AGENT-BUDGET",
        "PB-AGENT-COMMAND",
        "PB-AGENT-CONTEXT",
        "PB-AGENT-HOOK",
        "PB-AGENT-LIMIT",
        "PB-AGENT-LOGIN",
        "PB-AGENT-OUTPUT",
        "PB-AGENT-PERMISSION",
        "PB-POLICY-DENIED",
        "PB-POLICY-ISOLATION",
        "PB-STEP-INPUT",
        "PB-STEP-PROGRAM",
    }
)
"""Failures that another attempt would repeat, at the same cost."""
