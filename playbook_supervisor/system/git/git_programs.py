"""The one way in which we call git: what it may run (`Runs`), and which variables it sees.

A repository's own settings name programs, and an agent can write them. They would run below a
process of the person, who only wanted to look. docs/git.md says what runs in which command.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path

from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.system.disk import files
from playbook_supervisor.system.git import checkout
from playbook_supervisor.system.process.child_process import read_outputs


class Runs(Enum):
    """The programs of the repository's own settings that a git command may run.

    Filters and merge drivers of the user's own settings run as ever, and so does git-lfs wherever
    it was installed: without it, the files that it keeps elsewhere would be read as they are.
    """

    NOTHING = "nothing"
    HOOKS = "the hooks and the signing of a commit, but no monitor, filter or `post-index-change`"
    ALL = "what a person's own command runs"


_ALWAYS = (*("-c", "core.quotePath=false"), *("-c", "gc.auto=0", "-c", "maintenance.auto=false"))
_NO_MONITOR = ("-c", "core.fsmonitor=false")
_ONLY_LOOKS = (
    *("-c", f"core.hooksPath={os.devnull}"),
    *("-c", "commit.gpgSign=false", "-c", "log.showSignature=false"),
    *("-c", "core.safecrlf=false", "-c", "advice.addEmbeddedRepo=false"),
)
_STAY = (
    *("GIT_AUTHOR_", "GIT_COMMITTER_", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"),
    *("GIT_CONFIG_NOSYSTEM", "GIT_EXEC_PATH", "GIT_HTTP_", "GIT_PROXY_", "GIT_PYTHON_"),
    *("GIT_ALLOW_PROTOCOL", "GIT_SSH", "GIT_SSL_", "GIT_TRACE"),
)
"""Prefixes of the variables that name the author, configure the network, or locate the person's
own settings. All other variables of git change what it reads."""
_SETTINGS_STAY = ("credential.", "http.", "safe.", "url.", "user.")
"""Beginnings of settings that stay if variables make them, as machines for CI do."""
_NO_PROMPTS: dict[str, str | None] = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",
    "SSH_ASKPASS_REQUIRE": "never",
    "GCM_INTERACTIVE": "never",
    "GIT_EDITOR": ":",
    "LANGUAGE": "C",  # git's messages in English
    "GPG_TTY": None,
    "SSH_ASKPASS": None,
}
_TAKES_NOTHING: dict[str, str | None] = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_ALLOW_PROTOCOL": "none",  # nothing is fetched by the way
    "LC_ALL": "C",
}

_MAY_NAME = (b"filter", b"driver", b"include", b"worktreeconfig")
_LARGEST = 1 << 20
_PROGRAM = r"^(filter\..*\.(clean|process|smudge)|merge\..*\.driver)$"
_OWN = ("local", "worktree")
_LFS = r"git-lfs (?:clean -- %f|smudge(?: --skip)? -- %f|filter-process(?: --skip)?)"
_SECONDS = 5.0
_MOST_SETTINGS = 1000
_UNWANTED = "post-index-change"


def command(root: Path | None, runs: Runs) -> list[str]:
    """The beginning of an argument list; `root` is the checkout that it is for, if any."""
    if runs is Runs.ALL:
        return ["git", *_ALWAYS]
    looks = _ONLY_LOOKS if runs is Runs.NOTHING else ()
    return ["git", *_ALWAYS, *_NO_MONITOR, *looks, *_without_programs(root)]


def variables(runs: Runs) -> dict[str, str | None]:
    """The variables to set for git, or to remove: only a few of its own stay, and it never asks."""
    unwanted = (name for name in os.environ if name.startswith("GIT_"))
    removed = {name: None for name in unwanted if not name.startswith(_STAY)}
    looks = _TAKES_NOTHING if runs is Runs.NOTHING else {}
    return {**removed, **_settings_that_stay(), **_NO_PROMPTS, **looks}


def environment(runs: Runs) -> dict[str, str]:
    """Our environment with these `variables`."""
    around = {**os.environ, **variables(runs)}
    return {name: value for name, value in around.items() if value is not None}


def own_filters(root: Path | None) -> tuple[str, ...]:
    """`filter.NAME` and `merge.NAME` of each program that the repository's own settings name."""
    if root is None:
        return ()
    try:
        config = files.read_bytes(checkout.shared_settings(root), limit=_LARGEST).lower()
        return _listed(root) if any(word in config for word in _MAY_NAME) else ()
    except (PlaybookError, OSError):  # what is asked then fails as well, and says why
        return ()


def has_hooks(hooks: Path) -> bool:
    """True if there is a hook in this folder that git would run."""
    found = hooks.iterdir() if hooks.is_dir() else ()
    return any(not hook.suffix and os.access(hook, os.X_OK) for hook in found)


@contextmanager
def hooks_of_a_commit(hooks: Path, folder: Path) -> Iterator[tuple[str, ...]]:
    """Options with which git runs all these hooks but the one that runs at any change of an index.

    If there is such a one, the others are called from the `folder` until the end of the block.
    """
    if not os.access(hooks / _UNWANTED, os.X_OK):
        yield ()
        return
    files.ensure_folder(folder)
    try:
        for hook in hooks.iterdir():
            if hook.name != _UNWANTED and os.access(hook, os.X_OK) and hook.is_file():
                quoted = "'" + str(hook).replace("'", "'\\''") + "'"
                script = os.fsencode(f'#!/bin/sh\nexec {quoted} "$@"\n')
                files.write_atomically(folder / hook.name, script, durable=False, permissions=0o755)
        yield ("-c", f"core.hooksPath={folder}")
    finally:
        files.remove(folder)


def _settings_that_stay() -> dict[str, str | None]:
    count = os.environ.get("GIT_CONFIG_COUNT", "")
    stay: dict[str, str | None] = {}
    for n in range(min(int(count), _MOST_SETTINGS) if count.isdecimal() else 0):
        key = os.environ.get(f"GIT_CONFIG_KEY_{n}", "")
        if key.lower().startswith(_SETTINGS_STAY):
            now = len(stay) // 2
            stay[f"GIT_CONFIG_KEY_{now}"] = key
            stay[f"GIT_CONFIG_VALUE_{now}"] = os.environ.get(f"GIT_CONFIG_VALUE_{n}", "")
    return {**stay, "GIT_CONFIG_COUNT": str(len(stay) // 2)} if stay else {}


def _without_programs(root: Path | None) -> Iterator[str]:
    for name in own_filters(root):
        blank = ("clean=", "process=", "required=false")
        for setting in blank if name.startswith("filter.") else ("driver=false",):  # a conflict
            yield from ("-c", f"{name}.{setting}")


def _listed(root: Path) -> tuple[str, ...]:
    argv = ["git", "-C", str(root), "config", "--show-scope", "-z", "--get-regexp", _PROGRAM]
    asked = read_outputs([argv], environment(Runs.NOTHING), timeout=_SECONDS, cap=_LARGEST)
    fields = asked[0][1].decode("utf-8", "surrogateescape").split("\0")
    found = dict[str, None]()
    for scope, setting in zip(fields[::2], fields[1::2], strict=False):
        name, _, program = setting.partition("\n")
        if scope in _OWN and not re.fullmatch(_LFS, program):
            found[name.rpartition(".")[0]] = None
    return tuple(found)
