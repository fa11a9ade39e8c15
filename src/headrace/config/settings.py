"""Frozen settings. An entry point loads them once and passes them down.

Precedence: flags, environment (`HEADRACE_STORE__URL`), the file `headrace.toml` (or the file that
HEADRACE_CONFIG names), defaults. docs/reference/settings.md is generated from this module.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Mapping
from datetime import timedelta
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, PrivateAttr, ValidationError, model_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from headrace.config.auth import LOCAL_SOURCE, AuthSettings
from headrace.config.conf_policy import NO_CONF_POLICY, ConfPolicy
from headrace.config.config_file import check_config_file, find_config_file, nearest_variable
from headrace.config.home import DEFAULT_HOME, HomeLayout, cache_folder
from headrace.config.limits import LimitSettings
from headrace.config.outbox import (
    AlertSettings,
    OpenLineageSettings,
    OutboxSettings,
    WebhookSettings,
)
from headrace.config.profiles import BACKENDS, AnyProfile, Profile
from headrace.config.sections import (
    EVERY,
    SECRET_NAME,
    AuditedReads,
    AuditSettings,
    CatalogSettings,
    ClusterSettings,
    EmbeddedSettings,
    FlightSqlSettings,
    HistorySettings,
    HiveServer2Settings,
    HttpSettings,
    JobSettings,
    LeaseSettings,
    LivySettings,
    MaterializedViewSettings,
    OpenSearchSettings,
    RedactionSettings,
    ResultsSettings,
    SecretSettings,
    SessionSettings,
    StatementSettings,
    StoreSettings,
    StreamSettings,
    TlsSettings,
    WebSettings,
)
from headrace.errors import InvalidSetting

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
    """Bearer token that a node requires and commands send. Set it through HEADRACE_TOKEN. If other
    hosts reach the node, it has at least 32 characters. Default: the token in the home."""
    format: str | None = None
    """Output format of commands; default: `table` on a terminal, otherwise `csv`."""
    reserved_statements: bool = True
    """Whether Headrace runs its own statements. If false, Spark receives them unchanged."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Lowest level of the node's log."""
    class_archives: str | None = None
    """Folder for archives of Spark's classes, with which drivers and metastore start in less time.
    Default: `headrace/classes` in the user's cache folder. `off`: no archives."""
    http: HttpSettings = HttpSettings()
    auth: AuthSettings = AuthSettings()
    tls: TlsSettings = TlsSettings()
    store: StoreSettings = StoreSettings()
    results: ResultsSettings = ResultsSettings()
    history: HistorySettings = HistorySettings()
    audit: AuditSettings = AuditSettings()
    lease: LeaseSettings = LeaseSettings()
    cluster: ClusterSettings = ClusterSettings()
    sessions: SessionSettings = SessionSettings()
    statements: StatementSettings = StatementSettings()
    limits: LimitSettings = LimitSettings()
    conf_policy: ConfPolicy = ConfPolicy()
    secrets: SecretSettings = SecretSettings()
    redaction: RedactionSettings = RedactionSettings()
    catalog: CatalogSettings = CatalogSettings()
    embedded: EmbeddedSettings = EmbeddedSettings()
    streams: StreamSettings = StreamSettings()
    materialized_views: MaterializedViewSettings = MaterializedViewSettings()
    jobs: JobSettings = JobSettings()
    livy: LivySettings = LivySettings()
    opensearch: OpenSearchSettings = OpenSearchSettings()
    hiveserver2: HiveServer2Settings = HiveServer2Settings()
    flight_sql: FlightSqlSettings = FlightSqlSettings()
    web: WebSettings = WebSettings()
    outbox: OutboxSettings = OutboxSettings()
    alerts: AlertSettings = AlertSettings()
    openlineage: OpenLineageSettings = OpenLineageSettings()
    webhooks: dict[str, WebhookSettings] = {}
    """Webhooks of the operators, by name."""
    profiles: dict[str, AnyProfile] = {}
    """Profiles by name; the profile `default` always exists."""
    _is_embedded: bool = PrivateAttr(default=False)

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
        file = find_config_file()
        source = TomlConfigSettingsSource(settings_cls, file)
        check_config_file(file, source.toml_data)
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
    def class_archive_folder(self) -> Path | None:
        """Folder for archives of Spark's classes, with its default. None: no archives."""
        if self.class_archives is not None:
            return None if self.class_archives == "off" else Path(self.class_archives).absolute()
        try:
            return cache_folder() / "classes"
        except RuntimeError:
            return None

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
    def _check_run_as(self) -> Settings:
        """Raise ValueError if drivers of several users would share the managed catalog."""
        local = [
            name
            for name, profile in self.profiles.items()
            if profile.run_as == "owner" and not profile.is_remote
        ]
        if local and self.catalog.kind == "managed":
            raise ValueError(
                f"drivers of the profile {local[0]!r} run as their owners, and the managed catalog"
                " would let each of them change and delete the tables of all; set catalog.kind to"
                " external or memory"
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

    @model_validator(mode="after")
    def _check_quotas(self) -> Settings:
        """Raise ValueError if a quota names a source of users that does not exist."""
        self.limits.check_sources(self.auth.sources, local=LOCAL_SOURCE)
        return self

    @model_validator(mode="after")
    def _check_inherited(self) -> Settings:
        """Raise ValueError if drivers would inherit a variable that holds a secret."""
        prefix = self.secrets.environment_prefix
        for name, profile in self.profiles.items():
            inherited = [each for each in profile.inherit_env if each.startswith(prefix)]
            if self.secrets.provider == "environment" and inherited:
                raise ValueError(
                    f"profiles.{name}.inherit_env names {inherited[0]}, which holds a secret"
                    " (secrets.environment_prefix)"
                )
        return self

    @model_validator(mode="after")
    def _check_web_sign_in(self) -> Settings:
        """Raise ValueError if browsers could not come back from an issuer to the pages."""
        for name, issuer in self.auth.oidc.items():
            key, secret = f"auth.oidc.{name}.web_client", issuer.web_client_secret
            if issuer.web_client_id is not None and self.web.public_address is None:
                raise ValueError(
                    f"{key}_id needs web.public_address, at which browsers reach the pages"
                )
            if secret is None:
                continue
            if re.fullmatch(rf"\$\{{secret:{SECRET_NAME}\}}", secret) is None:
                raise ValueError(f"{key}_secret is a reference to a secret: ${{secret:NAME}}")
            if self.secrets.provider is None:
                raise ValueError(f"{key}_secret needs secrets.provider")
        return self

    @model_validator(mode="after")
    def _check_signing(self) -> Settings:
        """Raise ValueError if messages need a secret that no provider has."""
        needed = [f"webhooks.{name}.secret" for name in self.webhooks]
        if self.openlineage.api_key is not None:
            needed.append("openlineage.api_key")
        if needed and self.secrets.provider is None:
            raise ValueError(f"The setting {needed[0]} needs secrets.provider")
        return self

    def for_embedded(self) -> Settings:
        """Return the settings of an embedded node. Its user is its operator, without a policy."""
        updates = {
            "conf_policy": NO_CONF_POLICY,
            "audit": self.audit.model_copy(update={"reads": AuditedReads.NONE}),
            "secrets": self.secrets.model_copy(update={"allowed": {EVERY: [EVERY]}}),
            "jobs": self.jobs.model_copy(update={"watched_locations": {EVERY: [EVERY]}}),
        }
        settings = self.model_copy(update=updates)
        settings._is_embedded = True  # noqa: SLF001 - a copy of this object
        return settings

    @property
    def driver_folder(self) -> Path:
        """Folder in which the drivers of this host run: relative locations begin there.

        It is the working directory of the node. Commands in any folder can start an embedded node,
        and relative paths must not depend on which of them did: drivers of an embedded node run in
        the folder that contains the home.
        """
        return self.layout.path.parent if self._is_embedded else Path.cwd()

    @property
    def missing_isolation(self) -> str | None:
        """In one sentence, which drivers of several users share one user of the system.

        None: no drivers do, or only the user of the node can sign in.
        """
        if set(self.auth.methods) == {"token"}:
            return None
        profiles: dict[str, Profile] = {"default": self.profile("default"), **self.profiles}
        shared = sorted(name for name, each in profiles.items() if each.run_as == "node")
        if not shared:
            return None
        return (
            f"All drivers of the profiles {', '.join(shared)} run as one user of the system, so"
            " that code of one caller can read the files, results and tokens of the others'"
            " sessions."
        )

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
            nearest = nearest_variable(name, Settings.model_fields)
            suggestion = f"; did you mean {nearest}?" if nearest else "."
            raise InvalidSetting(f"Unknown setting {name} in the environment{suggestion}")
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
            lines.append(f"Unknown setting {key!r}{_nearest(path)}")
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
            continue
        section = field.annotation if issubclass(field.annotation, BaseModel) else section
    sections = BACKENDS.values() if path[0] == "profiles" else [section]
    keys = list(chain.from_iterable(each.model_fields for each in sections))
    close = difflib.get_close_matches(path[-1], keys, n=1)
    return f"; did you mean {'.'.join([*path[:-1], close[0]])!r}?" if close else "."
