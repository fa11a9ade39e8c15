"""`headrace`: the commands and their entry point."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace import __version__
from headrace.cli.doctor import doctor
from headrace.cli.serve import serve
from headrace.cli.session import app as session
from headrace.cli.sql import sql
from headrace.cli.statement import app as statement

app = typer.Typer(
    name="headrace",
    help="SQL on Apache Spark, durably.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # rich takes longer to import than a whole command
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"headrace {__version__}")
        raise typer.Exit


@app.callback()
def headrace(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """SQL on Apache Spark, durably."""


app.command()(serve)
app.command()(sql)
app.add_typer(session)
app.add_typer(statement)
app.command()(doctor)


def run() -> None:
    """The program `headrace`."""
    app()
