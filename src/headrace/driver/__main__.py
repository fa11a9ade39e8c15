"""Entry point of the driver: read the bootstrap, start Spark, serve the session, exit.

The argument is the path of a bootstrap file, or `--handoff` and the location of a handoff object.
"""

from __future__ import annotations

import fcntl
import logging
import os
import signal
import sys
from pathlib import Path

from headrace.driver.bootstrap import read_bootstrap, read_handoff
from headrace.driver.link import NodeLink
from headrace.driver.loop import Loop
from headrace.driver.spark import Spark, SparkUnavailable
from headrace.driver.sql_execution import is_unreported
from headrace.errors import HeadraceError
from headrace.model.failure import Failure

_LOG = logging.getLogger("headrace.driver")


def main(arguments: list[str]) -> int:
    """Serve the session until it is closed, and return the exit code of the process.

    The exit code is 1 if Spark does not start, the lease is lost, or no node answers for too long.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("urllib3").setLevel(logging.ERROR)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    logging.getLogger("py4j.clientserver").addFilter(is_unreported)
    file = None if arguments[0] == "--handoff" else Path(arguments[0])
    bootstrap, token = read_handoff(arguments[1]) if file is None else read_bootstrap(file)
    if bootstrap.hold is not None:
        # The metastore runs as long as a process has a shared lock on this file.
        fcntl.flock(os.open(bootstrap.hold, os.O_RDONLY | os.O_CREAT, 0o600), fcntl.LOCK_SH)
    # Ctrl-C is meant for the program in the terminal, for example `headrace sql`.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    link = NodeLink(file, bootstrap, token)
    try:
        return _serve(link, Spark(bootstrap, file))
    except SparkUnavailable as error:
        _LOG.exception("Spark did not start")
        link.goodbye(Failure.of(error))
        return 1
    except HeadraceError as error:
        _LOG.error("driver stops: %s", error.message)
        return 1


def _serve(link: NodeLink, spark: Spark) -> int:
    loop = Loop(link, spark)
    signal.signal(signal.SIGTERM, lambda _signal, _frame: loop.terminate())
    try:
        loop.run()
    except BaseException:
        # This driver may have lost its lease: its JVM must not write anything from here on.
        spark.kill()
        raise
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
