"""Frozen settings. An entry point loads them once and passes them down.

Precedence: flags, environment (`HEADRACE_STORE__URL`), the file `headrace.toml` (or the file that
HEADRACE_CONFIG names), defaults. docs/reference/settings.md is generated from this module.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationError, model_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from headrace.conf_policy import ConfPolicy
from headrace.config_file import find_config_file, refuse_foreign_settings
from headrace.durations import Duration
from headrace.errors import InvalidSetting
from headrace.home import DEFAULT_HOME, HomeLayout
from headrace.profiles import Profile, Section

DEFAULT_PORT = 8040


class HttpSettings(Section):
    """Where a node listens."""

    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = Field(default=DEFAULT_PORT, ge=0, le=65535)
    """Port to listen on; 0 picks a free port."""
    advertise: str | None = None
    """URL at which drivers and other nodes reach this node; default: host and port."""
    allowed_hosts: list[str] = Field(default=[])
    """Further hosts, `name` or `name:port`, under which clients reach this node, for example those
    of a reverse proxy. A node always serves loopback names, `advertise` and its own addresses."""
    auth: bool = True
    """Whether requests need the token of the node: `token`, otherwise the file `token` in the home,
    which the node creates."""
    max_connections: int = Field(default=4096, ge=8)
    """Largest number of connections. When it is reached, a new connection replaces the one that has
    been idle for the longest time; without an idle one, requests get 503."""
    header_timeout: Duration = timedelta(seconds=10)
    """Longest time that a client may take to send the headers of a request."""
    body_timeout: Duration = timedelta(seconds=60)
    """Longest time that a client may take to send the body of a request."""
    keep_alive: Duration = timedelta(seconds=5)
    """How long a connection stays open without a request."""
    allow_unauthenticated: bool = False
    """Allow `auth = false` beyond loopback. Anyone who reaches the port can then run SQL."""


class StoreSettings(Section):
    """The database that holds all state."""

    url: str | None = None
    """`sqlite:///path` or `postgresql://…`; default: `headrace.db` in the home."""
    pool_size: int = Field(default=10, ge=2)
    """Largest number of open connections."""
    connect_timeout: Duration = timedelta(seconds=5)
    """Longest time to wait for a connection."""


class ResultsSettings(Section):
    """Where results are kept, and for how long."""

    location: str | None = None
    """Path or fsspec URI; default: `results/` in the home."""
    allowed: list[str] = Field(default=[])
    """Locations below which a statement may choose its own results location; default: none."""
    retention: Duration = timedelta(hours=24)
    """How long rows are kept after a statement ends."""
    inline_limit: int = Field(default=256 * 1024, ge=0)
    """Largest result, in bytes, that the disposition `auto` keeps in the store."""
    chunk_limit: int = Field(default=8 * 1024 * 1024, ge=64 * 1024)
    """Largest number of bytes of record batches in one chunk. A chunk has at least one row."""


class HistorySettings(Section):
    """How long the history is kept."""

    retention: Duration | None = timedelta(days=30)
    """How long ended statements and sessions are kept, with their events and transactions; at least
    24h and `results.retention`; null: for ever."""


class LeaseSettings(Section):
    """Leases of drivers and nodes."""

    duration: Duration = timedelta(seconds=15)
    """How long a lease lasts after a renewal."""
    renew: Duration = timedelta(seconds=5)
    """How often a driver or node renews its lease."""
    sweep: Duration = timedelta(seconds=1)
    """How often a node checks leases, timeouts and pending launches."""
    orphan: Duration = timedelta(minutes=10)
    """How long a driver keeps running while no node renews its lease."""
    jvm_timeout: Duration = timedelta(seconds=60)
    """How long the JVM of a driver may be silent, for example in a garbage collection. A driver
    whose JVM is silent for longer counts as lost."""
    cancel_grace: Duration = timedelta(seconds=5)
    """How long a driver may take to stop a cancelled statement."""
    close_grace: Duration = timedelta(seconds=30)
    """How long the driver of a closed session may take to stop its work. Then it is killed."""


class SessionSettings(Section):
    """Defaults of sessions that do not set these values."""

    idle_timeout: Duration | None = timedelta(minutes=30)
    """Idle time after which a session is closed; null: never."""
    unnamed_idle_timeout: Duration = timedelta(minutes=1)
    """Idle time after which a session is closed that was created for a submit without a session."""
    ttl: Duration | None = None
    """Age at which a session is closed, busy or not; null: never."""


class StatementSettings(Section):
    """How statements run."""

    max_attempts: int = Field(default=2, ge=1)
    """Largest number of attempts of a statement that is safe to retry when its driver dies."""
    max_waiting: int = Field(default=10_000, ge=1)
    """Largest number of statements that may wait in one session. Another submit is refused with
    `queue_full`."""


class CatalogSettings(Section):
    """The persistent catalog that sessions share."""

    kind: Literal["managed", "external", "memory"] = "managed"
    """`managed`: a Hive metastore in the home; `external`: as the profile configures it;
    `memory`: tables end with their driver."""
    warehouse: str | None = None
    """Location of managed tables; default: `warehouse/` in the home."""


class EmbeddedSettings(Section):
    """The node that `headrace sql` starts when there is no server."""

    linger: Duration = timedelta(minutes=5)
    """How long the node, its drivers and the metastore run after the last command."""
    warm: int = Field(default=1, ge=0)
    """Number of drivers to keep ready, until `linger` after the last session without a name."""


class StreamSettings(Section):
    """Streaming queries."""

    checkpoints: str | None = None
    """Location of the write-ahead logs of queries without the option `checkpointLocation`, unless
    Spark's `spark.sql.streaming.checkpointLocation` is set; default: `checkpoints/` in the home."""
    location: str | None = None
    """Location of the rows that queries write to files without the option `path`; default:
    `streams/` in the home."""


class MaterializedViewSettings(Section):
    """Materialized views."""

    grace: Duration = timedelta(minutes=10)
    """How long the replaced rows of a view stay after a refresh, for the queries that read them."""


class JobSettings(Section):
    """Jobs."""

    state_location: str | None = None
    """Location of manifests, savepoints and checkpoints of jobs, unless a deployment names another
    one; default: `jobs/<owner>` in the home."""
    healthy_period: Duration = timedelta(minutes=1)
    """How long a query without batches must run for its deployment to succeed."""
    proof_timeout: Duration = timedelta(minutes=10)
    """How long a deployment waits for the first batch. Then the old version continues."""
    start_failures: int = Field(default=3, ge=1)
    """Number of successive failures after which a new version counts as failed."""
    plan_retention: Duration = timedelta(hours=24)
    """How long a plan can be applied."""
    savepoints_kept: int = Field(default=5, ge=1)
    """Number of savepoints that are kept for each job, whatever their age."""
    savepoint_retention: Duration = timedelta(days=7)
    """How long further savepoints are kept."""
    parallelism: int = Field(default=4, ge=1, le=64)
    """Number of operations that a node advances at once."""


class OpenSearchSettings(Section):
    """The OpenSearch async query API, `/_plugins/_async_query`."""

    row_limit: int = Field(default=10_000, ge=1)
    """Largest number of rows in one response. A larger result is an error, never truncated."""
    datasources: dict[str, str] = Field(default={})
    """Catalog for each `datasource`. If empty, the name of a catalog of the profile stands for that
    catalog, and any other name for the default catalog of the session."""


_KEYS_KEPT = timedelta(hours=24)


class Settings(BaseSettings):
    """All settings of a node and of the commands."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        env_prefix="HEADRACE_",
        env_nested_delimiter="__",
    )

    home: Path = DEFAULT_HOME
    """Folder that holds the state of one host."""
    server: str | None = None
    """URL of the node that commands use; default: a node on the default port, otherwise an embedded
    node of the home. `embedded` always uses the node of the home."""
    token: str | None = None
    """Bearer token that a node requires and commands send. Set it through HEADRACE_TOKEN. Default:
    the token in the home."""
    format: str | None = None
    """Output format of commands; default: `table` on a terminal, otherwise `csv`."""
    reserved_statements: bool = True
    """Whether Headrace runs its own statements. If false, Spark receives them unchanged."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Lowest level of the node's log."""
    http: HttpSettings = HttpSettings()
    store: StoreSettings = StoreSettings()
    results: ResultsSettings = ResultsSettings()
    history: HistorySettings = HistorySettings()
    lease: LeaseSettings = LeaseSettings()
    sessions: SessionSettings = SessionSettings()
    statements: StatementSettings = StatementSettings()
    conf_policy: ConfPolicy = ConfPolicy()
    catalog: CatalogSettings = CatalogSettings()
    embedded: EmbeddedSettings = EmbeddedSettings()
    streams: StreamSettings = StreamSettings()
    materialized_views: MaterializedViewSettings = MaterializedViewSettings()
    jobs: JobSettings = JobSettings()
    opensearch: OpenSearchSettings = OpenSearchSettings()
    profiles: dict[str, Profile] = {}
    """Profiles by name; the profile `default` always exists."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the sources in the order of their precedence (a hook of pydantic-settings)."""
        source = TomlConfigSettingsSource(settings_cls, find_config_file())
        refuse_foreign_settings(find_config_file(), source.toml_data)
        return init_settings, env_settings, source

    @property
    def layout(self) -> HomeLayout:
        """Paths of everything in the home."""
        return HomeLayout.at(self.home)

    @property
    def store_url(self) -> str:
        """URL of the store, with its default."""
        return self.store.url or f"sqlite:///{self.layout.store_file}"

    @property
    def results_location(self) -> str:
        """Results location, with its default."""
        return self.results.location or str(self.layout.results)

    @property
    def warehouse(self) -> str:
        """Location of managed tables, with its default."""
        return self.catalog.warehouse or str(self.layout.warehouse)

    @property
    def checkpoints(self) -> str:
        """Location of write-ahead logs, with its default."""
        return self.streams.checkpoints or str(self.layout.checkpoints)

    @property
    def jobs_location(self) -> str:
        """Location of the state of jobs; the owner's name follows."""
        return str(self.layout.jobs)

    @property
    def streams_location(self) -> str:
        """Location of the rows of queries without a path, with its default."""
        return self.streams.location or str(self.layout.streams)

    @model_validator(mode="after")
    def _check_catalog(self) -> Settings:
        """Raise ValueError if remote drivers would need the managed catalog of this host."""
        remote = [name for name, profile in self.profiles.items() if profile.is_remote]
        if remote and self.catalog.kind == "managed":
            raise ValueError(
                f"drivers of the profile {remote[0]!r} run on other hosts and cannot reach the"
                " managed catalog of this host; set catalog.kind to external or memory"
            )
        return self

    @model_validator(mode="after")
    def _check_history(self) -> Settings:
        """Raise ValueError if statements would be deleted before their results or their keys."""
        shortest = max(self.results.retention, _KEYS_KEPT)
        if self.history.retention is not None and self.history.retention < shortest:
            raise ValueError(
                "The setting history.retention must be at least 24h, the lifetime of an"
                " Idempotency-Key, and at least results.retention"
            )
        return self

    def profile(self, name: str) -> Profile:
        """Return the profile with this name. Raise InvalidSetting if it does not exist."""
        if name in self.profiles:
            return self.profiles[name]
        if name == "default":
            return Profile()
        names = sorted({"default", *self.profiles})
        raise InvalidSetting(f"The profile {name!r} does not exist. Profiles: {', '.join(names)}.")


def load(overrides: Mapping[str, Any] | None = None) -> Settings:
    """Load the settings from all sources; `overrides` (the flags) come first.

    Raises:
        InvalidSetting: With the key, what is wrong with it, and the nearest existing key.
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
        raise InvalidSetting(f"headrace.toml is not valid TOML: {error}") from error


def _explain(error: ValidationError) -> str:
    lines = []
    for problem in error.errors():
        path = [str(step) for step in problem["loc"]]
        key = ".".join(path)
        if problem["type"] == "extra_forbidden":
            lines.append(f"Unknown setting {key!r}{_nearest(path)}.")
        else:
            message = f"{problem['msg'].removeprefix('Value error, ')}."
            if key:
                lines.append(f"Setting {key!r}: {message}")
            else:
                lines.append(message[:1].upper() + message[1:])
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
