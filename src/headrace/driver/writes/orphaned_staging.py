"""Removes the staging directories of orphaned writes, whose drivers were lost."""

from __future__ import annotations

import logging

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.driver.ctas.session_catalog import SessionCatalog
from headrace.driver.link import NodeLink
from headrace.driver.spark_version.commit_protocol import staging_prefixes
from headrace.driver.spark_version.hadoop_files import HadoopFiles
from headrace.driver.writes.locks import WriteDetector
from headrace.model.transaction import OrphanedWrite

_LOG = logging.getLogger("headrace.driver")


def clear_orphaned_staging(session: SparkSession, link: NodeLink) -> None:
    """Remove the staging directories of lost drivers from the tables of this session's catalog.

    The location of a table comes from the catalog, and the names of the directories from the node.
    An error of one table is logged, and the next driver tries again.

    Raises LeaseLost, NoNodeAnswers and LinkRefused.
    """
    try:
        identity = SessionCatalog(session, "spark_catalog").identity()
    except (PySparkException, Py4JError) as error:
        _LOG.error(
            "staging directories of lost drivers are not removed, because the catalog cannot be"
            " identified: %s",
            error,
        )
        return
    cleared: list[int] = []
    after = 0
    # Writes that could not be cleared are skipped: they must not hide the writes after them.
    while writes := link.clear_staging([identity], cleared, after=after):
        cleared = [write.number for write in writes if _clear(session, write)]
        after = writes[-1].number


def _clear(session: SparkSession, write: OrphanedWrite) -> bool:
    """Remove the staging directories of a write; return whether none remains that can be found."""
    if write.table is None:
        return True
    try:
        location = WriteDetector(session).find_location(write.table)
        if location is not None:
            HadoopFiles(session).remove_entries(location, staging_prefixes(write.writer))
    except (PySparkException, Py4JError) as error:
        _LOG.error(
            "staging directories of %s in table %s are not removed: %s",
            write.writer,
            write.table,
            error,
        )
        return False
    return True
