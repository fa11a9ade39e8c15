"""Times and names of API objects, in the lists and on the pages of all commands."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import pytest

import headrace.cli
import headrace.frontends.rest
from headrace.cli.support.home_processes import describe_processes
from headrace.cli.support.listing import ListColumn, _make_column
from headrace.cli.support.readable import (
    describe_session,
    format_age_of,
    format_remaining,
    is_time_field,
)
from headrace.frontends.rest.schemas import ResponseModel

LENGTH = r"(\d+ s|\d+ min( \d+ s)?|\d+ h( \d+ min)?|\d+ d( \d+ h)?)"
"""A length of time in a list."""


class AnyObject(dict[str, Any]):
    """An object of the API that has every field; those that are instants have the given one."""

    def __init__(self, instant: datetime) -> None:
        super().__init__()
        self._instant = instant.isoformat()

    def __missing__(self, name: str) -> Any:
        if is_time_field(name):
            return self._instant
        lists: Any = {key: [] for key in ("profiles", "groups", "events", "jobs")}
        return {**lists, "result": None, "detail": {}}.get(name, 61_000)

    def get(self, name: str, default: Any = None) -> Any:
        return self[name]


def import_all(package: Any) -> Iterator[Any]:
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not module.name.endswith("__main__"):
            yield importlib.import_module(module.name)


def list_columns() -> list[tuple[str, ListColumn]]:
    """Return the columns of all lists, with the names of their modules."""
    columns = [
        (module.__name__, column)
        for module in import_all(headrace.cli)
        for value in vars(module).values()
        if isinstance(value, tuple)
        for column in value
        if isinstance(column, ListColumn)
    ]
    return columns + [("default", _make_column(name)) for name in ("created_at", "at", "since")]


BOUNDS = {"start", "end", "interval_start", "interval_end"}
"""Fields of the API with the bounds of an interval, which are shown whole."""
ABSOLUTE = {"LOGICAL TIME", "FROM", "TO"}
"""Columns whose times name a run or an interval: a user passes them to other commands."""


def times_in_lists(instant: datetime) -> dict[str, str]:
    """Return what each list shows in the columns whose texts depend on the time."""
    texts = {}
    for module, column in list_columns():
        if column.title in ABSOLUTE:
            continue
        text, other = (
            column.text(AnyObject(each)) for each in (instant, instant + timedelta(days=9))
        )
        if text is not None and (text != other or column.title == "TIME"):
            texts[f"{module} {column.title}"] = text
    return texts


def test_every_list_shows_times_in_one_format() -> None:
    now = datetime.now(UTC)
    for length in (timedelta(seconds=7), timedelta(minutes=9, seconds=3), timedelta(hours=30)):
        past, future = times_in_lists(now - length), times_in_lists(now + length)
        for name, text in {**past, **future}.items():
            assert re.fullmatch(rf"(in )?{LENGTH}|expired", text), (name, text)
        assert len(past | future) >= 11


def test_all_instants_of_the_api_are_shown_as_times() -> None:
    list(import_all(headrace.frontends.rest))
    instants = {
        name
        for model in ResponseModel.__subclasses__()
        for name, field in model.model_fields.items()
        if datetime in {field.annotation, *get_args(field.annotation)}
        or any(datetime in get_args(each) for each in get_args(field.annotation))
    }
    assert len(instants) > 10
    assert {name for name in instants if not is_time_field(name)} - BOUNDS == set()


def test_ages_and_remaining_times_have_the_same_format() -> None:
    now = datetime.now(UTC)
    length = timedelta(minutes=9, seconds=30)
    # The test may be paused between two readings of the clock.
    seconds = {f"9 min {each} s" for each in range(1, 60)}
    assert format_age_of((now - length).isoformat()) in seconds
    assert format_remaining((now + length).isoformat()) in seconds
    assert format_remaining((now - timedelta(minutes=1)).isoformat()) == "0 s"
    assert format_age_of(None) is None
    assert format_remaining(None) is None


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"name": "etl"}, "etl"),
        ({"name": "etl", "pool": True}, "etl"),
        ({"pool": True}, "pool of profile big"),
        ({"warm": True, "pool": False}, "warm driver of profile big"),
        ({}, "se_1"),
    ],
)
def test_a_session_without_a_name_is_called_by_its_purpose(
    fields: dict[str, Any], name: str
) -> None:
    session = {"id": "se_1", "name": None, "profile": "big", **fields}
    assert describe_session(session) == name
    processes = [
        {"kind": "driver", "pid": 12, "session_id": "se_1"},
        {"kind": "driver", "pid": 13, "session_id": "se_2"},
        {"kind": "metastore", "pid": 14, "session_id": None},
    ]
    assert describe_processes(processes, {"se_1": name}) == (
        f"driver process 12 ({name}), driver process 13 (session se_2), metastore process 14"
    )
