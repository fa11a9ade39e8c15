"""Requests per second that one node serves to several threads with a connection each."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable

from benchmarks.measure import MEDIAN_OF, Sample
from benchmarks.peers.headrace_node import SESSION, NodeClient

THREADS = 4
WINDOW_SECONDS = 0.5

SendRequest = Callable[[http.client.HTTPConnection], None]


def status_reads(node: NodeClient) -> Sample:
    """Measure `GET /statements/{id}` of a finished statement, in requests per second."""
    path = f"/api/v1/statements/{node.run('SELECT 1')['id']}"
    return measure_rates(node, lambda connection: send_request(connection, "GET", path, 200))


def submits(node: NodeClient) -> Sample:
    """Measure `POST /statements` without a wait, in requests per second.

    The driver of the session sleeps meanwhile, so that only the node is measured. The submitted
    statements remain in state waiting: the session cannot be used afterwards.
    """
    seconds = WINDOW_SECONDS * (MEDIAN_OF + 10)
    sleep = (
        f"SELECT java_method('java.lang.Thread', 'sleep', {seconds * 1000:.0f}L + id) FROM range(1)"
    )
    node.call("POST", "/api/v1/statements", {"statement": sleep, "session": SESSION})
    body = json.dumps({"statement": "SELECT 1", "session": SESSION})
    return measure_rates(
        node, lambda connection: send_request(connection, "POST", "/api/v1/statements", 201, body)
    )


def measure_rates(node: NodeClient, send: SendRequest) -> Sample:
    """Return the requests per second in many short windows; a first window is not counted."""
    windows = [_measure_window(node, send) for _ in range(MEDIAN_OF + 1)]
    return Sample(windows[1:])


def _measure_window(node: NodeClient, send: SendRequest) -> float:
    counts = [0] * THREADS
    failures: list[Exception] = []
    ready = threading.Barrier(THREADS + 1)
    ended = threading.Event()

    def send_requests(number: int) -> None:
        connection = http.client.HTTPConnection(node.host, node.port, timeout=30)
        connection.connect()
        ready.wait()
        try:
            while not ended.is_set():
                send(connection)
                counts[number] += 1
        except (OSError, http.client.HTTPException, RuntimeError) as error:
            failures.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=send_requests, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    ready.wait()
    start = time.perf_counter()
    time.sleep(WINDOW_SECONDS)
    ended.set()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return sum(counts) / (time.perf_counter() - start)


def send_request(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    expected: int,
    body: str | None = None,
) -> None:
    connection.request(method, path, body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    text = response.read()
    if response.status != expected:
        raise RuntimeError(
            f"the node responded with {response.status} to {method} {path}: {text.decode()}"
        )
