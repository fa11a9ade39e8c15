"""`headrace shell`: an interactive prompt."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click
from click.exceptions import Exit

from headrace.cli.output.formats import OutputFormat
from headrace.cli.shell.command_list import format_help
from headrace.cli.shell.session import ShellOptions
from headrace.cli.support import options
from headrace.cli.support.command import CommandContext, with_context
from headrace.errors import InvalidRequest


@click.command(epilog="\b\nAt the prompt:\n" + format_help().replace("\n\n", "\n\n\b\n"))
@click.option(
    "--session",
    metavar="SESSION",
    help="Id or name of the session. Default: a private session, closed at the end.",
)
@click.option("--create", is_flag=True, help="Create the named session if it does not exist.")
@options.profile
@options.conf
@click.option(
    "--row-limit", type=click.IntRange(1), metavar="N", help="Maximum number of rows of a result."
)
@options.output
@options.quiet
@with_context
def shell(
    context: CommandContext,
    *,
    session: str | None,
    create: bool,
    profile: str | None,
    conf: Sequence[str],
    row_limit: int | None,
    output_format: OutputFormat | None,
) -> None:
    """Type SQL at a prompt. All statements share one session.

    Statements end with `;` and may span lines. Views, settings and variables stay until the shell
    ends.
    """
    shell_options = ShellOptions(
        session=session,
        create=create,
        profile=profile,
        conf=options.parse_pairs(conf, "--conf"),
        output_format=output_format,
        fields={} if row_limit is None else {"row_limit": row_limit},
    )
    if not has_terminal():
        raise InvalidRequest(
            "The shell needs a terminal.",
            hint='run a script with headrace sql: headrace sql -f FILE, or headrace sql "…"',
        )
    raise Exit(run_shell(context, shell_options))


def has_terminal() -> bool:
    """Return whether a user can type at this process and read what it prints."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()


def run_shell(context: CommandContext, shell_options: ShellOptions) -> int:
    """Connect, run the shell until the user leaves it, and return the exit code."""
    # prompt_toolkit takes 0.2 s to import, which only the shell should cost.
    from headrace.cli.shell.repl import start_shell  # noqa: PLC0415

    return start_shell(context, shell_options)
