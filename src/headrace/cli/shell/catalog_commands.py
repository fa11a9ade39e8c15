"""The backslash commands that stand for statements about the catalog."""

from __future__ import annotations

from collections.abc import Callable

from headrace.cli.table_names import parse_listing, parse_name, parse_pattern
from headrace.errors import InvalidRequest


def _describe(arguments: str) -> str:
    if not arguments:
        return "SHOW TABLES"
    pattern = parse_pattern(arguments)
    if pattern is not None:
        return f"SHOW TABLES {pattern}"
    return f"DESCRIBE TABLE {parse_name(arguments)}"


def _describe_extended(arguments: str) -> str:
    return f"DESCRIBE TABLE EXTENDED {_required_name('d+', arguments)}"


def _show_definition(arguments: str) -> str:
    return f"SHOW CREATE TABLE {_required_name('sv', arguments)}"


def _required_name(command: str, arguments: str) -> str:
    if not arguments:
        raise InvalidRequest(f"The name of the table is missing: \\{command} NAME.")
    return parse_name(arguments)


def _list(what: str) -> Callable[[str], str]:
    return lambda arguments: f"SHOW {what} {parse_listing(arguments)}".rstrip()


def _list_functions(arguments: str) -> str:
    return _list("FUNCTIONS" if arguments else "USER FUNCTIONS")(arguments)


def _list_databases(arguments: str) -> str:
    return _list("DATABASES")(arguments)


def make_statements() -> dict[str, Callable[[str], str]]:
    """Return the functions that make the statements of commands from their arguments."""
    return {
        "d": _describe,
        "d+": _describe_extended,
        "dt": _list("TABLES"),
        "dv": _list("VIEWS"),
        "dn": _list_databases,
        "df": _list_functions,
        "sv": _show_definition,
        "l": lambda _: "SHOW CATALOGS; SHOW DATABASES",
    }
