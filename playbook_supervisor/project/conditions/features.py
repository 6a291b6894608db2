"""Finds the feature that a person means, and makes spec-kit use the same one.

A feature is the name of a folder. Input is checked before anything is created from it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from os.path import normpath
from pathlib import Path

from playbook_supervisor.errors import ArgumentError, PlaybookError, StateError
from playbook_supervisor.formats.sanitize import counted, first_line, nearest
from playbook_supervisor.project.settings.config import Config
from playbook_supervisor.records import Record
from playbook_supervisor.system.disk.files import contained, read_bytes, write_atomically
from playbook_supervisor.system.git.checkout import find

SPECKIT = "/speckit"
"""The prefix of the commands that look for their feature themselves."""

_LONGEST = 200
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*\Z"
_OTHER_LETTERS = r"\w[\w-]*\Z"  # names with letters of any language, but nothing hostile
_ALLOWED = "use a to z, digits, `.`, `_` and `-`, start with a letter or digit, without `..`"
_NUMBER = r"[0-9]{8}-[0-9]{6}\Z|[0-9]+\Z"
_LEADING = r"[0-9]{8}-[0-9]{6}(?=-)|[0-9]+(?=-)"
_OF_SESSION = r"-[0-9]{8}-[a-z0-9]{3}\Z"  # what `start` appends to the name of a branch that exists
_POINTER = ".specify/feature.json"
_POINTER_KEY = "feature_directory"
_SCRIPT_BYTES = 262_144


class Feature(Record):
    """A resolved feature; `warning` is a sentence or empty."""

    name: str
    warning: str = ""


# ── finding the feature ───────────────────────────────────────────────────────────────────────────


def resolve(
    root: Path, given: str, config: Config, branches: Callable[[], Sequence[str]]
) -> Feature:
    """The feature that `given` names: `013`, `013-slug`, `specs/013-slug`, `20260219-101500`.

    A number means the only folder of specs that begins with it, or else the only agreement folder,
    QA folder, feature file or branch; `branches` is called only then. If nothing has that name,
    there is a warning, because the playbook may be about to create it. ArgumentError PB-ARG-FEATURE
    for an invalid name, and for several candidates (kai data model, `feature`).
    """
    text = given.strip().rstrip("/").removeprefix(f"{config.specs}/")
    if not is_name(text):
        said = f"{first_line(given, 60)!r} is not a valid feature name: {_ALLOWED}"
        raise ArgumentError("PB-ARG-FEATURE", said)
    specs = _folders(root, config.specs)
    if text in specs:
        return Feature(text)
    found = _beginning(text, specs)
    others: set[str] = set()
    if not found:
        named = {re.sub(_OF_SESSION, "", name) for name in branches()}
        others = _elsewhere(root, config) | {name for name in named if is_name(name)}
        if text in others:
            return Feature(text)
        found = _beginning(text, others)
    if len(found) > 1:
        said = f"{text} is ambiguous: {_some(found)}"
        cure = f"Give the full name, as in `{found[0]}`."
        raise ArgumentError("PB-ARG-FEATURE", said, guidance=cure, details=tuple(found))
    if not found:
        _refuse_unnamable(root / config.specs, text)
    return Feature(found[0]) if found else Feature(text, _unknown(text, specs | others))


def _refuse_unnamable(specs: Path, number: str) -> None:
    """Raise if the number belongs to a folder whose name is not valid, not to a new feature."""
    with suppress(OSError):
        names = (each.name for each in specs.iterdir() if each.is_dir())
        if meant := _beginning(number, (name for name in names if re.match(_OTHER_LETTERS, name))):
            said = f"{first_line(meant[0], 60)!r} is not a valid feature name: {_ALLOWED}"
            cure = "Rename the folder."
            raise ArgumentError("PB-ARG-FEATURE", said, where=str(specs), guidance=cure)


def current(root: Path, branch: str, config: Config) -> Feature:
    """The feature of a playbook without an arg `feature`: the one that spec-kit takes, or else that
    of the branch.

    Spec-kit goes by SPECIFY_FEATURE_DIRECTORY, then by its pointer; older versions by
    SPECIFY_FEATURE, then by the branch. What they name must be there. There is a warning if the
    branch has a folder of its own.
    """
    own = _of_branch(root, branch, config)
    if not (root / ".specify").is_dir():
        return Feature(own)
    pointed = (os.environ.get("SPECIFY_FEATURE_DIRECTORY", ""), _pointer(root))
    found = [_in_specs(root, folder, config) for folder in pointed]
    found.append(_of_branch(root, os.environ.get("SPECIFY_FEATURE", ""), config))
    there = (name for name in found if name and (root / config.specs / name).is_dir())
    name = next(there, own)
    if name == own or not (own and (root / config.specs / own).is_dir()):
        return Feature(name)
    return Feature(name, f"spec-kit's feature is {name}, not that of the branch, {own}")


def _of_branch(root: Path, branch: str, config: Config) -> str:
    """Spec-kit's branches may have a prefix, as `feature/1000-big`, which its folders have not."""
    whole = of_branch(branch)
    last = whole.rpartition("/")[2]
    if (root / config.specs / whole).is_dir():
        return whole
    return last if re.match(_LEADING, last) or (root / config.specs / last).is_dir() else whole


def _in_specs(root: Path, folder: str, config: Config) -> str:
    """The feature with that folder, which may be absolute; empty if it is not among the specs."""
    path, specs = (normpath(root / each) for each in (folder, config.specs))
    return of_branch(path.removeprefix(f"{specs}/")) if path.startswith(f"{specs}/") else ""


def _pointer(root: Path) -> str:
    with suppress(OSError, PlaybookError):
        there = (_pointer_file(root) or {}).get(_POINTER_KEY)
        return there if isinstance(there, str) else ""
    return ""


def _pointer_file(root: Path) -> dict[str, object] | None:
    """The content of the pointer, nothing if there is none; None if it is no JSON object."""
    try:
        pointer = json.loads(read_bytes(contained(root, _POINTER), limit=_SCRIPT_BYTES))
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError):
        return None
    return pointer if isinstance(pointer, dict) else None


def of_branch(branch: str) -> str:
    """The feature that a branch is named after, with slashes.

    The id of a session at its end, which marks a second branch for a feature, is removed. Empty
    if there is no branch, or if it cannot be the name of a folder.
    """
    feature = re.sub(_OF_SESSION, "", branch)
    return feature if all(is_name(part) for part in feature.split("/")) else ""


def is_name(text: str) -> bool:
    """True if it is a valid feature name. A valid name cannot lead out of its folder."""
    return len(text) <= _LONGEST and re.match(_NAME, text) is not None and ".." not in text


def _folders(root: Path, folder: str) -> set[str]:
    return {name for name, is_folder in _listed(root, folder) if is_folder}


def _elsewhere(root: Path, config: Config) -> set[str]:
    files = {name for name, is_folder in _listed(root, ".features") if not is_folder}
    features = {name.removesuffix(".yaml") for name in files if name.endswith(".yaml")}
    return (
        _folders(root, config.agreements)
        | _folders(root, config.qa)
        | {name for name in features if is_name(name)}
    )


def _listed(root: Path, folder: str) -> list[tuple[str, bool]]:
    try:
        with os.scandir(root / folder) as entries:
            return [(entry.name, entry.is_dir()) for entry in entries if is_name(entry.name)]
    except OSError:
        return []


def _beginning(text: str, known: Iterable[str]) -> list[str]:
    if not re.match(_NUMBER, text):
        return []
    return sorted(name for name in known if name.startswith(f"{text}-"))


def _unknown(text: str, known: set[str]) -> str:
    near = nearest(text, known) or _same_number(text, known)
    hint = f"; did you mean {near}?" if near else ""
    return f"no folder, feature file or branch is named {text} yet{hint}"


def _same_number(text: str, known: set[str]) -> str:
    """The feature with the same number: `13` means `013-slug`."""
    for name in sorted(known):
        leading = re.match(_LEADING, name)
        if leading and leading[0].lstrip("0") == text.partition("-")[0].lstrip("0"):
            return name
    return ""


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:8])
    return f"{shown} or {counted(len(names) - 8, 'other')}" if len(names) > 8 else shown


# ── spec-kit ────────────────────────────────────────────────────────────────────────


def point_speckit(
    root: Path, feature: str, config: Config, *, exported: bool = True
) -> Mapping[str, str]:
    """Make the project's spec-kit find `feature`; returns the environment for its commands.

    Spec-kit from 0.10 on reads `.specify/feature.json`: it is updated unless it is right, and other
    keys are kept. An older one reads `SPECIFY_FEATURE`, or only the branch: if the variable cannot
    reach the worker (`exported` false) or is not read, StateError PB-STATE-SPECKIT names the branch
    to switch to. Without spec-kit nothing is done, and there are no variables.
    """
    if not (root / ".specify").is_dir():
        return {}
    folder = f"{config.specs}/{feature}"
    if (pointer := _pointer_to(root, feature, folder, exported=exported)) is not None:
        write_atomically(contained(root, _POINTER), pointer)
    return {"SPECIFY_FEATURE": feature, "SPECIFY_FEATURE_DIRECTORY": folder}


def require_speckit(root: Path, feature: str, config: Config, *, exported: bool = True) -> None:
    """Raise what `point_speckit` would raise, without doing anything."""
    if (root / ".specify").is_dir():
        _pointer_to(root, feature, f"{config.specs}/{feature}", exported=exported)


def _pointer_to(root: Path, feature: str, folder: str, *, exported: bool) -> bytes | None:
    """The new content of the pointer; None if it is right or not used."""
    scripts = _scripts(root)
    if (root / _POINTER).exists() or "feature.json" in scripts:
        return _pointed(root, folder)
    if scripts and not (exported and "SPECIFY_FEATURE" in scripts):
        by_number, by_last_part = "by_prefix" in scripts, "effective_branch" in scripts
        _require_branch(root, feature, by_number=by_number, by_last_part=by_last_part)
    return None


def _scripts(root: Path) -> str:
    texts = []
    for file in sorted((root / ".specify" / "scripts").glob("**/common.*")):
        try:
            with file.open("rb") as stream:
                texts.append(stream.read(_SCRIPT_BYTES).decode("utf-8", "replace"))
        except OSError:
            continue
    return "\n".join(texts)


def _pointed(root: Path, folder: str) -> bytes | None:
    pointer = _pointer_file(root)
    if pointer is None:
        said = f"{_POINTER} is not a JSON object, so spec-kit would not find {folder}"
        guidance = "Correct the file or remove it; spec-kit notes the current feature in it."
        raise StateError("PB-STATE-SPECKIT", said, where=_POINTER, guidance=guidance)
    there = pointer.get(_POINTER_KEY)
    if isinstance(there, str) and normpath(root / there) == normpath(root / folder):
        return None
    pointer[_POINTER_KEY] = folder
    return (json.dumps(pointer, indent=2, ensure_ascii=False) + "\n").encode()


def _require_branch(root: Path, feature: str, *, by_number: bool, by_last_part: bool) -> None:
    branch = find(root).branch
    leading = re.match(_LEADING, feature)
    read = branch.rpartition("/")[2] if by_last_part else branch
    if read == feature or (by_number and leading and read.startswith(f"{leading[0]}-")):
        return
    here = f"the branch is {first_line(branch, 60)}" if branch else "no branch is checked out"
    said = f"this project's spec-kit takes its feature from the branch, but {here}, not {feature}"
    cure = f"Switch to it: git switch {feature} (with -c to create it)"
    raise StateError("PB-STATE-SPECKIT", said, guidance=cure)
