"""What cannot work here: the findings about a playbook, the settings and this machine.

`check` and `doctor` show them all; `run` and the other beginnings refuse what is fatal.
"""

from __future__ import annotations

from collections.abc import Iterator

from playbook_supervisor.agents import registry
from playbook_supervisor.drivers.budget import unkept
from playbook_supervisor.drivers.step_kinds import LACK, Site, faults
from playbook_supervisor.errors import ArgumentError, CheckError, PlaybookError
from playbook_supervisor.kernel.model import Playbook
from playbook_supervisor.project.step_needs import lacking
from playbook_supervisor.records import Record

_OTHER_AGENT = "Remove the limit, or set an agent that reports its usage."


class Finding(Record):
    """One thing that cannot work, at a path of the playbook.

    `certain`: on any machine; `fatal`: the run could not go on without it.
    """

    path: tuple[str | int, ...]
    error: PlaybookError
    certain: bool = True
    fatal: bool = True

    @property
    def step(self) -> int | None:
        """The index of its step; None if it is about the whole playbook."""
        return next((part for part in self.path if isinstance(part, int)), None)


def findings(playbook: Playbook, site: Site | None) -> Iterator[Finding]:
    """All of them, in the order of the steps; then the limits that the settings' agent cannot
    keep, unless it is the default one or cannot be used. Without a site, the faults alone."""
    for fault in faults(playbook, site):
        yield Finding(("steps", fault.index, *fault.path), fault.error)
    if site is None:
        return
    for lack in lacking(playbook, site.root):
        error = CheckError(LACK, lack.message, guidance=lack.guidance)
        yield Finding(("steps", lack.index, "command"), error, certain=False, fatal=lack.fatal)
    if registry.is_default(site.config.agent):
        return
    try:
        problem = unkept(registry.choose("", site.config, site.root), playbook)
    except PlaybookError:
        return
    if problem:
        lacks = ArgumentError("PB-ARG-AGENT", problem, guidance=_OTHER_AGENT)
        yield Finding(("steps",), lacks, certain=False)
