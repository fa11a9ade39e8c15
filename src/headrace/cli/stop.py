"""`headrace stop`: end the node of this home."""

from __future__ import annotations

import os

import click
from click.exceptions import Exit

from headrace.cli.support import options
from headrace.cli.support.command import CommandContext, command_context
from headrace.cli.support.discovery import report_parent_home
from headrace.cli.support.home_processes import (
    describe_processes,
    end_home_processes,
    list_home_processes,
)
from headrace.config.home import HomeLayout
from headrace.config.node_file import NodeFile, find_running_node, request_end
from headrace.errors import EXIT_FAILED, NodeUnreachable
from headrace.files.file_locks import lock_file
from headrace.text.readable import describe_duration

_STOP_SECONDS = 60.0
_START_SECONDS = 60.0


@click.command()
@click.option(
    "--drivers",
    is_flag=True,
    help="End all drivers on this host and the metastore too, with their work.",
)
@options.home
@options.quiet
@options.debug
def stop(*, drivers: bool, home: str | None, quiet: bool, debug: bool) -> None:
    """End the node of this home.

    It does not matter whether a command or `headrace serve` has started the node. The drivers of a
    node that a command started end too. Named sessions remain, and their next statement starts
    another driver. The drivers of `headrace serve` continue without --drivers, and connect to the
    next node of the home.

    With --drivers, the command ends what the home runs on this host, whether or not its node lives:
    drivers, their JVMs and the metastore. It also ends the drivers of other nodes on this host that
    use the same store. The exit code is 1 if a process could not be ended.
    """
    with command_context(home=home, quiet=quiet, debug=debug) as context:
        layout = HomeLayout.at(context.config.home)
        node = _await_start(layout)
        if node is None:
            _await_end(layout)
            context.terminal.notice(f"No node serves the home {layout.path}.")
            report_parent_home(context.config, context.terminal.notice)
        else:
            context.terminal.info(f"Stopping process {node.pid} …")
            _end_node(layout, node, with_drivers=drivers)
            context.terminal.notice(_describe_end(layout, node, with_drivers=drivers))
        if drivers:
            _end_processes(context, layout)
        elif node is None:
            _report_processes(context, layout)


def _end_node(layout: HomeLayout, node: NodeFile, *, with_drivers: bool) -> None:
    """End a node. Raise NodeUnreachable if it cannot be ended."""
    if not request_end(node, with_drivers=with_drivers):
        raise NodeUnreachable(
            f"Process {node.pid} serves the home {layout.path}, but it cannot be stopped from "
            "here.",
            hint="run headrace stop as its user, and in its container if it runs in one",
        )
    _await_end(layout)


def _end_processes(context: CommandContext, layout: HomeLayout) -> None:
    """End what the home and its store run on this host. Exit with 1 if something remains."""
    report = end_home_processes(layout.path)
    if report["ended"]:
        context.terminal.notice(f"Ended {describe_processes(report['ended'])}.")
    for problem in report["problems"]:
        context.terminal.warn(problem)
    if report["remaining"]:
        context.terminal.warn(f"Not ended: {describe_processes(report['remaining'])}.")
    if report["remaining"] or report["problems"]:
        raise Exit(EXIT_FAILED)


def _report_processes(context: CommandContext, layout: HomeLayout) -> None:
    """Name what a node of the home has left running, which `stop` without --drivers keeps."""
    processes = list_home_processes(layout.path)
    if processes:
        context.terminal.notice(
            f"Its node has ended, but these processes run: {describe_processes(processes)}. They"
            " wait for the next node of the home. To end them: headrace stop --drivers."
        )


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
            f"The node of {layout.path} has not stopped within {describe_duration(_STOP_SECONDS)}.",
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
