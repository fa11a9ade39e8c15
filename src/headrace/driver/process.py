"""The process of a driver: read the bootstrap, start Spark, serve the session, exit."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.logger import PySparkLogger

from headrace.driver.jvm_start import JvmStart
from headrace.driver.link import NodeLink
from headrace.driver.loop import Loop
from headrace.driver.spark import Spark, SparkUnavailable
from headrace.driver.spark_version.application import CONTEXT_LOGGERS
from headrace.driver.spark_version.sql_execution import is_unreported
from headrace.errors import HeadraceError
from headrace.grammar.masking import set_further_keys
from headrace.grammar.secret_references import KnownSecrets
from headrace.model.failure import Failure
from headrace.model.messages import Bootstrap
from headrace.model.text import hide_before_cuts


def build_bootstrap(fields: Mapping[str, Any]) -> tuple[Bootstrap, str]:
    """Return the bootstrap without the token, and the token. Raises pydantic's ValidationError."""
    bootstrap = Bootstrap.model_validate(fields)
    assert bootstrap.token is not None
    return bootstrap.model_copy(update={"token": None}), bootstrap.token


def read_handoff(location: str) -> tuple[Bootstrap, str]:
    """Read and delete the handoff object, and return the bootstrap and the token.

    Raises FileNotFoundError if the object was read before, ResultsUnavailable if the results
    location cannot be reached, and SystemExit if the object has no token.
    """
    # Most drivers do not need the libraries of storage to start.
    from headrace.files import locations  # noqa: PLC0415

    fields: dict[str, Any] = json.loads(locations.read_and_delete_handoff(location))
    if fields.get("token") is None:
        raise SystemExit(f"The bootstrap in {location} has no token.")
    return build_bootstrap(fields)


_LOG = logging.getLogger("headrace.driver")


class MaskingFormatter(logging.Formatter):
    """Formats records without the secrets that they name, and without those of the driver."""

    def __init__(self, text: str, known: KnownSecrets) -> None:
        super().__init__(text)
        self._known = known

    def format(self, record: logging.LogRecord) -> str:
        return self._known.mask_text(super().format(record))


def run(fields: dict[str, Any], file: Path, jvm: JvmStart | None) -> int:
    """Serve the session of a bootstrap file, and return the exit code of the process.

    The exit code is 1 if Spark does not start, the lease is lost, or no node answers for too long.

    Args:
        fields: Fields of the bootstrap, with the secrets, which the file no longer contains.
        file: Bootstrap file.
        jvm: The JVM that starts; None: the JVM has started this process.
    """
    return _run(*build_bootstrap(fields), file, jvm)


def run_handoff(location: str) -> int:
    """Serve the session of a handoff object, and return the exit code as `run` does."""
    return _run(*read_handoff(location), None, None)


def _run(bootstrap: Bootstrap, token: str, file: Path | None, jvm: JvmStart | None) -> int:
    set_further_keys(bootstrap.redaction_pattern)
    link = NodeLink(file, bootstrap, token)
    hide_before_cuts(link.known_secrets.mask_text)
    handler = logging.StreamHandler()
    text = "%(asctime)s %(levelname)s %(name)s %(message)s"
    handler.setFormatter(MaskingFormatter(text, link.known_secrets))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("urllib3").setLevel(logging.ERROR)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    logging.getLogger("py4j.clientserver").addFilter(is_unreported)
    for name in CONTEXT_LOGGERS:
        PySparkLogger.getLogger(name).disabled = True
    if bootstrap.hold is not None:
        # The metastore runs as long as a process has a shared lock on this file.
        fcntl.flock(os.open(bootstrap.hold, os.O_RDONLY | os.O_CREAT, 0o600), fcntl.LOCK_SH)
    try:
        return _serve(link, Spark(bootstrap, jvm))
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
