"""The settings that commands themselves need, each with its source.

The precedence is that of headrace.config.settings: flags, environment, headrace.toml, defaults. A
node checks all other settings when it starts. Commands do not import headrace.config.settings,
because the import takes longer than a whole command. A test keeps the keys of both modules equal.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from headrace.client.tls import SYSTEM_TRUST, ClientTls
from headrace.config.config_file import (
    FILE_VARIABLE,
    VARIABLE_PREFIX,
    check_config_file,
    find_config_file,
    nearest_variable,
)
from headrace.config.home import DEFAULT_HOME
from headrace.errors import InvalidSetting

EMBEDDED = "embedded"
"""Value of `server` that allows only the node of this home, which is started if needed."""

TEXT_KEYS = ("server", "token", "format", "home")
TLS_KEYS = ("tls.ca", "tls.client_cert", "tls.client_key")
KNOWN_KEYS = (
    *TEXT_KEYS,
    "reserved_statements",
    "log_level",
    "class_archives",
    "http",
    "auth",
    "secrets",
    "redaction",
    "tls",
    "store",
    "results",
    "lease",
    "cluster",
    "sessions",
    "statements",
    "limits",
    "conf_policy",
    "history",
    "audit",
    "catalog",
    "embedded",
    "streams",
    "materialized_views",
    "jobs",
    "livy",
    "web",
    "opensearch",
    "hiveserver2",
    "flight_sql",
    "outbox",
    "alerts",
    "openlineage",
    "webhooks",
    "profiles",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """Settings of one command."""

    home: Path
    """Absolute path of HEADRACE_HOME."""
    server: str | None = None
    token: str | None = field(default=None, repr=False)
    """Token for `server`, and for a node of this home that has no token of its own in the home."""
    format: str | None = None
    tls: ClientTls = SYSTEM_TRUST
    """How nodes are verified, except a node of this home that names its CAs itself."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """For each key that is set: the flag, variable or file that set it."""

    def source(self, key: str) -> str:
        """Return the source of a setting, for example `HEADRACE_SERVER` or `default`."""
        return self.sources.get(key, "default")


class _ConfigLayer(NamedTuple):
    """The settings of one source."""

    values: dict[str, str]
    sources: dict[str, str]


def load_config(
    flags: Mapping[str, str | None] | None = None, environ: Mapping[str, str] = os.environ
) -> ClientConfig:
    """Return the configuration from all sources.

    Raises InvalidSetting, which names the key and its source.
    """
    values: dict[str, str] = {}
    sources: dict[str, str] = {}
    file = _read_file(environ)
    # Later layers take precedence.
    for layer in (file, _read_environment(environ), _read_flags(flags or {})):
        values |= layer.values
        sources |= layer.sources
    if _token_is_for_other_server(file, values, sources):
        del values["token"], sources["token"]
    return ClientConfig(
        home=Path(values.get("home", DEFAULT_HOME)).absolute(),
        server=values.get("server"),
        token=values.get("token"),
        format=values.get("format"),
        tls=_read_tls(values),
        sources=sources,
    )


def _token_is_for_other_server(
    file: _ConfigLayer, values: Mapping[str, str], sources: Mapping[str, str]
) -> bool:
    """Return whether the token of the file would be sent to a server that the file does not name.

    A file that names a server and a token says that they belong together.
    """
    from_file = "token" in values and sources["token"] == file.sources.get("token")
    return from_file and "server" in file.values and file.values["server"] != values["server"]


def _read_flags(flags: Mapping[str, str | None]) -> _ConfigLayer:
    values = {key: value for key, value in flags.items() if value is not None}
    return _ConfigLayer(values, {key: f"--{key}" for key in values})


def _read_environment(environ: Mapping[str, str]) -> _ConfigLayer:
    values: dict[str, str] = {}
    for name in environ:
        if not name.startswith(VARIABLE_PREFIX) or name == FILE_VARIABLE:
            continue
        key = name.removeprefix(VARIABLE_PREFIX).lower().replace("__", ".")
        if key.partition(".")[0] not in KNOWN_KEYS:
            nearest = nearest_variable(name, KNOWN_KEYS)
            suggestion = f"; did you mean {nearest}?" if nearest else "."
            raise InvalidSetting(f"Unknown setting: the environment variable {name}{suggestion}")
        if key in (*TEXT_KEYS, *TLS_KEYS) and environ[name]:
            values[key] = environ[name]
    return _ConfigLayer(values, {key: _variable(key) for key in values})


def _variable(key: str) -> str:
    return VARIABLE_PREFIX + key.upper().replace(".", "__")


def _read_file(environ: Mapping[str, str]) -> _ConfigLayer:
    explicit = environ.get(FILE_VARIABLE)
    file = find_config_file(environ)
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if explicit:
            raise InvalidSetting(
                f"{FILE_VARIABLE} names the file {explicit}, which does not exist."
            ) from None
        return _ConfigLayer({}, {})
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSetting(f"{file} cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise InvalidSetting(f"{file} is not valid TOML: {error}") from error
    for key in table:
        _check_key(key, f"{key!r} in {file}")
    check_config_file(file, table)
    tls = table.get("tls")
    if isinstance(tls, dict):
        table |= {f"tls.{key}": value for key, value in tls.items()}
    keys = [key for key in (*TEXT_KEYS, *TLS_KEYS) if key in table]
    values = {key: _require_string(table[key], key, file) for key in keys}
    return _ConfigLayer(values, dict.fromkeys(values, str(file)))


def _read_tls(values: Mapping[str, str]) -> ClientTls:
    """Return the files of TLS. Raise InvalidSetting for a certificate without its key."""
    ca, cert, key = (Path(values[name]) if name in values else None for name in TLS_KEYS)
    if (cert is None) != (key is None):
        raise InvalidSetting("tls.client_cert and tls.client_key belong together: set both.")
    return ClientTls(ca, cert, key)


def _require_string(value: Any, key: str, file: Path) -> str:
    if not isinstance(value, str):
        raise InvalidSetting(f"Setting {key!r} in {file} must be a string, not {value!r}.")
    return value


def _check_key(key: str, source: str) -> None:
    """Raise InvalidSetting if no setting has this key; name the nearest key."""
    if key in KNOWN_KEYS:
        return
    matches = difflib.get_close_matches(key, KNOWN_KEYS, n=1)
    suggestion = f"; did you mean {matches[0]!r}?" if matches else "."
    raise InvalidSetting(f"Unknown setting: {source}{suggestion}")
