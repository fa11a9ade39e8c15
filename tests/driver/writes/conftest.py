"""Fixtures of the tests of writes."""

from tests.driver.ctas.conftest import database

__all__ = ["database"]
