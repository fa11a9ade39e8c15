"""`headrace doctor`: check this installation and name a fix for every fault."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import click
from click.exceptions import Exit

from headrace.cli.output.formats import OutputFormat
from headrace.cli.support import options
from headrace.cli.support.command import CommandContext, command_context
from headrace.cli.support.config import EMBEDDED
from headrace.cli.support.embedded import choose_tls
from headrace.cli.support.listing import write_items
from headrace.client.http import Client, Json
from headrace.config.extras import find_missing, install_command
from headrace.config.home import HomeLayout
from headrace.config.node_file import choose_token, find_running_node
from headrace.errors import EXIT_USAGE, HeadraceError, Unauthorized

_FIELDS = ("name", "status", "found", "fix")
_MARKS = {"ok": "✓", "warning": "!", "failed": "✗"}
_ASCII_MARKS = {"ok": "ok", "warning": "warning", "failed": "FAILED"}


@click.command()
@options.output
@options.home
@options.debug
def doctor(*, output: OutputFormat | None, home: str | None, debug: bool) -> None:
    """Check the installation, and name a fix for each fault.

    The checks are those of Python, Java, Spark, the store and its catalog, the results location
    and the port.

    In the light client, which has no packages of a node, only the configured node is checked.

    The exit code is 0 if no check has failed, else 2.
    """
    with command_context(home=home, debug=debug) as context:
        output_format = context.output_format(output)
        missing = find_missing("server")
        host_checks = [] if missing else _check_host(context)
        checks = [_check_packages(context, missing), *host_checks, _check_node(context, missing)]
        if output_format is None:
            _print_checks(context, checks)
        else:
            write_items(context.terminal, checks, _FIELDS, output_format)
        if any(check["status"] == "failed" for check in checks):
            raise Exit(EXIT_USAGE)


def _check_packages(context: CommandContext, missing: list[str]) -> Json:
    """Return the row of this Python. The light client is enough if a node is configured."""
    python = f"Python {sys.version.split()[0]} in {sys.prefix}"
    if not missing:
        return _check("python", "ok", python)
    client_only = f"{python} has only the light client: it lacks {', '.join(missing)}"
    if _is_address(context.config.server):
        return _check("python", "ok", client_only)
    fix = f"{install_command('all')}, or name a node with HEADRACE_SERVER"
    return _check("python", "failed", client_only, fix)


def _check_host(context: CommandContext) -> list[Json]:
    """Return the results of `headrace.control.host.health_checks`.

    The checks run in a process of their own, because they import the packages of a node.
    """
    # The checks need the settings of a node, but no token: Java and Spark are their children.
    environment = {name: value for name, value in os.environ.items() if name != "HEADRACE_TOKEN"}
    run = subprocess.run(
        [sys.executable, "-P", "-m", "headrace.control.host.health_checks"],
        capture_output=True,
        text=True,
        check=False,
        env={**environment, "HEADRACE_HOME": str(context.config.home)},
    )
    checks: list[Json] = [json.loads(line) for line in run.stdout.splitlines()]
    if run.returncode != 0:
        last_line = run.stderr.strip().rpartition("\n")[2]
        message = f"the checks of this host ended with an error: {last_line}"
        fix = f"reinstall Headrace: {install_command('all')} --force-reinstall"
        checks.append(_check("host", "failed", message, fix))
        if context.terminal.debug:
            context.terminal.warn(run.stderr)
    return checks


def _check_node(context: CommandContext, missing: list[str]) -> Json:
    """Check the node that commands with this configuration use.

    Args:
        missing: Packages without which this host cannot run a node.
    """
    config = context.config
    layout = HomeLayout.at(config.home)
    node = find_running_node(layout)
    server = config.server
    if server is not None and _is_address(server):
        address, token, tls, source = server, config.token, config.tls, config.source("server")
        status, fix = "failed", f"start the node, or change {source}"
    elif node is not None:
        address, token = node.address, choose_token(layout, node, config.token)
        tls = choose_tls(node, config.tls)
        source = str(layout.node_file)
        status, fix = "failed", "end the node with headrace stop"
    elif missing:
        found = f"no node runs for {config.home}, and the light client cannot start one"
        return _check("node", "warning", found, "name a node with HEADRACE_SERVER or --server")
    else:
        return _check("node", "ok", f"no node runs for {config.home}; commands start one")
    try:
        with Client(address, token, tls=tls, retry_seconds=1) as client:
            version = client.health()["version"]
            client.sessions(limit=1)
    except Unauthorized as error:
        fix = "set HEADRACE_TOKEN to the node's token"
        return _check("node", "failed", f"{error.message} (from {source})", fix)
    except HeadraceError as error:
        return _check("node", status, f"{error.message} (from {source})", fix)
    return _check("node", "ok", f"{address}, version {version} (from {source})")


def _is_address(server: str | None) -> bool:
    return server is not None and server != EMBEDDED


def _print_checks(context: CommandContext, checks: list[Json]) -> None:
    out = context.terminal.out
    marks = _MARKS if out.encoding.lower().replace("-", "") == "utf8" else _ASCII_MARKS
    for check in checks:
        out.write(f"{marks[check['status']]} {check['name']}: {check['found']}\n")
        if check["fix"] and check["status"] != "ok":
            out.write(f"    fix: {check['fix']}\n")


def _check(name: str, status: str, found: str, fix: str | None = None) -> Json:
    return {"name": name, "status": status, "found": found, "fix": fix}
