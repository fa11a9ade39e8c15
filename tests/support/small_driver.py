"""A driver without Spark, as a process of its own: it answers every statement with one result.

It needs only Python's standard library, so that a test can start many. A profile names the program
that `write_small_driver` writes as its `python`.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

_PAUSE = 0.1
_POLL_SECONDS = 20.0
_TIMEOUT = 30.0


def write_small_driver(program: Path, result: str) -> Path:
    """Write the program. Each statement succeeds with this result, the JSON of a ResultReport.

    With `null`, a statement runs for ever.
    """
    file = program.with_suffix(".json")
    file.write_text(result)
    words = [sys.executable, "-S", __file__, str(file)]
    program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    program.chmod(0o700)
    return program


class SmallDriver:
    """The calls of one driver. Each is repeated at the next node until a node answers."""

    def __init__(self, bootstrap: Path, result: dict[str, Any] | None) -> None:
        self._bootstrap = json.loads(bootstrap.read_text())
        self._result = result
        self._addresses: list[str] = self._bootstrap["nodes"]
        self._in_flight: list[str] = []

    def run(self) -> None:
        """Say hello, and carry out the orders of the nodes until the session is closed."""
        self._call(
            "hello",
            pid=os.getpid(),
            spark_version="none",
            application_id="none",
            ui_url=None,
            keeps_tables=False,
        )
        threading.Thread(target=self._renew, daemon=True).start()
        while not (orders := self._poll())["close"]:
            if orders["assignment"] is not None:
                statement_id = orders["assignment"]["statement_id"]
                if self._result is None:
                    self._in_flight.append(statement_id)
                    self._call("started", statement_id=statement_id, has_effects=True)
                    continue
                self._call("ended", statement_id=statement_id, state="success", result=self._result)
        self._call("goodbye")

    def _poll(self) -> dict[str, Any]:
        return self._call("poll", wait_seconds=_POLL_SECONDS, in_flight=self._in_flight)

    def _renew(self) -> None:
        while True:
            self._addresses = self._call("renew", streams=0)["nodes"] or self._addresses
            time.sleep(self._bootstrap["renew_seconds"])

    def _call(self, name: str, **message: Any) -> dict[str, Any]:
        path = f"/driver/v1/sessions/{self._bootstrap['session_id']}/{self._bootstrap['epoch']}"
        headers = {
            "Authorization": f"Bearer {self._bootstrap['token']}",
            "Content-Type": "application/json",
        }
        body = json.dumps(message).encode()
        while True:
            for address in self._addresses:
                request = urllib.request.Request(f"{address}{path}/{name}", body, headers)
                try:
                    with urllib.request.urlopen(request, timeout=_TIMEOUT) as response:
                        answer: dict[str, Any] = json.load(response)
                        return answer
                except urllib.error.HTTPError as error:
                    if error.code < 500:
                        # Another driver has replaced this one.
                        raise SystemExit(1) from error
                except OSError:
                    pass
            time.sleep(_PAUSE)


if __name__ == "__main__":
    SmallDriver(Path(sys.argv[-1]), json.loads(Path(sys.argv[1]).read_text())).run()
