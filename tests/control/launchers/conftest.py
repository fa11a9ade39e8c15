"""AWS, as moto has it, for the launchers of its backends."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.aws import Aws, account, moto_server


@pytest.fixture(scope="package")
def moto() -> Iterator[str]:
    """A server's address."""
    with moto_server() as address:
        yield address


@pytest.fixture
def aws(moto: str) -> Aws:
    """A bucket and an application of the test's own."""
    return account(moto)
