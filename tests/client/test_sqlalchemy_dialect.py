"""The dialect of SQLAlchemy: URLs, types and texts. `tests/end_to_end/test_python.py` has Spark."""

from __future__ import annotations

import json
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import make_url

import headrace
from headrace.client.listings import describe_columns, sql_type
from headrace.client.sqlalchemy_dialect import HeadraceDialect, SqlType, split_schema, type_of

DIALECT = HeadraceDialect()


@pytest.mark.parametrize(
    ("url", "arguments"),
    [
        ("headrace://", {}),
        ("headrace://localhost/sales", {"url": "http://localhost:8040", "database": "sales"}),
        (
            "headrace://token:s%40@sql.example.com:443/lake/sales",
            {
                "url": "https://sql.example.com:443",
                "token": "s@",
                "catalog": "lake",
                "database": "sales",
            },
        ),
        (
            "headrace://ada:p@h/?tls=false&spark.a=1&tls_ca=/ca.pem",
            {
                "url": "http://h:8040",
                "user": "ada",
                "password": "p",
                "conf": {"spark.a": "1"},
                "tls_ca": "/ca.pem",
            },
        ),
        ("headrace://[::1]/?host=b:1", {"url": "http://[::1]:8040,https://b:1"}),
    ],
)
def test_a_url_names_the_node_and_the_caller(url: str, arguments: dict[str, Any]) -> None:
    assert DIALECT.create_connect_args(make_url(url)) == ([], arguments)


@pytest.mark.parametrize("query", ["tls=yes", "nothing=1"])
def test_a_url_with_other_parameters_is_refused(query: str) -> None:
    with pytest.raises(sa.exc.ArgumentError, match=query.partition("=")[0]):
        DIALECT.create_connect_args(make_url(f"headrace://h/?{query}"))


@pytest.mark.parametrize(
    "sql",
    [
        *("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(10, 2)"),
        *("STRING", "BINARY", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "STRING COLLATE UTF8_LCASE"),
        *("interval day to second", "interval", "variant", "void"),
        *("array<int>", "map<string,decimal(4,1)>", "struct<`a b`:int,c:array<date>>"),
    ],
)
def test_a_reflected_type_is_written_as_it_was(sql: str) -> None:
    spark = sql if "LCASE" in sql or "`" in sql else sql.lower()
    spark = spark.replace("STRING COLLATE", "string collate")
    assert type_of(spark).compile(dialect=DIALECT) == sql


def test_an_unknown_type_gives_a_warning() -> None:
    with pytest.warns(sa.exc.SAWarning, match="'money' of Spark is not known"):
        assert isinstance(type_of("money"), sa.types.NullType)


def test_types_of_spark_in_json_are_written_in_sql() -> None:
    fields = [{"name": "a", "type": "integer"}, {"name": "b c", "type": "timestamp_ntz"}]
    array = {"type": "array", "elementType": {"type": "struct", "fields": fields}}
    assert sql_type({"type": "map", "keyType": "long", "valueType": array}) == (
        "map<bigint,array<struct<a:int,`b c`:timestamp_ntz>>>"
    )


def test_columns_have_their_collations_and_lengths() -> None:
    fields = [
        {"name": "a", "metadata": {"__COLLATIONS": {"a": "spark.UTF8_LCASE"}}},
        {"name": "b", "metadata": {"__CHAR_VARCHAR_TYPE_STRING": "varchar(5)", "comment": "c"}},
        {"name": "c", "metadata": {}},
    ]
    fields = [{**field, "type": "string", "nullable": True} for field in fields]
    rows = describe_columns([("cat", "s", "t", json.dumps({"fields": fields}))])
    kinds = [(row[5], row[7]) for row in rows]
    assert kinds == [("string collate UTF8_LCASE", None), ("varchar(5)", "c"), ("string", None)]


def test_a_table_is_created_without_keys_and_with_its_comments() -> None:
    table = sa.Table(
        "t",
        sa.MetaData(),
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("order", sa.String(5), unique=True, comment="it's \\"),
        sa.Column("m", SqlType("map<string,int>"), server_default=sa.text("map()")),
        schema="lake.`a.b`",
        comment="c",
        headrace_using="delta",
        headrace_partitioned_by=["order"],
    )
    text = str(sa.schema.CreateTable(table).compile(dialect=DIALECT))
    assert " ".join(text.split()) == (
        "CREATE TABLE lake.`a.b`.t ( id INT NOT NULL, `order` STRING COMMENT 'it''s \\\\',"
        " m map<string,int> DEFAULT map() ) USING delta PARTITIONED BY (`order`) COMMENT 'c'"
    )


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda query: query.limit(1), "LIMIT ?"),
        (lambda query: query.offset(1), "OFFSET ?"),
        (lambda query: query.limit(1).offset(2), "LIMIT ? OFFSET ?"),
        (lambda query: query.with_for_update(), "FROM t"),
    ],
    ids=["limit", "offset", "both", "lock"],
)
def test_pages_are_read_by_limit_and_offset(change: Any, text: str) -> None:
    query = change(sa.select(sa.table("t", sa.column("a"))))
    assert " ".join(str(query.compile(dialect=DIALECT)).split()).endswith(text)


def test_a_percent_sign_is_not_doubled() -> None:
    query = sa.select(sa.literal_column("'100%'"), sa.column("a") % 2)
    assert str(query.compile(dialect=DIALECT)).replace("\n", "") == "SELECT '100%', a % ? AS anon_1"


def test_a_schema_has_parts() -> None:
    assert split_schema("a") == ["a"]
    assert split_schema("lake.sales") == ["lake", "sales"]
    assert split_schema("lake.`a.b``c`") == ["lake", "a.b`c"]


@pytest.mark.parametrize(
    ("code", "is_lost"), [("connection_not_found", True), ("table_not_found", False)]
)
def test_the_pool_sees_a_lost_connection_by_its_code(code: str, is_lost: bool) -> None:
    error = headrace.OperationalError("It failed.", code=code)
    assert DIALECT.is_disconnect(error, None, None) is is_lost


def test_columns_that_spark_cannot_read_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = [("spark_catalog", "sales", "orders", None)]
    monkeypatch.setattr(HeadraceDialect, "_list", lambda *_arguments: broken)
    with pytest.raises(sa.exc.UnreflectableTableError, match=r"columns of sales\.orders"):
        DIALECT.get_columns(None, "orders", "sales")  # type: ignore[arg-type]
