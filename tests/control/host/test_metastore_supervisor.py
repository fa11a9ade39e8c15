"""The supervisor of the metastore, without a JVM."""

from __future__ import annotations

import threading
from pathlib import Path

from tests.support.waiting import wait_until

from headrace.control.host import metastore_supervisor


def test_a_metastore_waits_until_a_driver_wants_it(tmp_path: Path) -> None:
    file, stop = tmp_path / "wanted", threading.Event()
    waiting = threading.Thread(
        target=metastore_supervisor._wait_until_wanted, args=[file, stop], daemon=True
    )
    waiting.start()
    waiting.join(0.2)
    assert waiting.is_alive()
    file.touch()
    wait_until(lambda: not waiting.is_alive(), what="the end of the wait")


def test_a_supervisor_that_stops_does_not_wait(tmp_path: Path) -> None:
    stop = threading.Event()
    stop.set()
    waiting = threading.Thread(
        target=metastore_supervisor._wait_until_wanted,
        args=[tmp_path / "wanted", stop],
        daemon=True,
    )
    waiting.start()
    wait_until(lambda: not waiting.is_alive(), what="the end of the wait")
