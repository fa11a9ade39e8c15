"""The browsers of the tests of pages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser as Chromium
from tests.support.browsers import Browser
from tests.support.chromium import running_chromium
from tests.support.in_process_node import InProcessNode, StartNode


@pytest.fixture(scope="package")
def chromium() -> Iterator[Chromium]:
    with running_chromium() as chromium:
        yield chromium


@pytest.fixture
def node(start_node: StartNode) -> InProcessNode:
    """Return a node for one test, without a sign-in."""
    return start_node()


@pytest.fixture
def browser(node: InProcessNode) -> Iterator[Browser]:
    """Yield a browser without scripts."""
    with Browser(node) as browser:
        yield browser
