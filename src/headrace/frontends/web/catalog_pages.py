"""The pages of the catalog: tables by name, and the columns of a table.

A page does not wait for Spark. A button submits the statement that lists the names, and the page
shows what it has found; the address of the page names the statement.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated

import pyarrow.compute as pc
from fastapi import Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse

from headrace.control.node import Node
from headrace.control.policy import Caller
from headrace.errors import HeadraceError, InvalidRequest
from headrace.frontends.http.auth import Authenticated, node_of
from headrace.frontends.web.forms import read_form
from headrace.frontends.web.rendering import make_query, make_router, redirect, render
from headrace.grammar.metadata import ListedObjects, ListObjects, escape_pattern
from headrace.grammar.parse import parse
from headrace.grammar.quoting import quote_name
from headrace.model.lifecycle import STATEMENT, StatementState
from headrace.model.statement import Statement, StatementSpec
from headrace.model.transaction import TransactionSummary
from headrace.results.reader import Rows
from headrace.results.schema import Column, parse_schema

_HITS = 50
_TEXT_CHARACTERS = 500
_MAX_NAME = 1000
_WRITES = 200
"""Writes in which those of a table are looked for, newest first."""

router = make_router()

ListingId = Annotated[str | None, Query(pattern=r"^st_[0-9a-f]{32}$")]
Name = Annotated[str, Query(max_length=_MAX_NAME)]


@dataclass(frozen=True, slots=True)
class ListedTable:
    """A table or view in a list of the catalog."""

    catalog: str
    schema: str
    name: str
    kind: str
    comment: str


@dataclass(frozen=True, slots=True)
class FoundTables:
    """The tables whose names have a text."""

    tables: Sequence[ListedTable]
    """At most 50."""
    matching: int
    total: int


@router.get("/catalog")
def render_catalog(
    request: Request, caller: Authenticated, listing: ListingId = None, search: Name = ""
) -> Response:
    """Show the tables that a statement has listed, as far as their names have a text."""
    statement = _find_listing(node_of(request), caller, listing, ListedObjects.TABLES)
    found, error = None, None
    if statement is not None and statement.state is StatementState.SUCCESS:
        try:
            rows = node_of(request).statements.open_result(caller, statement)
            found = find_tables(rows, search)
        except HeadraceError as caught:
            error = caught
    return render(
        request,
        "catalog.html",
        caller=caller,
        now=node_of(request).read_clock(),
        statement=statement,
        found=found,
        error=error,
        search=search,
    )


@router.post("/catalog/list")
async def list_from_page(request: Request, caller: Authenticated) -> Response:
    """Submit the statement that lists the tables of a catalog, and show what it finds."""
    form = await read_form(request)
    command = ListObjects(ListedObjects.TABLES, catalog=form.get("catalog") or None)
    statement = await run_in_threadpool(_submit_listing, node_of(request), caller, command)
    if request.headers.get("accept") == "application/json":
        return JSONResponse({"id": statement.id}, 201)
    query = make_query({"listing": statement.id, "search": form.get("search")})
    return redirect(f"../catalog{query}")


def find_tables(rows: Rows, search: str) -> FoundTables:
    """Return the tables of a result of `LIST TABLES` whose names have a text, whatever its case."""
    tables: list[ListedTable] = []
    matching = total = 0
    for batch in rows.batches():
        total += batch.num_rows
        # Temporary views have no schema.
        parts = [pc.fill_null(batch.column(number), "") for number in (1, 2)]
        names = pc.binary_join_element_wise(*parts, ".")
        hits = batch.filter(pc.match_substring(names, search, ignore_case=True))
        matching += hits.num_rows
        for values in hits.slice(0, _HITS - len(tables)).to_pylist():
            texts = [str(each or "")[:_TEXT_CHARACTERS] for each in values.values()]
            tables.append(ListedTable(*texts[:5]))
    return FoundTables(tables, matching, total)


@router.get("/catalog/names")
def complete_name(
    request: Request, caller: Authenticated, listing: ListingId, prefix: Name = ""
) -> Response:
    """Return the names in a list of tables that begin with a text, for the editor."""
    node = node_of(request)
    statement = _find_listing(node, caller, listing, ListedObjects.TABLES)
    names: list[str] = []
    if statement is not None and statement.state is StatementState.SUCCESS:
        names = find_names(node.statements.open_result(caller, statement), prefix)
    body = {"has_ended": statement is None or statement.state in STATEMENT.terminal, "names": names}
    return JSONResponse(body, headers={"Cache-Control": "no-store"})


def find_names(rows: Rows, prefix: str) -> list[str]:
    """Return at most 50 names of a result of `LIST TABLES`, with their schemas, in SQL.

    The name of the table begins with the text, or that of the schema with the table.
    """
    names: list[str] = []
    for batch in rows.batches():
        schemas, tables = batch.column(1), batch.column(2)
        joined = pc.binary_join_element_wise(schemas, tables, ".")
        begins = [
            pc.starts_with(each, prefix, ignore_case=True)
            for each in (pc.fill_null(tables, ""), pc.fill_null(joined, ""))
        ]
        hits = batch.filter(pc.or_(*begins)).slice(0, _HITS - len(names))
        names += [
            ".".join(_quote(str(part)) for part in (schema, table) if part)
            for schema, table in zip(
                hits.column(1).to_pylist(), hits.column(2).to_pylist(), strict=True
            )
        ]
    return names


def _quote(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) else quote_name(name)


@router.post("/catalog/describe")
async def describe_from_page(request: Request, caller: Authenticated) -> Response:
    """Submit the statement that lists the columns of a table, and show the table."""
    form = await read_form(request)
    catalog, schema, table = (form.get(each, "") for each in ("catalog", "schema", "table"))
    if not table:
        raise InvalidRequest("table: It is missing.")
    command = ListObjects(
        ListedObjects.COLUMNS,
        catalog=catalog or None,
        schema=escape_pattern(schema) if schema else None,
        name=escape_pattern(table),
    )
    statement = await run_in_threadpool(_submit_listing, node_of(request), caller, command)
    names = {"catalog": catalog, "schema": schema, "table": table}
    return redirect(f"table{make_query({'listing': statement.id, **names})}")


@router.get("/catalog/table")
def render_table(
    request: Request,
    caller: Authenticated,
    table: Name,
    catalog: Name = "",
    schema: Name = "",
    listing: ListingId = None,
) -> Response:
    """Show a table: its columns as a statement has listed them, its last writes, its views."""
    node = node_of(request)
    statement = _find_listing(node, caller, listing, ListedObjects.COLUMNS)
    columns, error = None, None
    if statement is not None and statement.state is StatementState.SUCCESS:
        try:
            columns = read_columns(node.statements.open_result(caller, statement))
        except HeadraceError as caught:
            error = caught
    return render(
        request,
        "table.html",
        caller=caller,
        now=node.read_clock(),
        names={"catalog": catalog, "schema": schema, "table": table},
        path=[each for each in (catalog, schema, table) if each],
        statement=statement,
        columns=columns,
        error=error,
        writes=_find_writes(node, caller, [schema, table]),
        views=node.views.find_views(caller, [each for each in (schema, table) if each]),
    )


def read_columns(rows: Rows) -> list[Column] | None:
    """Return the columns of the table in a result of `LIST COLUMNS`; None: Spark cannot read it."""
    for batch in rows.batches():
        for text in batch.column(3).to_pylist():
            # The driver has written it: what is no schema is one that cannot be read.
            with suppress(ValueError, TypeError, RecursionError, HeadraceError):
                schema = json.loads(text)
                if isinstance(schema, dict):
                    return list(parse_schema(schema).columns)
    return None


def _submit_listing(node: Node, caller: Caller, command: ListObjects) -> Statement:
    return node.statements.submit(caller, StatementSpec(text=command.to_sql()))


def _find_listing(
    node: Node, caller: Caller, listing: str | None, objects: ListedObjects
) -> Statement | None:
    """Return the statement that lists objects.

    Raises:
        StatementNotFound: There is none that the caller may read.
        InvalidRequest: It lists something else, or nothing.
    """
    if listing is None:
        return None
    statement = node.statements.get(caller, listing)
    command = parse(statement.spec.text).command
    if not isinstance(command, ListObjects) or command.objects is not objects:
        raise InvalidRequest(f"listing: The statement {listing} does not list {objects.lower()}.")
    return statement


def _find_writes(node: Node, caller: Caller, path: Sequence[str]) -> list[TransactionSummary]:
    """Return the newest transactions of a table: of CTAS, and of other atomic writes."""
    found = node.transactions.page(caller, before=None, limit=_WRITES, all_owners=True)
    return [each for each in found if _ends_with(each.target.split("."), path)]


def _ends_with(name: Sequence[str], path: Sequence[str]) -> bool:
    wanted = [part.casefold() for part in path if part]
    return [part.strip("`").casefold() for part in name][-len(wanted) :] == wanted
