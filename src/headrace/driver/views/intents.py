"""Intents: changes of a catalog that a node has recorded and that a driver carries out.

An intent names a materialized view. A driver removes only tables and views that carry the id of the
materialized view, so that a forged intent cannot remove any other.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from functools import partial

from pyspark.sql import SparkSession

from headrace.driver.ctas import TablePath, TwoPhaseCatalog
from headrace.driver.ctas.catalogs import list_catalogs
from headrace.driver.ctas.session_catalog import SessionCatalog
from headrace.driver.failures import describe_failure
from headrace.driver.link import NodeLink
from headrace.driver.secret_values import SecretValues
from headrace.driver.streams.sinks import open_sink
from headrace.errors import LeaseLost
from headrace.grammar.parse import parse
from headrace.grammar.stream_statements import SaveStream
from headrace.model.materialized_view import CatalogIntent, IntentAction, generation_name
from headrace.model.messages import IntentError, Intents, SinkIntent
from headrace.model.text import MAX_SUMMARY, clean_message, cut_text

_LOG = logging.getLogger("headrace.driver")
_IDLE_SECONDS = 60.0
"""Time without a search after one that found nothing."""


class IntentWork:
    """Decides when a driver looks for intents. Thread-safe."""

    def __init__(self, work: Callable[[], int]) -> None:
        """Create the work.

        Args:
            work: Carries out intents, and returns their number.
        """
        self._work = work
        self._lock = threading.Lock()
        self._is_running = False
        self._next_run = 0.0

    def is_due(self) -> bool:
        """Return whether to call `run` now. The caller then does."""
        with self._lock:
            if self._is_running or time.monotonic() < self._next_run:
                return False
            self._is_running = True
            return True

    def run(self) -> None:
        """Do the work once."""
        count = 0
        try:
            count = self._work()
        finally:
            with self._lock:
                self._is_running = False
                # The intents are for catalogs that this driver does not have.
                pause = _IDLE_SECONDS if count == 0 else 0.0
                self._next_run = time.monotonic() + pause


def carry_out_intents(session: SparkSession, link: NodeLink) -> int:
    """Carry out the due intents for the catalogs of a session. Return their number.

    An intent that fails is reported and logged. The node lets it wait for its next attempt.

    Raises LeaseLost, NoNodeAnswers and LinkRefused.
    """
    try:
        catalogs = {catalog.identity(): catalog for catalog in list_catalogs(session)}
    except Exception as error:  # noqa: BLE001 - catalogs are extensions
        _LOG.error("intents are not carried out, the catalogs cannot be identified: %s", error)
        return 0
    count = 0
    done: list[str] = []
    failed: list[IntentError] = []
    while claimed := _claim_work(
        session, link, catalogs, link.carry_out(sorted(catalogs), done, failed)
    ):
        done, failed = [], []
        for intent_id, attempt, summary, work in claimed:
            error_text = _attempt(intent_id, summary, work)
            if error_text is None:
                done.append(intent_id)
            else:
                failure = IntentError(id=intent_id, message=error_text, attempt=attempt)
                failed.append(failure)
        count += len(claimed)
    return count


def _claim_work(
    session: SparkSession, link: NodeLink, catalogs: dict[str, TwoPhaseCatalog], intents: Intents
) -> list[tuple[str, int | None, str, Callable[[], None]]]:
    """Return id and attempt of each claimed intent, a summary, and a function to carry it out."""
    work: list[tuple[str, int | None, str, Callable[[], None]]] = []
    for intent in intents.intents:
        carry_out = partial(_carry_out, session, catalogs[intent.identity], intent)
        summary = f"{intent.action} of view {'.'.join(intent.path)}"
        work.append((intent.id, intent.attempt, summary, carry_out))
    for sink in intents.sinks:
        summary = f"staging tables of query {sink.query_id}"
        clear = partial(_clear_sink, session, sink, SecretValues(link))
        work.append((sink.id, sink.attempt, summary, clear))
    return work


def _clear_sink(session: SparkSession, intent: SinkIntent, secrets: SecretValues) -> None:
    spec = secrets.resolve_spec(intent.spec)
    command = parse(spec.text).command
    assert isinstance(command, SaveStream)
    open_sink(spec, command).clear(session, intent.query_id)


def _attempt(intent_id: str, summary: str, work: Callable[[], None]) -> str | None:
    """Carry out an intent. Return None, or the message of its error."""
    try:
        work()
    except LeaseLost:
        raise
    except Exception as error:  # noqa: BLE001 - catalogs are extensions, and other intents go on
        described = describe_failure(error, "").message
        message = cut_text(clean_message(described), MAX_SUMMARY)
        _LOG.error("intent %s (%s): %s", intent_id, summary, message)
        return message
    _LOG.info("intent %s: %s", intent_id, summary)
    return None


def _carry_out(session: SparkSession, catalog: TwoPhaseCatalog, intent: CatalogIntent) -> None:
    _first, *namespace, name = intent.path
    view = TablePath(catalog.catalog, tuple(namespace), name)
    if intent.action is IntentAction.DROP_GENERATION:
        assert intent.generation is not None
        table = view.sibling(generation_name(name, intent.generation))
        _drop_own(session, catalog, table, intent.view)
        return
    _drop_own(session, catalog, view, intent.view)
    if isinstance(catalog, SessionCatalog):
        for _number, table in catalog.list_generations(view):
            _drop_own(session, catalog, table, intent.view)


def _drop_own(
    session: SparkSession, catalog: TwoPhaseCatalog, path: TablePath, view_id: str
) -> None:
    """Drop a table or view with its rows, if it belongs to the materialized view."""
    if catalog.find_view_id(path) != view_id:
        return
    if isinstance(catalog, SessionCatalog) and catalog.kind_of(path) == "view":
        session.sql(f"DROP VIEW IF EXISTS {path.sql_name}")
        return
    purge = " PURGE" if catalog.needs_purge else ""
    session.sql(f"DROP TABLE IF EXISTS {path.sql_name}{purge}")
