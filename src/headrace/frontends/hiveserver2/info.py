"""What clients ask a server of HiveServer2 about itself."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from headrace.frontends.hiveserver2.wire import load_protocol

_TEXTS = {
    13: "Headrace",  # CLI_SERVER_NAME
    14: "\\",  # CLI_SEARCH_PATTERN_ESCAPE
    17: "Spark SQL",  # CLI_DBMS_NAME: tools choose the dialect by it
    29: "`",  # CLI_IDENTIFIER_QUOTE_CHAR
    73: "N",  # CLI_INTEGRITY
    94: "",  # CLI_SPECIAL_CHARACTERS
    10006: "",  # CLI_ODBC_KEYWORDS
}
_NUMBERS = {
    30: 128,  # CLI_MAX_COLUMN_NAME_LEN
    32: 128,  # CLI_MAX_SCHEMA_NAME_LEN
    34: 128,  # CLI_MAX_CATALOG_NAME_LEN
    35: 128,  # CLI_MAX_TABLE_NAME_LEN
    10005: 128,  # CLI_MAX_IDENTIFIER_LEN
}
_VERSION, _USER = 18, 47


def find(kind: int, user: str) -> Any:
    """Return the `TGetInfoValue` for a `TGetInfoType`."""
    value = load_protocol().TGetInfoValue
    if kind in _NUMBERS:
        return value(lenValue=_NUMBERS[kind])
    if kind == _VERSION:
        return value(stringValue=version("pyspark"))
    return value(stringValue=user if kind == _USER else _TEXTS.get(kind, ""))
