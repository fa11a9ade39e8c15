"""The dialect `headrace://` of SQLAlchemy 2. Superset uses it with SQLAlchemy 1.4.

    headrace://localhost:8040/sales
    headrace://token:TOKEN@sql.example.com:8040/sales?catalog=lake

It uses the interface of PEP 249. Spark has no keys, constraints or indexes: they are neither
created nor reflected.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import Table, exc, types, util
from sqlalchemy.engine import URL, Connection, default, reflection
from sqlalchemy.sql import compiler

from headrace.client import listings

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import IsolationLevel

_LOOPBACK = {"localhost", "127.0.0.1", "::1"}
_DEFAULT_PORT = 8040
_DISCONNECTED = {"connection_not_found", "connection_closed", "node_unreachable"}
"""Codes of errors after which the pool opens a new connection."""
_URL_OPTIONS = ("catalog", "owner", "tls_ca", "tls_client_cert", "tls_client_key")
_MAX_PARAMETERS = 1000
"""The largest number of parameters of a statement."""


class TINYINT(types.SmallInteger):
    """Spark's integers of 8 bits."""

    __visit_name__ = "TINYINT"


class SqlType(types.UserDefinedType[Any]):
    """A type of Spark that SQLAlchemy lacks, by its SQL: `map<string,int>`, `interval`."""

    cache_ok = True

    def __init__(self, sql: str) -> None:
        self.sql = sql

    def get_col_spec(self, **_options: Any) -> str:
        """Return the type for DDL."""
        return self.sql


_TYPES: dict[str, types.TypeEngine[Any]] = {
    "boolean": types.BOOLEAN(),
    "tinyint": TINYINT(),
    "smallint": types.SMALLINT(),
    "int": types.INTEGER(),
    "bigint": types.BIGINT(),
    "float": types.REAL(),
    "double": types.DOUBLE() if hasattr(types, "DOUBLE") else types.FLOAT(53),  # 1.4 has none
    "string": types.String(),
    "binary": types.LargeBinary(),
    "date": types.DATE(),
    "timestamp": types.TIMESTAMP(timezone=True),
    "timestamp_ntz": types.TIMESTAMP(timezone=False),
}
_MAKERS: dict[re.Pattern[str], Callable[[re.Match[str]], types.TypeEngine[Any]]] = {
    re.compile(r"decimal\((\d+),\s*(-?\d+)\)"): lambda it: types.DECIMAL(int(it[1]), int(it[2])),
    re.compile(r"(?:var)?char\((\d+)\)"): lambda it: types.VARCHAR(int(it[1])),
    re.compile(r"(?i)string collate (\S+)"): lambda it: types.String(collation=it[1]),
    re.compile(r"time\(\d\)"): lambda _: types.TIME(),
    re.compile(r"(?:array|map|struct)<.*>|interval.*|variant|void|geo(?:metry|graphy).*"): (
        lambda it: SqlType(it[0])
    ),
}


def type_of(sql: str) -> types.TypeEngine[Any]:
    """Return the type for a Spark SQL type; NullType with a warning if it is not known."""
    if sql in _TYPES:
        return _TYPES[sql]
    for pattern, make in _MAKERS.items():
        if match := pattern.fullmatch(sql):
            return make(match)
    util.warn(f"Type {sql!r} of Spark is not known to the dialect.")
    return types.NullType()


_RESERVED_WORDS = compiler.RESERVED_WORDS | frozenset(
    {
        *("add", "alter", "anti", "cube", "distribute", "div", "drop", "exists", "fetch"),
        *("filter", "full", "insert", "lateral", "minus", "offset", "pivot", "rollup", "semi"),
        *("sort", "table", "tablesample", "unpivot", "unset", "use", "values", "view", "with"),
        "within",
    }
)
"""Names in backquotes: words that a parser of Spark may take for a part of the grammar."""


class HeadraceIdentifierPreparer(compiler.IdentifierPreparer):
    """Quotes names with backquotes. A dot in a schema separates the catalog from the database."""

    reserved_words: Any = _RESERVED_WORDS

    def __init__(self, dialect: default.DefaultDialect, **options: Any) -> None:
        super().__init__(dialect, initial_quote="`", escape_quote="`", **options)

    def quote_schema(self, schema: str, force: Any = None) -> str:
        """Return a schema, or a catalog and a schema, in backquotes."""
        return ".".join(self.quote(part) for part in split_schema(schema))

    def format_schema(self, name: str) -> str:
        """Return a schema, or a catalog and a schema, in backquotes."""
        return self.quote_schema(name)


def split_schema(schema: str) -> list[str]:
    """Return the parts of `catalog.database`. A part in backquotes may contain dots."""
    parts = re.findall(r"`((?:[^`]|``)*)`|([^.]+)", schema)
    return [quoted.replace("``", "`") or plain for quoted, plain in parts]


class HeadraceCompiler(compiler.SQLCompiler):
    """Queries and changes of rows."""

    def limit_clause(self, select: Any, **kw: Any) -> str:
        """Return LIMIT and OFFSET, each of which may stand alone."""
        text = ""
        if select._limit_clause is not None:  # noqa: SLF001 - the interface for dialects
            text += "\n LIMIT " + self.process(select._limit_clause, **kw)  # noqa: SLF001
        if select._offset_clause is not None:  # noqa: SLF001
            text += "\n OFFSET " + self.process(select._offset_clause, **kw)  # noqa: SLF001
        return text

    def for_update_clause(self, select: Any, **kw: Any) -> str:
        """Return nothing: Spark has no locks on rows."""
        return ""

    def visit_empty_set_expr(self, element_types: Sequence[Any], **_kw: Any) -> str:
        """Return a query without rows, whose columns have these types."""
        kinds = [
            "VOID" if isinstance(kind, types.NullType) else self.dialect.type_compiler.process(kind)
            for kind in element_types or [types.INTEGER()]
        ]
        columns = ", ".join(f"CAST(NULL AS {kind})" for kind in kinds)
        return f"SELECT {columns} WHERE 1 != 1"

    def visit_empty_set_op_expr(self, type_: Any, expand_op: Any, **kw: Any) -> str:
        """Return the content of an empty `IN ()`. For tuples, it is a query."""
        if type_ and len(type_) > 1:
            return self.visit_empty_set_expr(type_)
        return str(super().visit_empty_set_op_expr(type_, expand_op, **kw))  # type: ignore[no-untyped-call]

    def visit_regexp_match_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        """Return the operator RLIKE."""
        return f"{self.process(binary.left, **kw)} RLIKE {self.process(binary.right, **kw)}"

    def visit_not_regexp_match_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        """Return the operator NOT RLIKE."""
        return f"{self.process(binary.left, **kw)} NOT RLIKE {self.process(binary.right, **kw)}"

    def visit_is_distinct_from_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        """Return the operator IS DISTINCT FROM by Spark's `<=>`."""
        return f"NOT ({self.process(binary.left, **kw)} <=> {self.process(binary.right, **kw)})"

    def visit_is_not_distinct_from_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        """Return Spark's operator `<=>`."""
        return f"{self.process(binary.left, **kw)} <=> {self.process(binary.right, **kw)}"

    def render_literal_value(self, value: Any, type_: Any) -> str:
        """Return a literal. In Spark's texts, a backslash begins an escape."""
        if isinstance(value, str):
            value = value.replace("\\", "\\\\")
        return super().render_literal_value(value, type_)


class HeadraceDDLCompiler(compiler.DDLCompiler):
    """Tables, views and comments."""

    def create_table_constraints(self, table: Any, *_options: Any, **kw: Any) -> str:
        """Return nothing: Spark has no constraints."""
        return ""

    def get_column_specification(self, column: Any, **kw: Any) -> str:
        """Return the definition of a column."""
        name = self.preparer.format_column(column)
        kind = self.dialect.type_compiler.process(column.type, type_expression=column)
        text = f"{name} {kind}"
        if not column.nullable:
            text += " NOT NULL"
        default_text = self.get_column_default_string(column)
        if default_text is not None:
            text += f" DEFAULT {default_text}"
        if column.comment is not None:
            text += f" COMMENT {self._literal(column.comment)}"
        return text

    def post_create_table(self, table: Any) -> str:
        """Return the provider and the comment of a table.

        Options: `headrace_using`, `headrace_partitioned_by`, `headrace_location`.
        """
        options = table.dialect_options["headrace"]
        text = f"\nUSING {options['using']}" if options["using"] else ""
        if options["partitioned_by"]:
            names = ", ".join(map(self.preparer.quote_identifier, options["partitioned_by"]))
            text += f"\nPARTITIONED BY ({names})"
        if options["location"]:
            text += f"\nLOCATION {self._literal(options['location'])}"
        return text if table.comment is None else f"{text}\nCOMMENT {self._literal(table.comment)}"

    def visit_create_index(self, create: Any, *_options: Any, **_kw: Any) -> str:
        """Return nothing: Spark has no indexes."""
        return ""

    def visit_drop_index(self, drop: Any, **_kw: Any) -> str:
        """Return nothing: Spark has no indexes."""
        return ""

    def visit_add_constraint(self, create: Any, **_kw: Any) -> str:
        """Return nothing: Spark has no constraints."""
        return ""

    def visit_drop_constraint(self, drop: Any, **_kw: Any) -> str:
        """Return nothing: Spark has no constraints."""
        return ""

    def visit_set_column_comment(self, create: Any, **_kw: Any) -> str:
        """Return the statement that gives a column a comment."""
        return self._comment_column(create.element, self._literal(create.element.comment))

    def visit_drop_column_comment(self, drop: Any, **_kw: Any) -> str:
        """Return the statement that removes the comment of a column."""
        return self._comment_column(drop.element, "''")

    def _comment_column(self, column: Any, text: str) -> str:
        table = self.preparer.format_table(column.table)
        return (
            f"ALTER TABLE {table} ALTER COLUMN {self.preparer.format_column(column)} COMMENT {text}"
        )

    def _literal(self, text: str) -> str:
        return str(self.sql_compiler.render_literal_value(text, types.String()))


class HeadraceTypeCompiler(compiler.GenericTypeCompiler):
    """Types for DDL and CAST."""

    def visit_VARCHAR(self, type_: Any, **_kw: Any) -> str:
        """Return STRING, with its collation."""
        return "STRING" if not type_.collation else f"STRING COLLATE {type_.collation}"

    visit_CHAR = visit_NVARCHAR = visit_NCHAR = visit_TEXT = visit_CLOB = visit_VARCHAR
    visit_string = visit_unicode = visit_text = visit_unicode_text = visit_VARCHAR
    visit_enum = visit_VARCHAR

    def visit_JSON(self, type_: Any, **_kw: Any) -> str:
        """Return STRING: values are JSON texts."""
        return "STRING"

    def visit_BLOB(self, type_: Any, **_kw: Any) -> str:
        """Return BINARY."""
        return "BINARY"

    visit_BINARY = visit_VARBINARY = visit_BLOB

    def visit_TINYINT(self, type_: Any, **_kw: Any) -> str:
        """Return TINYINT."""
        return "TINYINT"

    def visit_INTEGER(self, type_: Any, **_kw: Any) -> str:
        """Return INT."""
        return "INT"

    def visit_REAL(self, type_: Any, **_kw: Any) -> str:
        """Return FLOAT, which has 32 bits in Spark."""
        return "FLOAT"

    def visit_FLOAT(self, type_: Any, **_kw: Any) -> str:
        """Return FLOAT up to 24 bits of precision, and DOUBLE otherwise."""
        is_single = type_.precision is not None and type_.precision <= 24
        return "FLOAT" if is_single else "DOUBLE"

    def visit_DOUBLE(self, type_: Any, **_kw: Any) -> str:
        """Return DOUBLE."""
        return "DOUBLE"

    visit_DOUBLE_PRECISION = visit_DOUBLE

    def visit_NUMERIC(self, type_: Any, **_kw: Any) -> str:
        """Return DECIMAL. Without a precision, it has 38 digits, 18 of them fractional."""
        if type_.precision is None:
            return "DECIMAL(38, 18)"
        return f"DECIMAL({type_.precision}, {type_.scale or 0})"

    visit_DECIMAL = visit_NUMERIC

    def visit_TIMESTAMP(self, type_: Any, **_kw: Any) -> str:
        """Return TIMESTAMP with a zone, and TIMESTAMP_NTZ without one."""
        return "TIMESTAMP" if type_.timezone else "TIMESTAMP_NTZ"

    visit_DATETIME = visit_TIMESTAMP

    def visit_TIME(self, type_: Any, **_kw: Any) -> str:
        """Return TIME."""
        return "TIME(6)"

    def visit_ARRAY(self, type_: Any, **kw: Any) -> str:
        """Return an array, which may be nested."""
        text = self.process(type_.item_type, **kw)
        for _ in range(type_.dimensions or 1):
            text = f"ARRAY<{text}>"
        return text


F = TypeVar("F", bound=Callable[..., Any])


def _cached(method: F) -> F:
    """Let an inspector keep the results. SQLAlchemy 1.4 fails on a method with annotations."""
    method.__annotations__ = {}
    cached: F = reflection.cache(method)
    return cached


class HeadraceDialect(default.DefaultDialect):
    """Spark SQL on Headrace."""

    name = "headrace"
    driver = "rest"
    default_paramstyle = "qmark"
    supports_statement_cache = True
    preparer: Any = HeadraceIdentifierPreparer
    statement_compiler = HeadraceCompiler
    ddl_compiler = HeadraceDDLCompiler
    type_compiler_cls = HeadraceTypeCompiler
    type_compiler: Any = HeadraceTypeCompiler  # the name of SQLAlchemy 1.4
    max_identifier_length = 128
    supports_alter = False
    supports_comments = True
    inline_comments = True
    supports_native_boolean = True
    supports_native_decimal = True
    supports_default_values = False
    supports_default_metavalue = True
    supports_multivalues_insert = True
    use_insertmanyvalues = True
    use_insertmanyvalues_wo_returning = True
    insertmanyvalues_max_parameters = _MAX_PARAMETERS
    supports_sane_rowcount = False
    supports_sane_multi_rowcount = False
    postfetch_lastrowid = False
    div_is_floordiv = False
    cte_follows_insert = True
    construct_arguments = [  # noqa: RUF012 - as SQLAlchemy has it
        (Table, {"using": None, "partitioned_by": None, "location": None})
    ]

    # Connections.

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        """Return the module of PEP 249."""
        return import_module("headrace")

    dbapi: Any = import_dbapi  # the name of SQLAlchemy 1.4

    def create_connect_args(self, url: URL) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments of `headrace.connect` for a URL.

        Without a host, the node is the one that commands use. TLS is used unless the host is this
        machine, or the URL has `tls=false`. `host=HOST:PORT`, repeated, names several nodes. Keys
        that begin with `spark.` are Spark configuration.
        """
        query = dict(url.query)
        options: dict[str, Any] = {}
        if addresses := _addresses(url, query):
            options["url"] = ",".join(addresses)
        if url.username == "token":
            options["token"] = url.password
        elif url.username is not None:
            options |= {"user": url.username, "password": url.password}
        if url.database:
            catalog, _, options["database"] = url.database.rpartition("/")
            options |= {"catalog": catalog} if catalog else {}
        if conf := {key: query.pop(key) for key in list(query) if key.startswith("spark.")}:
            options["conf"] = conf
        options |= {name: query.pop(name) for name in _URL_OPTIONS if name in query}
        if query:
            raise exc.ArgumentError(f"Unknown parameters of the URL: {', '.join(query)}.")
        return [], options

    def do_ping(self, dbapi_connection: Any) -> bool:
        """Return whether the connection is open at its node. Start no driver for it."""
        dbapi_connection.check()
        return True

    def is_disconnect(self, e: Any, connection: Any, cursor: Any) -> bool:
        """Return whether the pool must open a new connection after an error."""
        return getattr(e, "code", None) in _DISCONNECTED

    def do_rollback(self, dbapi_connection: Any) -> None:
        """Do nothing: each statement is a transaction of its own."""

    def do_execute(self, cursor: Any, statement: str, parameters: Any, context: Any = None) -> None:
        """Run a statement, unless it is empty, like that for an index."""
        if statement:
            cursor.execute(statement, parameters or None)

    def get_isolation_level_values(self, dbapi_conn: Any) -> list[IsolationLevel]:
        """Return the only level: each statement has its effects when it ends."""
        return ["AUTOCOMMIT"]

    def get_isolation_level(self, dbapi_connection: Any) -> IsolationLevel:
        """Return the only level."""
        return "AUTOCOMMIT"

    def set_isolation_level(self, dbapi_connection: Any, level: str) -> None:
        """Do nothing: there is one level."""

    def _get_default_schema_name(self, connection: Connection) -> str:
        return str(connection.exec_driver_sql("SELECT current_database()").scalar())

    # Reflection.

    @_cached
    def get_schema_names(self, connection: Connection, **kw: Any) -> list[str]:
        """Return the schemas of the current catalog; with `catalog`, those of another one."""
        text = listings.list_text("SCHEMAS", kw.get("catalog"))
        return [row[1] for row in connection.exec_driver_sql(text)]

    @_cached
    def get_table_names(
        self, connection: Connection, schema: str | None = None, **kw: Any
    ) -> list[str]:
        """Return the tables of a schema."""
        rows = self._list_tables(connection, schema, **kw)
        return [row[2] for row in rows if row[3] == "TABLE" and row[1]]

    @_cached
    def get_view_names(
        self, connection: Connection, schema: str | None = None, **kw: Any
    ) -> list[str]:
        """Return the views of a schema."""
        rows = self._list_tables(connection, schema, **kw)
        return [row[2] for row in rows if row[3] == "VIEW" and row[1]]

    @_cached
    def get_temp_view_names(
        self, connection: Connection, schema: str | None = None, **kw: Any
    ) -> list[str]:
        """Return the temporary views of the connection."""
        return [row[2] for row in self._list_tables(connection, schema, **kw) if not row[1]]

    def get_temp_table_names(
        self, connection: Connection, schema: str | None = None, **kw: Any
    ) -> list[str]:
        """Return nothing: Spark has no temporary tables."""
        return []

    @_cached
    def has_table(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> bool:
        """Return whether a table or view exists."""
        return bool(self._list_tables(connection, schema, table_name, **kw))

    @_cached
    def has_schema(self, connection: Connection, schema_name: str, **kw: Any) -> bool:
        """Return whether a schema exists."""
        catalog, schema = self._split(schema_name)
        text = listings.list_text("SCHEMAS", catalog, SCHEMA=listings.escape_pattern(schema))
        return bool(connection.exec_driver_sql(text).all())

    @_cached
    def get_columns(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[Any]:
        """Return the columns of a table or view. Raises NoSuchTableError."""
        rows = self._list("COLUMNS", connection, schema, table_name)
        if not rows:
            raise exc.NoSuchTableError(_full_name(table_name, schema))
        # A temporary view hides a table of the same name.
        rows = [row for row in rows if not row[1]] or rows
        if any(row[3] is None for row in rows):
            name = _full_name(table_name, schema)
            raise exc.UnreflectableTableError(f"Spark cannot read the columns of {name}.")
        return [
            {
                "name": name,
                "type": type_of(kind),
                "nullable": nullable,
                "default": None,
                "autoincrement": False,
                "comment": comment,
            }
            for *_, name, _position, kind, nullable, comment in listings.describe_columns(rows)
        ]

    @_cached
    def get_table_comment(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> Any:
        """Return the comment of a table. Raises NoSuchTableError."""
        return {"text": self._find(connection, table_name, schema)[4] or None}

    @_cached
    def get_view_definition(
        self, connection: Connection, view_name: str, schema: str | None = None, **kw: Any
    ) -> str:
        """Return the query of a view. Raises NoSuchTableError."""
        row = self._find(connection, view_name, schema)
        if row[3] != "VIEW":
            raise exc.NoSuchTableError(_full_name(view_name, schema))
        parts = [*(split_schema(schema) if schema else []), view_name]
        name = ".".join(map(listings.quote_name, parts))
        described = connection.exec_driver_sql(f"DESCRIBE TABLE EXTENDED {name}")
        return next((str(row[1]) for row in described if row[0] == "View Text"), "")

    @_cached
    def get_pk_constraint(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> Any:
        """Return an empty key. Raises NoSuchTableError."""
        self._find(connection, table_name, schema)
        return {"constrained_columns": [], "name": None}

    def _find_no_objects(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[Any]:
        """Return nothing: Spark has no such objects. Raises NoSuchTableError."""
        self._find(connection, table_name, schema)
        return []

    get_foreign_keys = get_indexes = get_unique_constraints = _find_no_objects
    get_check_constraints = _find_no_objects

    def get_sequence_names(
        self, connection: Connection, schema: str | None = None, **kw: Any
    ) -> list[str]:
        """Return nothing: Spark has no sequences."""
        return []

    def _find(self, connection: Connection, name: str, schema: str | None) -> Sequence[Any]:
        rows = self._list_tables(connection, schema, name)
        if not rows:
            raise exc.NoSuchTableError(_full_name(name, schema))
        return rows[0]

    def _list_tables(
        self, connection: Connection, schema: str | None, name: str | None = None, **_kw: Any
    ) -> list[Sequence[Any]]:
        return self._list("TABLES", connection, schema, name)

    def _list(
        self, objects: str, connection: Connection, schema: str | None, name: str | None
    ) -> list[Sequence[Any]]:
        """Return the rows of a list. Temporary views belong to no schema."""
        catalog, database = self._split(schema)
        patterns = {"SCHEMA": listings.escape_pattern(database)}
        if name is not None:
            patterns["TABLE"] = listings.escape_pattern(name)
        try:
            text = listings.list_text(objects, catalog, **patterns)
            rows = connection.exec_driver_sql(text).all()
        except exc.DBAPIError as error:
            if getattr(error.orig, "condition", None) == "CATALOG_NOT_FOUND":
                return []
            raise
        return [row for row in rows if row[1] or schema is None]

    def _split(self, schema: str | None) -> tuple[str | None, str]:
        """Return the catalog, or None for the current one, and the database."""
        parts = [str(self.default_schema_name)] if schema is None else split_schema(schema)
        return (
            (None, parts[0]) if len(parts) == 1 else (parts[0], listings.join_namespace(parts[1:]))
        )


def _full_name(name: str, schema: str | None) -> str:
    return name if schema is None else f"{schema}.{name}"


def _addresses(url: URL, query: dict[str, Any]) -> list[str]:
    """Return the addresses of the nodes of a URL, and remove what names them from its query."""
    hosts = query.pop("host", ())
    hosts = [hosts] if isinstance(hosts, str) else list(hosts)
    if url.host is not None:
        host = f"[{url.host}]" if ":" in url.host else url.host
        hosts.insert(0, f"{host}:{url.port or _DEFAULT_PORT}")
    tls = query.pop("tls", None)
    if tls not in {None, "true", "false"}:
        raise exc.ArgumentError(f"tls={tls} in the URL is neither true nor false.")
    return [f"{_scheme(host, tls)}://{host}" for host in hosts]


def _scheme(host: str, tls: str | None) -> str:
    is_local = host.rpartition(":")[0].strip("[]") in _LOOPBACK
    return "https" if (tls == "true" or (tls is None and not is_local)) else "http"
