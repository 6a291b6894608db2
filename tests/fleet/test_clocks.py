"""Machines whose clocks are two hours apart: one time in every journal, that of the database."""

from __future__ import annotations

import re
import shutil
import time
from datetime import datetime
from pathlib import Path

import pytest
import yaml
from support.controlled_time import eventually

from fleet import chains
from fleet.machines import GATE, Site
from fleet.postgres import Server
from playbook_supervisor.commands.views.session_files import audit

HOUR = 3600


@pytest.mark.long
@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_clocks_two_hours_apart_leave_no_trace_in_a_journal(
    postgres: Server, tmp_path: Path
) -> None:
    with Site(tmp_path / "site", postgres) as site:
        url = site.remote("widgets")
        slow = site.machine("slow", clock=-HOUR, work=1)
        fast = site.machine("fast", clock=HOUR, work=1)
        assert fast.playbook("fleet", "migrate").code == 0
        begun = time.time()
        submitted = fast.submit(url)
        assert submitted.code == 0, submitted.err
        (session,) = re.findall(r"\d{8}-[a-z0-9]{3}", submitted.out + submitted.err)[:1]
        slow.start()
        assert eventually(lambda: "waits at gate" in slow.said())
        slow.terminate()
        answered = slow.playbook("answer", session, "--gate", GATE, "continue")
        assert answered.code == 0, answered.err
        fast.start()
        assert eventually(lambda: f"{session} completed" in fast.said()), fast.said()
        fast.terminate()
        ended = time.time()
        mirror = site.folder / "mirror.git"
        chains.git(
            site.folder, "clone", "--quiet", "--mirror", f"{site.remotes}/widgets.git", "mirror.git"
        )
        (report,) = audit((), every=True, cwd=mirror)
        assert report.ok, report
        place = f"refs/playbook/sessions/{session}:.playbooks/sessions/{session}/journal.yaml"
        journal = chains.git(mirror, "show", place)
        times = [
            datetime.fromisoformat(each).timestamp() for each in re.findall(r"20\d\d-\S+Z", journal)
        ]
        assert len(times) > 10
        assert begun - 5 < min(times) <= max(times) < ended + 5
        (gate,) = [
            gate for entry in yaml.safe_load(journal)["entries"] for gate in entry.get("gates", ())
        ]
        assert (gate["by"], gate["via"]) == ("Slow <slow@example.org>", "fleet")
