"""What the server says about itself: the values of `SqlInfo`, each in the child of its union."""

from __future__ import annotations

import pyarrow as pa

from headrace import __version__
from headrace.grammar.text import MAX_BYTES

_TEXT, _FLAG, _LONG, _BITS, _LIST, _MAP = range(6)
_VALUE = pa.dense_union(
    [
        pa.field("string_value", pa.string()),
        pa.field("bool_value", pa.bool_()),
        pa.field("bigint_value", pa.int64()),
        pa.field("int32_bitmask", pa.int32()),
        pa.field("string_list", pa.list_(pa.string())),
        pa.field("int32_to_int32_list_map", pa.map_(pa.int32(), pa.list_(pa.int32()))),
    ]
)
SCHEMA = pa.schema(
    [
        pa.field("info_name", pa.uint32(), nullable=False),
        pa.field("value", _VALUE, nullable=False),
    ]
)
_NO_LIMIT = 0
_MAX_NAME = 255
_FUNCTIONS = {
    509: "ABS ACOS ASIN ATAN ATAN2 CEIL COS DEGREES EXP FLOOR LN LOG10 MOD PI POWER RADIANS RAND"
    " ROUND SIGN SIN SQRT TAN",
    510: "ASCII CHAR CONCAT LCASE LEFT LENGTH LOCATE LOWER LPAD LTRIM REPEAT REPLACE RIGHT RPAD"
    " RTRIM SOUNDEX SPACE SUBSTRING TRIM UCASE UPPER",
    511: "COALESCE IF IFNULL NULLIF NVL USER",
    512: "CURRENT_DATE CURRENT_TIMESTAMP DATE_ADD DATE_FORMAT DATE_SUB DAY DAYOFMONTH DAYOFWEEK"
    " DAYOFYEAR EXTRACT HOUR LAST_DAY MINUTE MONTH NOW QUARTER SECOND WEEKOFYEAR YEAR",
}
_KEYWORDS = "ANALYZE ANTI CACHE CLUSTER DATABASES DISTRIBUTE LATERAL LIST OPTIMIZE PIVOT SEMI SORT"
_TRUE = (4, 9, 501, 502, 506, 515, 516, 518, 520, 521, 523, 524, 532, 539, 574)
"""SQL, cancel, DDL of schemas and tables, tables that can be read, aliases, NULL + NULL is NULL,
correlation names, expressions in ORDER BY and columns that are not selected, LIKE … ESCAPE,
columns that are not null, catalogs before names, correlated subqueries, named parameters."""
_FALSE = (3, 5, 10, 11, 500, 519, 527, 536, 537, 556, 563, 565, 566, 572, 573, 575, 576)
"""Read-only, Substrait, bulk ingestion, DDL of catalogs, correlation names that must differ,
integrity enhancement, SELECT FOR UPDATE, procedures, blobs, transactions, batches, savepoints."""
_NUMBERS = {
    8: 0,  # no transactions
    100: 0,  # no timeout of its own
    101: 0,
    503: 1,  # names ignore case
    505: 1,
    507: 1,  # nulls are the lowest
    522: 3,  # GROUP BY of columns that are not selected, and of more than these
    525: 0b11,  # minimum and core grammar
    526: 1,  # ANSI 92, entry level
    528: 7,  # all outer joins
    533: 0b11111,  # schemas in all kinds of statements
    534: 0b11111,
    535: 0,  # no positioned commands
    538: 0b1111,  # all subqueries
    540: 0b11,  # UNION and UNION ALL
    564: 1,  # isolation level: none
    567: 0b10,  # results are read forward
    568: 0b10,  # and are read only
    569: 0b10,
    570: 0,
    571: 0,
}
_LONGS = {
    **dict.fromkeys((*range(541, 543), *range(544, 552), 555, 558, 560, 561), _NO_LIMIT),
    **dict.fromkeys((543, 552, 553, 554, 559), _MAX_NAME),
    557: MAX_BYTES,
    562: 0,  # isolation level: none
}
_TEXTS = {
    0: "Headrace",
    1: __version__,
    2: pa.__version__,
    504: "`",
    513: "\\",
    514: "",
    529: "schema",
    530: "procedure",
    531: "catalog",
}
_VALUES: dict[int, tuple[int, object]] = dict(
    sorted(
        {
            **{key: (_TEXT, value) for key, value in _TEXTS.items()},
            **dict.fromkeys(_TRUE, (_FLAG, True)),
            **dict.fromkeys(_FALSE, (_FLAG, False)),
            **{key: (_LONG, value) for key, value in _LONGS.items()},
            **{key: (_BITS, value) for key, value in _NUMBERS.items()},
            508: (_LIST, _KEYWORDS.split()),
            **{key: (_LIST, names.split()) for key, names in _FUNCTIONS.items()},
            517: (_MAP, {}),  # no CONVERT
        }.items()
    )
)
"""Child of the union and value, by the id of `SqlInfo`. Every id of the specification has one,
apart from the versions of Substrait."""


def describe_server(ids: list[int]) -> pa.Table:
    """Return the values with these ids; all, if none is given."""
    chosen = {key: value for key, value in _VALUES.items() if not ids or key in ids}
    children: list[list[object]] = [[] for _ in range(_VALUE.num_fields)]
    kinds, offsets = [], []
    for kind, value in chosen.values():
        kinds.append(kind)
        offsets.append(len(children[kind]))
        children[kind].append(value)
    values = pa.UnionArray.from_dense(
        pa.array(kinds, pa.int8()),
        pa.array(offsets, pa.int32()),
        [pa.array(items, field.type) for items, field in zip(children, _VALUE, strict=True)],
        [field.name for field in _VALUE],
    )
    return pa.Table.from_arrays([pa.array(list(chosen), pa.uint32()), values], schema=SCHEMA)
