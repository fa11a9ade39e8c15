from __future__ import annotations

from pathlib import Path

import pytest

from headrace import settings
from headrace.cli import config, discovery
from headrace.errors import InvalidSetting


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_keys_are_those_of_the_settings() -> None:
    fields = settings.Settings.model_fields
    assert set(config.KNOWN_KEYS) == set(fields)
    for key in ("server", "token", "format"):
        assert fields[key].default is None
    assert str(fields["home"].default) == config.DEFAULT_HOME
    assert f"http://127.0.0.1:{settings.DEFAULT_PORT}" == discovery.DEFAULT_ADDRESS


def test_flags_come_before_the_environment_and_that_before_the_file(tmp_path: Path) -> None:
    Path("headrace.toml").write_text('home = "a"\nserver = "a"\nformat = "csv"\n[http]\nport = 1\n')
    environment = {"HEADRACE_HOME": "b", "HEADRACE_SERVER": "b", "HEADRACE_HTTP__PORT": "2"}
    found = config.load({"server": "c", "home": None}, environment)
    assert (found.home, found.server, found.format) == (tmp_path / "b", "c", "csv")
    sources = [found.source(key) for key in ("home", "server", "format", "token")]
    assert sources == ["HEADRACE_HOME", "--server", "headrace.toml", "default"]


def test_the_same_values_reach_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("headrace.toml").write_text('server = "http://a"\nformat = "csv"\n')
    monkeypatch.setenv("HEADRACE_FORMAT", "json")
    ours, theirs = config.load(), settings.load()
    assert (ours.server, ours.format) == (theirs.server, theirs.format) == ("http://a", "json")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sever = 'x'", "'sever' in headrace.toml; did you mean 'server'?"),
        ("home = 3", "'home' in headrace.toml must be a string, not 3"),
        ("home = ", "headrace.toml is no valid TOML"),
    ],
)
def test_what_is_wrong_in_the_file_is_named(text: str, said: str) -> None:
    Path("headrace.toml").write_text(text)
    with pytest.raises(InvalidSetting) as caught:
        config.load({}, {})
    assert said in caught.value.message


def test_an_unknown_variable_is_named() -> None:
    with pytest.raises(InvalidSetting, match=r"HEADRACE_TOKN; did you mean 'token'\?"):
        config.load({}, {"HEADRACE_TOKN": "x"})


def test_the_file_may_lie_elsewhere_but_must_be_there() -> None:
    Path("other.toml").write_text('server = "http://a"')
    found = config.load({}, {"HEADRACE_CONFIG": "other.toml"})
    assert (found.server, found.source("server")) == ("http://a", "other.toml")
    with pytest.raises(InvalidSetting, match=r"gone\.toml, which is not there"):
        config.load({}, {"HEADRACE_CONFIG": "gone.toml"})


def test_a_token_is_never_shown() -> None:
    assert "secret" not in repr(config.load({}, {"HEADRACE_TOKEN": "secret"}))
