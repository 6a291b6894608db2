"""`page`: a browser as a phone, in light colours and with script, that must have no faults."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fleet.local_fleet import fleet as fleet

from inbox.browser import PHONE, Page, browser


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browser(tmp_path_factory.mktemp("browser")) as page:
        yield page


@pytest.fixture
def page(started: Page) -> Iterator[Page]:
    started.set_width(PHONE)
    started.prefer()
    started.allow_script(True)
    yield started
    started.get("about:blank")
    faults = started.look_for_faults()
    started.faults, started.seen = [], []
    assert faults == []
