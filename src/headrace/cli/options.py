"""Options that commands share, and how their values are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, TypeVar

import click

from headrace.cli.output.formats import OutputFormat
from headrace.errors import InvalidRequest

Decorated = TypeVar("Decorated", bound=Callable[..., None])


class DispositionOption(StrEnum):
    AUTO = "auto"
    INLINE = "inline"
    STORED = "stored"


class OnError(StrEnum):
    STOP = "stop"
    CONTINUE = "continue"


server = click.option(
    "--server",
    metavar="URL",
    help="Address of the node; `embedded` for one of this home only. Default: this home's node, "
    "one on port 8040, else one that is started.",
)
home = click.option("--home", metavar="DIR", help="Where state is kept. Default: ./.headrace.")
debug = click.option("--debug", is_flag=True, help="Show stack traces of errors.")
quiet = click.option(
    "--quiet", "-q", is_flag=True, help="No progress and no footers; warnings stay."
)
output = click.option(
    "--format",
    "-o",
    "output",
    type=click.Choice(OutputFormat, case_sensitive=False),
    metavar="FORMAT",
    help=f"How rows are written: {', '.join(OutputFormat)}. Default: a table on a terminal, else CSV; "
    "HEADRACE_FORMAT pins it.",
)
conf = click.option(
    "--conf", multiple=True, metavar="KEY=VALUE", help="Spark configuration; repeatable."
)
profile = click.option("--profile", metavar="NAME", help="Profile of a new session.")
before = click.option("--before", metavar="ID", help="Only those made before this one.")
limit = click.option(
    "--limit",
    type=click.IntRange(1, 1000),
    default=100,
    metavar="N",
    show_default=True,
    help="How many at most.",
)


def connected(command: Decorated) -> Decorated:
    """The options of every command that talks to a node."""
    return server(home(debug(command)))


def pairs(values: Sequence[str] | None, option: str) -> dict[str, str]:
    """`KEY=VALUE` arguments as a mapping. Raises InvalidRequest."""
    found = {}
    for value in values or ():
        key, equals, rest = value.partition("=")
        if not equals or not key:
            raise InvalidRequest(f"{option} {value!r}: write {option} KEY=VALUE.")
        found[key] = rest
    return found


def parameters(values: Sequence[str] | None) -> list[dict[str, Any]]:
    """`NAME=VALUE`, `NAME:TYPE=VALUE` and, for `?` in order, `=VALUE`. Raises InvalidRequest.

    Without a type a value is a string.
    """
    found = []
    for value in values or ():
        left, equals, rest = value.partition("=")
        if not equals:
            raise InvalidRequest(f"--param {value!r}: write NAME=VALUE or NAME:TYPE=VALUE.")
        name, _, type_name = left.partition(":")
        parameter = {"name": name, "type": type_name.strip(), "value": rest}
        found.append({key: each for key, each in parameter.items() if key == "value" or each})
    return found


def seconds(value: str, option: str) -> float:
    """A duration such as `30s` in seconds. Raises InvalidRequest."""
    from headrace.durations import parse_duration  # noqa: PLC0415 - it imports pydantic: 0.15 s

    try:
        return parse_duration(value).total_seconds()
    except ValueError as error:
        raise InvalidRequest(f"{option}: {error}.") from None
