"""Threads for calls to backends, which may take long.

Each backend has threads of its own, so that a slow backend delays neither the periodic tasks nor
the work on other backends.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from headrace.config.settings import Settings
from headrace.errors import StoreUnavailable
from headrace.store.database import Database
from headrace.store.nodes import take_backend_slot

_LOG = logging.getLogger("headrace.backends")


class BackendPools:
    """One pool of threads for each backend. Thread-safe."""

    def __init__(self, purpose: str, *, threads: int) -> None:
        """Create the pools without threads.

        Args:
            purpose: The work of the pools, for the names of threads and for the log.
            threads: Largest number of calls to one backend that run at once.
        """
        self._purpose = purpose
        self._threads = threads
        self._pools: dict[str, ThreadPoolExecutor] = {}
        self._by_backend: Counter[str] = Counter()
        self._by_session: Counter[str] = Counter()
        self._lock = threading.Lock()

    def count_free(self, backend: str) -> int:
        """Return the number of calls that can begin now."""
        with self._lock:
            return max(0, self._threads - self._by_backend[backend])

    def count_busy(self, backend: str) -> int:
        """Return the number of calls that run or wait for a thread."""
        with self._lock:
            return self._by_backend[backend]

    @property
    def has_work(self) -> bool:
        """Whether any call runs or waits for a thread."""
        with self._lock:
            return any(self._by_backend.values())

    def is_busy(self, session_id: str) -> bool:
        """Return whether work for a session runs, or waits for a thread."""
        with self._lock:
            return self._by_session[session_id] > 0

    def submit(self, backend: str, session_id: str, act: Callable[[], None]) -> None:
        """Run `act` in a thread of the backend, as soon as one is free. Its errors are logged."""
        with self._lock:
            pool = self._pools.get(backend)
            if pool is None:
                name = f"headrace-{self._purpose}-{backend}"
                pool = ThreadPoolExecutor(self._threads, thread_name_prefix=name)
                self._pools[backend] = pool
            self._by_backend[backend] += 1
            self._by_session[session_id] += 1
        pool.submit(self._run, backend, session_id, act)

    def stop(self) -> None:
        """Wait for the work that runs, and drop the work that waits for a thread."""
        with self._lock:
            pools = list(self._pools.values())
        for pool in pools:
            pool.shutdown(wait=True, cancel_futures=True)

    def _run(self, backend: str, session_id: str, act: Callable[[], None]) -> None:
        try:
            act()
        except StoreUnavailable as error:
            _LOG.error("session %s: its %s must wait: %s", session_id, self._purpose, error.message)
        except Exception:  # noqa: BLE001 - when the lease of the session expires, a node tries again
            _LOG.exception("session %s: its %s failed", session_id, self._purpose)
        finally:
            with self._lock:
                self._by_backend[backend] -= 1
                self._by_session[session_id] -= 1
                if not self._by_session[session_id]:
                    del self._by_session[session_id]


@dataclass(frozen=True, slots=True)
class BackendPace:
    """Makes each call wait for its slot, so that no restart of a cluster floods a backend."""

    database: Database
    settings: Settings

    def wait(self, backend: str) -> None:
        """Wait until the cluster may ask a backend about another driver. Raise StoreUnavailable.

        Call this in a thread of the backend: with many calls, it takes long.
        """
        with self.database.write("backend.pace") as tx:
            seconds = take_backend_slot(tx, backend, self.settings.cluster.backend_polls)
        if seconds > 0:
            time.sleep(seconds)
