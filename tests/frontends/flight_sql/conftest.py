"""The node of the tests of Flight SQL."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.flight_sql import FlightNode, serve_flight


@pytest.fixture(scope="module")
def flight(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlightNode]:
    """Serve a node for the tests of a module."""
    home = tmp_path_factory.mktemp("flight") / "home"
    with serve_flight(home, names=("ada", "bob")) as node:
        yield node
