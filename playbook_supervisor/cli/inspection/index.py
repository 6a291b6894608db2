"""`index`: update `.playbooks/_index.yaml`."""

from __future__ import annotations

import click

from playbook_supervisor.cli import options, output
from playbook_supervisor.commands import locate
from playbook_supervisor.errors import CheckError
from playbook_supervisor.project.playbooks import library
from playbook_supervisor.sessions.files.session_clock import system_clock
from playbook_supervisor.system.git import checkout


@options.command
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if it is out of date.")
def index(*, check: bool) -> int:
    """Update .playbooks/_index.yaml.

    It is rewritten only if its content has changed.

    \b
    Examples:
      playbook index
      playbook index --check
    """
    root = checkout.find(locate.current_folder()).root
    if check and (why := library.index_is_stale(root)):
        raise CheckError("PB-CHECK-STALE", why, where=library.INDEX)
    rewritten = not check and library.write_index(root, system_clock())
    output.inform("index rewritten" if rewritten else "the index is up to date")
    return 0
