"""Runs of streaming queries in the Spark of a test."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.driver.secret_values import SecretValues
from headrace.grammar.parse import parse
from headrace.grammar.stream_statements import CreateSink, SaveStream
from headrace.model.failure import Failure
from headrace.model.messages import FoundSecrets, FoundStreams, MarkedQuery
from headrace.model.session import DriverLease
from headrace.model.stream_providers import find_sink
from headrace.model.stream_query import DesiredQuery, QuerySpec, Wanted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.driver.streams.supervised_query import Run

QUERY_ID = "sq_" + 31 * "0" + "1"
NUMBERS = "CREATE STREAM numbers (n INT, even BOOLEAN) FROM json OPTIONS ('path' = '{input}')"
QUERY_ID = f"sq_{1:032}"
LEASE = DriverLease(f"se_{1:032}", 1)
StartRun = Callable[..., "Run"]
"""Type of the fixture `start`."""


def make_desired(
    text: str, definitions: tuple[str, ...], folder: Path, conf: dict[str, str]
) -> DesiredQuery:
    """Return the query of a SAVE STREAM as a node would order it, with places in a folder."""
    command = parse(text).command
    assert isinstance(command, SaveStream)
    sinks = (parse(definition).command for definition in definitions)
    sink = next((each for each in sinks if isinstance(each, CreateSink)), None)
    name = sink.provider if sink else ".".join(command.target)
    provider = find_sink("table" if command.to_table else name)
    spec = QuerySpec(
        text=text,
        definitions=list(definitions),
        sink=provider.name,
        conf=conf,
        path=str(folder / "default") if provider.has_default_path else None,
        checkpoint=str(folder / f"wal-{command.name}") if provider.write_ahead_log else None,
    )
    return DesiredQuery(
        id=QUERY_ID, name=command.name, job_id="j", spec=spec, wanted=Wanted.RUNNING, generation=1
    )


def find_no_other(_query_id: str, _marked_id: str) -> MarkedQuery:
    """Answer as a node does if the query that has marked a checkpoint has ended."""
    return MarkedQuery(is_live=False)


class NoSecrets:
    """A link to a node that has neither secrets nor streams."""

    def find_secrets(self, names: list[str]) -> FoundSecrets:
        """Answer as a node does that has no provider of secrets."""
        return FoundSecrets(failure=Failure(code="secret_unavailable", message=", ".join(names)))

    def find_streams(self, _names: list[str]) -> FoundStreams:
        """Answer as a node does that has no stream of these names."""
        return FoundStreams()


NO_SECRETS = SecretValues(NoSecrets())


def finish(run: Run) -> None:
    """Wait for the end of a run whose trigger ends it."""
    while not run.wait():
        pass


def forget_commits(folder: Path, query: str = "numbers") -> None:
    """Remove the commits of a query's batches from its checkpoint.

    This is the state after a crash between the commit in the sink and that of the checkpoint.
    """
    commits = list((folder / f"wal-{query}" / "commits").iterdir())
    assert commits
    for file in commits:
        file.unlink()


def read_rows(frame: DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a frame. `collect` leaves a socket behind."""
    return [json.loads(row) for row in frame._jdf.toJSON().collectAsList()]
