"""The few settings that commands themselves need, with where each came from.

Precedence as in headrace.settings: flags, environment, headrace.toml, defaults. That module checks
everything else when a node starts; importing it takes longer than a whole command, so these keys
are read here (a test keeps both in step).
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.errors import InvalidSetting

EMBEDDED = "embedded"
"""As `server`: a node of this home, started when there is none; never one elsewhere."""

DEFAULT_HOME = ".headrace"
TEXT_KEYS = ("server", "token", "format", "home")
KNOWN_KEYS = (
    *TEXT_KEYS,
    "reserved_statements",
    "log_level",
    "http",
    "store",
    "results",
    "lease",
    "sessions",
    "statements",
    "catalog",
    "embedded",
    "opensearch",
    "profiles",
)
_PREFIX = "HEADRACE_"
_FILE_VARIABLE = "HEADRACE_CONFIG"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """What a command goes by."""

    home: Path
    """Absolute."""
    server: str | None = None
    token: str | None = field(default=None, repr=False)
    format: str | None = None
    sources: Mapping[str, str] = field(default_factory=dict)
    """For each key that is set: the flag, variable or file that set it."""

    def source(self, key: str) -> str:
        return self.sources.get(key, "default")


def load(
    flags: Mapping[str, str | None] | None = None, environ: Mapping[str, str] = os.environ
) -> ClientConfig:
    """The configuration from all sources. Raises InvalidSetting naming the key and its source."""
    values: dict[str, str] = {}
    sources: dict[str, str] = {}
    for found, origin in (_file(environ), _environment(environ), _flags(flags or {})):
        for key, value in found.items():
            values[key], sources[key] = value, origin[key]
    return ClientConfig(
        home=Path(values.get("home", DEFAULT_HOME)).absolute(),
        server=values.get("server"),
        token=values.get("token"),
        format=values.get("format"),
        sources=sources,
    )


Found = tuple[dict[str, str], dict[str, str]]


def _flags(flags: Mapping[str, str | None]) -> Found:
    given = {key: value for key, value in flags.items() if value is not None}
    return given, {key: f"--{key}" for key in given}


def _environment(environ: Mapping[str, str]) -> Found:
    found: dict[str, str] = {}
    for name in environ:
        if not name.startswith(_PREFIX) or name == _FILE_VARIABLE:
            continue
        key = name.removeprefix(_PREFIX).lower()
        _check_known(key.partition("__")[0], f"the environment variable {name}")
        if key in TEXT_KEYS and environ[name]:
            found[key] = environ[name]
    return found, {key: _PREFIX + key.upper() for key in found}


def _file(environ: Mapping[str, str]) -> Found:
    named = environ.get(_FILE_VARIABLE)
    file = Path(named or "headrace.toml")
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if named:
            raise InvalidSetting(f"{_FILE_VARIABLE} names {named}, which is not there.") from None
        return {}, {}
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSetting(f"{file} cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise InvalidSetting(f"{file} is no valid TOML: {error}") from error
    for key in table:
        _check_known(key, f"{key!r} in {file}")
    found = {key: _text(table[key], key, file) for key in TEXT_KEYS if key in table}
    return found, dict.fromkeys(found, str(file))


def _text(value: Any, key: str, file: Path) -> str:
    if not isinstance(value, str):
        raise InvalidSetting(f"Setting {key!r} in {file} must be a string, not {value!r}.")
    return value


def _check_known(key: str, where: str) -> None:
    if key in KNOWN_KEYS:
        return
    close = difflib.get_close_matches(key, KNOWN_KEYS, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise InvalidSetting(f"Unknown setting: {where}{hint}.")
