"""A real browser, headless, driven through its own driver program; and what its pages must keep to.

Every wait is for a condition: an element, an address, a page that was loaded again.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException, WebDriverException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait
from support.scratch_project import Project

from inbox.serving import Served, serving

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
_PATIENCE = 60.0
_IGNORED = (StaleElementReferenceException,)


class Page(webdriver.Chrome):
    """A browser with one page. `seen` are the addresses of all requests that it has made."""

    def __init__(self, options: webdriver.ChromeOptions, service: Service) -> None:
        super().__init__(options=options, service=service)
        self.seen: list[str] = []
        self.faults: list[str] = []

    # ── what a person does ──────────────────────────────────────────────────────────────────

    def one(self, selector: str) -> WebElement:
        found: WebElement = self.until(
            lambda: self.find_element(By.CSS_SELECTOR, selector), selector
        )
        return found

    def all(self, selector: str) -> list[WebElement]:
        return self.find_elements(By.CSS_SELECTOR, selector)

    def text(self, selector: str = "main") -> str:
        return str(self.until(lambda: self.one(selector).text, selector))

    def press(self, selector: str) -> None:
        """Click it and wait for the page that follows."""
        self.leave(lambda: self.click(selector), selector)

    def leave(self, act: Callable[[], object], what: str) -> None:
        """Do what leads to another page, and wait for that."""
        former = self.one("html")
        act()
        self.until(lambda: _is_gone(former), f"a page after {what}")

    def click(self, selector: str) -> None:
        element = self.one(selector)
        self.execute_script(
            "arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", element
        )
        element.click()

    def write(self, selector: str, words: str) -> None:
        self.one(selector).send_keys(words)

    def shows(self, words: str, selector: str = "main") -> None:
        self.until(lambda: words in self.one(selector).text, f"{words!r} in {selector}")

    def until(self, condition: Callable[[], Any], what: str) -> Any:
        """The first true value of the condition; fails with the page's text."""
        try:
            waiting = WebDriverWait(self, _PATIENCE, 0.02, ignored_exceptions=_IGNORED)
            return waiting.until(lambda _: condition())
        except WebDriverException as error:
            shown = self.find_element(By.TAG_NAME, "body").text
            raise AssertionError(f"no {what} at {self.current_url}: {error.msg}\n{shown}") from None

    # ── how it looks at the page ────────────────────────────────────────────────────────────

    def set_width(self, width: int, *, height: int = 0) -> None:
        """Give the page the width of a phone or a desk, in CSS pixels."""
        phone = width < 600
        metrics = {
            "width": width,
            "height": height or (844 if phone else 900),
            "deviceScaleFactor": 2 if phone else 1,
            "mobile": phone,
        }
        self.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def prefer(self, *, dark: bool = False, still: bool = False) -> None:
        """Ask for the dark theme, and for no motion."""
        features = [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce" if still else "no-preference"},
        ]
        self.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def allow_script(self, allowed: bool) -> None:
        self.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": not allowed})

    def picture(self, file: Path) -> None:
        self.save_screenshot(str(file))

    # ── what it tells about itself ──────────────────────────────────────────────────────────

    def look_for_faults(self) -> list[str]:
        """All that the console and the content policy complained about so far.

        The console also reports each reply with a status of 400 and more, which is none.
        """
        for entry in self.get_log("browser"):  # type: ignore[no-untyped-call]
            replied = entry["source"] == "network" and "status of 4" in entry["message"]
            if entry["level"] in ("SEVERE", "WARNING") and not replied:
                self.faults.append(entry["message"])
        for entry in self.get_log("performance"):  # type: ignore[no-untyped-call]
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                self.seen.append(message["params"]["request"]["url"])
        return self.faults

    def hosts(self) -> set[str]:
        self.look_for_faults()
        own = ("chrome", "about", "data")  # also `chrome-untrusted`
        return {urlsplit(url).netloc for url in self.seen if not url.startswith(own)}


@contextmanager
def browser(
    folder: Path, *, width: int = PHONE, dark: bool = False, script: bool = True
) -> Iterator[Page]:
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
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    with Page(options, Service(driver)) as page:
        page.set_page_load_timeout(_PATIENCE)
        page.set_width(width)
        page.prefer(dark=dark)
        page.allow_script(script)
        yield page


@contextmanager
def opened(project: Project, page: Page) -> Iterator[Served]:
    """The inbox of the project, open in the browser."""
    with serving(project) as served:
        page.get(served.link())
        page.shows("This browser will answer in your name")
        page.press("button")
        try:
            yield served
        finally:
            page.get("about:blank")


def _is_gone(element: WebElement) -> bool:
    try:
        element.is_enabled()
    except WebDriverException:
        return True
    return False
