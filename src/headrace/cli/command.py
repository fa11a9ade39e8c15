"""What surrounds every command: its streams, its configuration, its node, and its exit code."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from click.exceptions import Exit

from headrace.cli import config as configuration
from headrace.cli import discovery
from headrace.cli.config import ClientConfig
from headrace.cli.interrupts import EXIT_INTERRUPTED, Interrupted
from headrace.cli.output.formats import OutputFormat, pinned, refuse_terminal
from headrace.cli.terminal import Terminal, open_terminal
from headrace.client.http import Client
from headrace.errors import EXIT_FAILED, HeadraceError

EXIT_PIPE = 141
"""Whoever read the output went away: what a program ended by SIGPIPE leaves with."""


@dataclass(frozen=True, slots=True)
class Command:
    """One run of a command."""

    terminal: Terminal
    config: ClientConfig
    held: ExitStack
    """What is let go at the end."""

    def connect(self, *, new_home: bool = False) -> Client:
        """The node to talk to; see headrace.cli.discovery."""
        found = discovery.find(self.config, new_home=new_home, tell=self.terminal.tell)
        return self.held.enter_context(found.client)

    def format(self, given: OutputFormat | None) -> OutputFormat | None:
        """The output format that is set by a flag, the environment or the file; None when none.

        Raises InvalidSetting for an unknown one, or a binary one on a terminal.
        """
        chosen = given
        if chosen is None and self.config.format is not None:
            chosen = pinned(self.config.format, self.config.source("format"))
        if chosen is not None:
            refuse_terminal(chosen, self.terminal.out)
        return chosen


@contextmanager
def command(
    *,
    server: str | None = None,
    home: str | None = None,
    debug: bool = False,
    quiet: bool = False,
) -> Iterator[Command]:
    """Runs a command's body; whatever it raises becomes a line on standard error and an exit code.

    Raises Exit.
    """
    terminal = open_terminal(quiet=quiet, debug=debug)
    try:
        with ExitStack() as held:
            yield Command(terminal, configuration.load({"server": server, "home": home}), held)
            terminal.out.flush()
    except HeadraceError as error:
        if debug:
            traceback.print_exception(error, file=terminal.err)
        terminal.complaints.error(error)
        raise Exit(error.exit_code) from error
    except (Interrupted, KeyboardInterrupt):
        raise Exit(EXIT_INTERRUPTED) from None
    except BrokenPipeError:
        # What is still buffered must not fail again when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise Exit(EXIT_PIPE) from None
    except Exit:
        raise
    except Exception as error:
        if debug:
            raise
        terminal.warn(f"error: {type(error).__name__}: {error} (--debug shows where)")
        raise Exit(EXIT_FAILED) from error
