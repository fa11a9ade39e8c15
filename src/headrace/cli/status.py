"""`headrace status`: the home in use and its node."""

from __future__ import annotations

import json

import click

from headrace.cli.output.formats import OutputFormat
from headrace.cli.support import options
from headrace.cli.support.command import CommandContext, with_context
from headrace.cli.support.config import EMBEDDED, ClientConfig
from headrace.cli.support.discovery import (
    connect_configured,
    connect_default,
    connect_home_node,
    report_parent_home,
)
from headrace.cli.support.home_processes import describe_processes, list_home_processes
from headrace.cli.support.listing import write_items
from headrace.cli.support.readable import describe_session, format_local_time
from headrace.client.http import Client, Json
from headrace.config.home import HomeLayout
from headrace.config.node_file import find_running_node
from headrace.errors import HeadraceError
from headrace.model.lifecycle import SESSION, SessionState

_PAGE = 1000
_CONNECT_SECONDS = 2.0


@click.command()
@options.output
@with_context
def status(context: CommandContext, *, output_format: OutputFormat | None) -> None:
    """Show the home and the node in use, sessions and drivers.

    `runs` names the drivers and the metastore of the home on this host, also if no node lives. The
    command starts no node and creates no home. Its exit code is 0 even if no node runs.
    """
    if context.config.server in {None, EMBEDDED}:
        report_parent_home(context.config, context.terminal.notice)
    item = _describe(context.config)
    if output_format is OutputFormat.JSON:
        context.terminal.out.write(json.dumps(item, ensure_ascii=False, indent=2) + "\n")
    elif output_format is None:
        _print(context, item)
    else:
        write_items(context.terminal, [item], list(item), output_format)


def _describe(config: ClientConfig) -> Json:
    """Return the home and, as far as they are known, the node and its sessions."""
    node = find_running_node(HomeLayout.at(config.home))
    is_home_node = config.server in {None, EMBEDDED} and node is not None
    item: Json = {
        "home": str(config.home),
        "home_set_by": config.source("home"),
        "server": config.server,
        "server_set_by": config.source("server"),
        "started_by": node.started_by if is_home_node and node else None,
        "pid": node.pid if is_home_node and node else None,
        "address": None,
        "version": None,
        "since": None,
        "sessions": [],
        "processes": list_home_processes(HomeLayout.at(config.home).path),
        "error": None,
    }
    try:
        client = _connect(config)
        if client is None:
            return item
        with client, client.retrying(_CONNECT_SECONDS):
            item["address"] = client.address
            item |= _describe_node(client)
    except HeadraceError as error:
        item["error"] = error.message
    return item


def _connect(config: ClientConfig) -> Client | None:
    if config.server is not None and config.server != EMBEDDED:
        return connect_configured(config, config.server, retry_seconds=_CONNECT_SECONDS)
    client = connect_home_node(config)
    if client is None and config.server is None:
        client = connect_default(config)
    return client


def _describe_node(client: Client) -> Json:
    health = client.health()
    # Behind a load balancer, the two answers can come from nodes of different stores.
    record = next((node for node in client.nodes() if node["id"] == health["node_id"]), None)
    sessions = [
        session
        for state in SessionState
        if state in SESSION.live
        for session in client.sessions(state=state, limit=_PAGE)["items"]
    ]
    fields = ("id", "name", "pool", "warm", "state", "busy", "profile", "created_at")
    return {
        "version": health["version"],
        "since": record["started_at"] if record is not None else None,
        "sessions": [
            {name: session.get(name) for name in fields} | {"driver_pid": _driver_pid(session)}
            for session in sessions
        ],
    }


def _driver_pid(session: Json) -> int | None:
    """Return the process id of the driver; None unless the driver runs."""
    driver = session["driver"] if session["state"] == "running" else None
    return driver.get("pid") if driver else None


def _print(context: CommandContext, item: Json) -> None:
    lines = [("home", f"{item['home']} ({_explain_source(item['home_set_by'])})")]
    if item["server"] is not None:
        lines.append(("server", f"{item['server']} (set by {item['server_set_by']})"))
    lines.append(("node", _explain_node(item)))
    if item["address"] is not None:
        lines.append(("address", item["address"]))
    if item["version"] is not None:
        lines += [
            ("version", item["version"]),
            (
                "since",
                _explain_time(context, item["since"])
                or "unknown: the store has no record of the node",
            ),
            ("sessions", ", ".join(map(_explain_session, item["sessions"])) or "none"),
            ("drivers", ", ".join(_explain_drivers(item["sessions"])) or "none"),
        ]
    if item["processes"]:
        names = {session["id"]: describe_session(session) for session in item["sessions"]}
        lines.append(("runs", describe_processes(item["processes"], names)))
    if item["error"] is not None:
        lines.append(("error", item["error"]))
    for name, value in lines:
        context.terminal.out.write(f"{name.ljust(8)}  {value}\n")


def _explain_source(source: str) -> str:
    return "the default" if source == "default" else f"set by {source}"


def _explain_node(item: Json) -> str:
    if item["pid"] is not None:
        return f'process {item["pid"]}, started by "{item["started_by"]}"'
    if item["error"] is not None:
        return "does not respond"
    if item["address"] is not None:
        return "outside this home"
    return "none; the next command that needs a node starts one"


def _explain_time(context: CommandContext, instant: str | None) -> str | None:
    """Return an instant; on a terminal, in its time zone."""
    is_shown_to_people = instant is not None and context.terminal.out.isatty()
    return format_local_time(instant) if is_shown_to_people else instant


def _explain_session(session: Json) -> str:
    busy = ", busy" if session["busy"] else ""
    return f"{describe_session(session)} ({session['state']}{busy})"


def _explain_drivers(sessions: list[Json]) -> list[str]:
    return [
        f"process {session['driver_pid']} ({describe_session(session)})"
        for session in sessions
        if session["driver_pid"] is not None
    ]
