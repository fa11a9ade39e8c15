"""Frozen settings, built once by an entry point and passed down.

Precedence: flags, then environment (`HEADRACE_STORE__URL`), then the file `headrace.toml` (or the
one that HEADRACE_CONFIG names), then the defaults here. docs/settings.md lists every key.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from headrace.durations import Duration
from headrace.errors import InvalidSetting

DEFAULT_PORT = 8040


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class HttpSettings(Section):
    """Where a node listens."""

    host: str = "127.0.0.1"
    port: int = Field(default=DEFAULT_PORT, ge=0, le=65535)
    """0 picks a free one."""
    advertise: str | None = None
    """The address that drivers and other nodes reach this node by; default: host and port."""
    allow_unauthenticated: bool = False
    """Listen beyond loopback although anyone may then run SQL here."""


class StoreSettings(Section):
    """The one database."""

    url: str | None = None
    """`sqlite:///path` or `postgresql://…`; default: headrace.db in the home."""
    pool_size: int = Field(default=10, ge=2)
    connect_timeout: Duration = timedelta(seconds=5)


class ResultsSettings(Section):
    """Where results live, and for how long."""

    location: str | None = None
    """Any fsspec URI; default: results/ in the home."""
    retention: Duration = timedelta(hours=24)
    inline_limit: int = Field(default=256 * 1024, ge=0)
    """Bytes up to which `auto` keeps a result in the store."""
    chunk_limit: int = Field(default=8 * 1024 * 1024, ge=64 * 1024)
    """Bytes of record batches in one chunk, unless a single row is larger."""


class LeaseSettings(Section):
    """How leases are kept and watched over."""

    duration: Duration = timedelta(seconds=15)
    renew: Duration = timedelta(seconds=5)
    sweep: Duration = timedelta(seconds=1)
    orphan: Duration = timedelta(minutes=10)
    """How long a driver lives on without reaching any node."""
    cancel_grace: Duration = timedelta(seconds=5)


class SessionSettings(Section):
    """When sessions end by themselves, unless they say so themselves."""

    idle_timeout: Duration | None = timedelta(minutes=30)
    """Nothing has run in it for that long. None: never."""
    ttl: Duration | None = None
    """That long after it was made, busy or not. Default: never."""


class StatementSettings(Section):
    """How statements are run."""

    max_attempts: int = Field(default=2, ge=1)
    """How often a pure query is tried at most, when its driver dies under it."""


class CatalogSettings(Section):
    """The persistent catalog that sessions share."""

    kind: Literal["managed", "external", "memory"] = "managed"
    """`managed`: a Hive metastore of this home; `external`: whatever the profile's conf says."""
    warehouse: str | None = None
    """Where tables go; default: warehouse/ in the home."""


class EmbeddedSettings(Section):
    """The node that `headrace sql` starts when there is no server."""

    linger: Duration = timedelta(minutes=5)


class OpenSearchSettings(Section):
    """The API of OpenSearch's async queries, `/_plugins/_async_query`."""

    row_limit: int = Field(default=10_000, ge=1)
    """Rows that one answer may hold. A larger result is an error there, never cut."""
    datasources: dict[str, str] = {}
    """The catalog behind each `datasource`. Empty: one of the profile's catalogs is itself, and
    every other name stands for the session's own catalog."""


_NEEDED = {"emr-serverless": ("application_id", "execution_role_arn")}


def _start_timeout(given: dict[str, Any]) -> timedelta:
    slow = given.get("master") == "yarn" or given.get("backend") == "emr-serverless"
    return timedelta(seconds=600 if slow else 120)


class Profile(Section):
    """A named way to start drivers."""

    backend: Literal["local", "spark-submit", "emr-serverless"] = "local"
    master: str = "local[*]"
    deploy_mode: Literal["client", "cluster"] = "client"
    """`client`: the driver runs on the node's host; `cluster`: on one of the cluster's."""
    cluster_url: str | None = None
    """Where a standalone master's web UI or YARN's ResourceManager answers over HTTP."""
    conf: dict[str, str] = {}
    env: dict[str, str] = {}
    warm: int = Field(default=0, ge=0)
    """Drivers that are kept started, for new sessions to take."""
    python: str | None = None
    """The interpreter of the driver; default: the node's own."""
    start_timeout: Duration = Field(default_factory=_start_timeout)
    """Default: 2 minutes, 10 on YARN and EMR Serverless, where a driver may wait for its turn."""
    application_id: str | None = None
    """emr-serverless: the application that runs the drivers."""
    execution_role_arn: str | None = None
    """emr-serverless: the role that drivers act in."""
    region: str | None = None
    """emr-serverless: default is what boto3 finds."""
    endpoint_url: str | None = None
    """emr-serverless: another address of the service, e.g. a VPC endpoint."""
    log_uri: str | None = None
    """emr-serverless: where in S3 the logs of drivers go; default: AWS keeps them."""

    @model_validator(mode="after")
    def _complete(self) -> Profile:
        missing = [key for key in _NEEDED.get(self.backend, ()) if getattr(self, key) is None]
        if missing:
            raise ValueError(f"{self.backend} needs {' and '.join(missing)}")
        return self

    @model_validator(mode="after")
    def _agrees(self) -> Profile:
        if self.backend != "spark-submit":
            if self.deploy_mode == "cluster" or self.cluster_url is not None:
                raise ValueError("deploy_mode and cluster_url are for the backend spark-submit")
        elif self.deploy_mode == "cluster":
            if self.master == "yarn" and self.cluster_url is None:
                raise ValueError(
                    "deploy_mode cluster on YARN needs cluster_url, the ResourceManager's address"
                )
            if self.master != "yarn" and not self.master.startswith("k8s://"):
                raise ValueError(
                    "deploy_mode cluster is for the masters yarn and k8s://…:"
                    f" with {self.master!r} Spark runs no Python that way"
                )
        return self

    @property
    def elsewhere(self) -> bool:
        """Whether drivers share no disk and no loopback with their node."""
        return self.deploy_mode == "cluster" or self.backend == "emr-serverless"


class Settings(BaseSettings):
    """Everything that can be set."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        env_prefix="HEADRACE_",
        env_nested_delimiter="__",
    )

    home: Path = Path(".headrace")
    server: str | None = None
    """The node that commands talk to; default: one on the default port, else an embedded one."""
    token: str | None = None
    """The bearer token that commands send. Set it by HEADRACE_TOKEN, not as an argument."""
    format: str | None = None
    """How commands write rows; default: a table on a terminal, else CSV."""
    reserved_statements: bool = True
    """False hands Headrace's own statements to Spark as they are."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    http: HttpSettings = HttpSettings()
    store: StoreSettings = StoreSettings()
    results: ResultsSettings = ResultsSettings()
    lease: LeaseSettings = LeaseSettings()
    sessions: SessionSettings = SessionSettings()
    statements: StatementSettings = StatementSettings()
    catalog: CatalogSettings = CatalogSettings()
    embedded: EmbeddedSettings = EmbeddedSettings()
    opensearch: OpenSearchSettings = OpenSearchSettings()
    profiles: dict[str, Profile] = {}

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        file = Path(os.environ.get("HEADRACE_CONFIG", "headrace.toml"))
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, file)

    @property
    def store_url(self) -> str:
        return self.store.url or f"sqlite:///{self.home.absolute() / 'headrace.db'}"

    @property
    def results_location(self) -> str:
        return self.results.location or str(self.home.absolute() / "results")

    @property
    def warehouse(self) -> str:
        return self.catalog.warehouse or str(self.home.absolute() / "warehouse")

    @model_validator(mode="after")
    def _reachable(self) -> Settings:
        away = [name for name, one in self.profiles.items() if one.elsewhere]
        if away and self.catalog.kind == "managed":
            raise ValueError(
                f"drivers of the profile {away[0]!r} run on other hosts, which the managed catalog"
                " of this one does not serve: set catalog.kind to external or memory"
            )
        return self

    def profile(self, name: str) -> Profile:
        """The profile of that name; `default` always exists. Raises InvalidSetting."""
        if name in self.profiles:
            return self.profiles[name]
        if name == "default":
            return Profile()
        known = sorted({"default", *self.profiles})
        raise InvalidSetting(f"There is no profile {name!r}; there are: {', '.join(known)}.")


def load(overrides: Mapping[str, Any] | None = None) -> Settings:
    """Settings from all sources, `overrides` (the flags) first.

    Raises InvalidSetting naming the key, what is wrong with it, and the nearest known key.
    """
    for name in os.environ:
        key = name.removeprefix("HEADRACE_").lower().partition("__")[0]
        if name.startswith("HEADRACE_") and key not in {"config", *Settings.model_fields}:
            raise InvalidSetting(f"Unknown setting {name} in the environment{_nearest([key])}.")
    try:
        return Settings(**(overrides or {}))
    except ValidationError as error:
        raise InvalidSetting(_explain(error)) from error
    except tomllib.TOMLDecodeError as error:
        raise InvalidSetting(f"headrace.toml is no valid TOML: {error}") from error


def _explain(error: ValidationError) -> str:
    lines = []
    for problem in error.errors():
        path = [str(step) for step in problem["loc"]]
        key = ".".join(path)
        if problem["type"] == "extra_forbidden":
            lines.append(f"Unknown setting {key!r}{_nearest(path)}.")
        else:
            said = f"{problem['msg'].removeprefix('Value error, ')}."
            lines.append(f"Setting {key!r}: {said}" if key else said[:1].upper() + said[1:])
    return " ".join(lines)


def _nearest(path: list[str]) -> str:
    section: type[BaseModel] = Settings
    for step in path[:-1]:
        field = section.model_fields.get(step)
        if field is None or not isinstance(field.annotation, type):
            section = Profile if path[0] == "profiles" else section
            continue
        section = field.annotation if issubclass(field.annotation, BaseModel) else section
    close = difflib.get_close_matches(path[-1], section.model_fields, n=1)
    return f"; did you mean {'.'.join([*path[:-1], close[0]])!r}?" if close else ""
