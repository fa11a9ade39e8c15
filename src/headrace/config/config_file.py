"""The file `headrace.toml`: where it is, and which of its settings are trusted."""

from __future__ import annotations

import difflib
import os
import stat
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from headrace.errors import InvalidSetting
from headrace.files.private_files import belongs_to_other_user, name_of_user

VARIABLE_PREFIX = "HEADRACE_"
FILE_VARIABLE = "HEADRACE_CONFIG"
_DEFAULT_FILE = Path("headrace.toml")
_HARMLESS_KEYS = {"format", "log_level"}
"""Settings that choose no address, place, program or token, nor what a session may do."""


def nearest_variable(name: str, keys: Iterable[str]) -> str | None:
    """Return the variable of the key that is nearest to that of a name such as HEADRACE_HTPT__PORT.

    Only the first key of the name is replaced. Returns None if no key is near.
    """
    key, separator, rest = name.removeprefix(VARIABLE_PREFIX).partition("__")
    close = difflib.get_close_matches(key.lower(), ["config", *keys], n=1)
    return f"{VARIABLE_PREFIX}{close[0].upper()}{separator}{rest}" if close else None


def find_config_file(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the file that HEADRACE_CONFIG names, else `headrace.toml` in the working directory."""
    return Path(environ.get(FILE_VARIABLE) or _DEFAULT_FILE)


def check_config_file(file: Path, table: Mapping[str, Any]) -> None:
    """Raise InvalidSetting if other users could choose settings through a file, or read secrets.

    Args:
        table: Content of the file.
    """
    _refuse_foreign_settings(file, table.keys())
    _refuse_open_secrets(file, table)


def _refuse_open_secrets(file: Path, table: Mapping[str, Any]) -> None:
    """Raise InvalidSetting if all users of the host can read a file with a token or a password."""
    store = table.get("store")
    url = store.get("url") if isinstance(store, dict) else None
    secrets = {"token": table.get("token"), "a password in store.url": _find_password(url)}
    named = [name for name, value in secrets.items() if value]
    if named and file.stat().st_mode & stat.S_IROTH:
        raise InvalidSetting(
            f"All users of this host can read {file}, which contains {' and '.join(named)}.",
            hint=f"chmod 600 {file}, or 640 for a group; or use HEADRACE_TOKEN and PGPASSWORD",
        )


def _find_password(url: object) -> str | None:
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
        return parts.password or dict(parse_qsl(parts.query)).get("password")
    except ValueError:  # no URL, which is refused later
        return None


def _refuse_foreign_settings(file: Path, keys: Collection[str]) -> None:
    """Raise InvalidSetting if another user could choose servers or programs through a file.

    A file in the working directory is trusted if the file and its folder belong to this user or to
    root. A file that HEADRACE_CONFIG names is always trusted, because the user has chosen it.

    Args:
        keys: Keys at the top level of the file.
    """
    refused = sorted(set(keys) - _HARMLESS_KEYS)
    if file != _DEFAULT_FILE or not refused:
        return
    foreign = [path for path in (file.absolute(), Path.cwd()) if belongs_to_other_user(path)]
    if not foreign:
        return
    raise InvalidSetting(
        f"{foreign[0]} belongs to another user ({_describe_owner(foreign[0])}), so these settings "
        f"in {file} are refused: {', '.join(refused)}.",
        hint="copy the file to a folder of your own, or set HEADRACE_CONFIG to its path if you "
        "trust it",
    )


def _describe_owner(path: Path) -> str:
    return name_of_user(path.stat().st_uid)
