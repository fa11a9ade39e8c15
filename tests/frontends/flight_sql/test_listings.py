"""The calls for metadata of Flight SQL, with the columns of its specification."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from tests.support.flight_sql import FlightNode, read_schema, succeed
from tests.support.made_results import spark_schema

from headrace.frontends.flight_sql.messages import write_field

TABLES = [(name, "string") for name in ("catalog", "schema", "name", "type", "comment")]
COLUMNS = [(name, "string") for name in ("catalog", "schema", "name", "columns")]
CATALOGS = [["lake"], ["spark_catalog"]]


@pytest.fixture(autouse=True)
def catalogs(flight: FlightNode) -> None:
    """Let Spark have two catalogs with a table and a view."""
    answers = flight.spark.answers
    answers["SHOW CATALOGS"] = succeed([("catalog", "string")], CATALOGS)
    columns = spark_schema([("id", "long"), ("price", "decimal(10,2)")])
    columns["fields"][0] |= {"nullable": False, "metadata": {"comment": "the key"}}
    for [catalog] in CATALOGS:
        tables = [[catalog, "s", "t", "TABLE", None], [catalog, "s", "v", "VIEW", None]]
        schemas = [[catalog, "s", name, json.dumps(columns)] for name in ("t", "v")]
        answers[f"LIST SCHEMAS IN CATALOG `{catalog}`"] = succeed(COLUMNS[:2], [[catalog, "s"]])
        answers[f"LIST TABLES IN CATALOG `{catalog}`"] = succeed(TABLES, tables)
        answers[f"LIST COLUMNS IN CATALOG `{catalog}`"] = succeed(COLUMNS, schemas)


def describe(schema: pa.Schema) -> list[str]:
    """Return the columns, with `?` behind the type of one that may be null."""
    return [f"{field.name} {field.type}{'?' if field.nullable else ''}" for field in schema]


def test_catalogs_and_schemas_are_listed(flight: FlightNode) -> None:
    client = flight.connect()
    catalogs = client.list("CommandGetCatalogs")
    assert describe(catalogs.schema) == ["catalog_name string"]
    assert catalogs["catalog_name"].to_pylist() == ["lake", "spark_catalog"]
    schemas = client.list("CommandGetDbSchemas")
    assert describe(schemas.schema) == ["catalog_name string?", "db_schema_name string"]
    assert schemas.to_pydict() == {
        "catalog_name": ["lake", "spark_catalog"],
        "db_schema_name": ["s", "s"],
    }
    one = client.list("CommandGetDbSchemas", write_field(1, "lake"))
    assert one["catalog_name"].to_pylist() == ["lake"]


def test_tables_have_four_columns_and_a_fifth_with_their_columns(flight: FlightNode) -> None:
    client = flight.connect()
    plain = ["catalog_name string?", "db_schema_name string?"]
    plain += ["table_name string", "table_type string"]
    tables = client.list("CommandGetTables", write_field(4, "TABLE"))
    assert describe(tables.schema) == plain
    assert tables["table_name"].to_pylist() == ["t", "t"]
    lake = client.list("CommandGetTables", write_field(1, "lake") + write_field(5, 1))
    assert describe(lake.schema) == [*plain, "table_schema binary"]
    assert lake["table_type"].to_pylist() == ["TABLE", "VIEW"]
    found = read_schema(lake["table_schema"][0].as_py())
    assert describe(found) == ["id int64", "price decimal128(10, 2)?"]
    metadata = {key.decode(): value.decode() for key, value in found.field("id").metadata.items()}
    assert metadata["ARROW:FLIGHT:SQL:TYPE_NAME"] == "BIGINT"
    assert metadata["ARROW:FLIGHT:SQL:TABLE_NAME"] == "t"
    assert metadata["ARROW:FLIGHT:SQL:REMARKS"] == "the key"


def test_patterns_of_names_reach_spark_as_they_are(flight: FlightNode) -> None:
    text = r"LIST TABLES IN CATALOG `lake` SCHEMA LIKE 's%' TABLE LIKE r'a\_b'"
    flight.spark.answers[text] = succeed(TABLES, [])
    fields = write_field(1, "lake") + write_field(2, "s%") + write_field(3, r"a\_b")
    assert flight.connect().list("CommandGetTables", fields).num_rows == 0
    assert text in flight.spark.texts


REFERENCES = [
    *("pk_catalog_name string?", "pk_db_schema_name string?"),
    *("pk_table_name string", "pk_column_name string"),
    *("fk_catalog_name string?", "fk_db_schema_name string?"),
    *("fk_table_name string", "fk_column_name string"),
    *("key_sequence int32", "fk_key_name string?", "pk_key_name string?"),
    *("update_rule uint8", "delete_rule uint8"),
]


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        (
            "CommandGetPrimaryKeys",
            [
                *("catalog_name string?", "db_schema_name string?", "table_name string"),
                *("column_name string", "key_name string?", "key_sequence int32"),
            ],
        ),
        ("CommandGetExportedKeys", REFERENCES),
        ("CommandGetImportedKeys", REFERENCES),
        ("CommandGetCrossReference", REFERENCES),
    ],
)
def test_tables_have_no_keys(flight: FlightNode, name: str, columns: list[str]) -> None:
    table = flight.connect().list(name, write_field(3, "t"))
    assert table.num_rows == 0
    assert describe(table.schema) == columns


def test_types_are_sorted_and_can_be_chosen(flight: FlightNode) -> None:
    client = flight.connect()
    types = client.list("CommandGetXdbcTypeInfo")
    codes = types["data_type"].to_pylist()
    assert codes == sorted(codes)
    assert types.num_columns == 19
    [decimal] = client.list("CommandGetXdbcTypeInfo", write_field(1, 3)).to_pylist()
    expected: dict[str, Any] = {
        "type_name": "DECIMAL",
        "column_size": 38,
        "create_params": ["precision", "scale"],
        "maximum_scale": 38,
        "num_prec_radix": 10,
    }
    assert {key: decimal[key] for key in expected} == expected
    [timestamps] = {
        (row["sql_data_type"], row["datetime_subcode"])
        for row in client.list("CommandGetXdbcTypeInfo", write_field(1, 93)).to_pylist()
    }
    assert timestamps == (9, 3)


def test_types_of_tables_need_no_statement(flight: FlightNode) -> None:
    before = len(flight.spark.texts)
    table = flight.connect().list("CommandGetTableTypes")
    assert table["table_type"].to_pylist() == ["TABLE", "VIEW"]
    assert len(flight.spark.texts) == before


FLAGS = {
    *(3, 4, 5, 9, 10, 11, 500, 501, 502, 506, 515, 516, *range(518, 522), 523, 524, 527, 532),
    *(536, 537, 539, 556, 563, 565, 566, *range(572, 577)),
}
LONGS = {*range(541, 556), *range(557, 563)}
BITS = {
    *(8, 100, 101, 503, 505, 507, 522, 525, 526, 528, 533, 534, 535, 538, 540, 564),
    *range(567, 572),
}
TEXTS = {0, 1, 2, 504, 513, 514, 529, 530, 531}
LISTS = {508, 509, 510, 511, 512}


def test_every_value_about_the_server_is_in_its_child_of_the_union(flight: FlightNode) -> None:
    table = flight.connect().list("CommandGetSqlInfo")
    values = table["value"].combine_chunks()
    found: dict[int, set[int]] = {}
    for number, kind in zip(table["info_name"].to_pylist(), values.type_codes, strict=True):
        found.setdefault(kind.as_py(), set()).add(number)
    assert found == {0: TEXTS, 1: FLAGS, 2: LONGS, 3: BITS, 4: LISTS, 5: {517}}


def test_values_about_the_server_can_be_chosen(flight: FlightNode) -> None:
    packed = flight.connect().list("CommandGetSqlInfo", write_field(1, bytes([0, 3, 127])))
    assert packed.to_pylist() == [
        {"info_name": 0, "value": "Headrace"},
        {"info_name": 3, "value": False},
    ]
    assert flight.connect().list("CommandGetSqlInfo", write_field(1, 8)).num_rows == 1
