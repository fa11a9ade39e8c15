"""The driver's entry point: read the bootstrap, start Spark, serve the session, leave.

The argument is the bootstrap file, or `--one-use` and the place of an object that is read once.
"""

from __future__ import annotations

import fcntl
import logging
import os
import signal
import sys
from pathlib import Path

from headrace.driver.bootstrap import read_bootstrap, read_handoff
from headrace.driver.link import Link
from headrace.driver.loop import Loop
from headrace.driver.spark import Spark, SparkUnavailable
from headrace.errors import HeadraceError
from headrace.model.failure import Failure

_LOG = logging.getLogger("headrace.driver")


def main(arguments: list[str]) -> int:
    """Serves until the session is closed, the lease is lost, or no node is found for long."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("urllib3").setLevel(logging.ERROR)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    file = None if arguments[0] == "--one-use" else Path(arguments[0])
    bootstrap, token = read_handoff(arguments[1]) if file is None else read_bootstrap(file)
    if bootstrap.hold is not None:
        fcntl.flock(os.open(bootstrap.hold, os.O_RDONLY | os.O_CREAT, 0o600), fcntl.LOCK_SH)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    link = Link(file, bootstrap, token)
    try:
        return _serve(link, Spark(bootstrap))
    except SparkUnavailable as error:
        _LOG.exception("Spark did not start")
        link.goodbye(Failure.of(error))
        return 1
    except HeadraceError as error:
        _LOG.error("stopping: %s", error.message)
        return 1


def _serve(link: Link, spark: Spark) -> int:
    loop = Loop(link, spark)
    signal.signal(signal.SIGTERM, lambda _signal, _frame: loop.stop())
    try:
        loop.run()
    except BaseException:
        # Nothing of a driver that may not go on must still write: its JVM dies at once.
        spark.kill()
        raise
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
