"""The command group `headrace` and its entry point."""

from __future__ import annotations

import click

from headrace import __version__
from headrace.cli.deploy import deploy
from headrace.cli.doctor import doctor
from headrace.cli.job import job
from headrace.cli.node import node
from headrace.cli.recover import recover
from headrace.cli.serve import serve
from headrace.cli.session import session
from headrace.cli.shell.command import shell
from headrace.cli.sql import sql
from headrace.cli.statement import statement
from headrace.cli.status import status
from headrace.cli.stop import stop
from headrace.cli.stream import stream


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="headrace %(version)s")
def headrace() -> None:
    """Run SQL on Apache Spark; every statement and its state are durable."""


_COMMANDS = (
    *(serve, stop, status, sql, shell, session, statement, stream, deploy, job),
    *(node, recover, doctor),
)
for _command in _COMMANDS:
    headrace.add_command(_command)


def run() -> None:
    """Run the program with the arguments of the process."""
    headrace(prog_name="headrace")
