"""Where jobs keep their state."""

from __future__ import annotations

import pytest

from headrace.control.jobs.places import JobPlaces, default_location, normalize_location
from headrace.errors import InvalidLocation


@pytest.mark.parametrize("owner", ["..", "a/../../b", "a%2F..%2F..%2Fb", "ada@example.org"])
def test_the_default_state_location_of_each_owner_is_a_directory_of_its_own(owner: str) -> None:
    location = default_location("/jobs", owner)

    assert location.startswith("/jobs/")
    assert location.count("/") == 2
    assert location != default_location("/jobs", f"{owner}x")


def test_the_root_of_a_file_system_can_hold_the_state_of_jobs() -> None:
    places = JobPlaces(normalize_location("HDFS:///"), "etl")

    assert places.manifest == "hdfs:///manifests/etl.yaml"
    assert places.checkpoint("1/r") == "hdfs:///checkpoints/etl/1/r"


@pytest.mark.parametrize("written", ["state", "./state", "file:state", "../x", "s3:"])
def test_a_location_that_is_not_absolute_is_refused(written: str) -> None:
    with pytest.raises(InvalidLocation, match="is not absolute"):
        normalize_location(written)
