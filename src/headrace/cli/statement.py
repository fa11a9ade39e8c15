"""`headrace statement`: list, show, wait for and cancel statements by id."""

from __future__ import annotations

import click
from click.exceptions import Exit

from headrace.cli import options
from headrace.cli.command import CommandContext, command_context
from headrace.cli.follow import (
    follow_statement,
    has_ended,
    is_outage,
    print_attach_hint,
    wait_for_end,
)
from headrace.cli.interrupts import EXIT_INTERRUPTED, Interrupted, Interrupts
from headrace.cli.listing import ListColumn, write_object, write_page
from headrace.cli.output.formats import OutputFormat
from headrace.cli.progress import ProgressLine
from headrace.cli.readable import format_age_of, format_elapsed
from headrace.cli.references import resolve_session, resolve_statement
from headrace.cli.result_printer import ResultPrinter, exit_code
from headrace.client.http import Client, Json
from headrace.errors import EXIT_TIMEOUT, HeadraceError

_LIST_FIELDS = ("id", "state", "statement", "session_id", "owner", "created_at", "ended_at")


def _format_rows(statement: Json) -> str | None:
    """Return the rows of a result, or those that the statement has written; None without rows."""
    result = statement["result"]
    if result is None or not (
        result["schema"] or result["row_count"] or result.get("rows_written") is not None
    ):
        return None
    return f"{result['row_count']:,}"


_LIST_COLUMNS = (
    ListColumn(title="ID", text=lambda item: item["id"]),
    ListColumn(title="STATE", text=lambda item: item["state"]),
    ListColumn(title="AGE", text=lambda item: format_age_of(item["created_at"]), right=True),
    ListColumn(title="TIME", text=format_elapsed, right=True),
    ListColumn(title="ROWS", text=_format_rows, right=True),
    ListColumn(
        title="SESSION",
        text=lambda item: item.get("session_name") or item["session_id"],
        flexible=True,
        widest=20,
    ),
    ListColumn(title="SQL", text=lambda item: item["statement"], flexible=True),
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
@options.before
@options.limit
@options.output
@options.connection_options
def list_statements(
    *,
    session: str | None,
    state: str | None,
    before: str | None,
    limit: int,
    output: OutputFormat | None,
    server: str | None,
    home: str | None,
    debug: bool,
) -> None:
    """List statements, newest first."""
    with command_context(server=server, home=home, debug=debug) as context:
        output_format = context.output_format(output)
        client = context.connect()
        page = client.statements(
            session=session and resolve_session(client, session),
            state=state,
            before=before,
            limit=limit,
        )
        write_page(context.terminal, page, _LIST_FIELDS, output_format, _LIST_COLUMNS)


@statement.command()
@_statement_argument
@options.output
@options.connection_options
def show(
    *,
    reference: str,
    output: OutputFormat | None,
    server: str | None,
    home: str | None,
    debug: bool,
) -> None:
    """Show one statement; --debug includes the stack trace of its error."""
    with command_context(server=server, home=home, debug=debug) as context:
        output_format = context.output_format(output)
        client = context.connect()
        statement = client.statement(resolve_statement(client, reference), trace=debug)
        if output_format is None and statement.get("waiting_for") is not None:
            statement["waiting_for"] = statement["waiting_for"]["text"]
        write_object(context.terminal, statement, output_format)


@statement.command()
@_statement_argument
@options.output
@options.quiet
@options.verbose
@options.connection_options
def result(
    *,
    reference: str,
    output: OutputFormat | None,
    quiet: bool,
    verbose: bool,
    server: str | None,
    home: str | None,
    debug: bool,
) -> None:
    """Print the rows of a statement that has ended."""
    with command_context(
        server=server, home=home, debug=debug, quiet=quiet, verbose=verbose
    ) as context:
        output_format = context.output_format(output)
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
@options.connection_options
def cancel(
    *, reference: str, wait: bool, force: bool, server: str | None, home: str | None, debug: bool
) -> None:
    """Cancel a statement and print the state in which it ended."""
    with command_context(server=server, home=home, debug=debug) as context:
        client = context.connect()
        statement = client.cancel(resolve_statement(client, reference), force=force)
        if wait:
            statement = wait_for_end(client, statement)
        context.terminal.out.write(statement["state"] + "\n")


@statement.command("wait")
@_statement_argument
@click.option("--timeout", metavar="DURATION", help="Longest time to wait, e.g. 30s.")
@options.quiet
@options.connection_options
def wait_for_statement(
    *,
    reference: str,
    timeout: str | None,
    quiet: bool,
    server: str | None,
    home: str | None,
    debug: bool,
) -> None:
    """Wait until a statement has ended and print its state.

    Ctrl-C ends the wait only: the statement continues to run.
    """
    with (
        command_context(server=server, home=home, debug=debug, quiet=quiet) as context,
        Interrupts() as interrupts,
    ):
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
@options.connection_options
def attach(
    *,
    reference: str,
    output: OutputFormat | None,
    quiet: bool,
    verbose: bool,
    server: str | None,
    home: str | None,
    debug: bool,
) -> None:
    """Show the progress of a statement, then its rows.

    Ctrl-C ends the command only: the statement continues to run.
    """
    with (
        command_context(
            server=server, home=home, debug=debug, quiet=quiet, verbose=verbose
        ) as context,
        Interrupts() as interrupts,
    ):
        output_format = context.output_format(output)
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
