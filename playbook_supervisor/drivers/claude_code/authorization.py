"""What only a human may say of a session, and who may drive one by commands.

A model's shell has the client above it, its variables around it, and no terminal; a person in a
terminal of their own has none of the three. Sessions that are driven headless are everybody's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from playbook_supervisor.drivers import driver_lock
from playbook_supervisor.drivers.claude_code import ancestry, binding
from playbook_supervisor.drivers.claude_code.binding import Binding
from playbook_supervisor.errors import PlaybookError, StateError
from playbook_supervisor.sessions.store import DiskStore
from playbook_supervisor.system.checkout import Checkout
from playbook_supervisor.system.files import ensure_folder, read_bytes, remove, write_atomically

_INSIDE = "CLAUDECODE"
_CONVERSATION = "CLAUDE_CODE_SESSION_ID"
_CLIENT = "CLAUDE_PID"
_SHELL = "Claude Code runs this shell"
_NO_TERMINAL = "there is no terminal here"
_BRINGING = re.compile(r"(?:branch|checkout|clone|fetch|merge|pull|reset)\b")
"""How git begins to tell in its log of HEAD that a commit came here, and was not made here."""
_UNKNOWN = "unknown"
"""Its file says that nobody knows who has driven the session."""


def inside(environment: Mapping[str, str]) -> bool:
    """Whether a command runs in a shell of Claude Code."""
    return bool(environment.get(_INSIDE))


# ── what is a human's ───────────────────────────────────────────────────────────────────────


def only(private: Path, command: str, environment: Mapping[str, str]) -> None:
    """StateError PB-STATE-HUMAN-ONLY, unless this may be said of the session from here.

    Somebody may have removed, or written over, what said who drives. Where no driver is known a
    shell of Claude Code may not decide either; and whoever has no terminal may not where somebody
    has written over it, where a conversation once drove, or where nobody knows who did.
    """
    bound = binding.load(private)
    headless = driver_lock.ever_driven(private)
    if bound is None and binding.broken(private):
        bound = Binding(private.name, "", 0)
    if bound is not None:
        _refuse(private.name, command, _unlike_a_human(bound, environment))
    elif inside(environment) and not headless:
        _refuse(private.name, command, _SHELL)
    elif not ancestry.has_terminal():
        if _unknown(private):
            _refuse(private.name, command, f"nothing says who has driven it, and {_NO_TERMINAL}")
        elif binding.ever(private) and not headless:
            _refuse(private.name, command, _NO_TERMINAL)


def meet(store: DiskStore, session_id: str) -> None:
    """Note that nobody knows who has driven the session, before its files are taken as they are.

    That is so where nothing is known of it here, no person sits at a terminal, and its journal is
    not the one that git brought: then what was known of it has been removed.
    """
    if store.drives(session_id) or ancestry.has_terminal() or _brought(store, session_id):
        return
    private = store.runtime(session_id)
    ensure_folder(private)
    write_atomically(private / _UNKNOWN, b"", durable=False)


def _unknown(private: Path) -> bool:
    return (private / _UNKNOWN).exists()


def _brought(store: DiskStore, session_id: str) -> bool:
    """Whether git has brought the journal here: as the last commit has it, made somewhere else."""
    from playbook_supervisor.system.git_process import ask

    root = store.checkout.root
    journal = (store.folder(session_id).relative_to(root) / "journal.yaml").as_posix()
    try:
        committed = ask(root, "cat-file", "blob", f"HEAD:{journal}").encode()
        commit = ask(root, "log", "--max-count=1", "--format=%H", "--", journal).strip()
        moves = ask(root, "log", "--walk-reflogs", "--format=%H %gs", "HEAD").splitlines()
        by = [move.partition(" ")[2] for move in moves if move.startswith(commit)]
        return committed == read_bytes(root / journal) and all(map(_BRINGING.match, by))
    except (PlaybookError, FileNotFoundError):
        return False


def _unlike_a_human(bound: Binding, environment: Mapping[str, str]) -> str:
    """What speaks against it that a person types this at a terminal of their own; or nothing."""
    if inside(environment):
        return _SHELL
    if not ancestry.has_terminal():
        return _NO_TERMINAL
    if any((each.pid, each.born) == (bound.pid, bound.born) for each in ancestry.ancestors()):
        return f"Claude Code (process {bound.pid}) has started it"
    return ""


def _refuse(session: str, command: str, why: str) -> None:
    if why:
        raise StateError(
            "PB-STATE-HUMAN-ONLY",
            f"`playbook {command}` is a human's here, and {why}",
            where=session and f"session {session}",
            guidance="Say it at Claude Code's own prompt, or run it in a terminal of your own.",
        )


# ── who drives ──────────────────────────────────────────────────────────────────────────────


def refuse_beside_a_client(private: Path) -> None:
    """PB-STATE-DRIVEN while a client that the session is bound to lives."""
    if bound := binding.living(private):
        raise binding.driven(bound)


def vacate(here: Checkout, private: Path, environment: Mapping[str, str]) -> None:
    """Take the session from a client that is gone; PB-STATE-DRIVEN while it lives.

    Its gates stay a human's where it is not a person at a terminal who takes it.
    """
    human = ancestry.has_terminal()
    broken = binding.broken(private)
    if broken or binding.load(private) is not None:
        with binding.alone(private):
            refuse_beside_a_client(private)
            if broken or inside(environment):  # a worker, perhaps, that has outlived its client
                only(private, "resume", environment)
            binding.unbind(here, private)
        if not human:
            write_atomically(private / _UNKNOWN, b"", durable=False)
    if human:
        remove(private / _UNKNOWN)


def release(here: Checkout, private: Path) -> None:
    """A person lets the session go, whether or not its client lives."""
    if binding.ever(private) or binding.bound(here) == private.name:
        with binding.alone(private):
            binding.unbind(here, private)


def admit_beginning(here: Checkout, start: str, environment: Mapping[str, str]) -> None:
    """Whether a session may be begun in a shell of Claude Code by command: StateError if not."""
    if start:
        _refuse("", "begin --from", _SHELL)
    session = binding.bound(here)
    bound = binding.load(here.runtime / session) if session else None
    seen = bound is not None and (bound.client, bound.pid) == conversation(environment)
    if not seen and not _unhooked(here):
        raise _unseen(here)
    if bound is not None and bound.hooked and not DiskStore(here).driven():
        _refuse("", "begin", _SHELL)  # a session has ended here; what is typed begins another


def admit(here: Checkout, private: Path, environment: Mapping[str, str]) -> None:
    """Whether the session may be driven in a shell of Claude Code by commands: StateError if not.

    A conversation is known by a hook of ours that has seen it, or drives without hooks where the
    project has said so; then it is bound by its first command.
    """
    client, pid = conversation(environment)
    with binding.alone(private):
        bound = binding.load(private)
        if bound is not None and (bound.client, bound.pid) == (client, pid):
            return
        if not _unhooked(here):
            raise _unseen(here)
        if bound is not None and bound.pid != pid and binding.lives(bound):
            raise binding.driven(bound)
        binding.bind(here, private, Binding(private.name, client, pid, hooked=False))


def settled(here: Checkout, private: Path) -> None:
    """The session has ended: a conversation without hooks drives it no longer."""
    with binding.alone(private):
        bound = binding.load(private)
        if bound is not None and not bound.hooked:
            binding.unbind(here, private)


def conversation(environment: Mapping[str, str]) -> tuple[str, int]:
    """The Claude session that runs a shell, and the number of its process."""
    said = environment.get(_CLIENT, "")
    return environment.get(_CONVERSATION, ""), int(said) if said.isdecimal() else 0


def _unhooked(here: Checkout) -> bool:
    from playbook_supervisor.project.install_record import read_installation

    return read_installation(here.root).no_hooks


def _unseen(here: Checkout) -> StateError:
    return StateError(
        "PB-STATE-NO-HOOKS",
        "no hook of playbook has seen this Claude session, so nothing here would hold it",
        where=str(here.root),
        guidance=f"Start Claude Code in {here.root} itself, and type /playbook.run "
        "or /playbook.resume there; `playbook doctor` says whether its hooks work.",
    )
