"""`headrace sql`: run statements and print their rows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import click
from click.exceptions import Exit

from headrace.cli.output.formats import OutputFormat
from headrace.cli.shell.command import has_terminal, run_shell
from headrace.cli.shell.session import ShellOptions
from headrace.cli.support import options
from headrace.cli.support.command import CommandContext, with_context
from headrace.cli.support.interrupts import Interrupts
from headrace.cli.support.result_printer import ResultPrinter
from headrace.cli.support.runner import RunOptions, ScriptRunner, runs_in_pool
from headrace.cli.support.script import SourceStatement, read_sources, split_sources
from headrace.cli.support.session_option import SessionOption
from headrace.errors import InvalidRequest
from headrace.model.request_fields import SubmitFields, describe_fields

_OPTION = re.compile(r"--[A-Za-z][A-Za-z-]*(=.*)?\Z", re.DOTALL)


class _SqlCommand(click.Command):
    """A command whose arguments may begin with a comment of SQL, which is no option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # click takes a text that begins with `--` for an option, and one that begins with a space
        # for an argument. SQL ignores the space.
        return super().parse_args(ctx, [f" {arg}" if _is_comment(arg) else arg for arg in args])


def _is_comment(argument: str) -> bool:
    """Return whether an argument begins with a comment: with `--`, but no name of an option."""
    return argument.startswith("--") and argument != "--" and not _OPTION.match(argument)


@click.command(cls=_SqlCommand)
@click.argument("texts", nargs=-1, metavar="[SQL]...")
@click.option(
    "--file",
    "-f",
    "files",
    multiple=True,
    metavar="FILE",
    help="Run the statements of a file; `-` is standard input. Repeatable.",
)
@options.output
@click.option(
    "--session",
    metavar="SESSION",
    help="Id or name of the session. Default: the shared pool session; for statements that depend "
    "on each other, a private session, closed at the end.",
)
@click.option("--create", is_flag=True, help="Create the named session if it does not exist.")
@options.profile
@options.conf
@click.option(
    "--param",
    multiple=True,
    metavar="NAME[:TYPE]=VALUE",
    help="Value of :NAME; =VALUE is the value of the next `?`. Repeatable.",
)
@click.option(
    "--row-limit", type=click.IntRange(1), metavar="N", help="Maximum number of rows of a result."
)
@click.option(
    "--byte-limit", type=click.IntRange(1), metavar="N", help="Maximum size of a result in bytes."
)
@click.option(
    "--result",
    type=click.Choice(options.DispositionOption, case_sensitive=False),
    default=options.DispositionOption.AUTO,
    show_default="auto",
    metavar="auto|inline|stored|memory",
    help="Where results are kept: in the store, as files, or in the driver until the session ends.",
)
@click.option(
    "--kind",
    type=click.Choice(["interactive", "batch"]),
    help="batch: run each statement in a driver of its own, which ends after the statement.",
)
@options.request_fields(SubmitFields)
@options.owner
@click.option(
    "--detach", is_flag=True, help="Print the statement id and end; the statement continues."
)
@click.option(
    "--wait",
    metavar="DURATION",
    help="Wait for each statement for this time, e.g. 30s; after that it continues alone.",
)
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
    help="Print the results of all statements, of the last one, or of statement N.",
)
@options.quiet
@options.verbose
@with_context
def sql(context: CommandContext, *, output_format: OutputFormat | None, **flags: Any) -> None:
    """Run SQL and print its rows.

    SQL comes from the arguments, from files, or from a pipe. A text may hold several statements,
    separated by `;`. On a terminal, without SQL, the command opens the shell (`headrace shell`).
    """
    fields = {each.key: flags.pop(each.key) for each in describe_fields(SubmitFields).values()}
    sql_flags = SqlFlags(fields=fields, **flags)
    shell_options = sql_flags.shell_options(output_format)
    if shell_options is not None:
        raise Exit(run_shell(context, shell_options))
    raise Exit(_run(context, output_format, sql_flags))


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlFlags:
    """The flags of `headrace sql` that select the statements and how they run."""

    texts: Sequence[str]
    files: Sequence[str]
    session: str | None
    create: bool
    profile: str | None
    conf: Sequence[str]
    owner: str | None
    param: Sequence[str]
    row_limit: int | None
    byte_limit: int | None
    result: options.DispositionOption
    kind: str | None
    detach: bool
    wait: str | None
    on_error: options.OnError
    results: str
    fields: Mapping[str, Any]
    """Values of the options that derive from fields of a submit."""

    def shell_options(self, output_format: OutputFormat | None) -> ShellOptions | None:
        """Return the options of a shell if the command opens one.

        It does so on a terminal, if there is neither SQL nor a flag that only a script can have.
        """
        has_sql = self.texts or self.files or self.param or self.kind
        is_script = self.detach or self.wait or self.results != "all"
        if has_sql or is_script or self.on_error is not options.OnError.STOP or not has_terminal():
            return None
        return ShellOptions(
            session=self.session,
            create=self.create,
            profile=self.profile,
            conf=options.parse_pairs(self.conf, "--conf"),
            output_format=output_format,
            fields=self.run_options().fields,
        )

    def session_option(self) -> SessionOption:
        conf = options.parse_pairs(self.conf, "--conf")
        return SessionOption(
            self.session, create=self.create, profile=self.profile, conf=conf, owner=self.owner
        )

    def run_options(self) -> RunOptions:
        """Return the options of the run, without the session and the choice of results."""
        fields = {
            "parameters": options.parse_parameters(self.param),
            "row_limit": self.row_limit,
            "byte_limit": self.byte_limit,
            "result": self.result.value,
            "kind": self.kind,
            "owner": self.owner,
            **options.check_request_fields(SubmitFields, self.fields),
        }
        return RunOptions(
            fields={key: value for key, value in fields.items() if value},
            private=self.session is None,
            on_error=self.on_error,
            limit=None if self.wait is None else options.parse_seconds(self.wait, "--wait"),
            detach=self.detach,
        )


def _run(context: CommandContext, output_format: OutputFormat | None, flags: SqlFlags) -> int:
    """Run the statements and return the exit code. Check all flags before the first statement."""
    terminal = context.terminal
    session_option = flags.session_option()
    run_options = flags.run_options()
    on_first_signal = "Cancelling … (press Ctrl-C again to leave at once)"
    notify = partial(terminal.info, on_first_signal, replaces_progress=True)
    with Interrupts(notify) as interrupts:
        with interrupts.interruptible():
            statements = split_sources(read_sources(flags.texts, flags.files))
            only_result = _only_result(flags.results, statements, output_format)
            if not statements:
                return 0
            opens_pool = not session_option.is_given and runs_in_pool(statements, run_options)
            client = context.connect(new_home=True, opens_pool=opens_pool)
            session = session_option.resolve(client)
        run_options = replace(run_options, only_result=only_result, session=session)
        printer = ResultPrinter(client, terminal, output_format)
        return ScriptRunner(client, terminal, printer, interrupts, run_options).run(statements)


def _only_result(
    results: str, statements: Sequence[SourceStatement], output_format: OutputFormat | None
) -> int | None:
    """Return the number of the only statement whose result is printed; None for all.

    Raises InvalidRequest if `results` names no statement, or if a binary format would have to hold
    several results.
    """
    count = len(statements)
    if results == "all":
        if output_format is not None and output_format.is_binary and count > 1:
            raise InvalidRequest(
                f"The format {output_format} holds one result only, but there are {count} "
                "statements.",
                hint="choose one result with --results last or --results N",
            )
        return None
    if results == "last":
        return count
    if results.isdecimal() and 1 <= int(results) <= count:
        return int(results)
    raise InvalidRequest(
        f"--results {results!r} is not valid. Write all, last, or a number from 1 to {count}."
    )
