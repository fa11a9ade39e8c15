"""Batches: sessions that run one file, and end with it.

The first statement of the session carries the file as its task. The driver reads the file with its
own rights, which are those of the owner of the session. A Python file runs in that statement. The
statements of a SQL file follow it, as statements like any others, one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from headrace.config.settings import Settings
from headrace.control.context import NodeContext
from headrace.control.limits import (
    check_sessions,
    check_stored_bytes,
    check_waiting,
    choose_timeout,
    describe_owner,
    take_submit,
)
from headrace.control.policy import Action, Caller, listed_owners, require_creator
from headrace.control.sessions.ending import close_session
from headrace.control.sessions.opening import create_session, get_session, resolve_session
from headrace.control.sessions.service import check_new_session
from headrace.errors import HeadraceError, InvalidRequest, SessionEnded, SessionNotFound
from headrace.files.places import to_hadoop_form
from headrace.grammar.metadata import ListObjects
from headrace.grammar.parse import ParsedStatement, parse
from headrace.grammar.secret_references import check_has_no_reference, list_in_sql
from headrace.model.failure import Failure
from headrace.model.ids import new_id
from headrace.model.job_messages import FileLanguage, FileRead, FileStatement, RunFile
from headrace.model.lifecycle import SESSION, STATEMENT, SessionState, StatementState
from headrace.model.messages import Ended
from headrace.model.session import Session, SessionKind, SessionSpec
from headrace.model.statement import RUN_FILE, NewStatement, StatementSpec
from headrace.store.database import Tx
from headrace.store.jobs import jobs
from headrace.store.sessions import sessions
from headrace.store.statements import statements
from headrace.store.statements.locks import LockedStatement

_LANGUAGES = {".sql": FileLanguage.SQL, ".py": FileLanguage.PYTHON}
_MAX_ARGUMENTS = 1000
_MAX_ARGUMENT = 64 * 1024
_MAX_LOCATION = 4096


class BatchState(StrEnum):
    """States of a batch, which follow from those of its session and its statements."""

    STARTING = "starting"  # the first driver is not up yet
    RUNNING = "running"
    SUCCESS = "success"  # every statement has succeeded
    DEAD = "dead"  # a statement failed, or the driver did not start
    KILLED = "killed"  # it was closed, or a statement was cancelled


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch session, and what became of its statements."""

    session: Session
    state: BatchState


def check_file(location: str, arguments: list[str]) -> RunFile:
    """Return the task that runs a file.

    Raises InvalidRequest or InvalidLocation if no driver could run it.
    """
    if len(location) > _MAX_LOCATION:
        raise InvalidRequest(f"file: It is longer than {_MAX_LOCATION} characters.")
    check_has_no_reference(location, "The location of a file")
    # Spark's own scheme for a file that is at the same path on every host.
    written = f"file:{location[6:]}" if location.startswith("local:/") else location
    place = to_hadoop_form(written)
    if ":" not in place and not place.startswith("/"):
        raise InvalidRequest(
            f"file: {location!r} is not absolute.",
            hint="Write a path from / or a URI, such as s3://bucket/report.sql.",
        )
    ending = place[place.rfind(".") :].lower() if "." in place else ""
    language = _LANGUAGES.get(ending)
    if language is None:
        raise InvalidRequest(
            f"file: {location!r} is not a file that a batch can run.",
            hint="Its name must end in .sql or .py.",
        )
    if arguments and language is FileLanguage.SQL:
        raise InvalidRequest("args: A SQL file has no arguments.")
    if len(arguments) > _MAX_ARGUMENTS or any(len(each) > _MAX_ARGUMENT for each in arguments):
        raise InvalidRequest(
            f"args: At most {_MAX_ARGUMENTS} of at most {_MAX_ARGUMENT} characters are allowed."
        )
    for argument in arguments:
        check_has_no_reference(argument, "An argument")
    return RunFile(location=place, language=language, arguments=arguments)


class Batches:
    """Batches of all callers, served by one node."""

    def __init__(self, context: NodeContext) -> None:
        self._database = context.database
        self._settings = context.settings

    def submit(
        self,
        caller: Caller,
        task: RunFile,
        spec: SessionSpec,
        *,
        owner: str | None = None,
        name: str | None = None,
    ) -> Batch:
        """Store a batch and return it. A node then starts its driver, unless a warm one fits.

        Raises as `Sessions.open` and `Statements.submit`.
        """
        require_creator(caller, "batches")
        new = check_new_session(
            self._settings,
            caller,
            spec,
            owner=owner,
            name=name,
            kind=SessionKind.BATCH,
            # The statements of a file follow each other.
            parallelism=1,
        )
        with self._database.write("batch.submit") as tx:
            limited = describe_owner(tx, self._settings, new.owner, caller)
            take_submit(tx, self._settings, limited)
            check_waiting(tx, self._settings, limited)
            check_stored_bytes(tx, self._settings, limited)
            check_sessions(tx, self._settings, limited)
            session_id = create_session(tx, self._settings, new)
            statement = NewStatement(
                id=new_id("st"),
                session_id=session_id,
                owner=new.owner,
                spec=StatementSpec(
                    text=f"{RUN_FILE}: {task.location}",
                    kind=SessionKind.BATCH,
                    timeout_seconds=choose_timeout(self._settings, limited, None),
                ),
                # To read a file changes nothing, so that it can be repeated. To run one can.
                is_query=task.language is FileLanguage.SQL,
                command=RUN_FILE,
            )
            statements.insert(tx, statement, actor=caller.actor)
            jobs.insert_task(tx, statement.id, task)
            return _describe(tx, get_session(tx, session_id))

    def get(self, caller: Caller, name_or_id: str) -> Batch:
        """Return a batch of the caller. Raise SessionNotFound if there is none."""
        with self._database.read() as tx:
            return _describe(tx, _find(tx, caller, name_or_id))

    def page(self, caller: Caller, *, limit: int) -> list[Batch]:
        """Return the newest batches that `caller` lists, newest first, also those that ended."""
        with self._database.read() as tx:
            found = sessions.page(
                tx,
                owners=listed_owners(caller, all_owners=False),
                kind=SessionKind.BATCH,
                limit=limit,
            )
            states = statements.states_by_session(tx, [each.id for each in found])
            return [Batch(each, _state_of(each, states.get(each.id, set()))) for each in found]

    def find_failure(self, caller: Caller, name_or_id: str) -> str | None:
        """Return why a batch has failed, as a text; None if it has not.

        Raise SessionNotFound if the caller has no such batch.
        """
        with self._database.read() as tx:
            session = _find(tx, caller, name_or_id)
            failed = statements.first_failure(tx, session.id)
        if failed is None:
            return None if session.failure is None else session.failure.describe()
        ordinal, failure = failed
        return f"Statement {ordinal} failed: {failure.describe()}"

    def close(self, caller: Caller, name_or_id: str) -> None:
        """Request the end of a batch. Do nothing if it has ended.

        Raise SessionNotFound if the caller has no such batch.
        """
        with self._database.write("batch.close") as tx:
            session = _find(tx, caller, name_or_id, Action.CHANGE)
            close_session(tx, session.id, actor=caller.actor)


def _find(tx: Tx, caller: Caller, name_or_id: str, action: Action = Action.READ) -> Session:
    session = get_session(tx, resolve_session(tx, caller, name_or_id, action))
    if session.kind is not SessionKind.BATCH:
        raise SessionNotFound(f"Session {name_or_id!r} is not a batch.")
    return session


def _describe(tx: Tx, session: Session) -> Batch:
    states = statements.states_by_session(tx, [session.id])
    return Batch(session, _state_of(session, states.get(session.id, set())))


def _state_of(session: Session, states: set[StatementState]) -> BatchState:
    if states & STATEMENT.live or not (states or session.state in SESSION.terminal):
        is_up = session.state not in {SessionState.NOT_STARTED, SessionState.STARTING}
        return BatchState.RUNNING if is_up else BatchState.STARTING
    if states & {StatementState.FAILED, StatementState.TIMEOUT}:
        return BatchState.DEAD
    if StatementState.CANCELLED in states:
        return BatchState.KILLED
    return BatchState.SUCCESS if states else BatchState.DEAD


_OTHER_REPORT = Failure(
    code="invalid_report", message="The driver did not report the statements of the file."
)


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """The statements of a SQL file, or why they cannot run: a statement that cannot stops all."""

    statements: list[tuple[str, ParsedStatement]]
    failure: Failure | None = None


def check_statements(settings: Settings, message: Ended) -> CheckedFile | None:
    """Return the statements of the SQL file that a driver has read, or None if it read none.

    This takes time, and no transaction.
    """
    if not isinstance(message.task_outcome, FileRead):
        return None
    read, limit = message.task_outcome.statements, settings.statements.max_waiting
    try:
        if len(read) > limit:
            raise InvalidRequest(
                f"The file has more than {limit} statements (setting statements.max_waiting)."
            )
        return CheckedFile([(each.text, _check(settings, each)) for each in read])
    except HeadraceError as error:
        return CheckedFile([], Failure.with_hint(error))


def _check(settings: Settings, read: FileStatement) -> ParsedStatement:
    """Return a parsed statement of a file. Raise InvalidRequest if it cannot run there."""
    try:
        parsed = parse(read.text, reserved=settings.reserved_statements)
        list_in_sql(read.text)
    except HeadraceError as error:
        raise InvalidRequest(
            f"The statement in line {read.line} of the file: {error.message}", hint=error.hint
        ) from error
    if parsed.command is not None and not isinstance(parsed.command, ListObjects):
        raise InvalidRequest(
            f"The statement in line {read.line} of the file is {parsed.keyword}, which a batch"
            " cannot run.",
            hint="A batch runs statements of Spark. Submit this one by itself.",
        )
    return parsed


def add_statements(
    tx: Tx, message: Ended, locked: LockedStatement, file: CheckedFile | None
) -> Failure | None:
    """Submit the statements of the SQL file that a batch has read, if the statement reads one.

    Return the failure of the batch if they cannot be submitted. Then none is.
    """
    is_reading = locked.command == RUN_FILE and locked.is_query
    if not is_reading or locked.state not in STATEMENT.in_flight:
        return None
    if file is None:
        return _OTHER_REPORT
    if file.failure is not None:
        return file.failure
    batch = statements.get(tx, message.statement_id)
    assert batch is not None
    new = [
        NewStatement(
            id=new_id("st"),
            session_id=batch.session_id,
            owner=batch.owner,
            spec=replace(batch.spec, text=text),
            is_query=parsed.is_query,
            command=parsed.keyword,
        )
        for text, parsed in file.statements
    ]
    try:
        statements.insert_file(tx, batch.session_id, new, actor=batch.owner)
    except SessionEnded as error:
        return Failure.of(error)
    return None
