"""The cache of names, and the thread that fills it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.waiting import wait_until

from headrace.cli.shell.catalog_cache import CatalogCache
from headrace.errors import NodeUnreachable
from headrace.grammar.catalog_queries import CatalogName, Lookup, NameKind

TABLES = Lookup(NameKind.TABLES)


class Loader:
    """Counts the loads, and returns or raises what the test sets."""

    def __init__(self) -> None:
        self.loads: list[Lookup] = []
        self.pings = 0
        self.outcome: list[str] | Exception = ["t"]
        self.permits = threading.Semaphore(1000)
        """One for each load that may end."""

    def load(self, lookup: Lookup) -> list[CatalogName]:
        outcome = self.outcome
        self.loads.append(lookup)
        assert self.permits.acquire(timeout=60)
        if isinstance(outcome, Exception):
            raise outcome
        return [CatalogName(text) for text in outcome]

    def ping(self) -> None:
        self.pings += 1


@pytest.fixture
def loader() -> Loader:
    return Loader()


@pytest.fixture
def cache(loader: Loader, request: pytest.FixtureRequest) -> Iterator[CatalogCache]:
    pause: Any = getattr(request, "param", 600.0)
    cache = CatalogCache(loader.load, keep_alive=loader.ping, keep_alive_seconds=lambda: pause)
    cache.start()
    yield cache
    loader.permits.release(1000)
    cache.close()


def test_reading_never_waits_and_names_are_loaded_once(cache: CatalogCache, loader: Loader) -> None:
    loader.permits = threading.Semaphore(0)
    assert cache.names(TABLES) == []
    loader.permits.release(1000)
    wait_until(lambda: cache.names(TABLES) == [CatalogName("t")])
    assert loader.loads == [TABLES]


def test_names_are_loaded_again_after_a_change_and_stay_meanwhile(
    cache: CatalogCache, loader: Loader
) -> None:
    wait_until(lambda: cache.names(TABLES))
    loader.outcome = ["t", "u"]
    loader.permits = threading.Semaphore(0)
    cache.invalidate()
    assert cache.names(TABLES) == [CatalogName("t")]
    loader.permits.release(1000)
    wait_until(lambda: len(cache.names(TABLES)) == 2)


def test_a_load_from_before_a_change_is_not_kept(cache: CatalogCache, loader: Loader) -> None:
    loader.permits = threading.Semaphore(0)
    cache.names(TABLES)
    wait_until(lambda: loader.loads == [TABLES])
    cache.names(TABLES)  # wants nothing: the names are being loaded
    cache.invalidate()
    loader.outcome = ["u"]
    assert cache.names(TABLES) == []
    loader.permits.release()
    wait_until(lambda: loader.loads == [TABLES, TABLES])
    assert cache.names(TABLES) == []
    loader.permits.release()
    wait_until(lambda: cache.names(TABLES))
    assert cache.names(TABLES) == [CatalogName("u")]
    assert loader.loads == [TABLES, TABLES]


def test_an_error_is_silent_and_keeps_old_names(cache: CatalogCache, loader: Loader) -> None:
    wait_until(lambda: cache.names(TABLES))
    loader.outcome = NodeUnreachable("no node")
    cache.invalidate()
    assert cache.names(TABLES) == [CatalogName("t")]
    wait_until(lambda: len(loader.loads) == 2)
    assert cache.names(TABLES) == [CatalogName("t")]
    loader.outcome = ["u"]
    cache.invalidate()
    wait_until(lambda: cache.names(TABLES) == [CatalogName("u")])


@pytest.mark.parametrize("cache", [0.01], indirect=True)
def test_nothing_is_loaded_while_a_statement_runs(cache: CatalogCache, loader: Loader) -> None:
    with cache.paused():
        pings = loader.pings
        cache.names(TABLES)
        wait_until(lambda: loader.pings > pings + 1)
        assert loader.loads == []
    wait_until(lambda: cache.names(TABLES))
    assert loader.loads == [TABLES]


def test_another_session_forgets_all_names(cache: CatalogCache, loader: Loader) -> None:
    wait_until(lambda: cache.names(TABLES))
    loader.permits = threading.Semaphore(0)
    cache.restart()
    assert cache.names(TABLES) == []
    loader.permits.release(1000)
    wait_until(lambda: loader.pings == 2)


@pytest.mark.parametrize("cache", [0.01], indirect=True)
def test_an_idle_thread_keeps_the_session_alive(cache: CatalogCache, loader: Loader) -> None:
    wait_until(lambda: loader.pings > 2)
    assert loader.loads == []


@pytest.mark.parametrize("cache", [0.01], indirect=True)
def test_an_error_of_a_listener_does_not_end_the_thread(
    cache: CatalogCache, loader: Loader
) -> None:
    def fail() -> None:
        raise RuntimeError("Event loop is closed")

    cache.on_loaded = fail
    pings = loader.pings
    wait_until(lambda: loader.pings > pings + 2)


def test_an_error_of_the_pause_does_not_end_the_thread(loader: Loader) -> None:
    def fail() -> float:
        raise ValueError("no duration")

    cache = CatalogCache(loader.load, keep_alive_seconds=fail)
    cache.start()
    wait_until(lambda: cache.names(TABLES))
    cache.close()
