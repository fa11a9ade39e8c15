"""Web pages with a million statements in the store: their times, and what open pages cost others.

Run it alone by `python -m benchmarks.web_pages`. It needs `scripts/setup-wrk`, and starts no Spark.
"""

from __future__ import annotations

import getpass
import http.client
import random
import re
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks import load
from benchmarks.claims import MANY, ClaimBenchmark
from benchmarks.measure import Sample, interleaved
from benchmarks.peers.headrace_node import NodeClient, node_process

OWNER = getpass.getuser()
"""Owner of what a node without sign-in creates."""
ROUNDS, WARM_UP = 60, 10
PAGES = 200
_ROUNDS_OF_PAGES, _WINDOWS = 3, 5
_PAUSE = re.compile(rb'data-live-seconds="([0-9.]+)"')
"""What a page says about the time between two refreshes."""
_NO_DRIVER = "SHOW STREAMS"
"""A statement that the node runs itself: its events reach all open pages."""
LISTS = {
    "statements": "statements?limit=50",
    "statements?state=failed": "statements?limit=50&state=failed",
    "statements?owner=all": "statements?limit=50&all_owners=true",
    "sessions": "sessions?limit=50&state=running",
    "streams": "streams?limit=50",
    "jobs": "jobs",
    "nodes": "nodes",
}
"""Lists of pages, and the calls of the API with the same rows."""


def list_times(node: NodeClient) -> dict[str, Sample]:
    """Return the seconds of each list: of the page, and of the call of the API."""
    measurements = {
        **{f"/ui/{page}": partial(_time, node, f"/ui/{page}") for page in LISTS},
        **{f"/api/v1/{call}": partial(_time, node, f"/api/v1/{call}") for call in LISTS.values()},
    }
    return interleaved(measurements, warm_up=WARM_UP, rounds=ROUNDS)


def _time(node: NodeClient, path: str) -> float:
    connection = http.client.HTTPConnection(node.host, node.port or 80, timeout=60)
    connection.connect()
    start = time.perf_counter()
    connection.request("GET", path)
    response = connection.getresponse()
    response.read()
    seconds = time.perf_counter() - start
    assert response.status == 200, path
    connection.close()
    return seconds


def read_rates(node: NodeClient, folder: Path) -> dict[str, Sample]:
    """Return status reads per second: alone, and beside open pages while statements end."""
    body = {"statement": _NO_DRIVER}
    ended = [str(node.call("POST", "/api/v1/statements", body)["id"]) for _number in range(16)]
    rates = {"alone": Sample(), "beside quiet pages": Sample(), "beside busy pages": Sample()}

    def measure(condition: str) -> None:
        for _window in range(_WINDOWS):
            rates[condition].values.append(load.read_window(node, folder, ended))

    for _round in range(_ROUNDS_OF_PAGES):
        measure("alone")
        with open_pages(node, is_busy=False):
            measure("beside quiet pages")
        with open_pages(node, is_busy=True):
            measure("beside busy pages")
    return rates


@contextmanager
def open_pages(node: NodeClient, *, is_busy: bool) -> Iterator[None]:
    """Keep pages open: each has a stream of events, and fetches itself again after an event.

    Args:
        is_busy: Whether a statement of the same owner ends each second.
    """
    stopping = threading.Event()
    opened = threading.Barrier(PAGES + 1)
    pages = [
        threading.Thread(target=_follow, args=(node, opened, stopping)) for _page in range(PAGES)
    ]
    for page in pages:
        page.start()
    for _step in ("all streams are open", "all pages know their pause"):
        opened.wait()
    worker = threading.Thread(target=_work, args=(node.address, stopping, is_busy))
    worker.start()
    time.sleep(2)
    try:
        yield
    finally:
        stopping.set()
        for thread in [*pages, worker]:
            thread.join()


def _work(address: str, stopping: threading.Event, is_busy: bool) -> None:
    while is_busy and not stopping.wait(1):
        parts = urlsplit(address)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 80)
        body = f'{{"statement": "{_NO_DRIVER}"}}'
        connection.request("POST", "/api/v1/statements", body, {"Content-Type": "application/json"})
        connection.getresponse().read()
        connection.close()


def _follow(node: NodeClient, opened: threading.Barrier, stopping: threading.Event) -> None:
    """Do what the script of a page does: see `want` in `web/src/live.ts`."""
    with socket.create_connection((node.host, node.port or 80)) as stream:
        stream.sendall(f"GET /ui/events HTTP/1.1\r\nHost: {node.host}:{node.port}\r\n\r\n".encode())
        stream.recv(65536)
        opened.wait()
        stream.settimeout(0.5)
        # All pages are open: a browser learns the pause from its last refresh.
        pause, started = _refresh(node), time.monotonic()
        opened.wait()
        while not stopping.is_set():
            try:
                received = stream.recv(65536)
            except TimeoutError:
                continue
            if b"event: " not in received:
                continue
            due = max(time.monotonic() + random.random() * pause, started + pause)
            if stopping.wait(due - time.monotonic()):
                return
            started = time.monotonic()
            pause = _refresh(node)


def _refresh(node: NodeClient) -> float:
    """Fetch a page again as its script does; return the time until the next refresh."""
    connection = http.client.HTTPConnection(node.host, node.port or 80, timeout=60)
    connection.request("GET", "/ui/statements", headers={"HX-Request": "true"})
    found = _PAUSE.search(connection.getresponse().read())
    connection.close()
    assert found is not None
    return float(found[1])


def main() -> None:
    """Print the times and the rates with their ratios."""
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as name:
        folder = Path(name)
        home = folder / "home"
        home.mkdir()
        ClaimBenchmark(f"sqlite:///{home / 'headrace.db'}", MANY, owner=OWNER).close()
        with node_process(home) as (node, _process):
            times = list_times(node)
            print("| list | page ms | API ms | ratio |\n|---|--:|--:|--:|")
            for page, call in LISTS.items():
                shown, of_api = times[f"/ui/{page}"], times[f"/api/v1/{call}"]
                low, high = shown.spread
                print(
                    f"| {page} | {shown.median * 1000:.1f} ({low * 1000:.1f} to {high * 1000:.1f})"
                    f" | {of_api.median * 1000:.1f} | {shown.median / of_api.median:.2f}× |"
                )
            rates = read_rates(node, folder)
            for name_, rate in rates.items():
                ratio = rate.median / rates["alone"].median
                print(f"status reads {name_}: {rate.median:,.0f}/s, {ratio:.2f}×")


if __name__ == "__main__":
    main()
