"""`headrace statement`: list, show, wait for and cancel statements by id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import click
from click.exceptions import Exit

from headrace.cli.output.formats import OutputFormat
from headrace.cli.output.text import to_json
from headrace.cli.support import options
from headrace.cli.support.command import CommandContext, with_context
from headrace.cli.support.follow import (
    follow_statement,
    has_ended,
    is_outage,
    print_attach_hint,
    wait_for_end,
)
from headrace.cli.support.interrupts import EXIT_INTERRUPTED, Interrupted, Interrupts
from headrace.cli.support.listing import ListColumn, write_items, write_object, write_page
from headrace.cli.support.progress import ProgressLine
from headrace.cli.support.readable import format_age_of, format_elapsed, format_time_between
from headrace.cli.support.references import resolve_session, resolve_statement
from headrace.cli.support.result_printer import ResultPrinter, exit_code
from headrace.cli.support.terminal import Terminal
from headrace.client.http import Client, Json
from headrace.errors import EXIT_TIMEOUT, HeadraceError, InvalidRequest
from headrace.text.readable import describe_bytes, describe_count, describe_duration

_LIST_FIELDS = ("id", "state", "statement", "session_id", "owner", "created_at", "ended_at")


def _format_rows(statement: Json) -> str | None:
    """Return the rows of a result, or those that the statement has written; None without rows."""
    result = statement["result"]
    if result is None or not (
        result["schema"] or result["row_count"] or result.get("rows_written") is not None
    ):
        return None
    return f"{result['row_count']:,}"


def _format_run(statement: Json) -> str | None:
    """Return how long a statement has run; None if it has not begun."""
    return format_time_between(
        statement.get("started_at") or statement.get("launched_at"), statement.get("ended_at")
    )


def _format_reason(statement: Json) -> str | None:
    """Return why a statement waits; None if it waits for nothing."""
    reason = statement.get("waiting_for")
    return reason["text"] if isinstance(reason, dict) else reason


_ID = ListColumn(title="ID", text=lambda item: item["id"])
_STATE = ListColumn(title="STATE", text=lambda item: item["state"])
_OWNER = ListColumn(title="OWNER", text=lambda item: item["owner"], flexible=True, widest=20)
_ROWS = ListColumn(title="ROWS", text=_format_rows, right=True)
_RAN = ListColumn(title="RAN", text=_format_run, right=True)
_SESSION = ListColumn(
    title="SESSION",
    text=lambda item: item.get("session_name") or item["session_id"],
    flexible=True,
    widest=20,
)
_REASON = ListColumn(title="REASON", text=_format_reason, flexible=True)
_SQL = ListColumn(title="SQL", text=lambda item: item["statement"], flexible=True)
_LIST_COLUMNS = (
    _ID,
    _STATE,
    ListColumn(title="AGE", text=lambda item: format_age_of(item["created_at"]), right=True),
    ListColumn(title="TIME", text=format_elapsed, right=True),
    _ROWS,
    _SESSION,
    _SQL,
)


class _View(NamedTuple):
    """A list for operators: what it shows on a terminal, and elsewhere."""

    columns: Sequence[ListColumn]
    fields: Sequence[str]


_VIEWS = {
    "waiting": _View(
        (
            _ID,
            ListColumn(
                title="WAITED",
                text=lambda item: format_time_between(item.get("waiting_since")),
                right=True,
            ),
            *(_OWNER, _SESSION, _REASON, _SQL),
        ),
        ("id", "waiting_since", "owner", "session_id", "waiting_for", "statement"),
    ),
    "running": _View(
        (_ID, _STATE, _RAN, _OWNER, _SESSION, _REASON, _SQL),
        ("id", "state", "started_at", "owner", "session_id", "waiting_for", "statement"),
    ),
    "slow": _View(
        (
            *(_ID, _STATE),
            ListColumn(
                title="ENDED", text=lambda item: format_age_of(item["ended_at"]), right=True
            ),
            *(_RAN, _OWNER, _SESSION, _SQL),
        ),
        ("id", "state", "started_at", "ended_at", "owner", "session_id", "statement"),
    ),
}

_STAGE_FIELDS = (
    *("id", "attempt", "state", "tasks_done", "tasks_total", "tasks_failed", "run_seconds"),
    *("median_task_seconds", "longest_task_seconds", "bytes_read", "bytes_written"),
    *("shuffle_bytes_read", "shuffle_bytes_written", "disk_bytes_spilled", "name"),
)


def _make_bytes_column(title: str, field: str) -> ListColumn:
    return ListColumn(
        title=title,
        text=lambda item: describe_bytes(item[field]) if item[field] else None,
        right=True,
    )


def _format_stage_id(stage: Json) -> str:
    return f"{stage['id']}.{stage['attempt']}" if stage["attempt"] else str(stage["id"])


def _format_tasks_done(stage: Json) -> str:
    """Return how many tasks have succeeded, and how many attempts have failed."""
    failed = f" ({stage['tasks_failed']} failed)" if stage["tasks_failed"] else ""
    return f"{stage['tasks_done']}/{stage['tasks_total']}{failed}"


def _format_skew(stage: Json) -> str | None:
    """Return the median and the longest duration of a task; None if they are not known."""
    median, longest = stage["median_task_seconds"], stage["longest_task_seconds"]
    if median is None or longest is None:
        return None
    return f"{describe_duration(float(median))} / {describe_duration(float(longest))}"


_STAGE_COLUMNS = (
    ListColumn(title="STAGE", text=_format_stage_id, right=True),
    _STATE,
    ListColumn(title="TASKS", text=_format_tasks_done, right=True),
    ListColumn(
        title="RAN",
        text=lambda item: (
            format_time_between(item["started_at"], item["ended_at"])
            if item["started_at"] and item["ended_at"]
            else None
        ),
        right=True,
    ),
    ListColumn(title="MEDIAN / LONGEST TASK", text=_format_skew, right=True),
    _make_bytes_column("READ", "bytes_read"),
    _make_bytes_column("WRITTEN", "bytes_written"),
    _make_bytes_column("SHUFFLE READ", "shuffle_bytes_read"),
    _make_bytes_column("SHUFFLE WRITTEN", "shuffle_bytes_written"),
    _make_bytes_column("SPILLED", "disk_bytes_spilled"),
    ListColumn(title="NAME", text=lambda item: item["name"], flexible=True),
)

_statement_argument = click.argument("reference", metavar="STATEMENT")


@click.group()
def statement() -> None:
    """List, show, wait for, attach to and cancel statements.

    STATEMENT is an id, the beginning of an id, or `last` for your newest statement.
    """


@statement.command("list")
@click.option("--session", metavar="SESSION", help="List only statements of this session.")
@click.option("--state", metavar="STATE", help="List only statements in this state.")
@click.option("--waiting", is_flag=True, help="List what waits for a driver, longest wait first.")
@click.option("--running", is_flag=True, help="List what runs, longest run first.")
@click.option("--slow", is_flag=True, help="List what has ended and ran for long, newest first.")
@click.option(
    "--over",
    metavar="DURATION",
    help="With --waiting, --running or --slow: list only statements that have waited, or run, for "
    "at least this time. Default for --slow: 1min.",
)
@options.all_owners
@options.before
@options.limit
@options.output
@with_context
def list_statements(
    context: CommandContext,
    *,
    session: str | None,
    state: str | None,
    waiting: bool,
    running: bool,
    slow: bool,
    over: str | None,
    all_owners: bool,
    before: str | None,
    limit: int,
    output_format: OutputFormat | None,
) -> None:
    """List statements, newest first.

    --waiting, --running and --slow show the statements of all sessions, and of all users if you are
    an administrator.
    """
    view = _choose_view({"waiting": waiting, "running": running, "slow": slow}, over)
    client = context.connect()
    page = client.statements(
        session=session and resolve_session(client, session),
        state=state,
        before=before,
        limit=limit,
        view=view,
        over=over,
        all_owners=all_owners,
    )
    columns, fields = (_LIST_COLUMNS, _LIST_FIELDS) if view is None else _VIEWS[view]
    if output_format not in {OutputFormat.JSON, OutputFormat.JSONL}:
        for item in page["items"]:
            item["waiting_for"] = _format_reason(item)
    write_page(context.terminal, page, fields, output_format, columns)


def _choose_view(flags: Mapping[str, bool], over: str | None) -> str | None:
    """Return the list that the flags name, or None. Raise InvalidRequest if they conflict."""
    chosen = [name for name, is_set in flags.items() if is_set]
    if len(chosen) > 1:
        raise InvalidRequest(
            f"{' and '.join(f'--{name}' for name in chosen)} exclude each other. Choose one."
        )
    if over is None:
        return chosen[0] if chosen else None
    if not chosen:
        raise InvalidRequest("--over needs --waiting, --running or --slow.")
    options.parse_seconds(over, "--over")
    return chosen[0]


@statement.command()
@_statement_argument
@options.output
@with_context
def show(context: CommandContext, *, reference: str, output_format: OutputFormat | None) -> None:
    """Show one statement; --debug includes the stack trace of its error."""
    client = context.connect()
    statement = client.statement(resolve_statement(client, reference), trace=context.terminal.debug)
    if output_format is None:
        statement["waiting_for"] = _format_reason(statement)
    write_object(context.terminal, statement, output_format)


@statement.command()
@_statement_argument
@options.output
@with_context
def plan(context: CommandContext, *, reference: str, output_format: OutputFormat | None) -> None:
    """Print the plan and the Spark stages of a statement.

    They are kept when the statement has ended. Formats other than JSON have the stages only.
    """
    client = context.connect()
    execution = client.execution(resolve_statement(client, reference))
    if output_format is OutputFormat.JSON:
        context.terminal.out.write(to_json(execution) + "\n")
    elif output_format is not None:
        write_items(
            context.terminal, execution["stages"], _STAGE_FIELDS, output_format, _STAGE_COLUMNS
        )
    else:
        _write_execution(context.terminal, execution)


def _write_execution(terminal: Terminal, execution: Json) -> None:
    if execution["plan"] is not None:
        terminal.out.write(execution["plan"].strip() + "\n\n")
    if execution["operators"]:
        terminal.out.write("== Metrics ==\n")
        for operator in execution["operators"]:
            terminal.out.write(_describe_operator(operator) + "\n")
        _note_omitted(terminal, execution["operators_omitted"], "operator")
        terminal.out.write("\n")
    terminal.out.write("== Stages ==\n")
    write_items(terminal, execution["stages"], _STAGE_FIELDS, OutputFormat.TABLE, _STAGE_COLUMNS)
    _note_omitted(terminal, execution["stages_omitted"], "stage")


def _describe_operator(operator: Json) -> str:
    """Return an operator with its metrics, of those with a distribution the values alone."""
    metrics = (
        f"{name}: {text.rpartition(chr(10))[2]}" for name, text in operator["metrics"].items()
    )
    line = f"{'  ' * operator['depth']}{operator['name']}  {', '.join(metrics)}"
    return line.rstrip()


def _note_omitted(terminal: Terminal, count: int, noun: str) -> None:
    if count:
        terminal.out.write(f"… and {describe_count(count, f'further {noun}')}\n")


@statement.command()
@_statement_argument
@options.output
@options.quiet
@options.verbose
@with_context
def result(context: CommandContext, *, reference: str, output_format: OutputFormat | None) -> None:
    """Print the rows of a statement that has ended."""
    client = context.connect()
    statement = client.statement(resolve_statement(client, reference))
    if not has_ended(statement):
        # Raises the error in which the node explains why there are no rows, unless the
        # statement has ended meanwhile.
        client.rows(statement["id"])
        statement = client.statement(statement["id"])
    raise Exit(_print(ResultPrinter(client, context.terminal, output_format), statement))


@statement.command()
@_statement_argument
@click.option("--wait/--no-wait", default=True, help="Wait until the statement has ended.")
@click.option(
    "--force",
    is_flag=True,
    help="End the driver if necessary; all statements that run in it then end too.",
)
@with_context
def cancel(context: CommandContext, *, reference: str, wait: bool, force: bool) -> None:
    """Cancel a statement and print the state in which it ended."""
    client = context.connect()
    statement = client.cancel(resolve_statement(client, reference), force=force)
    if wait:
        statement = wait_for_end(client, statement)
    context.terminal.out.write(statement["state"] + "\n")


@statement.command("wait")
@_statement_argument
@click.option("--timeout", metavar="DURATION", help="Longest time to wait, e.g. 30s.")
@options.quiet
@with_context
def wait_for_statement(context: CommandContext, *, reference: str, timeout: str | None) -> None:
    """Wait until a statement has ended and print its state.

    Ctrl-C ends the wait only: the statement continues to run.
    """
    with Interrupts() as interrupts:
        limit = None if timeout is None else options.parse_seconds(timeout, "--timeout")
        client = context.connect()
        statement = client.statement(resolve_statement(client, reference))
        statement = _follow(context, client, statement, interrupts, limit)
        context.terminal.out.write(statement["state"] + "\n")
        raise Exit(exit_code(statement) if has_ended(statement) else EXIT_TIMEOUT)


@statement.command()
@_statement_argument
@options.output
@options.quiet
@options.verbose
@with_context
def attach(context: CommandContext, *, reference: str, output_format: OutputFormat | None) -> None:
    """Show the progress of a statement, then its rows.

    Ctrl-C ends the command only: the statement continues to run.
    """
    with Interrupts() as interrupts:
        client = context.connect()
        statement = client.statement(resolve_statement(client, reference))
        try:
            statement = _follow(context, client, statement, interrupts, None)
        except Interrupted:
            print_attach_hint(statement, context.terminal)
            raise Exit(EXIT_INTERRUPTED) from None
        except HeadraceError as error:
            if is_outage(error):
                print_attach_hint(statement, context.terminal)
            raise
        with interrupts.interruptible():
            raise Exit(_print(ResultPrinter(client, context.terminal, output_format), statement))


def _follow(
    context: CommandContext,
    client: Client,
    statement: Json,
    interrupts: Interrupts,
    limit: float | None,
) -> Json:
    progress = ProgressLine(context.terminal.err, enabled=context.terminal.interactive)
    return follow_statement(client, statement, interrupts, progress, limit=limit)


def _print(printer: ResultPrinter, statement: Json) -> int:
    """Print a statement that has ended and return the exit code."""
    code = exit_code(statement)
    if code:
        printer.print_failure(statement)
    else:
        printer.print_result(statement)
        printer.print_footer(statement)
    return code
