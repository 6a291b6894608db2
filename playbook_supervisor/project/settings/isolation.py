"""The isolation that the settings ask for: of a step's programs, of git and gh, of a check."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from playbook_supervisor.errors import ArgumentError, PolicyError
from playbook_supervisor.kernel.model import Step
from playbook_supervisor.project.settings.config import CheckSpec, Config
from playbook_supervisor.records import replace
from playbook_supervisor.system.git import checkout, git_process
from playbook_supervisor.system.git.checkout import Checkout
from playbook_supervisor.system.isolation import profiles, sandbox
from playbook_supervisor.system.isolation.profiles import Profile
from playbook_supervisor.system.isolation.sandbox import Sandbox

_US = "command"  # the scope of the hooksPath with which we ask
_HOOKS_PATH = ("config", "--null", "--show-scope", "--type=path", "--get-all", "core.hooksPath")
_TALKS = frozenset({"gh", "push", "fetch", "ls-remote"})
_OF_REMOTES = frozenset({"pre-push", "reference-transaction", "post-checkout", "post-merge"})
"""The hooks that these may run."""


def of_step(config: Config, root: Path, outputs: Iterable[str] = ()) -> Sandbox | None:
    """The isolation of an agent or of a program of a step; None if nothing isolates it.

    `outputs` are the paths that the step is to write. PolicyError PB-POLICY-ISOLATION if it is
    required and this machine cannot.
    """
    if config.isolation.mode == "none":
        return None
    here = checkout.find(root)
    return _sandbox(config, profiles.of_agent(here, _wishes(config), outputs))


def of_ours(
    config: Config,
    root: Path,
    argv: Sequence[str],
    outputs: Iterable[str] = (),
    *,
    of_playbook: bool = False,
) -> Sandbox | None:
    """The isolation of `git` and `gh` that we run for a step: hooks of the repository run in it.

    Keys are there unless the command may run a hook, which an agent may have written or may steer.
    In a session of the fleet, a command `of_playbook` has none either.
    """
    if config.isolation.mode == "none":
        return None
    here = checkout.find(root)
    profile = replace(profiles.of_agent(here, _wishes(config), outputs), network="as_is")
    kept = _runs_hooks(here, argv) or (of_playbook and profiles.is_of_fleet(here.root))
    return _sandbox(config, profile if kept else profiles.with_keys(profile))


def of_check(
    config: Config,
    spec: CheckSpec,
    here: Checkout,
    room: Path | None = None,
    temporary: Path | None = None,
) -> Sandbox | None:
    """The isolation of a check, in its clean room or in the checkout."""
    if config.isolation.mode == "none":
        return None
    return _sandbox(config, profiles.of_check(here, _wishes(config, spec), room, temporary))


def written(step: Step) -> tuple[str, ...]:
    """The paths that a step is to write, as its outputs and its conditions name them."""
    return (*step.outputs, *(each.partition("=")[2] for each in step.judging))


def in_force(config: Config) -> str:
    """What isolates on this machine, empty for nothing. Errors as `of_step`."""
    return sandbox.in_force(config.isolation.mode)[0]


def admit(option: str, config: Config) -> str:
    """Before anything begins: a notice where nothing isolates although `auto` asks for it.

    `option` is that of `--isolation`, or empty. ArgumentError PB-ARG-USAGE if it asks for less than
    the settings require; PolicyError PB-POLICY-ISOLATION if what is required cannot be.
    """
    if option not in ("", "required") and config.isolation.mode == "required":
        said = f"--isolation {option}: the settings require isolation"
        raise ArgumentError("PB-ARG-USAGE", said, guidance="A person may change the settings.")
    return sandbox.in_force(config.isolated(option).isolation.mode)[1]


def _sandbox(config: Config, profile: Profile) -> Sandbox | None:
    backend, _ = sandbox.in_force(config.isolation.mode)
    if profile.folder in (profile.home, *profile.home.parents):
        said = f"the checkout {profile.folder} contains the home, of which isolation shows little"
        cure = "Work in a repository below the home, or set `isolation: none`."
        raise PolicyError(sandbox.CODE, said, guidance=cure)
    return Sandbox(profile, backend) if backend else None


def _wishes(config: Config, spec: CheckSpec | None = None) -> profiles.Wishes:
    asked = config.isolation
    reached = asked.network if spec is None or spec.network is None else spec.network
    return profiles.Wishes(asked.write, asked.show, asked.hide, reached, asked.hosts)


def _runs_hooks(here: Checkout, argv: Sequence[str]) -> bool:
    """True if the command of git or gh may run a hook that is there."""
    told = git_process.ask(here.root, *_HOOKS_PATH).split("\0")  # a scope, and a path
    set_by_files = [
        path for scope, path in zip(told[::2], told[1::2], strict=False) if scope != _US
    ]
    folder = here.root / set_by_files[-1] if set_by_files else here.common_dir / "hooks"
    try:
        hooks = {each.name for each in folder.iterdir() if not each.suffix}
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True  # what cannot be seen may be there
    words = iter(argv[1:])
    verb = next((word for word in words if not (word == "-c" and next(words, ""))), "")
    verb = verb if argv[0] == "git" else argv[0]
    return bool(hooks & _OF_REMOTES if verb in _TALKS else hooks)
