"""The key `meta` of a deployed manifest: the version of the job that it belongs to."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

META_KEY = "meta"
_FORMAT = "%Y-%m-%d %H:%M:%S"


def _check_instant(text: str) -> str:
    # strptime raises ValueError, which pydantic reports.
    datetime.strptime(text, _FORMAT).replace(tzinfo=UTC)
    return text


class ManifestMeta(BaseModel):
    """What Headrace adds to the manifest of a deployed job. A deployment ignores it."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=lambda name: name.replace("_", "-"),
        validate_by_name=True,
        validate_by_alias=True,
        use_attribute_docstrings=True,
    )

    query_id: str
    """Id of the version, a UUID."""
    query_version: Annotated[int, Field(ge=1)]
    """Number of the version, from 1."""
    query_create_timestamp: Annotated[str, AfterValidator(_check_instant)]
    """Creation of the version, UTC, as `YYYY-MM-DD HH:MM:SS`."""

    @classmethod
    def of_version(cls, query_id: str, version: int, created_at: datetime) -> Self:
        """Return the meta of a version. `created_at` has a time zone."""
        instant = created_at.astimezone(UTC).strftime(_FORMAT)
        return cls(query_id=query_id, query_version=version, query_create_timestamp=instant)

    @property
    def created_at(self) -> datetime:
        """Creation of the version, in whole seconds."""
        return datetime.strptime(self.query_create_timestamp, _FORMAT).replace(tzinfo=UTC)
