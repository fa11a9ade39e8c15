"""Names of catalogs, databases, tables and columns for completion, loaded in the background."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from headrace.cli.shell.session import ShellSession
from headrace.cli.support.follow import fetch_rows
from headrace.client.http import Client
from headrace.grammar.catalog_queries import CatalogName, Lookup, names_in, query_for

_PAUSE = 600.0
"""Seconds between two keep-alives, unless the session sets another time."""


class CatalogCache:
    """Lists of names. A thread loads them; readers never wait.

    A list that may have changed is still returned while the thread loads it again.
    """

    def __init__(
        self,
        load: Callable[[Lookup], list[CatalogName]],
        *,
        keep_alive: Callable[[], None] = lambda: None,
        keep_alive_seconds: Callable[[], float] = lambda: _PAUSE,
    ) -> None:
        """Create the cache; `start` starts its thread.

        Args:
            load: Returns the names of a lookup. Runs in the thread; its errors are ignored.
            keep_alive: Called in the thread at the start, and when it had nothing to do for
                `keep_alive_seconds`.
        """
        self._load = load
        self._keep_alive = keep_alive
        self._keep_alive_seconds = keep_alive_seconds
        self.on_loaded: Callable[[], None] = lambda: None
        """Called in the thread after names have been loaded."""
        self._changed = threading.Condition()
        self._names: dict[Lookup, list[CatalogName]] = {}
        self._fresh: set[Lookup] = set()
        self._wanted: deque[Lookup] = deque()
        self._loading: Lookup | None = None
        """What the thread loads now, unless the names have changed since it began."""
        self._pauses = 0
        self._closed = False
        self._is_new = True
        self._generation = 0
        self._thread = threading.Thread(target=self._run, name="shell-names", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """Stop the thread after its current statement, without waiting for it."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def names(self, lookup: Lookup) -> list[CatalogName]:
        """Return the names that are known now. Unknown and old names are loaded later."""
        with self._changed:
            if lookup not in {*self._fresh, *self._wanted, self._loading}:
                self._wanted.append(lookup)
                self._changed.notify_all()
            return self._names.get(lookup, [])

    def invalidate(self) -> None:
        """Load every list again when it is next read."""
        with self._changed:
            self._generation += 1
            self._loading = None
            self._fresh.clear()

    def restart(self) -> None:
        """Forget all names, and call `keep_alive` soon, because the session is another one."""
        with self._changed:
            self._generation += 1
            self._loading = None
            self._fresh.clear()
            self._names.clear()
            self._wanted.clear()
            self._is_new = True
            self._changed.notify_all()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Load nothing during the block, so that no statement of the user waits for names."""
        with self._changed:
            self._pauses += 1
        try:
            yield
        finally:
            with self._changed:
                self._pauses -= 1
                self._changed.notify_all()

    def _run(self) -> None:
        while True:
            lookup, generation = self._next()
            if self._closed:
                return
            if lookup is None:
                with suppress(Exception):  # completion never disturbs the prompt
                    self._keep_alive()
            else:
                self._refresh(lookup, generation)
            with suppress(Exception):  # as above
                self.on_loaded()

    def _refresh(self, lookup: Lookup, generation: int) -> None:
        names: list[CatalogName] | None = None
        with suppress(Exception):  # as above
            names = self._load(lookup)
        with self._changed:
            if generation != self._generation:
                return
            self._loading = None
            if names is not None:
                self._names[lookup] = names
            self._fresh.add(lookup)

    def _next(self) -> tuple[Lookup | None, int]:
        """Wait for a wanted list. Return None if the session is new, or nothing was wanted."""
        pause = _PAUSE
        with suppress(Exception):  # as above
            pause = self._keep_alive_seconds()
        with self._changed:

            def is_ready() -> bool:
                has_work = self._is_new or bool(self._wanted)
                return self._closed or (has_work and not self._pauses)

            self._changed.wait_for(is_ready, timeout=pause)
            is_new, self._is_new = self._is_new, False
            has_names = self._wanted and not is_new and not self._pauses
            self._loading = self._wanted.popleft() if has_names else None
            return self._loading, self._generation


def load_names(client: Client, session: ShellSession, lookup: Lookup) -> list[CatalogName]:
    """Return the names of a lookup. Raises HeadraceError if the session cannot tell them."""
    return names_in(lookup.kind, fetch_rows(client, session.id, query_for(lookup)))
