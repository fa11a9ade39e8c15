"""The browsers of the tests of pages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser as Chromium
from tests.support.browsers import Browser
from tests.support.chromium import running_chromium
from tests.support.groups import group_resources
from tests.support.in_process_node import InProcessNode, StartNode


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chromium]:
    """Yield Chromium until the end of the group: Playwright's event loop runs in this thread.

    No other event loop can run in the thread meanwhile.
    """
    yield group_resources.enter_context(running_chromium())
    group_resources.close()


@pytest.fixture
def node(start_node: StartNode) -> InProcessNode:
    """Return a node for one test, without a sign-in."""
    return start_node()


@pytest.fixture
def browser(node: InProcessNode) -> Iterator[Browser]:
    """Yield a browser without scripts."""
    with Browser(node) as browser:
        yield browser
