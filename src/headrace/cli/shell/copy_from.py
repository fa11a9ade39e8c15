r"""`\copy … from`: load a local file into a table, in the session of the shell."""

from __future__ import annotations

from typing import Any

from headrace.cli.interrupts import Interrupts
from headrace.cli.load.loader import Loader
from headrace.cli.result_printer import ResultPrinter
from headrace.cli.script import Source, split_sources
from headrace.cli.shell.copy_command import CopyRequest
from headrace.cli.shell.executor import Executor
from headrace.cli.shell.session import ShellSession
from headrace.cli.terminal import Terminal
from headrace.client.http import Client


def copy_from(
    request: CopyRequest,
    client: Client,
    session: ShellSession,
    executor: Executor,
    terminal: Terminal,
) -> int:
    """Load the file and return the exit code.

    Raises:
        HeadraceError: The file or the table cannot be read, or they do not fit together.
    """

    def load(interrupts: Interrupts) -> int:
        def run(text: str, fields: dict[str, Any], printer: ResultPrinter) -> int:
            statements = split_sources([Source(None, text)])
            return executor.run_interruptible(
                statements, printer, interrupts, fields=fields, limited=False
            )

        loader = Loader(client, terminal, session.id, run, interrupts)
        return loader.load(request.table, [request.file])

    return executor.run_until_interrupt(load)
