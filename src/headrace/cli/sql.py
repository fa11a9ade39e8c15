"""`headrace sql`: run statements and write their rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import click
from click.exceptions import Exit

from headrace.cli import options, script
from headrace.cli.command import Command, command
from headrace.cli.interrupts import Interrupts
from headrace.cli.output.formats import OutputFormat
from headrace.cli.result_printer import ResultPrinter
from headrace.cli.run import Plan, Run
from headrace.cli.session_option import SessionOption
from headrace.errors import InvalidRequest


@click.command()
@click.argument("texts", nargs=-1, metavar="[SQL]...")
@click.option(
    "--file",
    "-f",
    "files",
    multiple=True,
    metavar="FILE",
    help="Run a file; `-` is standard input. Repeatable.",
)
@options.output
@click.option(
    "--session", metavar="SESSION", help="Id or name of the session. Default: one of its own."
)
@click.option("--create", is_flag=True, help="Make the named session if there is none.")
@options.profile
@options.conf
@click.option(
    "--param",
    multiple=True,
    metavar="NAME[:TYPE]=VALUE",
    help="A value for :NAME, or =VALUE for `?`. Repeatable.",
)
@click.option("--row-limit", type=click.IntRange(1), metavar="N", help="Rows at most.")
@click.option("--byte-limit", type=click.IntRange(1), metavar="N", help="Bytes at most.")
@click.option(
    "--result",
    type=click.Choice(options.DispositionOption, case_sensitive=False),
    default=options.DispositionOption.AUTO,
    show_default="auto",
    metavar="auto|inline|stored",
    help="Where the node keeps results.",
)
@click.option(
    "--kind",
    type=click.Choice(["interactive", "batch"]),
    help="Batch: each statement has a driver of its own, which quits after it.",
)
@click.option("--timeout", metavar="DURATION", help="How long a statement may run, e.g. 10m.")
@click.option("--queue-timeout", metavar="DURATION", help="How long it may wait before it runs.")
@click.option("--detach", is_flag=True, help="Print the statement id and leave it running.")
@click.option("--wait", metavar="DURATION", help="Wait that long, e.g. 30s, then leave it running.")
@click.option(
    "--on-error",
    type=click.Choice(options.OnError, case_sensitive=False),
    default=options.OnError.STOP,
    show_default="stop",
    metavar="stop|continue",
    help="What a script does after a failed statement.",
)
@click.option(
    "--results",
    default="all",
    metavar="all|last|N",
    show_default=True,
    help="Whose results are written.",
)
@options.quiet
@options.connected
def sql(
    *,
    output: OutputFormat | None,
    quiet: bool,
    server: str | None,
    home: str | None,
    debug: bool,
    **given: Any,
) -> None:
    """Run SQL and write its rows.

    SQL comes from the arguments, from files, or from a pipe; a text may hold several statements.
    """
    with command(server=server, home=home, debug=debug, quiet=quiet) as this:
        raise Exit(_run(this, this.format(output), _Given(**given)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    """The flags that say what to run and how."""

    texts: Sequence[str]
    files: Sequence[str]
    session: str | None
    create: bool
    profile: str | None
    conf: Sequence[str]
    param: Sequence[str]
    row_limit: int | None
    byte_limit: int | None
    result: options.DispositionOption
    kind: str | None
    timeout: str | None
    queue_timeout: str | None
    detach: bool
    wait: str | None
    on_error: options.OnError
    results: str

    def target(self) -> SessionOption:
        conf = options.pairs(self.conf, "--conf")
        return SessionOption(self.session, create=self.create, profile=self.profile, conf=conf)

    def plan(self) -> Plan:
        fields = {
            "parameters": options.parameters(self.param),
            "row_limit": self.row_limit,
            "byte_limit": self.byte_limit,
            "result": self.result.value,
            "kind": self.kind,
            "timeout": _duration(self.timeout, "--timeout"),
            "queue_timeout": _duration(self.queue_timeout, "--queue-timeout"),
        }
        return Plan(
            fields={key: value for key, value in fields.items() if value},
            private=self.session is None,
            on_error=self.on_error,
            limit=None if self.wait is None else options.seconds(self.wait, "--wait"),
            detach=self.detach,
        )


def _duration(text: str | None, flag: str) -> str | None:
    """A duration as it is sent. Raises InvalidRequest, which names the flag."""
    if text is not None:
        options.seconds(text, flag)
    return text


def _run(this: Command, chosen: OutputFormat | None, given: _Given) -> int:
    """Runs the statements and gives the exit code. What is wrong with the flags comes first."""
    target = given.target()
    plan = given.plan()
    with Interrupts(lambda: this.terminal.tell("Cancelling … (again to leave)")) as interrupts:
        with interrupts.stoppable():
            pieces = script.split(script.read(given.texts, given.files))
            plan = replace(plan, shown=_shown(given.results, pieces, chosen))
            if not pieces:
                return 0
            client = this.connect(new_home=True)
            plan = replace(plan, session=target.resolve(client))
        presenter = ResultPrinter(client, this.terminal, chosen)
        return Run(client, this.terminal, presenter, interrupts, plan).run(pieces)


def _shown(
    results: str, pieces: Sequence[script.SourceStatement], chosen: OutputFormat | None
) -> int | None:
    """The number of the only statement whose result is written; None for all."""
    count = len(pieces)
    if results == "all":
        if chosen is not None and chosen.binary and count > 1:
            raise InvalidRequest(
                f"One {chosen} output holds one result, and there are {count} statements.",
                hint="choose one by --results last or --results N",
            )
        return None
    if results == "last":
        return count
    if results.isdecimal() and 1 <= int(results) <= count:
        return int(results)
    raise InvalidRequest(f"--results {results!r}: write all, last, or a number from 1 to {count}.")
