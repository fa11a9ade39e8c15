"""The command group `headrace` and its entry point."""

from __future__ import annotations

import os
import sys

import click

from headrace import __version__
from headrace.cli.deploy import deploy
from headrace.cli.doctor import doctor
from headrace.cli.history import history
from headrace.cli.job import job
from headrace.cli.load.command import load
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
    *(serve, stop, status, sql, shell, load, session, statement, stream, deploy, job),
    *(node, history, recover, doctor),
)
for _command in _COMMANDS:
    headrace.add_command(_command)


def run() -> None:
    """Run the program with the arguments of the process."""
    _open_closed_streams()
    headrace(prog_name="headrace")


def _open_closed_streams() -> None:
    """Replace standard streams that the caller has closed, as in `headrace status >&-`.

    Otherwise, the first file that the program opens would get the number of such a stream.
    """
    streams = {"stdin": "r", "stdout": "w", "stderr": "w"}
    for number, (name, mode) in enumerate(streams.items()):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number is that of the stream
            setattr(sys, name, os.fdopen(number, mode, closefd=False))
