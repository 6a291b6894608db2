"""A machine of the tests is all that has its home, and nothing of it outlives them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from support.controlled_time import eventually

from fleet.guardian import processes

RUNS = """
import os, subprocess, sys
from pathlib import Path
from fleet.guardian import Guardian
folder = sys.argv[1]
with Guardian(Path(folder)):
    home = {**os.environ, "HOME": f"{folder}/m1"}
    subprocess.Popen(["sleep", "600"], env=home, start_new_session=True)
    print("started", flush=True)
    sys.stdin.read()
"""


def test_a_machine_does_not_outlive_tests_that_are_killed(tmp_path: Path) -> None:
    tests = str(Path(__file__).parent.parent)
    process = subprocess.Popen(
        [sys.executable, "-c", RUNS, str(tmp_path)],
        env=os.environ | {"PYTHONPATH": tests},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout
    with process:
        process.stdout.readline()
        assert eventually(lambda: len(processes(tmp_path / "m1")) == 1)
        assert processes(tmp_path / "m2") == []
        process.send_signal(signal.SIGKILL)
    assert eventually(lambda: processes(tmp_path) == [])
