"""Instants are stored with microseconds and read back in UTC on both databases."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.dialects import postgresql, sqlite

from headrace.store.clock import Instant

_DIALECTS = (sqlite.dialect(), postgresql.dialect())


@given(st.datetimes(timezones=st.just(UTC)))
def test_an_instant_is_stored_exactly_on_sqlite(moment: datetime) -> None:
    column = Instant()
    stored = column.process_bind_param(moment, _DIALECTS[0])
    assert isinstance(stored, int)
    assert column.process_result_value(stored, _DIALECTS[0]) == moment


def test_an_instant_is_read_back_in_utc() -> None:
    east = timezone(timedelta(hours=5, minutes=30))
    moment = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=east)
    for dialect in _DIALECTS:
        column = Instant()
        stored = column.process_bind_param(moment, dialect)
        back = column.process_result_value(stored, dialect)
        assert back == moment
        assert back is not None
        assert back.tzinfo is UTC


def test_none_is_stored_as_null() -> None:
    for dialect in _DIALECTS:
        assert Instant().process_bind_param(None, dialect) is None
        assert Instant().process_result_value(None, dialect) is None
