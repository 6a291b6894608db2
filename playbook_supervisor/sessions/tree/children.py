"""A child session: how it begins from its parent's step, and what its end means there.

A child sees the args that the step maps to it and nothing else of its parent. It runs under the
settings of its parent, and under the policies of when the top session began (docs/decisions/0191).
"""

from __future__ import annotations

import json
import re
from typing import Any

from playbook_supervisor.errors import CODES, ArgumentError, CheckError, StateError
from playbook_supervisor.formats.sanitize import first_line
from playbook_supervisor.kernel.directives import Attempt, Failure, Outcome
from playbook_supervisor.kernel.model import Playbook
from playbook_supervisor.kernel.phases import positions
from playbook_supervisor.kernel.state import CHILD, Position
from playbook_supervisor.kernel.vocabulary import SessionStatus
from playbook_supervisor.project.conditions import features
from playbook_supervisor.project.expressions import arguments
from playbook_supervisor.project.expressions.bound_conditions import without_absent_checks
from playbook_supervisor.project.expressions.references import fill
from playbook_supervisor.project.settings import secrets, session_settings
from playbook_supervisor.project.settings.config import Config
from playbook_supervisor.sessions.files.manifest import Driver, Inherited
from playbook_supervisor.sessions.steps import step_data
from playbook_supervisor.sessions.steps.open_session import OpenSession
from playbook_supervisor.sessions.steps.output_files import last_speaker
from playbook_supervisor.sessions.store.disk_store import DiskStore
from playbook_supervisor.sessions.store.snapshot import Snapshot
from playbook_supervisor.system.git import checkout
from playbook_supervisor.system.git.git_process import branches

_BELOW = r"(?s)the child session (\S+) failed at (.*)"  # the error of a step whose child failed


def create_missing(
    store: DiskStore, child: str, parent: str, top: str, attempt: Attempt
) -> Failure | None:
    """Create the child's session unless it is there; why that cannot be, if it cannot. `top` is the
    session that a person began. A process that was killed may have left the child's id in the
    parent's journal, and no child."""
    with store.open(parent) as opened:
        manifest, playbook, config = opened.manifest, opened.playbook, opened.config
        settings = opened.pinned.files.get(session_settings.FILE)
    with store.open(top) as opened:
        pinned = opened.pinned
    with store.creating():
        if store.drives(child) or child in store.ids():
            return None
        try:
            values = playbook.values(manifest.args, attempt.step)
            found = pinned.child(attempt.step.child)
            mapped = fill(json.loads(attempt.step.options or "{}"), values, {}).get("args", {})
            given = [f"{name}={value}" for name, value in mapped.items() if value != ""]
            feature, args = _args(store, found.playbook, given, config)
        except (ArgumentError, CheckError, StateError) as error:
            message = f"its child session cannot begin: {error.message}"
            return Failure(CHILD, message, error.guidance, error.code, lasts=True)
        store.create(
            playbook=found.playbook.name,
            text=found.text,
            feature=feature,
            args=args,
            definition=found.playbook,
            policy=found.policy,
            session_id=child,
            inherited=Inherited(f"{parent}/{attempt.own_id}", settings),
            driver=Driver(isolation=manifest.driver.isolation),
        )
    return None


def too_deep(limit: int) -> Failure:
    """The failure of a step whose child would have too many sessions above it."""
    message = f"its child session would be more than {limit} levels deep"
    return Failure("PB-STEP-DEPTH", message, CODES["PB-STEP-DEPTH"], lasts=True)


def _args(
    store: DiskStore, playbook: Playbook, given: list[str], config: Config
) -> tuple[str, dict[str, str]]:
    args = arguments.bind(playbook, given, is_secret=lambda name: secrets.known(name, config))
    root, branch = store.checkout.root, checkout.refreshed(store.checkout).branch
    feature = features.current(root, branch, config).name
    if "feature" in args:
        found = features.resolve(root, args["feature"], config, lambda: branches(root))
        feature = found.name
        args = arguments.changed(playbook, args, "feature", feature)
    return feature, without_absent_checks(playbook, args, config.checks)


def outcome(store: DiskStore, ended: Snapshot) -> Outcome:
    """The outcome of the child for its parent's step, with `session`, `status` and `output`
    as data. Its cause is the child's error code, so that the step's error policy can name it."""
    with store.open(ended.session_id) as opened:
        opened.copy()  # the last time: nothing opens it again
        text, output = _last_output(opened)
    data = {"session": ended.session_id, "status": ended.manifest.status.value, "output": output}
    if ended.manifest.status is SessionStatus.COMPLETED:
        return Outcome(output=text, data=data)
    where = positions(ended.state)
    failed = [each for each in ended.state.entries if where[each.step_id] is Position.FAILED]
    entry = failed[-1]
    message = f"the child session {ended.session_id} failed at {entry.step_id}"
    if entry.error_code == CHILD and (inner := re.match(_BELOW, entry.error)):
        # the session and step where it began, however deep that is: each level adds its step
        message = f"the child session {inner[1]} failed at {entry.step_id}/{inner[2]}"
    else:
        message += f": {first_line(entry.error)}"
    guidance = entry.error_guidance or f"`playbook show {ended.session_id}` has its steps."
    failure = Failure(CHILD, message, guidance, entry.error_codes[0], entry.error_lasts)
    return Outcome(failure, text, data=data)


def _last_output(opened: OpenSession) -> tuple[str, Any]:
    """The last output of the session as text, and as the data of a step that promises JSON: that of
    the last step, which is kept, else the last words in the journal."""
    found = step_data.data_of(opened, last_speaker(opened.playbook))
    if found is not None and found.stdout is not None:
        return found.stdout, found.json if found.has_json else found.stdout
    said = [entry.output for entry in step_data.entries_of(opened) if entry.output]
    return (said[-1], said[-1]) if said else ("", "")
