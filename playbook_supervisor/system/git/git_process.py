"""Git as a plain process: an argument list in, text out.

Hooks, gates and every step of a session use it, because importing GitPython takes longer than
everything else that they do (docs/decisions/0050-session-commits-are-git-itself.md).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from playbook_supervisor.errors import GitError, PlaybookError
from playbook_supervisor.formats.sanitize import first_line, printable
from playbook_supervisor.system.git import checkout
from playbook_supervisor.system.git.git_programs import Runs, command, environment
from playbook_supervisor.system.process.child_process import not_startable, read_outputs

_TIMEOUT = 20.0
_MAX_OUTPUT = 1 << 27
_LAST_LINES, _LAST_CHARACTERS = 3, 400
_USUAL = ("main", "master")
SESSIONS_FOLDER = ".playbooks/sessions"
SESSIONS = f":(exclude,top){SESSIONS_FOLDER}"  # the pathspec of everything but sessions' folders


def ask(
    root: Path,
    *arguments: str,
    index: Path | None = None,
    objects: Path | None = None,
    seconds: float = _TIMEOUT,
) -> str:
    """The output of a command that only reads; it has 20 seconds.

    It runs no program that the repository's own settings name (`Runs.NOTHING`), and no hook.
    With an `index` of our own, it may also change that file and add objects, to the folder
    `objects` if there is one.
    GitError PB-GIT-FAILED with git's own words, StorageError if git cannot be started.
    """
    argv = [*command(root, Runs.NOTHING), "-C", str(root), *arguments]
    if not root.is_dir():
        raise not_startable(argv, root, FileNotFoundError())
    pointers = {} if index is None else {"GIT_INDEX_FILE": str(index)}
    pointers |= {} if objects is None else {"GIT_OBJECT_DIRECTORY": str(objects)}
    variables = {**environment(Runs.NOTHING), **pointers}
    ((status, stdout, stderr),) = outputs(root, [argv], arguments, variables, seconds=seconds)
    if status != 0:
        raise failure(root, arguments, stderr.decode(errors="replace"))
    return stdout.decode(errors="replace")


def outputs(
    root: Path,
    argvs: Sequence[Sequence[str]],
    arguments: Sequence[str],
    variables: Mapping[str, str],
    *,
    seconds: float,
    stdin: str = os.devnull,
) -> list[tuple[int, bytes, bytes]]:
    """`read_outputs` of git; an error names the `arguments` of the first. Errors as `ask`."""
    try:
        return read_outputs(argvs, variables, timeout=seconds, cap=_MAX_OUTPUT, stdin=stdin)
    except TimeoutError:
        raise failure(root, arguments, f"it took longer than {seconds:g} seconds") from None
    except OSError as error:
        raise failure(root, arguments, str(error)) from error


def change(root: Path, *arguments: str, runs: Runs = Runs.NOTHING) -> None:
    """Run a command that changes something, and what `runs` says. Errors as `ask`.

    It may take any time. An interruption asks git and its hooks to end: it removes its locks then.
    """
    from playbook_supervisor.system.process.processes import run

    argv = [*command(root, runs), *arguments]
    done = run(argv, cwd=root, env=environment(runs), cap=_MAX_OUTPUT)
    if done.returncode != 0:
        raise failure(root, arguments, done.stderr)


def branches(root: Path) -> tuple[str, ...]:
    """The names of the local branches; () if git fails."""
    try:
        return tuple(ask(root, "for-each-ref", "--format=%(refname:short)", "refs/heads").split())
    except PlaybookError:
        return ()


def default_branch(root: Path) -> str:
    """The repository's default branch as far as is known without a network; empty if it is not.

    It is that of `origin`, else `main` or `master`, whichever there is; git's own setting decides
    between both, and where there is neither.
    """
    try:
        here = checkout.find(root)
        if here.branch or here.head:
            of_origin = checkout.default_of_origin(here)
            names = tuple(name for name in _USUAL if checkout.tip(here, name))
        else:  # only git can read it
            form = "--format=%(symref:lstrip=3)"
            of_origin = ask(root, "for-each-ref", form, "refs/remotes/origin/HEAD").strip()
            names = branches(root)
    except PlaybookError:
        return ""
    if of_origin:  # else there is no remote, or it was added by hand
        return of_origin
    usual = [name for name in _USUAL if name in names]
    if len(usual) == 1:
        return usual[0]
    try:
        configured = ask(root, "config", "init.defaultBranch").strip()
    except PlaybookError:
        configured = ""
    if configured and (configured in names or checkout.tip(here, configured)):
        return configured
    return usual[0] if usual else ""


def identity(root: Path) -> str:
    """The user's `Name <mail>` as git is configured, or the half that is; empty if git fails."""
    try:
        settings = ask(root, "config", "--null", "--get-regexp", r"^user\.(name|email)$")
    except PlaybookError:
        return ""
    known = dict(setting.partition("\n")[::2] for setting in settings.split("\0"))
    name, mail = (printable(known.get(key, "")).strip() for key in ("user.name", "user.email"))
    return f"{name} <{mail}>".strip() if mail else name


def empty_tree(root: Path) -> str:
    """The id of the tree without files, which depends on the repository's hash. Errors as `ask`."""
    return ask(root, "hash-object", "-t", "tree", os.devnull).strip()


def commits_between(root: Path, since: str) -> tuple[str, ...]:
    """A line for each commit that HEAD has beyond `since`, the newest first. Errors as `ask`.

    All commits if `since` is empty. Commits of nothing but sessions are left out.
    """
    commits = f"{since}..HEAD" if since else "HEAD"
    asked = ("--format=%h %s", "--no-show-signature", "--end-of-options", commits, "--", SESSIONS)
    return tuple(printable(line) for line in ask(root, "log", *asked).splitlines())


def is_ignored(root: Path, path: str) -> bool:
    """True if git ignores the path, which need not exist; False if git fails."""
    try:
        for rules in (["--no-index"], []):  # the index takes long, and only makes exceptions
            ask(root, "check-ignore", "--quiet", *rules, "--", path)
    except PlaybookError:  # so it says that it does not
        return False
    return True


def is_ancestor(root: Path, commit: str, of: str) -> bool:
    """True if `of` is the commit, or was made after it. Errors as `ask`, also if one is missing."""
    return not ask(root, "rev-list", "--max-count=1", "--end-of-options", f"{of}..{commit}", "--")


def commit_of(root: Path, reference: str) -> str:
    """The commit of a full name, `refs/heads/main`; empty if there is none. Errors as `ask`."""
    form = "--format=%(refname) %(objectname) %(*objectname)"
    with understood(root):
        for line in ask(root, "for-each-ref", form, "--", reference).splitlines():
            name, *ids = line.split()
            if name == reference:
                return ids[-1]
    return ""


@contextmanager
def understood(root: Path) -> Iterator[None]:
    """GitError PB-GIT-FAILED if the block cannot read what git has printed: it is not git's."""
    try:
        yield
    except (ValueError, LookupError) as error:
        said = "git's answer cannot be understood"
        cure = "Look at `which git` and `git --version`: another program may have its name."
        cause = f"{type(error).__name__}: {first_line(str(error))}"
        raise GitError(
            "PB-GIT-FAILED", said, where=str(root), guidance=cure, cause=cause
        ) from error


def failure(root: Path, arguments: Sequence[str], stderr: str) -> GitError:
    """The error of a command that failed, with its last lines: progress and hints come first."""
    lines = [line.strip() for line in printable(stderr, keep_newlines=True).splitlines()]
    lines = [line for line in lines if line] or ["no message"]
    words = " / ".join(lines[-_LAST_LINES:])[-_LAST_CHARACTERS:]
    said = f"git {arguments[0]} failed: {words}"
    return GitError("PB-GIT-FAILED", said, where=str(root), cause=" ".join(lines))
