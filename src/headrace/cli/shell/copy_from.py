r"""`\copy … from`: insert the rows of a local file into a table.

The rows travel as one string parameter of each INSERT, as a JSON array that Spark parses. The text
of the statement depends on the columns only, so that no value of the file is read as SQL.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.cli.interrupts import EXIT_INTERRUPTED, Interrupts
from headrace.cli.output.text import Number, to_json
from headrace.cli.result_printer import ResultPrinter
from headrace.cli.script import Source, split_sources
from headrace.cli.shell.catalog_cache import CatalogName
from headrace.cli.shell.catalog_queries import described_columns
from headrace.cli.shell.copy_command import CopyRequest
from headrace.cli.shell.executor import Executor
from headrace.cli.shell.file_rows import column_key, read_rows
from headrace.cli.shell.session import ShellSession, fetch_rows
from headrace.cli.terminal import Terminal
from headrace.client.http import Client, Json
from headrace.errors import EXIT_CONNECTION, InvalidRequest
from headrace.grammar.quoting import quote_name, quote_string

BATCH_BYTES = 4 * 1024 * 1024
"""Size of the rows that one INSERT takes. The store keeps the parameters of a statement."""
LARGEST_FILE = 64 * 1024 * 1024
"""Largest file in bytes. Spark reads larger ones better itself."""
_BATCH_ROWS = 50_000
_CODES_IN_DOUBT = frozenset({EXIT_INTERRUPTED, EXIT_CONNECTION})
"""Exit codes of a statement that may have succeeded."""


@dataclass(slots=True)
class _Batch:
    """Rows of one INSERT."""

    rows: list[str] = field(default_factory=list)
    size: int = 0
    names: frozenset[str] = frozenset()
    """Lower-case names of the columns that each row has. All others get their defaults."""

    def columns_of(self, columns: dict[str, CatalogName]) -> list[tuple[int, CatalogName]]:
        """Return the columns of the batch with their positions in the table."""
        numbered = enumerate(columns.items())
        return [(index, column) for index, (name, column) in numbered if name in self.names]


class _SilentPrinter(ResultPrinter):
    """Prints errors only."""

    def print_result(self, statement: Json) -> None:
        pass

    def print_footer(self, statement: Json) -> None:
        pass


class CopyFrom:
    """Loads one file."""

    def __init__(
        self, client: Client, session: ShellSession, executor: Executor, terminal: Terminal
    ) -> None:
        self._client = client
        self._session = session
        self._executor = executor
        self._terminal = terminal
        self._inserted = 0
        self._in_doubt = 0
        """Rows after the inserted ones whose INSERT may or may not have succeeded."""

    def run(self, request: CopyRequest) -> int:
        """Insert the rows of the file and return the exit code.

        Raises:
            HeadraceError: The file or the table cannot be read, or they do not fit together.
        """
        _check_size(request)
        rows = fetch_rows(self._client, self._session.id, f"DESCRIBE TABLE {request.table}")
        columns = {column.text.lower(): column for column in described_columns(rows)}
        self._inserted, self._in_doubt = 0, 0
        is_complete = False
        try:
            code = self._executor.run_until_interrupt(
                lambda interrupts: self._insert(request, columns, interrupts)
            )
            is_complete = not code
        finally:
            if not is_complete:
                self._report(request)
        return code

    def _insert(
        self, request: CopyRequest, columns: dict[str, CatalogName], interrupts: Interrupts
    ) -> int:
        printer = _SilentPrinter(self._client, self._terminal, None)
        batches = make_batches(request, columns)
        while True:
            with interrupts.interruptible():  # a large file takes a while to read
                batch = next(batches, None)
            if batch is None:
                break
            text = insert_statement(request.table, batch.columns_of(columns))
            parameter = {"name": "rows", "value": "[" + ",".join(batch.rows) + "]"}
            self._in_doubt = len(batch.rows)
            code = self._executor.run_interruptible(
                split_sources([Source(None, text)]),
                printer,
                interrupts,
                fields={"parameters": [parameter]},
            )
            if code:
                if code not in _CODES_IN_DOUBT:
                    self._in_doubt = 0
                return code
            self._inserted, self._in_doubt = self._inserted + len(batch.rows), 0
            self._terminal.info(f"{self._inserted:,} rows inserted")
        if not self._inserted:
            self._terminal.info(f"{request.file} contains no rows.")
        return 0

    def _report(self, request: CopyRequest) -> None:
        """Print what an error or Ctrl-C has left in the table."""
        inserted = f"The first {self._inserted:,} rows of {request.file} were inserted"
        if self._in_doubt and self._inserted:
            self._terminal.warn(
                f"{inserted}. The next {self._in_doubt:,} may have been inserted: check the table."
            )
        elif self._in_doubt:
            self._terminal.warn(
                f"The first {self._in_doubt:,} rows of {request.file} may have been inserted: "
                "check the table."
            )
        elif self._inserted:
            self._terminal.warn(f"{inserted}; the others were not.")


def _check_size(request: CopyRequest) -> None:
    try:
        size = request.file.stat().st_size
    except OSError as error:
        raise InvalidRequest(f"{request.file} cannot be read: {error.strerror}.") from error
    if size > LARGEST_FILE:
        raise InvalidRequest(
            f"{request.file} is larger than {LARGEST_FILE // 1024**2} MiB.",
            hint="let Spark read it: CREATE TEMPORARY VIEW … USING csv OPTIONS (path '…')",
        )


def make_batches(request: CopyRequest, columns: dict[str, CatalogName]) -> Iterator[_Batch]:
    """Yield the rows of the file in batches.

    The rows of a batch have the same columns, because a column that only some of them have would
    be NULL in the others, and not its default.

    Args:
        columns: Columns of the table, by their names in lower case.

    Raises:
        InvalidRequest: A row names no column of the table, or a value does not fit its type.
    """
    fields = {name: f"c{index}" for index, name in enumerate(columns)}
    batch = _Batch()
    for line, row in read_rows(request.file):
        place = f"{request.file}:{line}"
        if not row:
            raise InvalidRequest(f"{place} has no columns.", hint="give it a value, or remove it")
        values = {}
        for name, value in row.items():
            key = column_key(name)
            if key not in columns:
                raise _unknown_column(request, line, name, columns)
            values[key] = _convert(value, columns[key].detail, f"{place}, column {name}")
        names = frozenset(values)
        text = to_json({fields[key]: value for key, value in values.items()})
        if batch.rows and names != batch.names:
            yield batch
            batch = _Batch()
        batch.names = names
        batch.rows.append(text)
        batch.size += len(text.encode(errors="surrogatepass"))
        if batch.size >= BATCH_BYTES or len(batch.rows) >= _BATCH_ROWS:
            yield batch
            batch = _Batch()
    if batch.rows:
        yield batch


def insert_statement(table: str, columns: Sequence[tuple[int, CatalogName]]) -> str:
    """Return the INSERT of a batch.

    Its parameter `rows` is a JSON array of objects, whose fields `c0`, `c1` … are the columns.

    Raises InvalidRequest if a column has a type that cannot be loaded.
    """
    names = ", ".join(quote_name(column.text) for _, column in columns)
    fields = ", ".join(f"c{index}: {_field_type(column)}" for index, column in columns)
    values = ", ".join(_expression(f"c{index}", column.detail) for index, column in columns)
    schema = quote_string(f"ARRAY<STRUCT<{fields}>>")
    return (  # the names are quoted, and the values are a parameter
        f"INSERT INTO {table} ({names}) SELECT {values} "  # noqa: S608
        f"FROM (SELECT inline(from_json(:rows, {schema}, map('mode', 'FAILFAST'))))"
    )


def _field_type(column: CatalogName) -> str:
    """Return the type of a value in the JSON: the text of all but nested types."""
    if "map<" in column.detail:
        raise InvalidRequest(
            f"The column {column.text} has the type {column.detail}, which \\copy cannot load.",
            hint="let Spark read the file",
        )
    return column.detail if _is_nested(column.detail) else "STRING"


def _is_nested(type_: str) -> bool:
    return type_.startswith(("array<", "struct<"))


def _expression(name: str, type_: str) -> str:
    """Return the expression that converts a field of the JSON to the type of its column."""
    if _is_nested(type_) or type_.startswith(("string", "varchar", "char")):
        return name
    functions = {"binary": "unbase64", "variant": "parse_json"}
    if type_ in functions:
        return f"{functions[type_]}({name})"
    return f"CAST({name} AS {type_})"


def _convert(value: Any, type_: str, place: str) -> Any:
    """Return a value of the file as the JSON of its batch."""
    if value is None:
        return None
    if _is_nested(type_):
        return _parse_nested(value, place) if isinstance(value, str) else value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | dict):
        if type_ == "variant":
            return to_json(value)
        raise InvalidRequest(f"{place} is a list or an object, but its type is {type_}.")
    return str(value)


def _parse_nested(text: str, place: str) -> Any:
    try:
        return json.loads(text, parse_float=Number, parse_int=Number)
    except (ValueError, RecursionError):
        raise InvalidRequest(f"{place} is not JSON.") from None


def _unknown_column(
    request: CopyRequest, line: int, name: str, columns: dict[str, CatalogName]
) -> InvalidRequest:
    names = [column.text for column in columns.values()]
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {close[0]}?" if close else f"its columns: {', '.join(names)}"
    return InvalidRequest(
        f"{request.file}:{line} has the column {name!r}, but {request.table} has not.", hint=hint
    )
