"""The context of a command: its streams, configuration, node connection and exit code."""

from __future__ import annotations

import os
import shlex
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any

from click.exceptions import Exit

from headrace.cli.output.formats import OutputFormat, parse_format, refuse_terminal
from headrace.cli.support import options
from headrace.cli.support.config import ClientConfig, load_config
from headrace.cli.support.discovery import Reports, find_node
from headrace.cli.support.interrupts import EXIT_INTERRUPTED, Interrupted
from headrace.cli.support.terminal import Terminal, open_terminal
from headrace.client.http import Client
from headrace.errors import EXIT_FAILED, HeadraceError

EXIT_PIPE = 141
"""The reader of the output closed it. A program ended by SIGPIPE has the same exit code."""


@dataclass(frozen=True, slots=True)
class CommandContext:
    """Streams, configuration and resources of one command."""

    terminal: Terminal
    config: ClientConfig
    resources: ExitStack
    """Closed when the command ends."""

    def connect(self, *, new_home: bool = False, opens_pool: bool = False) -> Client:
        """Return a client of the node that `headrace.cli.support.discovery` finds.

        Args:
            new_home: Whether to create the home if it does not exist.
            opens_pool: Whether an embedded node starts the driver of the pool session at once.
        """
        reports = Reports(progress=self.terminal.info, notice=self.terminal.notice)
        client = find_node(self.config, new_home=new_home, opens_pool=opens_pool, reports=reports)
        return self.resources.enter_context(client)

    def output_format(self, flag: OutputFormat | None) -> OutputFormat | None:
        """Return the output format that the flag, the environment or the file sets.

        Returns None if nothing sets it. Raises InvalidSetting if the format does not exist, or if
        a binary format would be written to a terminal.
        """
        chosen_format = flag
        if chosen_format is None and self.config.format is not None:
            chosen_format = parse_format(self.config.format, self.config.source("format"))
        if chosen_format is not None:
            refuse_terminal(chosen_format, self.terminal.out)
        return chosen_format


def with_context(command: Callable[..., None]) -> Callable[..., None]:
    """Add the connection options to a command, and pass it the context that they describe.

    The context is the first argument. A command with the option --format gets `output_format`: the
    format that the flag, the environment or the file sets. --quiet and --verbose act on the
    terminal of the context.
    """

    @wraps(command)
    def run(
        *,
        server: str | None,
        home: str | None,
        debug: bool,
        quiet: bool = False,
        verbose: bool = False,
        **values: Any,
    ) -> None:
        with command_context(
            server=server, home=home, debug=debug, quiet=quiet, verbose=verbose
        ) as context:
            if "output" in values:
                values["output_format"] = context.output_format(values.pop("output"))
            command(context, **values)

    return options.connection_options(run)


@contextmanager
def command_context(
    *,
    server: str | None = None,
    home: str | None = None,
    debug: bool = False,
    quiet: bool = False,
    verbose: bool = False,
) -> Iterator[CommandContext]:
    """Run the body of a command. Print its errors and turn them into exit codes.

    Raises:
        Exit: The body raised an error; the exit code depends on the error.
    """
    flags = {"--server": server, "--home": home}
    terminal = open_terminal(
        quiet=quiet,
        debug=debug,
        verbose=verbose,
        connection_flags="".join(
            f" {flag} {shlex.quote(value)}" for flag, value in flags.items() if value is not None
        ),
    )
    try:
        with ExitStack() as resources:
            config = load_config({"server": server, "home": home})
            yield CommandContext(terminal, config, resources)
            terminal.out.flush()
    except HeadraceError as error:
        if debug:
            traceback.print_exception(error, file=terminal.err)
        terminal.errors.print_error(error)
        raise Exit(error.exit_code) from error
    except (Interrupted, KeyboardInterrupt):
        raise Exit(EXIT_INTERRUPTED) from None
    except BrokenPipeError:
        # The interpreter flushes standard output at its end, which must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise Exit(EXIT_PIPE) from None
    except Exit:
        raise
    except Exception as error:
        if debug:
            raise
        terminal.warn(
            f"error: {type(error).__name__}: {error}\nhint: --debug shows the stack trace"
        )
        raise Exit(EXIT_FAILED) from error
