"""A real browser, headless, driven through its own driver program."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

REQUIRED = "PLAYBOOK_REQUIRE_BROWSER"
_OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--no-proxy-server",
)
PHONE, DESK = 390, 1280


@contextmanager
def browser(
    folder: Path, *, width: int = PHONE, dark: bool = False, script: bool = True
) -> Iterator[webdriver.Chrome]:
    """A browser with a profile of its own; skips the test where there is none."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    driver = shutil.which("chromedriver")
    if program is None or driver is None:
        if os.environ.get(REQUIRED):
            pytest.fail(f"no chromium or no chromedriver, and {REQUIRED} is set")
        pytest.skip("chromium and chromedriver are not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for option in (*_OPTIONS, f"--user-data-dir={folder / 'profile'}"):
        options.add_argument(option)
    if not script:
        options.add_experimental_option(
            "prefs", {"profile.managed_default_content_settings.javascript": 2}
        )
    with webdriver.Chrome(options=options, service=Service(driver)) as page:
        page.set_page_load_timeout(30)
        set_width(page, width)
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [theme]})
        yield page


def set_width(page: webdriver.Chrome, width: int) -> None:
    """Give the page the width of a phone or a desk, in CSS pixels."""
    phone = width < 600
    metrics = {
        "width": width,
        "height": 844 if phone else 900,
        "deviceScaleFactor": 2 if phone else 1,
        "mobile": phone,
    }
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
