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
from headrace.cli.listing import write_object, write_page
from headrace.cli.output.formats import OutputFormat
from headrace.cli.progress import ProgressLine
from headrace.cli.result_printer import ResultPrinter, exit_code
from headrace.client.http import Client, Json
from headrace.errors import EXIT_TIMEOUT, HeadraceError

_LIST_FIELDS = ("id", "state", "statement", "session_id", "owner", "created_at", "ended_at")

_statement_argument = click.argument("id_", metavar="STATEMENT")


@click.group()
def statement() -> None:
    """List, show, wait for, attach to and cancel statements."""


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
        page = client.statements(session=session, state=state, before=before, limit=limit)
        write_page(context.terminal, page, _LIST_FIELDS, output_format)


@statement.command()
@_statement_argument
@options.output
@options.connection_options
def show(
    *, id_: str, output: OutputFormat | None, server: str | None, home: str | None, debug: bool
) -> None:
    """Show one statement; --debug includes the stack trace of its error."""
    with command_context(server=server, home=home, debug=debug) as context:
        output_format = context.output_format(output)
        statement = context.connect().statement(id_, trace=debug)
        if output_format is None and statement.get("waiting_for") is not None:
            statement["waiting_for"] = statement["waiting_for"]["text"]
        write_object(context.terminal, statement, output_format)


@statement.command()
@_statement_argument
@options.output
@options.quiet
@options.connection_options
def result(
    *,
    id_: str,
    output: OutputFormat | None,
    quiet: bool,
    server: str | None,
    home: str | None,
    debug: bool,
) -> None:
    """Print the rows of a statement that has ended."""
    with command_context(server=server, home=home, debug=debug, quiet=quiet) as context:
        output_format = context.output_format(output)
        client = context.connect()
        statement = client.statement(id_)
        if not has_ended(statement):
            client.rows(id_)  # raises the error in which the node explains why there are no rows
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
    *, id_: str, wait: bool, force: bool, server: str | None, home: str | None, debug: bool
) -> None:
    """Cancel a statement and print the state in which it ended."""
    with command_context(server=server, home=home, debug=debug) as context:
        client = context.connect()
        statement = client.cancel(id_, force=force)
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
    id_: str,
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
        statement = _follow(context, client, client.statement(id_), interrupts, limit)
        context.terminal.out.write(statement["state"] + "\n")
        raise Exit(exit_code(statement) if has_ended(statement) else EXIT_TIMEOUT)


@statement.command()
@_statement_argument
@options.output
@options.quiet
@options.connection_options
def attach(
    *,
    id_: str,
    output: OutputFormat | None,
    quiet: bool,
    server: str | None,
    home: str | None,
    debug: bool,
) -> None:
    """Show the progress of a statement, then its rows.

    Ctrl-C ends the command only: the statement continues to run.
    """
    with (
        command_context(server=server, home=home, debug=debug, quiet=quiet) as context,
        Interrupts() as interrupts,
    ):
        output_format = context.output_format(output)
        client = context.connect()
        statement = client.statement(id_)
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
