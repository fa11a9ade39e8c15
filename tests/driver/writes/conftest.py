"""Fixtures of the tests of writes."""

from tests.driver.ctas.conftest import database, link

__all__ = ["database", "link"]
