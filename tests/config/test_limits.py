"""Which limit applies to an owner, and quotas that are refused."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from headrace.config.limits import Bound, LimitedOwner, LimitName, LimitSettings
from headrace.config.settings import load
from headrace.errors import InvalidSetting

CORP = """
[auth]
methods = ["token", "oidc"]
[auth.oidc.corp]
issuer = "https://login.example.com"
audience = ["headrace"]
"""


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def _user(name: str, *groups: str) -> LimitedOwner:
    return LimitedOwner(
        id=name, names=(name, f"corp:{name}"), groups=frozenset(f"corp:{each}" for each in groups)
    )


def _limits(**values: Any) -> LimitSettings:
    return LimitSettings.model_validate(values)


LIMITS = _limits(
    sessions_per_user=5,
    users={"corp:ada": {"sessions": 7}, "bob": {"streams": 1}},
    groups={
        "corp:etl": {"sessions": 50, "weight": 3},
        "corp:web": {"sessions": 20, "streams": 4, "weight": 1},
    },
)


@pytest.mark.parametrize(
    ("owner", "bound"),
    [
        (_user("cyd"), Bound(5, "limits.sessions_per_user")),
        (_user("cyd", "other"), Bound(5, "limits.sessions_per_user")),
        (_user("cyd", "web"), Bound(20, 'limits.groups."corp:web".sessions')),
        (_user("cyd", "web", "etl"), Bound(50, 'limits.groups."corp:etl".sessions')),
        (_user("ada", "etl"), Bound(7, 'limits.users."corp:ada".sessions')),
        (_user("bob", "web"), Bound(20, 'limits.groups."corp:web".sessions')),
        (
            LimitedOwner(id="group:corp:etl", groups=frozenset({"corp:etl"})),
            Bound(50, 'limits.groups."corp:etl".sessions'),
        ),
    ],
)
def test_a_limit_is_that_of_the_user_then_of_its_groups_then_of_each_user(
    owner: LimitedOwner, bound: Bound
) -> None:
    assert LIMITS.find(LimitName.SESSIONS, owner) == bound


def test_a_quota_that_does_not_set_a_key_leaves_it_to_the_next_one() -> None:
    assert LIMITS.find(LimitName.STREAMS, _user("bob", "web")) == (1, "limits.users.bob.streams")
    assert LIMITS.find(LimitName.STREAMS, _user("ada")) == (None, None)
    assert LIMITS.find("weight", _user("ada", "etl")).value == 3
    assert LIMITS.find("weight", _user("ada")) == (1, None)


def test_only_limits_that_some_owner_may_have_are_set() -> None:
    assert LIMITS.is_set(LimitName.SESSIONS)
    assert LIMITS.is_set(LimitName.STREAMS)
    assert not LIMITS.is_set(LimitName.RUNNING)
    assert LIMITS.has_weights
    assert not _limits(users={"ada": {"sessions": 1}}).has_weights


def test_the_default_timeout_is_at_most_the_largest_one() -> None:
    limits = _limits(default_timeout="1h", users={"ada": {"max_timeout": "10m"}})
    assert limits.find_default_timeout(_user("ada")).value == timedelta(minutes=10)
    assert limits.find_default_timeout(_user("bob")).value == timedelta(hours=1)
    # A statement that names no timeout may not run for ever either.
    largest = _limits(max_timeout="2h").find_default_timeout(_user("ada"))
    assert largest == (timedelta(hours=2), "limits.max_timeout")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[limits.groups."corp:etl"]\nsessions = -1', "limits.groups.corp:etl.sessions"),
        ('[limits.groups."corp:etl"]\nweight = 0', "limits.groups.corp:etl.weight"),
        ("[limits]\nstreams_per_user = 0", "limits.streams_per_user"),
        ("[limits]\nsubmits_per_minute_per_user = -5", "limits.submits_per_minute_per_user"),
        ('[limits]\nmax_timeout = "-1s"', "limits.max_timeout"),
        ('[limits]\nmax_timeout = "0s"', "max_timeout must be longer than 0s"),
        (
            '[limits]\nmax_timeout = "1m"\ndefault_timeout = "2m"',
            "default_timeout is larger than max_timeout",
        ),
        (
            '[limits.users.ada]\nmax_timeout = "1m"\ndefault_timeout = "2m"',
            "limits.users.ada': default_timeout is larger",
        ),
        ('[limits.groups."crop:etl"]\nsessions = 1', 'limits.groups."crop:etl" names the source'),
        ('[limits.groups."os:wheel"]\nsessions = 1', 'limits.groups."os:wheel" names the source'),
        ('[limits.users."crop:ada"]\nsessions = 1', 'limits.users."crop:ada" names the source'),
        ("[limits.groups.etl]\nsessions = 1", "'etl' is not a group; write source:name"),
        ('[limits.users."Ada L"]\nsessions = 1', "'Ada L' is not the id of a user"),
        ('[limits.groups."corp:etl"]\nsession = 1', "did you mean"),
    ],
)
def test_a_wrong_quota_is_an_error_at_start_that_names_its_key(
    tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "headrace.toml").write_text(CORP + text)
    with pytest.raises(InvalidSetting, match=re.escape(message)):
        load()


def test_quotas_of_known_sources_are_accepted(tmp_path: Path) -> None:
    quotas = '[limits.users."os:root"]\nsessions = 1\n[limits.users.ada]\nsessions = 2\n'
    (tmp_path / "headrace.toml").write_text(
        f'{CORP}{quotas}[limits.groups."corp:etl"]\nsessions = 3\nmax_timeout = "1h"'
    )
    groups = load().limits.groups
    assert groups["corp:etl"].max_timeout == timedelta(hours=1)
