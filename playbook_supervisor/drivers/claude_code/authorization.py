"""Who is speaking: a person, the client's hook, or a shell that a model commands.

A model's shell has the client among its ancestors, the client's variables in its environment, and
no terminal; a person's own terminal has none of the three. A session that is driven headless has no
client: there only the agents of `own_agents` may not decide. A process that forges its environment
and its command line cannot be told from the client.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from playbook_supervisor.drivers.claude_code import binding, hook_script
from playbook_supervisor.drivers.claude_code.binding import Binding
from playbook_supervisor.drivers.claude_code.marker import MARK
from playbook_supervisor.errors import PlaybookError, PolicyError, StateError
from playbook_supervisor.project.settings.config import Config
from playbook_supervisor.sessions.store.disk_store import DiskStore
from playbook_supervisor.system.disk.files import (
    ensure_folder,
    read_bytes,
    remove,
    write_atomically,
)
from playbook_supervisor.system.git.checkout import Checkout
from playbook_supervisor.system.process import ancestry
from playbook_supervisor.system.process.ancestry import Process

_PROC: Path = Path("/proc")
_IN_CLIENT = "CLAUDECODE"
_CONVERSATION = "CLAUDE_CODE_SESSION_ID"
_CLIENT = "CLAUDE_PID"
_AGENT_SUFFIX = "_agent"
"""The client's mark of an agent's process in `AI_AGENT`; a hook's ends with `_harness`."""
_SHELL = "Claude Code runs this shell"
_NO_TERMINAL = "there is no terminal here"
_RECEIVED = re.compile(r"(?:branch|checkout|clone|fetch|merge|pull|reset)\b")
"""The beginning of a reflog line of HEAD whose commit was received and not made here."""
_UNKNOWN = "unknown"  # a file that says: it is not known who has driven the session


def inside(environment: Mapping[str, str]) -> bool:
    """True if a command runs in a shell of Claude Code."""
    return bool(environment.get(_IN_CLIENT))


# ── hooks ───────────────────────────────────────────────────────────────────────────────────


def require_client(environment: Mapping[str, str], client: int) -> None:
    """StateError PB-STATE-HUMAN-ONLY unless the client, that process, has called this hook."""
    cure = "Leave hooks to the client; `playbook next` prints what is outstanding."
    _refuse_if(_not_the_client(environment, client), "Claude Code calls `playbook hook`", cure)


def _not_the_client(environment: Mapping[str, str], client: int) -> str:
    """The client calls hooks through the installed script, an agent's commands otherwise."""
    if environment.get("AI_AGENT", "").endswith(_AGENT_SUFFIX):
        return "an agent's shell runs this"
    if ancestry.isolation() and not ancestry.is_first_inside(client):
        return f"not the person, but something in isolation has started its process {client}"
    below = ancestry.caller()
    for above in ancestry.ancestors():
        if above.pid == client:
            vouched = below == ancestry.caller() or ancestry.isolation()
            installed = vouched or _runs_hook(below)
            return "" if installed else "a different shell runs this"
        below = above.pid
    return f"its process {client} has not started this"


def _runs_hook(shell: int) -> bool:
    """True if that shell runs a hook entry of ours; without /proc it may."""
    try:
        argv = (_PROC / str(shell) / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return True
    return any(word.startswith(MARK.encode()) for word in argv)


def require_isolation(config: Config) -> None:
    """PolicyError PB-POLICY-ISOLATION if the settings require it, and this client runs without."""
    if config.isolation.mode == "required" and not ancestry.isolation():
        said = "isolation is required, and this Claude Code runs without it"
        cure = "Leave it, start it with `playbook claude`, and type the command again there."
        raise PolicyError("PB-POLICY-ISOLATION", said, guidance=cure)


# ── a human's commands ──────────────────────────────────────────────────────────────────────


def require_human(
    here: Checkout, private: Path, command: str, environment: Mapping[str, str]
) -> None:
    """StateError PB-STATE-HUMAN-ONLY unless a human may have given the command.

    An agent of ours never may. The record of the driver may have been removed or overwritten.
    Without one, a shell of Claude Code may not decide; and a process without a terminal may not
    decide where the record was overwritten, where a conversation once drove, or where the driver
    is unknown.
    """
    from playbook_supervisor.drivers import driver_lock, own_agents

    own_agents.require_none_above(here, command)
    bound = binding.load(private)
    headless = driver_lock.ever_driven(private)
    if bound is None and binding.broken(private):
        bound = Binding(private.name, "", 0)
    if bound is not None:
        _refuse(private.name, command, _not_human(bound, environment))
    elif inside(environment) and not headless:
        _refuse(private.name, command, _SHELL)
    elif not ancestry.has_terminal():
        if (private / _UNKNOWN).exists():
            _refuse(private.name, command, f"its last driver is unknown, and {_NO_TERMINAL}")
        elif binding.ever_bound(private) and not headless:
            _refuse(private.name, command, _NO_TERMINAL)


def require_person_at(here: Checkout, private: Path, process: Process, command: str) -> None:
    """StateError PB-STATE-HUMAN-ONLY if an agent of ours or Claude Code has started that process.

    It asks us for the command over a connection: the browser of a person, or something that poses
    as one. What it is can be told only while it runs.
    """
    from playbook_supervisor.drivers import own_agents

    pid, line = process.pid, _line(process)
    reason = own_agents.above(here, pid)
    bound = binding.load(private)
    if not reason and bound is not None:
        reason = _started_by(bound, pid)
        if pid == bound.pid:
            reason = f"Claude Code (process {pid}) itself asks for it"
    _require_person(process, line, reason, command)


def require_person_anywhere_at(process: Process, command: str) -> None:
    """As `require_person_at`, whatever the repository: an agent of any one is refused."""
    from playbook_supervisor.drivers import own_agents

    line = _line(process)
    _require_person(process, line, own_agents.above_any(process.pid), command)


def _require_person(
    process: Process, line: list[tuple[int, str]], reason: str, command: str
) -> None:
    pid = process.pid
    if not reason and any(inside(ancestry.first_environment(each)) for each, _ in line):
        reason = "a shell of Claude Code has started this process"
    if not reason and (not line or _line(process) != line):
        reason = f"process {pid}, which asked for it, has ended"
    _refuse_if(reason, f"a human may {command}", "Use a browser that you have started yourself.")


def _line(process: Process) -> list[tuple[int, str]]:
    """The number and the start of the process and of its ancestors; empty if it has ended."""
    if not ancestry.lives(process.pid, process.born):
        return []
    above = ancestry.ancestors(process.pid)
    return [(each.pid, each.born) for each in (process, *above)]


def note_unknown_driver(store: DiskStore, session_id: str) -> None:
    """Record that the session's last driver is unknown, before its files are accepted.

    That is so if there is no local state, no terminal, and git has not brought the journal here:
    then the local state has been removed.
    """
    if store.drives(session_id) or ancestry.has_terminal() or _received(store, session_id):
        return
    private = store.runtime(session_id)
    ensure_folder(private)
    write_atomically(private / _UNKNOWN, b"", durable=False)


def _received(store: DiskStore, session_id: str) -> bool:
    """True if the journal is that of the last commit, and that commit was made elsewhere."""
    from playbook_supervisor.system.git.git_process import ask

    root = store.checkout.root
    journal = (store.folder(session_id).relative_to(root) / "journal.yaml").as_posix()
    try:
        committed = ask(root, "cat-file", "blob", f"HEAD:{journal}").encode()
        commit = ask(root, "log", "--max-count=1", "--format=%H", "--", journal).strip()
        moves = ask(root, "log", "--walk-reflogs", "--format=%H %gs", "HEAD").splitlines()
        reasons = [move.partition(" ")[2] for move in moves if move.startswith(commit)]
        return committed == read_bytes(root / journal) and all(map(_RECEIVED.match, reasons))
    except (PlaybookError, FileNotFoundError):
        return False


def _not_human(bound: Binding, environment: Mapping[str, str]) -> str:
    """Why this cannot be a person at a terminal of their own, or nothing."""
    if inside(environment):
        return _SHELL
    if not ancestry.has_terminal():
        return _NO_TERMINAL
    return _started_by(bound)


def _started_by(bound: Binding, pid: int = 0) -> str:
    """That the conversation's client is above that process, by default this one; else empty."""
    above = ((each.pid, each.born) for each in ancestry.ancestors(pid))
    told = f"Claude Code (process {bound.pid}) has started it"
    return told if (bound.pid, bound.born) in above else ""


def require_another_client(bound: Binding, client: int) -> None:
    """StateError PB-STATE-HUMAN-ONLY if the conversation's client has started that one."""
    act = "a human may take a session from a running client"
    cure = "Type it at the prompt of that client, or in one that you start yourself."
    _refuse_if(_started_by(bound, client), act, cure, bound.session)


def _refuse(session: str, command: str, reason: str) -> None:
    cure = "Type it at Claude Code's own prompt, or run it in a terminal of your own."
    _refuse_if(reason, f"a human may run `playbook {command}` here", cure, session)


def _refuse_if(reason: str, only: str, cure: str, session: str = "") -> None:
    """StateError PB-STATE-HUMAN-ONLY if there is a reason: `only` says who may do what."""
    if reason:
        where, message = session and f"session {session}", f"only {only}, but {reason}"
        raise StateError("PB-STATE-HUMAN-ONLY", message, where=where, guidance=cure)


# ── who drives ──────────────────────────────────────────────────────────────────────────────


def refuse_living_client(private: Path) -> None:
    """PB-STATE-DRIVEN while the client that the session is bound to is running."""
    if bound := binding.living(private):
        raise binding.driven(bound)


def take_over(here: Checkout, private: Path, environment: Mapping[str, str]) -> None:
    """Unbind the session from a client that has ended; PB-STATE-DRIVEN while it is running.

    Unless a person at a terminal does this, the session's gates stay reserved for humans.
    """
    human = ancestry.has_terminal()
    broken = binding.broken(private)
    if broken or binding.load(private) is not None:
        with binding.exclusive(private):
            refuse_living_client(private)
            if broken or inside(environment):  # perhaps a worker that has outlived its client
                require_human(here, private, "resume", environment)
            binding.unbind(here, private)
        if not human:
            write_atomically(private / _UNKNOWN, b"", durable=False)
    if human:
        remove(private / _UNKNOWN)


def release(here: Checkout, private: Path) -> None:
    """Unbind the session for a person, even if its client is running."""
    if binding.ever_bound(private) or binding.bound(here) == private.name:
        with binding.exclusive(private):
            binding.unbind(here, private)


def release_aborted(here: Checkout, private: Path, asked: list[str]) -> None:
    """As `release`; a running client that may still show the gate is first told that it ended."""
    bound = binding.living(private)
    if not asked or bound is None or not (bound.hooked and binding.hooks_reach(here, bound)):
        release(here, private)
        return
    with binding.exclusive(private):
        bound.turn, bound.ended = "human", asked
        binding.save(private, bound)


def admit_begin(here: Checkout, start: str, environment: Mapping[str, str]) -> None:
    """StateError unless a command in a shell of Claude Code may begin a session."""
    if start:
        _refuse("", "begin --from", _SHELL)
    session = binding.bound(here)
    bound = binding.load(here.runtime / session) if session else None
    seen = bound is not None and (bound.client, bound.pid) == conversation(environment)
    if not seen and not _without_hooks(here):
        raise _unseen(here)
    if bound is not None and bound.hooked and not DiskStore(here).driven():
        _refuse("", "begin", _SHELL)  # after a session's end only a typed command begins another


def admit(here: Checkout, private: Path, environment: Mapping[str, str]) -> None:
    """StateError unless commands in a shell of Claude Code may drive the session.

    The conversation must have been seen by a hook; in a project without hooks, its first command
    binds it.
    """
    client, pid = conversation(environment)
    with binding.exclusive(private):
        bound = binding.load(private)
        if bound is not None and (bound.client, bound.pid) == (client, pid):
            hook_script.require_unchanged(bound.script)
            return
        if not _without_hooks(here):
            raise _unseen(here)
        if bound is not None and bound.pid != pid and binding.lives(bound):
            raise binding.driven(bound)
        binding.bind(here, private, Binding(private.name, client, pid, hooked=False))


def release_ended(here: Checkout, private: Path) -> None:
    """Unbind a session that has ended from a conversation without hooks."""
    with binding.exclusive(private):
        bound = binding.load(private)
        if bound is not None and not bound.hooked:
            binding.unbind(here, private)


def conversation(environment: Mapping[str, str]) -> tuple[str, int]:
    """The Claude session that runs this shell, and its process."""
    pid = environment.get(_CLIENT, "")
    return environment.get(_CONVERSATION, ""), int(pid) if pid.isdecimal() else 0


def _without_hooks(here: Checkout) -> bool:
    from playbook_supervisor.project.install_record import read_installation

    return read_installation(here.root).no_hooks


def _unseen(here: Checkout) -> StateError:
    from playbook_supervisor.drivers.claude_code.permissions import hooks_disabled

    why = hooks_disabled(here.root, Path.home())
    return StateError(
        "PB-STATE-NO-HOOKS",
        "no hook of playbook has seen this Claude session, so it would not be supervised"
        + (f": hooks are turned off by {why}" if why else ""),
        where=str(here.root),
        guidance=f"Start Claude Code in {here.root} itself, and type /playbook.run "
        "or /playbook.resume there; `playbook doctor` checks whether the hooks work.",
    )
