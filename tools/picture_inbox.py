"""Make the pictures of the inbox: `python tools/picture_inbox.py docs`.

The real program serves the session of `playbook demo`, which waits at its gate, and chromium shows
it. Needs chromium and chromedriver.
"""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

from playbook_supervisor.commands import demo

PATIENCE = 60.0
WAITS = 4  # the exit code of a run that waits at a gate
PLAYBOOK = (sys.executable, "-m", "playbook_supervisor")
LINK = re.compile(rb"works once: (http\S+)\r?\n")
PICTURES: dict[str, dict[str, object]] = {
    "inbox-phone.png": {"width": 390, "height": 844, "deviceScaleFactor": 1.5, "mobile": True},
    "inbox-desk-dark.png": {"width": 1280, "height": 900, "deviceScaleFactor": 1, "mobile": False},
}
"""Each file and the screen that it shows."""


@contextmanager
def inbox(made: demo.Demo, env: dict[str, str]) -> Iterator[str]:
    """Serve the demonstration's inbox on a terminal; the link that it prints there."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*PLAYBOOK, "inbox", "--port", "0"],
        cwd=made.root,
        env=env,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    ) as process:
        os.close(theirs)
        try:
            yield _link(ours)
        finally:
            process.terminate()
    os.close(ours)


def _link(terminal: int) -> str:
    shown, end = b"", time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if select.select([terminal], [], [], 1.0)[0]:
            shown += os.read(terminal, 4096)
        if found := LINK.search(shown):
            return found[1].decode()
    raise SystemExit(f"the inbox prints no link:\n{shown.decode()}")


@contextmanager
def chromium(profile: Path) -> Iterator[webdriver.Chrome]:
    """A browser without a window, and with a profile of its own."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    driver_program = shutil.which("chromedriver")
    if program is None or driver_program is None:
        raise SystemExit("chromium or chromedriver is missing; the pictures are left as they are")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for option in ("--headless=new", "--no-sandbox", "--hide-scrollbars", "--no-proxy-server"):
        options.add_argument(option)
    options.add_argument(f"--user-data-dir={profile}")
    with webdriver.Chrome(options=options, service=Service(driver_program)) as driver:
        yield driver


def take(driver: webdriver.Chrome, file: Path) -> None:
    """Take one picture of the page."""
    theme = "dark" if "dark" in file.stem else "light"
    features = [{"name": "prefers-color-scheme", "value": theme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PICTURES[file.name])
    driver.save_screenshot(str(file))
    print(f"{file}: {file.stat().st_size // 1024} KiB")


def main(folder: Path) -> None:
    """Run the demonstration up to its gate, and take the pictures of that."""
    with tempfile.TemporaryDirectory(prefix="picture-") as scratch:
        made = demo.prepare(Path(scratch) / "demo")
        env = {**os.environ, "HOME": scratch, **made.env}
        argv = [*PLAYBOOK, "run", made.playbook, *made.args, "--agent", made.agent]
        done = subprocess.run(argv, cwd=made.root, env=env, capture_output=True, check=False)
        if done.returncode != WAITS:
            raise SystemExit(done.stderr.decode())
        with inbox(made, env) as link, chromium(Path(scratch) / "profile") as driver:
            driver.implicitly_wait(PATIENCE)
            driver.get(link)
            for selector in ("form button", ".card.waits a", ".question"):
                driver.find_element(By.CSS_SELECTOR, selector).click()
            for name in PICTURES:
                take(driver, folder / name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
