"""Arrow messages that a driver has forged: no read takes much more memory than the message."""

from __future__ import annotations

import io
import struct
from typing import Any

import pyarrow as pa
import pytest
from tests.support.java_arrow import write_as_java
from tests.support.made_results import inline_result, spark_schema

from headrace.errors import InvalidResult
from headrace.results.arrow_messages import BatchFile, read_stream
from headrace.results.batches import MAX_VALUES
from headrace.results.layout import build_stored_schema
from headrace.results.schema import Schema, parse_schema

pytestmark = pytest.mark.finding("S3")

EMPTY_STRUCT = {"type": "struct", "fields": []}


def array_of(kind: Any) -> dict[str, Any]:
    return {"type": "array", "elementType": kind, "containsNull": True}


def map_of(kind: Any) -> dict[str, Any]:
    return {"type": "map", "keyType": "integer", "valueType": kind, "valueContainsNull": True}


def struct_of(*kinds: Any) -> dict[str, Any]:
    return spark_schema([(f"f{number}", kind) for number, kind in enumerate(kinds)])


def make_schema(*kinds: Any) -> Schema:
    return parse_schema(struct_of(*kinds))


def write_stream(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def write_file(schema: Schema, batches: list[list[int]]) -> bytes:
    sink = pa.BufferOutputStream()
    stored = build_stored_schema(schema)
    with pa.ipc.new_file(sink, stored) as file:
        for rows in batches:
            file.write_batch(pa.record_batch([pa.array(rows, pa.int64())], schema=stored))
    content: bytes = sink.getvalue().to_pybytes()
    return content


def read(schema: Schema, *columns: pa.Array) -> pa.RecordBatch:
    """Return the batch that a node reads from the message of these columns."""
    batch = pa.record_batch(list(columns), schema=build_stored_schema(schema))
    [received] = read_stream(write_stream(batch), schema)
    return received


def make_list(values: pa.Array) -> pa.ListArray:
    """Return a list array of one row."""
    return pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)


def make_empty_structs(count: int) -> pa.StructArray:
    return pa.StructArray.from_buffers(pa.struct([]), count, [None])


HUGE = MAX_VALUES + 1


@pytest.mark.parametrize(
    ("kinds", "columns"),
    [
        (["void"], [pa.nulls(HUGE)]),
        (["void"] * 1000, [pa.nulls(HUGE // 900)] * 1000),
        ([array_of("void")], [make_list(pa.nulls(HUGE))]),
        ([array_of(EMPTY_STRUCT)], [make_list(make_empty_structs(HUGE))]),
        ([array_of("boolean")], [make_list(pa.array([True] * 100 + [None] * HUGE))]),
        (
            [array_of(struct_of(*["void"] * 100))],
            [
                make_list(
                    pa.StructArray.from_arrays(
                        [pa.nulls(HUGE // 50)] * 100, [f"_{number}" for number in range(100)]
                    )
                )
            ],
        ),
    ],
    ids=["rows", "columns", "elements", "empty structs", "booleans", "fields"],
)
def test_values_without_bytes_are_bounded(kinds: list[Any], columns: list[pa.Array]) -> None:
    with pytest.raises(InvalidResult, match="values without bytes"):
        read(make_schema(*kinds), *columns)


def test_values_without_bytes_are_read_up_to_the_limit() -> None:
    batch = read(make_schema(array_of("void")), make_list(pa.nulls(MAX_VALUES - 1)))
    assert len(batch.column(0).values) == MAX_VALUES - 1


def test_values_with_bytes_are_not_limited_in_number() -> None:
    schema = make_schema(array_of("byte"))
    batch = read(schema, make_list(pa.array(memoryview(bytes(HUGE)), pa.int8())))
    assert len(batch.column(0).values) == HUGE


@pytest.mark.parametrize(
    "kind",
    [
        array_of(array_of("string")),
        map_of(struct_of("date", array_of("string"))),
        struct_of(array_of(map_of("interval"))),
    ],
)
def test_a_node_reads_lists_without_values_and_without_offsets(kind: Any) -> None:
    schema = make_schema(kind)
    row: Any = {"_0": []} if kind["type"] == "struct" else []
    [stored] = build_stored_schema(schema)
    column = write_as_java(pa.array([row], stored.type))
    received = read(schema, column)
    assert received.to_pylist() == [{"_0": row}]
    assert received.nbytes == column.offset + 4


def test_rows_without_columns_are_bounded() -> None:
    def make(rows: int) -> bytes:
        return write_stream(pa.record_batch([pa.nulls(rows)], ["x"]).select([]))

    [batch] = read_stream(make(MAX_VALUES), make_schema())
    assert batch.num_rows == MAX_VALUES
    with pytest.raises(InvalidResult, match="values without bytes"):
        list(read_stream(make(HUGE), make_schema()))


def test_rows_begin_with_their_schema() -> None:
    schema = make_schema("long")
    data = inline_result([("a", "long")], [[1]]).data
    assert data is not None
    first = build_stored_schema(schema).serialize().size
    with pytest.raises(InvalidResult, match="do not begin with a schema"):
        list(read_stream(data[first:], schema))
    with pytest.raises(InvalidResult, match="not a record batch"):
        list(read_stream(data[:first] + data, schema))


def test_offsets_are_checked() -> None:
    data = inline_result([("a", "string")], [["a"], ["bc"]]).data
    assert data is not None
    offsets = struct.pack("<iii", 0, 1, 3)
    assert data.count(offsets) == 1
    for forged in ((0, 1, 2**30), (3, 1, 3), (-4, 1, 3)):
        with pytest.raises(InvalidResult, match="not valid Arrow IPC"):
            list(
                read_stream(
                    data.replace(offsets, struct.pack("<iii", *forged)), make_schema("string")
                )
            )


def test_strings_need_not_be_valid_utf8() -> None:
    """Spark does not check them."""
    text = pa.array([b"\xff"]).view(pa.string())
    for kind, column in (("string", text), (array_of("string"), make_list(text))):
        batch = read(make_schema(kind), column)
        assert b"\xff" in batch.serialize().to_pybytes()


def test_buffers_of_a_batch_cannot_overlap() -> None:
    """Three columns refer to the same 8,000 bytes."""
    rows = [[7, 7, 7]] * 1000
    data = inline_result([("a", "long"), ("b", "long"), ("c", "long")], rows).data
    assert data is not None
    body_length = struct.pack("<q", 24_000)
    assert data.count(body_length) == 1
    forged = data.replace(body_length, struct.pack("<q", 8000)).replace(
        struct.pack("<q", 7) * 3000, struct.pack("<q", 7) * 1000
    )
    # A validity bitmap without bytes precedes the values of each column.
    buffers = [struct.pack("<qqqq", offset, 0, offset, 8000) for offset in (0, 8000, 16_000)]
    assert forged.count(b"".join(buffers)) == 1
    forged = forged.replace(b"".join(buffers), buffers[0] * 3)
    with pytest.raises(InvalidResult, match="overlap"):
        list(read_stream(forged, make_schema("long", "long", "long")))


INTERVAL = pa.struct([("_0", pa.int32()), ("_1", pa.int32()), ("_2", pa.int64())])
VARIANT = pa.struct([("_0", pa.binary()), ("_1", pa.binary())])
GEOMETRY = pa.struct([("_0", pa.int32()), ("_1", pa.binary())])
LEAVES = [
    ("interval", INTERVAL, {"_0": 1, "_1": 2, "_2": 3}),
    ("variant", VARIANT, {"_0": b"\x00", "_1": b"\x01\x00\x00"}),
    ("geometry(4326)", GEOMETRY, {"_0": 4326, "_1": b"x"}),
]
PLACES = [
    (lambda kind: kind, lambda type_: type_, lambda value: value),
    (array_of, pa.list_, lambda value: [None, value]),
    (map_of, lambda type_: pa.map_(pa.int32(), type_), lambda value: [(1, value)]),
    (struct_of, lambda type_: pa.struct([("_0", type_)]), lambda value: {"_0": value}),
]


@pytest.mark.parametrize(("kind", "leaf", "value"), LEAVES, ids=[leaf[0] for leaf in LEAVES])
@pytest.mark.parametrize("place", PLACES, ids=["column", "array", "map", "struct"])
def test_a_value_of_several_parts_is_null_as_a_whole_only(
    kind: str, leaf: pa.DataType, value: dict[str, Any], place: tuple[Any, Any, Any]
) -> None:
    make_kind, make_type, make_value = place
    schema, type_ = make_schema(make_kind(kind)), make_type(leaf)
    valid = [make_value(value), None, make_value(None)]
    assert read(schema, pa.array(valid, type_)).num_rows == 3
    for part in value:
        forged = {**value, part: None}
        with pytest.raises(InvalidResult, match="has a null"):
            read(schema, pa.array([*valid, make_value(forged)], type_))


FOOTER_END = struct.Struct("<i6s")


def test_a_footer_costs_no_more_than_the_batches_of_the_manifest() -> None:
    """The footer of a limited result may list more batches than the manifest."""
    schema = make_schema("long")
    content = write_file(schema, [[number] for number in range(1000)])
    for listed in (0, 3, 1000):
        file = BatchFile(io.BytesIO(content), schema, listed)
        assert len(file._blocks) == 24 * listed
        for position in range(listed)[:3]:
            assert file.read_batch(position).column(0).to_pylist() == [position]
        with pytest.raises(InvalidResult, match=f"no record batch {listed}"):
            file.read_batch(listed)


def test_a_forged_footer_is_refused_before_it_is_read() -> None:
    schema = make_schema("long")
    content = write_file(schema, [[1]])
    length, magic = FOOTER_END.unpack(content[-FOOTER_END.size :])
    footer = content[-FOOTER_END.size - length : -FOOTER_END.size]

    class File(io.BytesIO):
        longest_read = 0

        def read(self, size: int | None = -1, /) -> bytes:
            self.longest_read = max(self.longest_read, size or 0)
            return super().read(size)

    padding = bytes(20 << 20)
    forged = content[:-10] + footer + padding + FOOTER_END.pack(length + len(padding), magic)
    file = File(forged)
    with pytest.raises(InvalidResult, match="not Arrow IPC"):
        BatchFile(file, schema, 1)
    assert file.longest_read < 1000
    # The manifest lists so many batches that their blocks can fill the footer.
    assert BatchFile(File(forged), schema, 1_000_000).read_batch(0).num_rows == 1


def test_a_file_that_is_cut_or_changed_at_either_end_is_refused() -> None:
    schema = make_schema("long")
    content = write_file(schema, [[1]])
    length, magic = FOOTER_END.unpack(content[-FOOTER_END.size :])

    def change(position: int, *new: int) -> bytes:
        return content[:position] + bytes(new) + content[position + len(new) :]

    def end_with(length: int, magic: bytes) -> bytes:
        return content[: -FOOTER_END.size] + FOOTER_END.pack(length, magic)

    forgeries = {
        "too short": [b"", content[:17]],
        "not Arrow IPC": [
            end_with(length, b"ARROW2"),
            *(end_with(forged, magic) for forged in (0, -1, len(content), 2**31 - 1)),
        ],
        "no schema": [change(12, *number.to_bytes(4, "little")) for number in (0, 2**31 - 1)],
        "not valid": [
            # The position of the root table, and the fields of the footer, are outside of it.
            change(len(content) - FOOTER_END.size - length, *b"\xff\xff\xff\x7f"),
            change(len(content) - FOOTER_END.size - length, *b"\x01\x00\x00\x00"),
        ],
    }
    for reason, files in forgeries.items():
        for forged in files:
            with pytest.raises(InvalidResult, match=reason):
                BatchFile(io.BytesIO(forged), schema, 1).read_batch(0)


def test_a_file_that_its_driver_cuts_during_a_read_is_refused() -> None:
    class File(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            return b"" if self.tell() == 8 else super().read(size)

    schema = make_schema("long")
    with pytest.raises(InvalidResult, match="too short"):
        BatchFile(File(write_file(schema, [[1]])), schema, 1)


def test_a_vector_of_blocks_is_within_the_footer() -> None:
    schema = make_schema("long")
    content = write_file(schema, [[1]])
    block = BatchFile(io.BytesIO(content), schema, 1)._blocks
    position = content.index(block) - 4
    assert content[position : position + 4] == b"\x01\x00\x00\x00"
    forged = content[:position] + b"\xff\xff\xff\x7f" + content[position + 4 :]
    with pytest.raises(InvalidResult, match="footer of the file is not valid"):
        BatchFile(io.BytesIO(forged), schema, 1_000_000)
    assert BatchFile(io.BytesIO(forged), schema, 1).read_batch(0).num_rows == 1


def test_a_block_is_read_if_a_node_can_hold_it(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = make_schema("long")
    file = BatchFile(io.BytesIO(write_file(schema, [list(range(1000))])), schema, 1)
    assert file.read_batch(0).num_rows == 1000
    monkeypatch.setattr("headrace.results.arrow_messages.MAX_BATCH_BYTES", 8000)
    with pytest.raises(InvalidResult, match="not within the file"):
        file.read_batch(0)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"offset": -8}, "not within the file"),
        ({"offset": 2**62}, "not within the file"),
        ({"metadata_bytes": -1}, "not within the file"),
        ({"body_bytes": -1}, "not within the file"),
        ({"body_bytes": 2**40}, "not within the file"),
        ({"offset": 8}, "not a record batch"),
    ],
)
def test_a_forged_block_is_refused(changes: dict[str, int], reason: str) -> None:
    schema = make_schema("long")
    content = write_file(schema, [[1]])
    file = BatchFile(io.BytesIO(content), schema, 1)
    block = dict(
        zip(
            ("offset", "metadata_bytes", "body_bytes"),
            struct.unpack("<qi4xq", file._blocks),
            strict=True,
        )
    )
    forged = {**block, **changes}
    old, new = (struct.pack("<qi4xq", *fields.values()) for fields in (block, forged))
    assert content.count(old) == 1
    file = BatchFile(io.BytesIO(content.replace(old, new)), schema, 1)
    with pytest.raises(InvalidResult, match=reason):
        file.read_batch(0)
