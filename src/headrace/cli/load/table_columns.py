"""The columns of the table of a load: those that it has, or those that files make."""

from __future__ import annotations

import re
from collections.abc import Sequence

from headrace.cli.load.file_rows import Misfits, column_key
from headrace.cli.load.formats import LoadFile
from headrace.cli.load.inference import TypeGuess
from headrace.cli.load.statements import LoadColumn
from headrace.cli.support.follow import fetch_rows, run_query
from headrace.client.http import Client
from headrace.errors import InvalidRequest, TableNotFound
from headrace.grammar.data_types import DataType, parse_data_type

_LENGTH = re.compile(r"(?:var)?char\((\d+)\)", re.IGNORECASE)


def find_columns(client: Client, session: str | None, table: str) -> list[LoadColumn] | None:
    """Return the columns of a table; None if it does not exist.

    DESCRIBE would not do: it shortens the types of wide structs. Raises StatementFailed.
    """
    try:
        statement = run_query(client, session, f"SELECT * FROM {table} LIMIT 0")  # noqa: S608
    except TableNotFound:
        return None
    schema = (statement["result"] or {}).get("schema") or []
    types = {column["name"]: parse_data_type(column["type"]) for column in schema}
    return _number(types)


def find_lengths(client: Client, session: str | None, table: str) -> dict[str, int]:
    """Return the largest number of characters of the columns that have one.

    Raises StatementFailed.
    """
    lengths = {}
    for name, type_, *_ in fetch_rows(client, session, f"DESCRIBE TABLE {table}"):
        if not name or name.startswith("#"):
            break
        if match := _LENGTH.fullmatch(type_ or ""):
            lengths[name] = int(match[1])
    return lengths


def infer_columns(files: Sequence[LoadFile]) -> list[LoadColumn]:
    """Return the columns of a new table: the types that the files declare, or that fit all values.

    Raises:
        InvalidRequest: A file cannot be read, or the types are not known: the files have no rows,
            or contradict each other.
    """
    declared: dict[str, DataType] = {}
    guesses: dict[str, TypeGuess] = {}
    names: dict[str, str] = {}
    for file in files:
        types = file.types()
        if types is not None:
            _add_declared(file, types, declared)
            names |= {column_key(name): name.strip() for name in types}
            continue
        for _, row in file.rows(Misfits()):
            for name, value in row.items():
                key = column_key(name)
                names.setdefault(key, name.strip())
                if key not in guesses:
                    guesses[key] = TypeGuess(is_text=file.is_text)
                guesses[key].add(value)
    if not names:
        raise InvalidRequest(
            "The files contain no rows, so that the types of a new table are not known.",
            hint="create the table first",
        )
    return _number(
        {name: declared.get(key) or guesses[key].result() for key, name in names.items()}
    )


def _add_declared(
    file: LoadFile, types: dict[str, DataType], declared: dict[str, DataType]
) -> None:
    for name, type_ in types.items():
        other = declared.setdefault(column_key(name), type_)
        if other != type_:
            raise InvalidRequest(
                f"{file.source.path}: column {name!r} is {type_.sql}, but {other.sql} in the files "
                "before it.",
                hint="create the table first, with types that hold both",
            )


def _number(types: dict[str, DataType]) -> list[LoadColumn]:
    return [
        LoadColumn(f"c{index}", name, type_) for index, (name, type_) in enumerate(types.items())
    ]
