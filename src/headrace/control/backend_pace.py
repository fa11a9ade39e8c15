"""The pace at which the nodes of a cluster ask backends about drivers."""

from __future__ import annotations

import time
from dataclasses import dataclass

from headrace.config.settings import Settings
from headrace.store.database import Database
from headrace.store.nodes import take_backend_slot


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
