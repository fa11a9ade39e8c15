"""Names of tables in a lineage, and locations without credentials."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from headrace.model.lineage import TableUse, hide_credentials
from headrace.model.stream_query import QueryReport

LOCATIONS = {
    "jdbc:postgresql://h:5432/db?user=u&password=secret": "jdbc:postgresql://h:5432/db",
    "jdbc:postgresql://u:secret@h/db": "jdbc:postgresql://h/db",
    "JDBC:postgresql://u:secret@h/db": "jdbc:postgresql://h/db",
    "jdbc:mysql://h1:1,h2:2/db": "jdbc:mysql://h1:1,h2:2/db",
    "jdbc:sqlserver://h:1433;databaseName=db;password=secret": "jdbc:sqlserver://h:1433",
    "jdbc:db2://h:50000/db:user=u;password=secret;": "jdbc:db2",
    "jdbc:oracle:thin:scott/secret@//h:1521/x": "jdbc:oracle",
    "jdbc:oracle:thin:@//h:1521/x": "jdbc:oracle",
    "jdbc:mysql://address=(host=h)(password=secret)/db": "jdbc:mysql",
    "jdbc:mysql://u:se/cret@h/db": "jdbc:mysql",
    "jdbc:h2:mem:x;PASSWORD=secret": "jdbc:h2",
    "jdbc:": "jdbc:",
    "s3a://key:secret@bucket/a/b": "s3a://bucket/a/b",
    "s3a://key:se@cret@bucket/a": "s3a://bucket/a",
    "s3a://bucket/a@b/c": "s3a://bucket/a@b/c",
    "abfss://box@account.dfs.core.windows.net/a?sig=secret": (
        "abfss://box@account.dfs.core.windows.net/a"
    ),
    "https://h/f.csv?token=secret": "https://h/f.csv",
    "file:/tmp/what?": "file:/tmp/what?",
    "/tmp/a@b": "/tmp/a@b",
}


@pytest.mark.parametrize(("location", "expected"), LOCATIONS.items(), ids=LOCATIONS)
def test_a_location_has_no_credentials(location: str, expected: str) -> None:
    assert hide_credentials(location) == expected
    assert hide_credentials(expected) == expected


def test_names_of_tables_differ_in_their_parts_and_not_in_their_case() -> None:
    plain = TableUse(direction="read", catalog="c", namespace=["N"], name="T")
    quoted = TableUse(direction="read", catalog="c", name="N.`T")
    assert (plain.display_name, plain.key) == ("c.N.T", "c.n.t")
    assert quoted.display_name == "c.`N.``T`"
    files = TableUse(direction="read", location="/Data/F")
    assert files.key == files.display_name == "/Data/F"


def test_a_streaming_query_has_a_limited_number_of_tables() -> None:
    uses = [TableUse(direction="read", name=f"t{number}") for number in range(51)]
    report = {"id": f"sq_{1:032}", "generation": 1, "state": "running"}
    assert len(QueryReport.model_validate({**report, "lineage": uses[:50]}).lineage) == 50
    with pytest.raises(ValidationError, match="at most 50"):
        QueryReport.model_validate({**report, "lineage": uses})
