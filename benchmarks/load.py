"""Requests a second that one node answers, asked by threads with a connection each."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable

from benchmarks.measure import MEDIAN_OF, Sample
from benchmarks.peers.headrace_node import SESSION, Node

THREADS = 4
WINDOW_SECONDS = 0.5

Ask = Callable[[http.client.HTTPConnection], None]


def status_reads(node: Node) -> Sample:
    """`GET /statements/{id}` of a finished statement, a second."""
    path = f"/api/v1/statements/{node.run('SELECT 1')['id']}"
    return _rates(node, lambda connection: _request(connection, "GET", path, 200))


def submits(node: Node) -> Sample:
    """`POST /statements` without waiting, a second; each is durable when it is answered.

    The session's driver sleeps meanwhile, so that it is the node alone that is measured. The
    statements are still waiting afterwards: the session is of no more use.
    """
    seconds = WINDOW_SECONDS * (MEDIAN_OF + 10)
    sleep = (
        f"SELECT java_method('java.lang.Thread', 'sleep', {seconds * 1000:.0f}L + id) FROM range(1)"
    )
    node.call("POST", "/api/v1/statements", {"statement": sleep, "session": SESSION})
    body = json.dumps({"statement": "SELECT 1", "session": SESSION})
    return _rates(
        node, lambda connection: _request(connection, "POST", "/api/v1/statements", 201, body)
    )


def _rates(node: Node, ask: Ask) -> Sample:
    """Answers a second in each of many short windows, after one that does not count."""
    windows = [_rate(node, ask) for _ in range(MEDIAN_OF + 1)]
    return Sample(windows[1:])


def _rate(node: Node, ask: Ask) -> float:
    counts = [0] * THREADS
    failures: list[Exception] = []
    ready = threading.Barrier(THREADS + 1)
    ended = threading.Event()

    def keep_asking(number: int) -> None:
        connection = http.client.HTTPConnection(node.host, node.port, timeout=30)
        connection.connect()
        ready.wait()
        try:
            while not ended.is_set():
                ask(connection)
                counts[number] += 1
        except (OSError, http.client.HTTPException, RuntimeError) as error:
            failures.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=keep_asking, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    ready.wait()
    began = time.perf_counter()
    time.sleep(WINDOW_SECONDS)
    ended.set()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return sum(counts) / (time.perf_counter() - began)


def _request(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    expected: int,
    body: str | None = None,
) -> None:
    connection.request(method, path, body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read()
    if answer.status != expected:
        raise RuntimeError(f"{method} {path} was answered {answer.status}: {text.decode()}")
