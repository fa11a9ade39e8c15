"""`headrace stream`: list, show, watch and control streaming queries."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import click

from headrace.cli.output.formats import OutputFormat
from headrace.cli.output.text import StyledText
from headrace.cli.support import options
from headrace.cli.support.command import CommandContext, with_context
from headrace.cli.support.interrupts import Interrupted, Interrupts
from headrace.cli.support.listing import ListColumn, write_items, write_object, write_page
from headrace.cli.support.readable import format_age_of, format_remaining
from headrace.cli.support.terminal import Terminal
from headrace.client.http import Client, Json
from headrace.text.readable import describe_duration

_FIELDS = ("name", "state", "sink", "last_batch", "input_rate", "failures", "retry_at", "error")


def _describe_name(query: Json) -> str:
    """Return the name of a query, with its scope if that is a job."""
    scope = query.get("scope", "adhoc")
    return str(query["name"]) if scope == "adhoc" else f"{scope}.{query['name']}"


def _describe_retry(query: Json) -> str | None:
    """Return when a query starts again after a failure, for example `in 42 s`."""
    remaining = format_remaining(query["retry_at"])
    return None if remaining is None else f"in {remaining}"


_LIST_COLUMNS = (
    ListColumn(title="NAME", text=_describe_name, flexible=True),
    ListColumn(title="STATE", text=lambda item: item["state"]),
    ListColumn(title="AGE", text=lambda item: format_age_of(item.get("created_at")), right=True),
    ListColumn(title="SINK", text=lambda item: item["sink"], flexible=True),
    ListColumn(title="BATCH", text=lambda item: item["last_batch"], right=True),
    ListColumn(title="ROWS/S", text=lambda item: item["input_rate"], right=True),
    ListColumn(title="FAILURES", text=lambda item: item["failures"] or None, right=True),
    ListColumn(title="RETRY", text=_describe_retry, right=True),
    ListColumn(title="ERROR", text=lambda item: item["error"], flexible=True),
)


def _format_batch_time(batch: Json) -> str:
    return describe_duration(batch["milliseconds"] / 1000)


_BATCH_FIELDS = (
    *("batch", "at", "input_rows", "input_rate", "process_rate", "milliseconds", "late_rows"),
)
_BATCH_COLUMNS = (
    ListColumn(title="BATCH", text=lambda item: item["batch"], right=True),
    ListColumn(title="AGE", text=lambda item: format_age_of(item["at"]), right=True),
    ListColumn(title="TIME", text=_format_batch_time, right=True),
    ListColumn(title="ROWS", text=lambda item: item["input_rows"], right=True),
    ListColumn(title="ROWS/S", text=lambda item: item["input_rate"], right=True),
    ListColumn(title="PROCESSED/S", text=lambda item: item["process_rate"], right=True),
    ListColumn(title="LATE ROWS", text=lambda item: item.get("late_rows") or None, right=True),
)
_MINUTE_FIELDS = (
    *("at", "batches", "input_rows", "input_rate", "process_rate", "slowest_milliseconds"),
    *("watermark_gap_seconds", "backlog", "state_rows", "state_bytes"),
)
_MINUTE_COLUMNS = (
    ListColumn(title="AGE", text=lambda item: format_age_of(item["at"]), right=True),
    ListColumn(title="BATCHES", text=lambda item: item["batches"], right=True),
    ListColumn(title="ROWS", text=lambda item: item["input_rows"], right=True),
    ListColumn(title="ROWS/S", text=lambda item: item["input_rate"], right=True),
    ListColumn(title="PROCESSED/S", text=lambda item: item["process_rate"], right=True),
    ListColumn(
        title="SLOWEST",
        text=lambda item: describe_duration(item["slowest_milliseconds"] / 1000),
        right=True,
    ),
    ListColumn(
        title="WATERMARK GAP",
        text=lambda item: _describe_seconds(item["watermark_gap_seconds"]),
        right=True,
    ),
    ListColumn(title="BACKLOG", text=lambda item: item["backlog"], right=True),
    ListColumn(title="STATE ROWS", text=lambda item: item["state_rows"] or None, right=True),
)
_INTERRUPTION_FIELDS = ("kind", "began_at", "ended_at", "cause")
_WATCH_SECONDS = 1.0
_CLEAR = StyledText("\x1b[H\x1b[J")


def _describe_seconds(seconds: float | None) -> str | None:
    return None if seconds is None else describe_duration(float(seconds))


_query_argument = click.argument("name", metavar="QUERY")


@click.group()
def stream() -> None:
    """List, show and control streaming queries.

    A query is given by its id, its name, or scope.name.
    """


@stream.command("list")
@click.option("--all", "ended", is_flag=True, help="Also list queries that have ended.")
@click.option("--watch", is_flag=True, help="Redraw the list every second, until Ctrl-C.")
@options.all_owners
@options.before
@options.limit
@options.output
@with_context
def list_streams(
    context: CommandContext,
    *,
    ended: bool,
    watch: bool,
    all_owners: bool,
    before: str | None,
    limit: int,
    output_format: OutputFormat | None,
) -> None:
    """List streaming queries, newest first."""
    client, terminal = context.connect(), context.terminal

    def read() -> Json:
        return client.streams(live=not ended, before=before, limit=limit, all_owners=all_owners)

    def write(page: Json) -> None:
        if output_format in {OutputFormat.JSON, OutputFormat.JSONL}:
            write_page(terminal, page, _FIELDS, output_format)
            return
        page["items"] = [summarize(item) for item in page["items"]]
        write_page(terminal, page, _FIELDS, output_format, _LIST_COLUMNS)
        if not (page["items"] or ended or before):
            terminal.notice(_describe_ended(client.streams(limit=limit, all_owners=all_owners)))

    _write_once_or_watch(terminal, read, write, watch=watch)


@stream.command()
@_query_argument
@click.option("--watch", is_flag=True, help="Redraw every second, until Ctrl-C.")
@options.output
@with_context
def show(
    context: CommandContext, *, name: str, watch: bool, output_format: OutputFormat | None
) -> None:
    """Show one streaming query and its last batches.

    The command prints state, failures, the countdown to the next start, and the last error.
    """
    client, terminal = context.connect(), context.terminal

    def write(query: Json) -> None:
        _write_query(terminal, query, output_format)

    _write_once_or_watch(terminal, lambda: client.stream(name), write, watch=watch)


@stream.command()
@_query_argument
@click.option(
    "--tail", type=click.IntRange(1), metavar="BYTES", help="Print only the last BYTES of the log."
)
@with_context
def logs(context: CommandContext, *, name: str, tail: int | None) -> None:
    """Print the log of the driver in which a query runs."""
    client = context.connect()
    session = client.stream(name)["session_id"]
    context.terminal.out.write(client.session_log(session, tail))


@stream.command()
@_query_argument
@click.option("--minutes", type=click.IntRange(1), metavar="N", help="Only the last N minutes.")
@options.output
@with_context
def history(
    context: CommandContext, *, name: str, minutes: int | None, output_format: OutputFormat | None
) -> None:
    """Show the last hours of a query, minute by minute.

    The command prints the minutes with batches. On a terminal and without --format, it also prints
    the times in which the query did not run. JSON has both, the attempts, and the begins of runs
    and versions.
    """
    terminal = context.terminal
    found = context.connect().stream_history(name, minutes)
    if output_format is OutputFormat.JSON:
        write_object(terminal, found, output_format)
        return
    write_items(terminal, found["minutes"], _MINUTE_FIELDS, output_format, _MINUTE_COLUMNS)
    # On a pipe, the output is one table.
    if terminal.out.isatty() and output_format is None and found["interruptions"]:
        terminal.out.write("\n")
        write_items(terminal, found["interruptions"], _INTERRUPTION_FIELDS, None)


def _add_action(action: str, help_text: str) -> None:
    @stream.command(action, help=help_text)
    @click.argument("names", nargs=-1, required=True, metavar="QUERY...")
    @options.quiet
    @with_context
    def act(context: CommandContext, *, names: Sequence[str]) -> None:
        client = context.connect()
        for name in names:
            _act(client, context.terminal, name, action)


def _act(client: Client, terminal: Terminal, name: str, action: str) -> None:
    query = client.act_on_stream(name, action)
    terminal.info(f"The query {query['name']} ({query['id']}) is {query['state']}.")


def _describe_ended(page: Json) -> str:
    """Return what a list of the live queries says if there are none.

    Args:
        page: The queries that have ended.
    """
    count = f"{len(page['items'])}{' or more' if page['next'] else ''}"
    if not page["items"]:
        return "There is no query. SAVE STREAM starts one."
    return f"No query is live. {count} ended: headrace stream list --all"


_add_action("stop", "Stop queries. Their checkpoints stay.")
_add_action("pause", "Stop queries until they are resumed.")
_add_action("resume", "Start paused queries.")
_add_action("restart", "Stop queries and start them again from their checkpoints.")
_add_action("retry", "Start queries now that wait after a failure.")


def summarize(query: Json) -> Json:
    """Return the fields of a query that a list shows."""
    last = query["progress"][-1] if query["progress"] else None
    error = query["last_error"]
    return {
        **query,
        "input_rate": None if last is None else round(float(last["input_rate"]), 1),
        "error": None if error is None else error["message"].partition("\n")[0],
    }


def _write_query(terminal: Terminal, query: Json, output_format: OutputFormat | None) -> None:
    if output_format is not None:
        write_object(terminal, query, output_format)
        return
    batches = query.pop("progress")
    error = query.pop("last_error")
    shown: dict[str, Any] = dict(query)
    if query["retry_at"] is not None and not terminal.out.isatty():
        # Its sentence counts down. A program reads the time of the next start, in `retry_at`.
        del shown["reason"]
    shown["last_error"] = None if error is None else error["message"]
    write_object(terminal, shown, None)
    if batches:
        terminal.out.write("\n")
        write_items(terminal, batches[-10:], _BATCH_FIELDS, OutputFormat.TABLE, _BATCH_COLUMNS)


def _write_once_or_watch(
    terminal: Terminal, read: Callable[[], Json], write: Callable[[Json], None], *, watch: bool
) -> None:
    """Write once, or again and again on a terminal until Ctrl-C."""
    if not (watch and terminal.out.isatty()):
        write(read())
        return
    with Interrupts() as interrupts:
        try:
            while True:
                # Read first: the screen stays as it is while the node answers.
                with interrupts.interruptible():
                    item = read()
                # Ctrl-C waits until the screen is complete.
                terminal.out.write(_CLEAR)
                write(item)
                terminal.out.flush()
                with interrupts.interruptible():
                    time.sleep(_WATCH_SECONDS)
        except Interrupted:
            return
