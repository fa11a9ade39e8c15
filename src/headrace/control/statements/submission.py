"""Submitting a statement: check the text, then write everything in one transaction."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta

from headrace.control.sessions.service import check_conf, create_session, resolve
from headrace.control.statements.lookup import stored
from headrace.control.statements.node_statements import NodeStatements
from headrace.durations import seconds_of
from headrace.errors import IdempotencyConflict, InvalidRequest
from headrace.grammar.local import parse_local
from headrace.grammar.queries import is_query
from headrace.grammar.statements import is_local, refuse_reserved, single
from headrace.grammar.text import check_text
from headrace.model.ids import new_id
from headrace.model.result import Disposition
from headrace.model.session import NewSession, SessionKind
from headrace.model.statement import NewStatement, Parameter, Statement
from headrace.settings import Settings
from headrace.store import idempotency, sessions, statements
from headrace.store.database import Database, Tx

_SHARED = ("profile", "conf", "catalog", "database", "jars", "files", "py_files")


@dataclass(frozen=True, slots=True, kw_only=True)
class Submit:
    """What a caller asks to be run."""

    text: str
    owner: str
    session: str | None = None
    """Id or name; without one the statement gets a session of its own."""
    catalog: str | None = None
    """The current catalog of a session of its own; default: Spark's."""
    parameters: list[Parameter] = field(default_factory=list)
    conf: dict[str, str] = field(default_factory=dict)
    disposition: Disposition = Disposition.AUTO
    row_limit: int | None = None
    byte_limit: int | None = None
    location: str | None = None
    kind: SessionKind = SessionKind.INTERACTIVE
    timeout: timedelta | None = None
    """How long it may run."""
    queue_timeout: timedelta | None = None
    """How long it may wait."""
    idempotency_key: str | None = None
    body_hash: str = ""
    """Tells a repeated request from another one with the same key."""
    statement_id: str = field(default_factory=lambda: new_id("st"))


class Submissions:
    """Accepts statements for one node."""

    def __init__(
        self, database: Database, settings: Settings, local_statements: NodeStatements
    ) -> None:
        self._database = database
        self._settings = settings
        self._locals = local_statements

    def submit(self, request: Submit) -> Statement:
        """Makes the statement durable and returns it; a repeated key returns the first answer.

        Raises InvalidRequest and its kinds before anything is stored, SessionNotFound,
        SessionEnded and IdempotencyConflict.
        """
        self._check(request)
        with self._database.write() as tx:
            first = self._first_answer(tx, request)
            if first is not None:
                return first
            kind = self._kind(request)
            session_id = self._session(tx, request, kind)
            new = _statement(request, session_id, kind)
            statement = statements.insert(tx, new, actor=request.owner)
            if kind is SessionKind.LOCAL and request.session is None:
                self._locals.run(tx, statement)
                statement = stored(tx, statement.id)
            if request.idempotency_key is not None:
                idempotency.remember(
                    tx,
                    request.owner,
                    request.idempotency_key,
                    request.body_hash,
                    request.statement_id,
                )
            return statement

    def _check(self, request: Submit) -> None:
        check_text(request.text)
        single(request.text)
        if self._settings.reserved_statements:
            refuse_reserved(request.text)
            if is_local(request.text):
                parse_local(request.text)
        check_conf(request.conf)
        _check_parameters(request.parameters)

    def _first_answer(self, tx: Tx, request: Submit) -> Statement | None:
        if request.idempotency_key is None:
            return None
        known = idempotency.find(tx, request.owner, request.idempotency_key)
        if known is None:
            return None
        body_hash, statement_id = known
        if body_hash != request.body_hash:
            raise IdempotencyConflict(
                f"The Idempotency-Key was used for {statement_id} with another request."
            )
        return stored(tx, statement_id)

    def _kind(self, request: Submit) -> SessionKind:
        """What the first words say; what is asked for decides where they say nothing."""
        if self._settings.reserved_statements and is_local(request.text):
            return SessionKind.LOCAL
        return request.kind

    def _session(self, tx: Tx, request: Submit, kind: SessionKind) -> str:
        """The session that is named, or a new one where that is not for this kind."""
        new = NewSession(id=new_id("se"), owner=request.owner, kind=kind)
        if request.session is not None:
            named = resolve(tx, request.owner, request.session)
            if kind in {SessionKind.INTERACTIVE, SessionKind.LOCAL}:
                return named
            session = sessions.get(tx, named)
            assert session is not None
            if session.kind is kind:
                return named
            new = replace(new, **{name: getattr(session, name) for name in _SHARED})
        elif request.catalog is not None:
            new = replace(new, catalog=request.catalog)
        if kind is SessionKind.LOCAL:
            sessions.insert(tx, new, actor=request.owner)
            return new.id
        return create_session(tx, self._settings, new)


def _statement(request: Submit, session_id: str, kind: SessionKind) -> NewStatement:
    return NewStatement(
        id=request.statement_id,
        session_id=session_id,
        owner=request.owner,
        text=request.text,
        parameters=request.parameters,
        conf=request.conf,
        disposition=request.disposition,
        row_limit=request.row_limit,
        byte_limit=request.byte_limit,
        location=request.location,
        kind=kind,
        is_query=is_query(request.text),
        timeout_seconds=seconds_of(request.timeout),
        queue_seconds=seconds_of(request.queue_timeout),
    )


def _check_parameters(parameters: list[Parameter]) -> None:
    names = [parameter.name for parameter in parameters]
    if any(name is None for name in names) and any(name is not None for name in names):
        raise InvalidRequest("Parameters are either all named or all positional.")
    repeated = {name for name in names if name is not None and names.count(name) > 1}
    if repeated:
        raise InvalidRequest(f"Parameters given twice: {', '.join(sorted(repeated))}.")
