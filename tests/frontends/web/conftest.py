"""The browsers of the tests of pages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser as Chromium
from tests.support.chromium import running_chromium


@pytest.fixture(scope="package")
def chromium() -> Iterator[Chromium]:
    with running_chromium() as chromium:
        yield chromium
