"""State locations: one spelling for each place."""

from __future__ import annotations

import pytest

from headrace.control.jobs.places import normalize_location
from headrace.errors import InvalidRequest


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ("/s", "/s"),
        ("/s/", "/s"),
        ("//s//x/.", "/s/x"),
        ("/s/../x", "/x"),
        ("file:/s", "/s"),
        ("FILE:///s/", "/s"),
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/", "s3://bucket"),
        ("S3://Bucket/a//b/", "s3://Bucket/a/b"),
        ("hdfs:///jobs", "hdfs:///jobs"),
    ],
)
def test_a_location_has_one_spelling(written: str, stored: str) -> None:
    assert normalize_location(written) == stored
    assert normalize_location(stored) == stored


@pytest.mark.parametrize("written", ["state", "./state", "file:state", "../x", "s3:"])
def test_a_location_that_is_not_absolute_is_refused(written: str) -> None:
    with pytest.raises(InvalidRequest, match="is not absolute"):
        normalize_location(written)
