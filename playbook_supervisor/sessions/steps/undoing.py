"""Undoes what a failed attempt has changed, and reports it as the answer to the kernel's check."""

from __future__ import annotations

import re

from playbook_supervisor.errors import PlaybookError
from playbook_supervisor.kernel.directives import Answer, Check, Checked, Probed, Report
from playbook_supervisor.kernel.steps import UNDO_REPORT
from playbook_supervisor.sessions.steps.open_session import OpenSession
from playbook_supervisor.system.git.checkout import Checkout
from playbook_supervisor.system.git.undo import undo


def undone(check: Check, opened: OpenSession, here: Checkout, at: int) -> Checked:
    """The files and the branch are put back to what they were at the launch; a report of ERROR says
    why they are not. Only while the session's lock is held: what runs next must not be undone."""
    (member,) = check.members
    launch = opened.runtime.launches.get(member.id)
    before, head = (launch.tree, launch.head) if launch else ("", "")
    name = f"{opened.manifest.session_id}/{re.sub(r'[^A-Za-z0-9-]+', '-', member.id)}"
    try:
        said = undo(here.root, before, head, name, opened.runtime.pinned).said
        probed = Probed(UNDO_REPORT, Answer.HELD, said)
    except PlaybookError as error:
        why = f"{error.message}. {error.guidance}".rstrip(". ")
        probed = Probed(UNDO_REPORT, Answer.ERROR, why)
    return Checked(at, check.id, {member.step.id: Report((probed,))})
