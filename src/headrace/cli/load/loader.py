r"""The load of files into a table, for `headrace load` and `\copy … from`.

A load is all or nothing: its rows become visible by one statement. Small files travel as a
parameter of this statement. Larger files become a temporary file that the driver reads, if it runs
on this computer, or else the rows of a staging table.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import Any, NoReturn
from urllib.parse import urlsplit

from headrace.cli.load.columns import find_columns, find_lengths, infer_columns
from headrace.cli.load.encoding import EncodedRows
from headrace.cli.load.file_rows import Misfits
from headrace.cli.load.formats import LoadFile
from headrace.cli.load.statements import (
    LoadPlan,
    create_staging,
    drop_staging,
    from_file,
    from_parameter,
    from_table,
    stage_lines,
)
from headrace.cli.support.follow import fetch_rows
from headrace.cli.support.interrupts import Interrupts
from headrace.cli.support.result_printer import ResultPrinter
from headrace.cli.support.terminal import Terminal
from headrace.client.http import Client, Json
from headrace.errors import HeadraceError, InvalidRequest, RowsDoNotFit
from headrace.grammar.lexer import code_tokens
from headrace.text.readable import describe_count

BATCH_BYTES = 4 * 1024 * 1024
"""Size of the rows that one statement takes. The store keeps the parameters of a statement."""
BATCH_ROWS = 50_000
LARGEST_REMOTE = 64 * 1024 * 1024
"""Size of all rows that a driver of another computer receives through the store."""
_LOCAL_HOSTS = frozenset({"127.0.0.1", "::1", "localhost"})
_STRICT = {"spark.sql.ansi.enabled": "true"}
"""Configuration under which a text that does not fit is an error, and not NULL."""

RunStatement = Callable[[str, dict[str, Any], ResultPrinter], int]
"""Runs a statement with additional fields of its submit. Returns the exit code."""


class _LoadPrinter(ResultPrinter):
    """Prints warnings only, and keeps a failure for the loader."""

    failed: Json | None = None

    def print_result(self, statement: Json) -> None:
        pass

    def print_footer(self, statement: Json) -> None:
        self.print_warnings(statement)

    def print_failure(self, statement: Json, *_: object) -> None:
        self.failed = statement


@dataclass(frozen=True, slots=True)
class _Source:
    """Where the statements of a load find the lines of the rows."""

    sql: str
    fields: dict[str, Any] = field(default_factory=dict)


class Loader:
    """Loads files into one table."""

    def __init__(
        self,
        client: Client,
        terminal: Terminal,
        session: str | None,
        run: RunStatement,
        interrupts: Interrupts,
    ) -> None:
        """Prepare the load. `session` is an id or name; None stands for the pool session."""
        self._client = client
        self._terminal = terminal
        self._session = session
        self._run_statement = run
        self._interrupts = interrupts

    def load(self, table: str, paths: Sequence[Path]) -> int:
        """Load all rows of the files, or none. Return the exit code.

        Args:
            table: Name as it can stand in a statement. The table is created if it does not exist.

        Raises:
            RowsDoNotFit: Rows are not well formed, or do not fit the columns.
            HeadraceError: A file or the table cannot be read.
        """
        files = [LoadFile(path) for path in paths]
        with tempfile.TemporaryDirectory(prefix="headrace-load-") as folder:
            with self._interrupts.interruptible():  # large files take a while to read
                existing = find_columns(self._client, self._session, table)
                columns = infer_columns(files) if existing is None else existing
                rows = EncodedRows(Path(folder) / "rows.jsonl")
                misfits = Misfits()
                used = rows.write(files, columns, table, misfits)
            if misfits.count:
                self._refuse(misfits, table)
            plan = LoadPlan(table, columns if existing is None else used, is_new=existing is None)
            return self._send(plan, rows, paths)

    def _send(self, plan: LoadPlan, rows: EncodedRows, paths: Sequence[Path]) -> int:
        if plan.is_new:
            self._show(plan)
        elif not rows.count:
            self._terminal.notice(f"{_names(paths)} contains no rows.")
            return 0
        if not rows.count:
            code = self._run(plan.create_empty(), {})
        elif rows.size <= BATCH_BYTES and rows.count <= BATCH_ROWS:
            parameter = {"name": "rows", "value": rows.text()}
            code = self._write(plan, _Source(from_parameter(), {"parameters": [parameter]}), paths)
        elif self._driver_reads(rows.path):
            code = self._write(plan, _Source(from_file(str(rows.path))), paths)
        else:
            code = self._write_staged(plan, rows, paths)
        if not code:
            self._terminal.notice(f"{describe_count(rows.count, 'row')} loaded into {plan.table}.")
        return code

    def _show(self, plan: LoadPlan) -> None:
        width = max(len(column.name) for column in plan.columns)
        lines = (f"  {column.name.ljust(width)}  {column.type.sql}" for column in plan.columns)
        self._terminal.notice("\n".join([f"New table {plan.table}:", *lines]))

    def _write(self, plan: LoadPlan, source: _Source, paths: Sequence[Path]) -> int:
        printer = _LoadPrinter(self._client, self._terminal, None)
        fields = {**source.fields, "conf": _STRICT}
        code = self._run_statement(plan.write(source.sql), fields, printer)
        if code and printer.failed is not None:
            self._explain(plan, source, paths)
            failure = printer.failed.get("error") or {
                "message": f"Ended as {printer.failed['state']}."
            }
            self._terminal.errors.print_failure({**failure, "line": None})
            self._terminal.warn(f"No row of {_names(paths)} was loaded.")
        return code

    def _explain(self, plan: LoadPlan, source: _Source, paths: Sequence[Path]) -> None:
        """Raise RowsDoNotFit with the rows that do not fit, if these are the reason."""
        try:
            lengths = {} if plan.is_new else find_lengths(self._client, self._session, plan.table)
            query = plan.find_misfits(source.sql, lengths)
            fields = {**source.fields, "conf": _STRICT}
            found = fetch_rows(self._client, self._session, query, fields) if query else []
        except HeadraceError:
            return  # the error of the statement says what is known
        misfits = Misfits(limit=len(found))
        for file, line, index, value, _ in found:
            column = plan.columns[index]
            limit = lengths.get(column.name)
            wanted = column.type.sql if limit is None else f"a text of {limit} characters"
            misfits.add(f"{paths[file]}:{line}", f"column {column.name}: {value!r} is not {wanted}")
        if found:
            misfits.count = int(found[0][-1])
            self._refuse(misfits, plan.table)

    def _refuse(self, misfits: Misfits, table: str) -> NoReturn:
        """Print the first rows that do not fit, and raise RowsDoNotFit."""
        for line in misfits.first:
            self._terminal.warn(line)
        one = misfits.count == 1
        raise RowsDoNotFit(
            f"{misfits.count:,} row{'' if one else 's'} {'does' if one else 'do'} not fit {table}. "
            "No row was loaded."
        )

    def _driver_reads(self, path: Path) -> bool:
        """Return whether the driver reads the files of this computer: a probe has its content."""
        if urlsplit(self._client.address).hostname not in _LOCAL_HOSTS:
            return False
        probe, token = path.with_name("probe"), token_hex(16)
        probe.write_text(token)
        query = f"SELECT row FROM {from_file(str(probe))}"  # noqa: S608
        try:
            return fetch_rows(self._client, self._session, query) == [[token]]
        except HeadraceError:
            return False

    def _write_staged(self, plan: LoadPlan, rows: EncodedRows, paths: Sequence[Path]) -> int:
        if rows.size > LARGEST_REMOTE:
            raise InvalidRequest(
                f"{_names(paths)} needs {rows.size / 1024**2:.0f} MiB as rows, but at most "
                f"{LARGEST_REMOTE // 1024**2} MiB can be sent to a driver on another computer.",
                hint="copy the file to a place that Spark reads: CREATE TEMPORARY VIEW … USING csv "
                "OPTIONS (path '…')",
            )
        with self._staging_table(plan.table) as name:
            code = self._run(create_staging(name), {})
            for batch in rows.batches(BATCH_BYTES, BATCH_ROWS):
                if code:
                    return code
                parameter = {"name": "rows", "value": batch}
                code = self._run(stage_lines(name), {"parameters": [parameter]})
            return code or self._write(plan, _Source(from_table(name)), paths)

    @contextmanager
    def _staging_table(self, table: str) -> Iterator[str]:
        """Yield a name for a staging table beside the table, and drop it at the end."""
        dots = [token.end for token in code_tokens(table) if token.word == "."]
        parent = table[: dots[-1]] if dots else ""
        name = f"{parent}headrace_load_{token_hex(4)}"
        try:
            yield name
        finally:
            try:
                fetch_rows(self._client, self._session, drop_staging(name))
            except HeadraceError:
                self._terminal.warn(f"The staging table {name} remains: drop it.")

    def _run(self, text: str, fields: dict[str, Any]) -> int:
        """Run a statement that prints only its failure."""
        printer = _LoadPrinter(self._client, self._terminal, None)
        code = self._run_statement(text, fields, printer)
        if printer.failed is not None:
            ResultPrinter(self._client, self._terminal, None).print_failure(printer.failed)
        return code


def _names(paths: Sequence[Path]) -> str:
    return ", ".join(map(str, paths))
