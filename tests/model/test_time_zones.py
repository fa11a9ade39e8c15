"""Time zones of schedules."""

from __future__ import annotations

import shutil
import zoneinfo
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from importlib.metadata import version
from importlib.resources import as_file, files
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pytest

from headrace.model.time_zones import find_version, find_zone, list_zones


def offset_of(zone: tzinfo) -> timedelta | None:
    return datetime(2026, 1, 1, 12, tzinfo=UTC).astimezone(zone).utcoffset()


@pytest.fixture
def other_host(tmp_path: Path) -> Iterator[None]:
    """Let the time zone data of the host say that Berlin has the time of Tokyo."""
    (tmp_path / "Europe").mkdir()
    with as_file(files("tzdata").joinpath("zoneinfo", "Asia", "Tokyo")) as tokyo:
        shutil.copy(tokyo, tmp_path / "Europe" / "Berlin")
    before = zoneinfo.TZPATH
    zoneinfo.reset_tzpath([str(tmp_path)])
    yield
    zoneinfo.reset_tzpath(before)


@pytest.mark.usefixtures("other_host")
def test_the_time_zones_of_the_host_do_not_matter() -> None:
    assert offset_of(ZoneInfo.no_cache("Europe/Berlin")) == timedelta(hours=9)
    find_zone.cache_clear()
    assert offset_of(find_zone("Europe/Berlin")) == timedelta(hours=1)
    assert find_version() == version("tzdata")


def test_every_zone_can_be_read() -> None:
    assert {"UTC", "America/Argentina/Ushuaia", "Asia/Kolkata"} <= list_zones()
    for name in list_zones():
        assert find_zone(name).key == name


@pytest.mark.parametrize("name", ["Europe/Atlantis", "../zones", "europe/berlin", "Europe", ""])
def test_other_names_are_no_zones(name: str) -> None:
    with pytest.raises(ZoneInfoNotFoundError):
        find_zone(name)
