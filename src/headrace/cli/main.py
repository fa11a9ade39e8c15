"""The command group `headrace` and its entry point."""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from headrace import __version__
from headrace.cli.load.command import load
from headrace.cli.shell.command import shell


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="headrace %(version)s")
def headrace() -> None:
    """Run SQL on Apache Spark; every statement and its state are durable."""


def _import_commands() -> Iterator[click.Command]:
    """Yield the commands of this package: each module holds the one with its name."""
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        if not module.ispkg and module.name not in {"main", "__main__"}:
            yield getattr(importlib.import_module(f"{__package__}.{module.name}"), module.name)


for _command in (*_import_commands(), load, shell):
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
