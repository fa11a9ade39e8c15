"""`headrace doctor`: what is wrong with this installation, and how to mend it."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys

import click
from click.exceptions import Exit

from headrace.cli import options
from headrace.cli.command import Command, command
from headrace.cli.home import read_node_file
from headrace.cli.listing import write_items
from headrace.cli.output.formats import OutputFormat
from headrace.client.http import Client, Json
from headrace.errors import EXIT_USAGE, HeadraceError, Unauthorized

_NEEDED = ("alembic", "fastapi", "psutil", "pyarrow", "sqlalchemy", "uvicorn")
_MARKS = {"ok": "✓", "warning": "!", "failed": "✗"}
_PLAIN_MARKS = {"ok": "ok", "warning": "warning", "failed": "FAILED"}


@click.command()
@options.output
@options.home
@options.debug
def doctor(*, output: OutputFormat | None, home: str | None, debug: bool) -> None:
    """Look at Java, Spark, the store, the results location and the port; say how to mend them.

    Leaves with 0 when a node could run here, else with 2.
    """
    with command(home=home, debug=debug) as this:
        chosen = this.format(output)
        findings = [_packages(), *_probes(this), _node(this)]
        if chosen is None:
            _tell(this, findings)
        else:
            write_items(this.terminal, findings, ("name", "status", "found", "fix"), chosen)
        if any(finding["status"] == "failed" for finding in findings):
            raise Exit(EXIT_USAGE)


def _packages() -> Json:
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    where = f"Python {sys.version.split()[0]} in {sys.prefix}"
    if not missing:
        return _finding("python", "ok", where)
    return _finding(
        "python",
        "failed",
        f"{where} lacks {', '.join(missing)}: it can talk to a node, but not be one",
        "pip install 'headrace[server,spark]'",
    )


def _probes(this: Command) -> list[Json]:
    """What `headrace.control.host.health_checks` finds, run as a process: it imports what a node imports."""
    run = subprocess.run(
        [sys.executable, "-P", "-m", "headrace.control.host.health_checks"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "HEADRACE_HOME": str(this.config.home)},
    )
    findings: list[Json] = [json.loads(line) for line in run.stdout.splitlines()]
    if run.returncode != 0:
        last = run.stderr.strip().rpartition("\n")[2]
        findings.append(_finding("probe", "failed", f"The probes ended early: {last}"))
        if this.terminal.debug:
            this.terminal.warn(run.stderr)
    return findings


def _node(this: Command) -> Json:
    """The node that commands of this home would use."""
    node = read_node_file(this.config.home)
    server = this.config.server
    if server is None and node is None:
        return _finding("node", "ok", f"none runs for {this.config.home}; commands start one")
    if server is not None and server.startswith("http"):
        address, token, origin = server, this.config.token, this.config.source("server")
        fix = f"start it, or change {origin}"
    elif node is not None:
        address, token, origin = node.address, node.token, str(this.config.home / "node.json")
        fix = None
    else:
        return _finding("node", "ok", f"none runs for {this.config.home}; commands start one")
    try:
        with Client(address, token, patience=1) as client:
            version = client.health()["version"]
            client.sessions(limit="1")
    except Unauthorized as error:
        fix = "set HEADRACE_TOKEN to the node's token"
        return _finding("node", "failed", f"{error.message} (from {origin})", fix)
    except HeadraceError as error:
        status = "failed" if fix else "warning"
        return _finding("node", status, f"{error.message} (from {origin})", fix or error.hint)
    return _finding("node", "ok", f"{address}, version {version} (from {origin})")


def _tell(this: Command, findings: list[Json]) -> None:
    out = this.terminal.out
    marks = _MARKS if out.encoding.lower().replace("-", "") == "utf8" else _PLAIN_MARKS
    for finding in findings:
        out.write(f"{marks[finding['status']]} {finding['name']}: {finding['found']}\n")
        if finding["fix"] and finding["status"] != "ok":
            out.write(f"    to mend it: {finding['fix']}\n")


def _finding(name: str, status: str, found: str, fix: str | None = None) -> Json:
    return {"name": name, "status": status, "found": found, "fix": fix}
