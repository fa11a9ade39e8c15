"""Fixtures of tests of materialized views: those of CTAS, and a link that numbers generations."""

from __future__ import annotations

import pytest
from tests.driver.ctas.conftest import database, lake, lake_session, namespace
from tests.support.view_link import ViewLink

__all__ = ["database", "lake", "lake_session", "namespace"]


@pytest.fixture
def link() -> ViewLink:
    return ViewLink()
