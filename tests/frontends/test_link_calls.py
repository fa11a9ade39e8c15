"""Polls of one driver: the newest one replaces the others."""

from __future__ import annotations

from headrace.frontends.driver_link import LinkCalls
from headrace.model.session import DriverLease

_LEASE = DriverLease("se_1", 1)


def test_a_newer_poll_releases_the_older_one() -> None:
    calls = LinkCalls()
    with calls.open_poll(_LEASE) as older, calls.open_poll(_LEASE) as newer:
        assert (older.released, newer.released) == (True, False)


def test_an_older_poll_may_end_after_a_newer_one() -> None:
    calls = LinkCalls()
    with calls.open_poll(_LEASE), calls.open_poll(_LEASE):
        pass


def test_a_newer_poll_may_end_after_an_older_one() -> None:
    calls = LinkCalls()
    older, newer = calls.open_poll(_LEASE), calls.open_poll(_LEASE)
    older.__enter__()
    newer_poll = newer.__enter__()
    older.__exit__(None, None, None)
    with calls.open_poll(_LEASE):
        assert newer_poll.released
    newer.__exit__(None, None, None)
