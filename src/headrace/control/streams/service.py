"""Streaming queries: the service that lists, shows and controls them, and its actions.

The actions are stop, pause, resume, restart and retry. Statements such as STOP STREAM apply them in
their own transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache, partial

from headrace.config.settings import Settings
from headrace.control.context import NodeContext
from headrace.control.limits import check_streams, describe_owner
from headrace.control.policy import (
    HIDDEN_TEXT,
    Action,
    Caller,
    check,
    find_named,
    listed_owners,
    may,
)
from headrace.control.sessions.opening import create_session
from headrace.control.streams.history import StreamHistory, read_stream_history
from headrace.errors import HeadraceError, SessionNotFound, StreamNotFound, StreamStateConflict
from headrace.grammar.clauses import Options
from headrace.grammar.masking import mask_statement
from headrace.grammar.parse import find_sink_options
from headrace.model.headrace_options import RETRY_MAX_ATTEMPTS
from headrace.model.ids import looks_like_id, new_id
from headrace.model.lifecycle import (
    SESSION,
    STREAM,
    MaterializedViewState,
    StreamAction,
    StreamState,
)
from headrace.model.reasons import Reason, explain_stream
from headrace.model.retry_policy import read_retry_policy
from headrace.model.session import NewSession, SessionKind
from headrace.model.stream_history import (
    HISTORY_MINUTES,
    find_watermark_gap,
    minute_of,
    sum_backlog,
)
from headrace.model.stream_query import (
    ADHOC_SCOPE,
    WORST_FIRST,
    Answer,
    EndReason,
    QueryProgress,
    StreamQuery,
    answer_action,
    describe_conflict,
    suggest_action,
)
from headrace.store.clock import read_clock
from headrace.store.database import Tx
from headrace.store.jobs import jobs
from headrace.store.sessions import sessions
from headrace.store.streams import (
    stream_minutes,
    stream_progress,
    stream_queries,
    stream_transitions,
    views,
)
from headrace.text.durations import seconds_of

_MAX_DOTS = 10
"""Largest number of ways in which a name is read."""
STANDING_MINUTES = 60
"""Minutes of the rates in a list of the worst queries."""
_FAILED_SECONDS = 24 * 3600.0
"""Time for which such a list has a query that has failed."""
_FAILED_PART = 0.3
"""Part of such a list that queries have which failed, if live ones fill the rest."""
_PARSED = 512
"""Largest number of queries whose parsed options a node keeps in memory."""
_SHOWN = 200
"""Largest number of characters of a name in a message."""


def find_query(tx: Tx, caller: Caller, name: str, action: Action = Action.READ) -> StreamQuery:
    """Return a query on which the caller may act: by its id, its name, or `scope.name`.

    A name means the live query with this name, or the newest that has ended.

    Raises:
        StreamNotFound: There is no such query that the caller may read.
        AmbiguousName: Several owners have a query with this name.
        NotPermitted: The caller may read the query, and do no more.
    """
    is_id = looks_like_id(name)
    query = stream_queries.get(tx, name) if is_id else _find_by_name(tx, caller, name)
    missing = StreamNotFound(f"The streaming query {name[:_SHOWN]!r} does not exist.")
    return check(caller, action, query, missing)


def lock_query(tx: Tx, caller: Caller, name: str) -> StreamQuery:
    """Return a query that the caller may change, with locks on its session and on the query."""
    found = find_query(tx, caller, name, Action.CHANGE)
    sessions.lock(tx, found.session_id)
    locked = stream_queries.lock(tx, found.id)
    assert locked is not None
    return locked


def _find_by_name(tx: Tx, caller: Caller, name: str) -> StreamQuery | None:
    # The name of a job, and that of a query, can contain a dot.
    dots = [at for at, character in enumerate(name) if character == "."][:_MAX_DOTS]
    names = [(ADHOC_SCOPE, name), *((name[:dot], name[dot + 1 :]) for dot in dots)]

    def find_of(owners: Collection[str] | None) -> list[StreamQuery]:
        best: dict[str, StreamQuery] = {}
        for scope, query in names:
            for each in stream_queries.list_named(tx, owners, scope, query):
                best[each.owner] = max(best.get(each.owner, each), each, key=_rank)
        return list(best.values())

    own = next(iter(find_of([caller.owner])), None)
    return find_named(caller, own, find_of)


def _rank(query: StreamQuery) -> tuple[bool, bool, str]:
    return query.state not in STREAM.terminal, query.scope == ADHOC_SCOPE, query.id


def act(tx: Tx, settings: Settings, caller: Caller, name: str, action: StreamAction) -> StreamQuery:
    """Apply an action to a query of the caller. Return the query, or its next attempt.

    An action that is in force already changes nothing (`answer_action`).

    Raises:
        StreamNotFound: The caller has no such query.
        StreamStateConflict: The state of the query does not allow the action.
        StreamNameExists, CheckpointInUse: For a restart, another query is live with the name or the
            checkpoint.
        TooManyStreams: For a restart, the owner has as many live queries as it may have.
    """
    if action is StreamAction.RESTART:
        _check_limit(tx, settings, find_query(tx, caller, name, Action.CHANGE))
    query = lock_query(tx, caller, name)
    answer = answer_action(query, action)
    if answer is Answer.IN_FORCE:
        return query
    _check_deployment(tx, query)
    if answer is Answer.CONFLICT:
        raise StreamStateConflict(describe_conflict(query, action), hint=_suggest(query))
    if action is StreamAction.RESTART:
        _check_view(tx, query)
    if action is StreamAction.RESTART and query.state in STREAM.terminal:
        _check_job(query)
        session_id = _choose_session(tx, settings, query)
        query_id = stream_transitions.restart(tx, query, session_id, actor=caller.actor)
        return find_query(tx, caller, query_id)
    _ACTIONS[action](tx, query, actor=caller.actor)
    current = stream_queries.get(tx, query.id)
    assert current is not None
    if action is StreamAction.RESTART and current.state in STREAM.terminal:
        # No driver had to stop the query: the next attempt has begun, with the same name.
        current = stream_queries.find(tx, query.owner, query.scope, query.name) or current
    return current


_ACTIONS: dict[StreamAction, Callable[..., None]] = {
    StreamAction.STOP: stream_transitions.stop,
    StreamAction.PAUSE: stream_transitions.pause,
    StreamAction.RESUME: stream_transitions.resume,
    StreamAction.RESTART: partial(stream_transitions.stop, reason=EndReason.RESTARTED),
    StreamAction.RETRY: stream_transitions.retry,
}


def _check_limit(tx: Tx, settings: Settings, query: StreamQuery) -> None:
    """Raise TooManyStreams if a query that has ended may not be live again.

    This comes before the locks on the session and on the query.
    """
    if query.state in STREAM.terminal:
        check_streams(tx, settings, describe_owner(tx, settings, query.owner))


def _suggest(query: StreamQuery) -> str:
    """Return which action would act."""
    if query.state in STREAM.terminal and query.scope != ADHOC_SCOPE:
        return f"Start the job: headrace job start {query.scope}."
    return suggest_action(query)


def _check_view(tx: Tx, query: StreamQuery) -> None:
    """Raise StreamStateConflict if the query refreshes a materialized view that is dropped.

    The view stays locked, so that a DROP beside this restart sees the next attempt.
    """
    if query.spec.view is None:
        return
    view = views.lock(tx, query.spec.view.id)
    if view is None or view.state is not MaterializedViewState.ACTIVE:
        raise StreamStateConflict(
            f"The query {query.qualified_name} cannot be restarted: its materialized view does not"
            " exist any more."
        )


def _check_deployment(tx: Tx, query: StreamQuery) -> None:
    """Raise StreamStateConflict if the query belongs to a job that a deployment changes now.

    The job stays locked, so that a deployment that begins beside this action sees its effect.
    """
    if query.scope == ADHOC_SCOPE:
        return
    found = jobs.find(tx, query.owner, query.scope)
    job = None if found is None else jobs.lock(tx, found.id)
    if job is not None and job.change_id is not None:
        raise StreamStateConflict(
            f"The query {query.qualified_name} belongs to the job {job.name}, which is being"
            " changed.",
            hint=f"headrace job show {job.name} shows the deployment. Wait until it has ended.",
        )


def _check_job(query: StreamQuery) -> None:
    """Raise StreamStateConflict if the query belongs to a job, which decides its checkpoint."""
    if query.scope != ADHOC_SCOPE:
        raise StreamStateConflict(
            f"The query {query.qualified_name} has ended and belongs to the job {query.scope}.",
            hint=_suggest(query),
        )


def _choose_session(tx: Tx, settings: Settings, query: StreamQuery) -> str:
    """Return the session of the query, or a new one like it if that session has ended."""
    session = sessions.get(tx, query.session_id)
    if session is None:
        raise SessionNotFound(
            f"The session of the query {query.qualified_name} is deleted. Submit the statement"
            " again."
        )
    if session.state in SESSION.accepting:
        return session.id
    new = NewSession(
        id=new_id("se"),
        owner=query.owner,
        kind=SessionKind.STREAMING,
        spec=session.spec,
        idle_seconds=seconds_of(settings.sessions.unnamed_idle_timeout),
    )
    return create_session(tx, settings, new)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryStatus:
    """A query, as a node shows it."""

    query: StreamQuery
    statement: str
    """The SAVE STREAM statement, without secrets; hidden from those who may not read it."""
    progress: list[QueryProgress]
    """The last batches, oldest first."""
    reason: Reason | None
    """Why the query does not run."""


def explain_queries(
    tx: Tx, settings: Settings, queries: Sequence[StreamQuery], now: datetime | None = None
) -> dict[str, Reason | None]:
    """Return why queries do not run, by id. Only queries that back off need further reads.

    Args:
        now: Time of the store, if the caller has read it.
    """
    failing = [each for each in queries if each.state is StreamState.BACKING_OFF]
    if failing and now is None:
        now = read_clock(tx.connection)
    found = sessions.find_conf(tx, {each.session_id for each in failing}) if failing else {}
    return {
        each.id: explain_stream(
            each, now, retries=_find_retries(settings, each, *found.get(each.session_id, ("", {})))
        )
        for each in queries
    }


def _find_retries(
    settings: Settings, query: StreamQuery, profile: str, conf: Mapping[str, str]
) -> int | None:
    """Return the largest number of retries of a query that backs off; None: no limit."""
    if query.state is not StreamState.BACKING_OFF:
        return None
    of_profile = settings.profiles[profile].conf if profile in settings.profiles else {}
    options = _find_options((*query.spec.definitions, query.spec.text))
    if options is None:
        return None
    try:
        policy = read_retry_policy(dict(options), {**of_profile, **conf, **query.spec.conf})
    except HeadraceError:
        return None
    return None if policy.max_attempts == RETRY_MAX_ATTEMPTS.default else policy.max_attempts


@lru_cache(_PARSED)
def _find_options(texts: tuple[str, ...]) -> Options | None:
    """Return the options of the sink of a query; None if a newer node has stored unknown ones.

    Every list of jobs and streams needs the options of all queries that back off.
    """
    try:
        return find_sink_options(texts)
    except HeadraceError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStanding:
    """A query in a list of the worst first."""

    status: QueryStatus
    backlog: int | None
    """Records that its sources had not read at the last batch; None: no source says so."""
    watermark_gap: float | None
    """Seconds by which the watermark was behind at the last batch; None without one."""
    rows: list[int | None]
    """Rows of each of the last minutes, oldest first; None: no batch was reported."""


def _rank_standing(standing: StreamStanding) -> tuple[int, int, float]:
    """Return the key of a list of the worst first. Queries in one state differ by their lag."""
    query = standing.status.query
    # A newer node may know further states.
    rank = WORST_FIRST.index(query.state) if query.state in WORST_FIRST else 0
    return rank, -(standing.backlog or 0), -(standing.watermark_gap or 0.0)


class Streams:
    """Streaming queries of all callers, served by one node."""

    def __init__(self, context: NodeContext) -> None:
        self._database = context.database
        self._settings = context.settings

    def get(self, caller: Caller, name: str) -> QueryStatus:
        """Return a query of the caller, by its id, its name, or `scope.name`.

        Raise StreamNotFound if there is none.
        """
        with self._database.read() as tx:
            query = find_query(tx, caller, name)
            [reason] = explain_queries(tx, self._settings, [query]).values()
            return _status(caller, query, stream_progress.read(tx, query.id), reason)

    def read_history(
        self,
        caller: Caller,
        name: str,
        minutes: int = HISTORY_MINUTES,
        *,
        has_numbers: bool = True,
    ) -> StreamHistory:
        """Return the last minutes of a query of the caller. Raise StreamNotFound.

        Args:
            has_numbers: As of `read_stream_history`.
        """
        with self._database.read() as tx:
            query = find_query(tx, caller, name)
            return read_stream_history(tx, query, minutes, has_numbers=has_numbers)

    def page(
        self,
        caller: Caller,
        *,
        live: bool,
        before: str | None,
        limit: int,
        all_owners: bool = False,
    ) -> list[QueryStatus]:
        """Return at most `limit` queries of the owners that `caller` lists, newest first.

        Each has its last batch.

        Args:
            live: Only queries that have not ended.
            before: Only queries with smaller ids.
        """
        owners = listed_owners(caller, all_owners=all_owners)
        with self._database.read() as tx:
            queries = stream_queries.page(tx, owners=owners, live=live, before=before, limit=limit)
            last = stream_progress.read_last(tx, [query.id for query in queries])
            reasons = explain_queries(tx, self._settings, queries)
        return [
            _status(
                caller,
                query,
                [last[query.id]] if query.id in last else [],
                reasons.get(query.id),
            )
            for query in queries
        ]

    def list_worst(
        self, caller: Caller, *, limit: int, all_owners: bool = False
    ) -> list[StreamStanding]:
        """Return at most `limit` queries, worst first: those that failed lately, and live ones.

        States and failures decide which queries are in the list. The lag only orders them, because
        the store does not sort by it.
        """
        owners = listed_owners(caller, all_owners=all_owners)
        with self._database.read() as tx:
            failed, live = stream_queries.list_worst(
                tx, owners, seconds=_FAILED_SECONDS, limit=limit
            )
            share = max(int(_FAILED_PART * limit), limit - len(live))
            queries = [*failed[:share], *live][:limit]
            ids = [query.id for query in queries]
            last = stream_progress.read_last(tx, ids)
            minutes = stream_minutes.read(tx, ids, STANDING_MINUTES)
            now = read_clock(tx.connection)
            reasons = explain_queries(tx, self._settings, queries, now)
        rows: dict[str, dict[int, int]] = {}
        for query_id, each in minutes:
            rows.setdefault(query_id, {})[each.minute] = each.input_rows
        newest = minute_of(now)
        numbers = range(newest - STANDING_MINUTES + 1, newest + 1)
        standings = []
        for query in queries:
            batch = last.get(query.id)
            gap = None if batch is None else find_watermark_gap(batch)
            standing = StreamStanding(
                status=_status(
                    caller, query, [] if batch is None else [batch], reasons.get(query.id)
                ),
                backlog=None if batch is None else sum_backlog(batch.lag),
                watermark_gap=None if gap is None else gap / 1000,
                rows=[rows.get(query.id, {}).get(number) for number in numbers],
            )
            standings.append(standing)
        return sorted(standings, key=_rank_standing)

    def act(self, caller: Caller, name: str, action: StreamAction) -> QueryStatus:
        """Apply an action to a query of the caller, and return the query. Raise as `act` does."""
        with self._database.write("stream.act") as tx:
            query = act(tx, self._settings, caller, name, action)
            [reason] = explain_queries(tx, self._settings, [query]).values()
            return _status(caller, query, stream_progress.read(tx, query.id), reason)


def _status(
    caller: Caller, query: StreamQuery, progress: list[QueryProgress], reason: Reason | None
) -> QueryStatus:
    is_readable = may(caller, Action.READ_CONTENT, query)
    text = mask_statement(query.spec.text) if is_readable else HIDDEN_TEXT
    return QueryStatus(query=query, statement=text, progress=progress, reason=reason)
