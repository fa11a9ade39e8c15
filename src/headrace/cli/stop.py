"""`headrace stop`: end the node of this home."""

from __future__ import annotations

import os

import click

from headrace.cli import options
from headrace.cli.command import command_context
from headrace.cli.parent_home import report_parent_home
from headrace.errors import NodeUnreachable
from headrace.file_locks import lock_file
from headrace.home import HomeLayout
from headrace.node_file import NodeFile, find_running_node, request_end

_STOP_SECONDS = 60.0
_START_SECONDS = 60.0


@click.command()
@click.option(
    "--drivers", is_flag=True, help="End the drivers of `headrace serve` too, with their work."
)
@options.home
@options.quiet
@options.debug
def stop(*, drivers: bool, home: str | None, quiet: bool, debug: bool) -> None:
    """End the node of this home, whether a command or `headrace serve` started it.

    The drivers of a node that a command started end too. Named sessions remain, and their next
    statement starts another driver. The drivers of `headrace serve` continue without --drivers, and
    connect to the next node of the home.
    """
    with command_context(home=home, quiet=quiet, debug=debug) as context:
        layout = HomeLayout.at(context.config.home)
        node = _await_start(layout)
        if node is None:
            _await_end(layout)
            context.terminal.notice(f"No node serves the home {layout.path}.")
            report_parent_home(context.config, context.terminal.notice)
            return
        context.terminal.info(f"Stopping process {node.pid} …")
        if not request_end(node, with_drivers=drivers):
            raise NodeUnreachable(
                f"Process {node.pid} serves the home {layout.path}, but it cannot be stopped from "
                "here.",
                hint="run headrace stop as its user, and in its container if it runs in one",
            )
        _await_end(layout)
        context.terminal.notice(_describe_end(layout, node, with_drivers=drivers))


def _await_start(layout: HomeLayout) -> NodeFile | None:
    """Return the node of the home, after its start if it is starting, or None."""
    if not layout.path.exists():
        return None
    descriptor = lock_file(layout.start_lock, timeout=_START_SECONDS)
    if descriptor is not None:
        os.close(descriptor)
    return find_running_node(layout)


def _await_end(layout: HomeLayout) -> None:
    """Wait until no node holds the home. Raise NodeUnreachable if that takes too long."""
    if not layout.node_lock.exists():
        return
    descriptor = lock_file(layout.node_lock, shared=True, timeout=_STOP_SECONDS)
    if descriptor is None:
        raise NodeUnreachable(
            f"The node of {layout.path} has not stopped within {_STOP_SECONDS:g} s.",
            hint=f"see its log, for example {layout.node_log}",
        )
    os.close(descriptor)


def _describe_end(layout: HomeLayout, node: NodeFile, *, with_drivers: bool) -> str:
    consequence = (
        "Its drivers have ended; named sessions remain."
        if node.embedded or with_drivers
        else "Its drivers continue and connect to the next node of this home."
    )
    return (
        f'Stopped process {node.pid}, started by "{node.started_by}", at {node.address}. It served '
        f"the home {layout.path}. {consequence}"
    )
