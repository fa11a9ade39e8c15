from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.other_user import give_to_other_user

from headrace.cli.support import config, discovery
from headrace.cli.support.config import load_config
from headrace.client.tls import ClientTls
from headrace.config import sections, settings
from headrace.errors import InvalidSetting


@pytest.fixture(autouse=True)
def _empty_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_keys_and_defaults_equal_those_of_the_node_settings() -> None:
    fields = settings.Settings.model_fields
    assert set(config.KNOWN_KEYS) == set(fields)
    for key in ("server", "token", "format"):
        assert fields[key].default is None
    assert fields["home"].default == config.DEFAULT_HOME
    assert f"http://127.0.0.1:{sections.DEFAULT_PORT}" == discovery.DEFAULT_ADDRESS


def test_flags_override_the_environment_which_overrides_the_file(tmp_path: Path) -> None:
    Path("headrace.toml").write_text('home = "a"\nserver = "a"\nformat = "csv"\n[http]\nport = 1\n')
    environment = {"HEADRACE_HOME": "b", "HEADRACE_SERVER": "b", "HEADRACE_HTTP__PORT": "2"}
    client = load_config({"server": "c", "home": None}, environment)
    assert (client.home, client.server, client.format) == (tmp_path / "b", "c", "csv")
    sources = [client.source(key) for key in ("home", "server", "format", "token")]
    assert sources == ["HEADRACE_HOME", "--server", "headrace.toml", "default"]


def test_commands_and_nodes_read_the_same_values(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("headrace.toml").write_text('server = "http://a"\nformat = "csv"\n')
    monkeypatch.setenv("HEADRACE_FORMAT", "json")
    client, node = load_config(), settings.load()
    assert (client.server, client.format) == (node.server, node.format) == ("http://a", "json")


def test_commands_and_nodes_read_the_same_files_of_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("headrace.toml").write_text('[tls]\nca = "a.pem"\nclient_cert = "c"\nclient_key = "k"\n')
    monkeypatch.setenv("HEADRACE_TLS__CA", "b.pem")
    client, node = load_config(), settings.load().tls
    assert client.tls == ClientTls(Path("b.pem"), Path("c"), Path("k"))
    assert client.tls == ClientTls(node.ca, node.client_cert, node.client_key)
    assert client.source("tls.ca") == "HEADRACE_TLS__CA"


def test_a_certificate_without_its_key_is_refused() -> None:
    with pytest.raises(InvalidSetting, match=r"tls\.client_cert and tls\.client_key"):
        load_config({}, {"HEADRACE_TLS__CLIENT_CERT": "c"})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[tls]\nca = 3", "'tls.ca' in headrace.toml must be a string, not 3"),
        ("sever = 'x'", "'sever' in headrace.toml; did you mean 'server'?"),
        ("home = 3", "'home' in headrace.toml must be a string, not 3"),
        ("home = ", "headrace.toml is not valid TOML"),
    ],
)
def test_a_fault_in_the_file_is_named(content: str, message: str) -> None:
    Path("headrace.toml").write_text(content)
    with pytest.raises(InvalidSetting) as error:
        load_config({}, {})
    assert message in error.value.message


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("HEADRACE_TOKN", "HEADRACE_TOKEN"),
        ("HEADRACE_HTTPP__PORT", "HEADRACE_HTTP__PORT"),
        ("HEADRACE_STROE__POOL_SIZE", "HEADRACE_STORE__POOL_SIZE"),
        ("HEADRACE_CONFG", "HEADRACE_CONFIG"),
    ],
)
def test_an_unknown_variable_is_named_with_the_nearest_variable(name: str, nearest: str) -> None:
    with pytest.raises(InvalidSetting, match=rf"{name}; did you mean {nearest}\?"):
        load_config({}, {name: "x"})


def test_headrace_config_names_the_file_which_must_exist() -> None:
    Path("other.toml").write_text('server = "http://a"')
    client = load_config({}, {"HEADRACE_CONFIG": "other.toml"})
    assert (client.server, client.source("server")) == ("http://a", "other.toml")
    with pytest.raises(InvalidSetting, match=r"missing\.toml, which does not exist"):
        load_config({}, {"HEADRACE_CONFIG": "missing.toml"})


def test_the_token_does_not_appear_in_the_representation() -> None:
    assert "secret" not in repr(load_config({}, {"HEADRACE_TOKEN": "secret"}))


class TestForeignFile:
    """`headrace.toml` in a working directory that another user can write."""

    @pytest.fixture(params=["file", "folder"])
    def foreign(
        self, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> Path:
        """Return a file; the file itself or its folder belongs to another user."""
        folder = tmp_path / "folder"
        folder.mkdir()
        monkeypatch.chdir(folder)
        file = folder / "headrace.toml"
        file.touch()
        give_to_other_user(file if request.param == "file" else folder, monkeypatch)
        return file

    @pytest.mark.finding("S12")
    def test_its_server_and_home_are_refused(self, foreign: Path) -> None:
        foreign.write_text('server = "http://evil"\nhome = "/evil"\nformat = "csv"\n')
        with pytest.raises(InvalidSetting, match="refused: home, server") as error:
            load_config({}, {"HEADRACE_TOKEN": "secret"})
        assert "belongs to another user" in error.value.message
        assert error.value.hint is not None
        assert "HEADRACE_CONFIG" in error.value.hint

    @pytest.mark.finding("S12")
    def test_its_profiles_are_refused_by_a_node(self, foreign: Path) -> None:
        foreign.write_text('[profiles.default]\npython = "/evil/python"\n')
        with pytest.raises(InvalidSetting, match="refused: profiles"):
            settings.load()

    def test_its_format_is_used(self, foreign: Path) -> None:
        foreign.write_text('format = "json"\n')
        assert load_config({}, {}).format == settings.load().format == "json"

    def test_it_is_used_if_the_user_names_it(self, foreign: Path) -> None:
        foreign.write_text('server = "http://a"\n')
        assert load_config({}, {"HEADRACE_CONFIG": str(foreign)}).server == "http://a"


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ('token = "secret"', "contains token"),
        ('[store]\nurl = "postgresql://u:secret@h/d"', "contains a password in store.url"),
        ('[store]\nurl = "postgresql://u@h/d?password=secret"', "a password in store.url"),
    ],
)
def test_a_file_with_a_secret_that_all_users_of_the_host_can_read_is_refused(
    content: str, named: str
) -> None:
    file = Path("headrace.toml")
    file.write_text(content)
    file.chmod(0o644)
    for load in (lambda: load_config({}, {}), settings.load):
        with pytest.raises(InvalidSetting, match=named) as error:
            load()
        assert "chmod 600" in str(error.value.hint)
        assert "secret" not in error.value.message
    file.chmod(0o640)
    load_config({}, {})
    settings.load()


@pytest.mark.parametrize("content", ["", 'token = ""', '[store]\nurl = "postgresql://u@h/d"'])
def test_all_users_may_read_a_file_without_secrets(content: str) -> None:
    Path("headrace.toml").write_text(content)
    Path("headrace.toml").chmod(0o644)
    load_config({}, {})
    settings.load()


@pytest.mark.finding("S12")
def test_the_token_of_a_file_belongs_to_the_server_of_the_file() -> None:
    Path("headrace.toml").touch(0o600)
    Path("headrace.toml").write_text('server = "http://a"\ntoken = "secret"\n')
    assert load_config({}, {}).token == "secret"
    assert load_config({"server": "http://b"}, {}).token is None
    assert load_config({"server": "http://b"}, {"HEADRACE_TOKEN": "own"}).token == "own"
