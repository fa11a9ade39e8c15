"""`headrace load`: load local files into a table."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
from click.exceptions import Exit

from headrace.cli.support import options
from headrace.cli.support.command import CommandContext, with_context
from headrace.cli.support.interrupts import Interrupts
from headrace.cli.support.result_printer import ResultPrinter
from headrace.cli.support.runner import RunOptions, ScriptRunner
from headrace.cli.support.script import Source, parse_name, split_sources
from headrace.cli.support.session_option import SessionOption, explain_missing_session


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--into",
    "table",
    required=True,
    metavar="TABLE",
    help="The table, for example sales or db.sales. It is created if it does not exist.",
)
@click.option(
    "--session",
    metavar="SESSION",
    help="Id or name of the session. Default: the pool session.",
)
@click.option("--create", is_flag=True, help="Create the named session if it does not exist.")
@options.profile
@options.conf
@options.quiet
@with_context
def load(
    context: CommandContext,
    *,
    files: Sequence[str],
    table: str,
    session: str | None,
    create: bool,
    profile: str | None,
    conf: Sequence[str],
) -> None:
    """Load local files into a table: all of their rows, or none.

    A name ends with .csv, .tsv, .json, .jsonl, .ndjson, .parquet, .arrow or .arrows, also followed
    by .gz. A table that exists gets the rows appended; the names of the columns select its columns.
    """
    terminal = context.terminal
    name = parse_name(table)
    pairs = options.parse_pairs(conf, "--conf")
    option = SessionOption(session, create=create, profile=profile, conf=pairs)
    notify = partial(terminal.info, "Cancelling …", replaces_progress=True)
    with Interrupts(notify) as interrupts:
        with interrupts.interruptible():
            client = context.connect(new_home=True, opens_pool=not option.is_given)
            chosen = option.resolve(client)

        def run(text: str, fields: dict[str, Any], printer: ResultPrinter) -> int:
            run_options = RunOptions(fields=fields, session=chosen, private=False)
            runner = ScriptRunner(client, terminal, printer, interrupts, run_options)
            return runner.run(split_sources([Source(None, text)]))

        # What reads and encodes files takes a while to import, which other commands need not.
        from headrace.cli.load.loader import Loader  # noqa: PLC0415

        loader = Loader(client, terminal, chosen, run, interrupts)
        with explain_missing_session():
            raise Exit(loader.load(name, [Path(file) for file in files]))
