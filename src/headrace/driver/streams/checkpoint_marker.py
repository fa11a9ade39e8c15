"""The marker with which a query claims its checkpoint.

The store refuses two live queries on one checkpoint by the identity of its place. Some aliases show
only in the file system: links on another host, mounts, the links of viewfs. For these, the driver
keeps a file in the checkpoint that names the query, and refuses the marker of another live query.

Spark never lists the directory of a checkpoint itself, and skips names that begin with a dot.
Savepoints contain no such files (`StateFiles.list_files`).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

from pydantic import ValidationError
from pyspark.sql import SparkSession

from headrace.driver.failures import InvalidStream
from headrace.driver.link import LinkRefused, NoNodeAnswers
from headrace.driver.spark_version.hadoop_files import HadoopFiles
from headrace.driver.streams.batch_run import FINISHED
from headrace.driver.streams.supervised_query import RunFailed
from headrace.errors import CheckpointInUse, CheckpointMarkerInvalid, LeaseLost
from headrace.files.places import join
from headrace.model.failure import Failure
from headrace.model.messages import MARKER_FORMAT, CheckpointMarker, MarkedQuery
from headrace.model.session import DriverLease
from headrace.model.stream_query import DesiredQuery

MARKER = ".headrace-owner.json"
_LOG = logging.getLogger("headrace.driver.streams")
_MAX_BYTES = 64 * 1024
_ATTEMPTS = 3

FindMarked = Callable[[str, str], MarkedQuery]
"""Asks the node about a marked query, given the ids of the own query and of the marked one."""


class CheckpointClaims:
    """Claims the checkpoints of the queries of one driver."""

    def __init__(self, lease: DriverLease, find_marked: FindMarked) -> None:
        """Create the claims of a driver, which has an epoch of a session."""
        self._lease = lease
        self._find_marked = find_marked

    def claim(self, session: SparkSession, desired: DesiredQuery) -> None:
        """Mark the checkpoint of a query, if it has one, before the query starts.

        Repeating the call changes nothing. The marker of an ended query is replaced, and so is that
        of an earlier driver of the same query.

        Raises:
            CheckpointInUse: Another live query has marked the checkpoint.
            CheckpointMarkerInvalid: The marker is damaged, or of a newer version of Headrace.
            RunFailed: No node can be asked now, or other drivers change the marker all the time.
            Py4JError: The file system fails.
        """
        checkpoint = desired.spec.checkpoint
        if checkpoint is None:
            return
        files, location = HadoopFiles(session), join(checkpoint, MARKER)
        own = CheckpointMarker(
            query=desired.id, session=self._lease.session_id, epoch=self._lease.epoch
        )
        # A marker that another driver writes at the same time is read and judged in the next round.
        for _attempt in range(_ATTEMPTS):
            text = files.read_text(location, max_bytes=_MAX_BYTES)
            if text is None:
                files.create(location, own.model_dump_json())
                continue
            found = _parse(text, location)
            if found == own:
                return
            self._check(found, own, checkpoint)
            _LOG.info("query %s: takes over %s from %s", desired.name, location, found.query)
            files.replace(location, own.model_dump_json())
        error = CheckpointInUse(
            f"The checkpoint {checkpoint} is in use: another driver writes {MARKER} at the same"
            " time."
        )
        raise RunFailed(Failure.of(error), is_permanent=False)

    def _check(self, found: CheckpointMarker, own: CheckpointMarker, checkpoint: str) -> None:
        """Raise CheckpointInUse unless the own marker may replace the one that was found."""
        if found.query == own.query:
            is_newer = found.session == own.session and found.epoch > own.epoch
            if is_newer:
                raise CheckpointInUse(
                    f"The checkpoint {checkpoint} is in use: a newer driver (epoch {found.epoch})"
                    " runs the same query."
                )
            return
        marked = self._ask(own.query, found.query)
        if marked.is_live:
            user = "a query of another owner"
            if marked.name is not None:
                user = f"the query {marked.name} ({found.query})"
            raise CheckpointInUse(
                f"The checkpoint {checkpoint} is in use: {user} has marked it in {MARKER}, perhaps"
                " under another location of the same directory. Choose another checkpointLocation,"
                " or stop that query. If the directory is a copy, delete that file in it."
            )

    def _ask(self, query_id: str, marked_id: str) -> MarkedQuery:
        """Ask the node about a marked query. Raises RunFailed if no node answers now."""
        try:
            return self._find_marked(query_id, marked_id)
        except (LeaseLost, LinkRefused, NoNodeAnswers) as error:
            raise RunFailed(Failure.of(error), is_permanent=False) from error


def _parse(text: str, location: str) -> CheckpointMarker:
    try:
        content: Any = json.loads(text)
        version = content.get("format") if isinstance(content, dict) else None
        if isinstance(version, int) and version > MARKER_FORMAT:
            raise CheckpointMarkerInvalid(
                f"A newer version of Headrace has marked the checkpoint: {location} has the format"
                f" {version}, and this version reads {MARKER_FORMAT}. Upgrade Headrace, or delete"
                " the file if no other query uses the checkpoint."
            )
        return CheckpointMarker.model_validate(content)
    except (ValueError, ValidationError, RecursionError):
        raise CheckpointMarkerInvalid(
            f"The marker of the checkpoint is damaged: {location} does not name a query. Delete the"
            " file if no other query uses the checkpoint, and start the query again."
        ) from None


_FIRST_FILES = ("metadata", FINISHED)
"""Every checkpoint has one of these files from the start of its first run."""


def check_checkpoint(session: SparkSession, desired: DesiredQuery) -> None:
    """Raise InvalidStream if a query has committed batches, and its checkpoint is gone.

    Spark would begin anew, and write every row again.
    """
    checkpoint = desired.spec.checkpoint
    if checkpoint is None or desired.last_batch is None:
        return
    files = HadoopFiles(session)
    if not any(files.exists(f"{checkpoint.rstrip('/')}/{name}") for name in _FIRST_FILES):
        raise InvalidStream(
            f"The query has committed batch {desired.last_batch}, and its checkpoint {checkpoint}"
            " does not exist any more. Start it as a new query with another checkpoint, or restore"
            " the directory."
        )
