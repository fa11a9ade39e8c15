"""The file `headrace.toml`: where it is, and which of its settings are trusted."""

from __future__ import annotations

import difflib
import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

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


def refuse_foreign_settings(file: Path, keys: Collection[str]) -> None:
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
