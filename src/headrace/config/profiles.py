"""Profiles: named backends with their Spark configuration. Part of the settings.

A backend is a subclass of `Profile`. The launchers of backends are in `control/launchers`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from importlib.metadata import entry_points
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from headrace.text.durations import Duration

_GROUP = "headrace.launchers"
"""Group of entry points. Each one has the name of a backend, and is a subclass of `Profile`."""
_LONG_START = timedelta(minutes=10)
_SECRET = "spark.authenticate.secret"  # noqa: S105 - the name of a key
_ENCRYPTED_RPC = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    # Spark's defaults are a cipher that does not notice changed data (CVE-2025-55039), and SASL for
    # a peer that fails the stronger protocol.
    "spark.network.crypto.cipher": "AES/GCM/NoPadding",
    "spark.network.crypto.saslFallback": "false",
}
OWNER_TEMPLATES = frozenset(
    {
        "spark.kubernetes.namespace",
        "spark.kubernetes.authenticate.driver.serviceAccountName",
        "spark.kubernetes.authenticate.executor.serviceAccountName",
    }
)
"""Keys of Spark in which `{owner}` stands for a label of the owner, with `run_as = "owner"`."""


def _default_start_timeout(values: dict[str, Any]) -> timedelta:
    return _LONG_START if values.get("master") == "yarn" else timedelta(minutes=2)


class Section(BaseModel):
    """Base of the sections. Unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Profile(Section):
    """A named backend and Spark configuration for drivers."""

    # This class is the profile of the backend `local`. Each other backend has a subclass, which
    # adds the keys of the backend, and says with these attributes what its launcher needs.
    launcher: ClassVar[str] = "headrace.control.launchers.local:LocalLauncher"
    """`module:class` of the launcher, which only nodes load."""
    library: ClassVar[tuple[str, str] | None] = None
    """A module that the launcher needs on the node, and the extra of Headrace that installs it."""
    needs_shared_results: ClassVar[bool] = False
    """Whether the drivers cannot read a results location that is a path of the node."""
    reserved_conf: ClassVar[tuple[str, ...]] = ()
    """Patterns of Spark configuration of the backend that only the operator sets."""
    acts_for_owner: ClassVar[bool] = False
    """Whether the launcher of a further backend obeys `run_as = "owner"`."""

    backend: str = "local"
    """Where drivers run."""
    master: str = "local[*]"
    """Spark master URL."""
    conf: dict[str, str] = {}
    """Spark configuration of the drivers."""
    env: dict[str, str] = {}
    """Environment variables of the drivers."""
    inherit_env: list[str] = []
    """Names of variables that drivers inherit from the node, for example `AWS_PROFILE`. Without
    them, drivers inherit only what Java, Spark, Hadoop and Python need."""
    run_as: Literal["node", "owner"] = "node"
    """As whom drivers act: `node`, as the account of the node; `owner`, as the owner of their
    session, who needs a user of the system (`auth.system_users.*`): `local` under that user of the
    host, YARN with `--proxy-user`, and Kubernetes in the namespace and with the service account
    that `{owner}` in the profile makes."""
    warm: int = Field(default=0, ge=0)
    """Number of warm drivers to keep ready for new sessions."""
    python: str | None = None
    """Python interpreter of the driver; default: that of the node."""
    start_timeout: Duration = Field(default_factory=_default_start_timeout)
    """Longest start of a driver. Default: 2 minutes; 10 minutes on YARN and EMR Serverless, where
    an application may have to wait for resources."""
    encrypt_rpc: bool = False
    """Whether the driver and its executors authenticate each other, and encrypt what they send
    (`spark.authenticate`, `spark.network.crypto.enabled`, with AES-GCM). Spark creates a secret
    for each application, except on a standalone cluster: there, `conf` needs the cluster's
    `spark.authenticate.secret`."""

    @model_validator(mode="after")
    def _check_secret(self) -> Self:
        """Raise ValueError if Spark would need a secret that the profile does not name."""
        if self.encrypt_rpc and self.master.startswith("spark://") and _SECRET not in self.conf:
            raise ValueError(
                f"encrypt_rpc on a standalone cluster needs {_SECRET} in conf, with the value that"
                " its master and its workers have"
            )
        return self

    @property
    def rpc_conf(self) -> dict[str, str]:
        """The Spark configuration that `encrypt_rpc` stands for."""
        return _ENCRYPTED_RPC if self.encrypt_rpc else {}

    @model_validator(mode="after")
    def _check_run_as(self) -> Self:
        """Raise ValueError if drivers cannot run as the owners of their sessions."""
        if self.run_as == "owner":
            if type(self) is not Profile and not self.acts_for_owner:
                raise ValueError(f'the backend {self.backend} has no run_as = "owner"')
            if self.warm:
                raise ValueError(
                    'run_as = "owner" has no warm drivers: they start without an owner'
                )
        return self

    @property
    def is_remote(self) -> bool:
        """Whether drivers run on other hosts, without the disk and loopback of their node."""
        return False

    @classmethod
    def of(cls, profile: Profile) -> Self:
        """Return a profile as one of this class. Raise TypeError if it has another backend."""
        if not isinstance(profile, cls):
            raise TypeError(f"a profile of the backend {profile.backend} is no {cls.__name__}")
        return profile


class SparkSubmitProfile(Profile):
    """A profile whose drivers spark-submit starts."""

    launcher = "headrace.control.launchers.spark_submit:SparkSubmitLauncher"
    acts_for_owner = True

    backend: Literal["spark-submit"] = "spark-submit"
    deploy_mode: Literal["client", "cluster"] = "client"
    """spark-submit: `client`: the driver runs on the host of the node; `cluster`: on a host of the
    cluster."""
    cluster_url: str | None = None
    """spark-submit: HTTP address of the web UI of a standalone master, or of YARN's
    ResourceManager."""

    @model_validator(mode="after")
    def _check_deploy_mode(self) -> Self:
        """Raise ValueError for a deploy mode that the master does not support."""
        if self.deploy_mode == "cluster":
            if self.master == "yarn" and self.cluster_url is None:
                raise ValueError(
                    "deploy_mode cluster on YARN needs cluster_url, the ResourceManager's address"
                )
            if self.master != "yarn" and not self.master.startswith("k8s://"):
                raise ValueError(
                    "deploy_mode cluster needs the master yarn or k8s://…;"
                    f" Spark cannot run Python in cluster mode on {self.master!r}"
                )
        if self.run_as == "owner":
            self._check_owner_reaches_cluster()
        return self

    def _check_owner_reaches_cluster(self) -> None:
        if self.deploy_mode == "client":
            raise ValueError(
                'run_as = "owner" needs deploy_mode cluster: in client mode, the driver is a'
                " process of the node's user"
            )
        templates = [self.conf.get(key, "") for key in OWNER_TEMPLATES]
        if self.master != "yarn" and not any("{owner}" in template for template in templates):
            raise ValueError(
                'run_as = "owner" on Kubernetes needs {owner} in one of'
                f" {_join(sorted(OWNER_TEMPLATES), 'and')}"
            )

    @property
    def is_remote(self) -> bool:
        return self.deploy_mode == "cluster"


class EmrServerlessProfile(Profile):
    """A profile whose drivers are job runs of an application of EMR Serverless."""

    launcher = "headrace.control.launchers.emr_serverless:EmrServerlessLauncher"
    library = ("boto3", "emr")
    needs_shared_results = True
    reserved_conf = ("spark.emr-serverless.*",)

    backend: Literal["emr-serverless"] = "emr-serverless"
    start_timeout: Duration = _LONG_START
    application_id: str | None = None
    """emr-serverless: id of the application that runs the drivers."""
    execution_role_arn: str | None = None
    """emr-serverless: IAM role of the drivers."""
    region: str | None = None
    """emr-serverless: AWS region; default: as boto3 finds it."""
    endpoint_url: str | None = None
    """emr-serverless: another endpoint of the service, for example a VPC endpoint."""
    log_uri: str | None = None
    """emr-serverless: S3 location for the logs of drivers; default: AWS keeps them."""

    @model_validator(mode="after")
    def _check_required(self) -> Self:
        """Raise ValueError if a key is missing, or has no effect."""
        keys = ("application_id", "execution_role_arn")
        missing = [key for key in keys if getattr(self, key) is None]
        if missing:
            raise ValueError(f"{self.backend} needs {_join(missing, 'and')}")
        if self.encrypt_rpc:
            raise ValueError(
                f"{self.backend} has an encryption of its own: set spark.ssl.internode.enabled in"
                " conf, and not encrypt_rpc"
            )
        return self

    @property
    def is_remote(self) -> bool:
        return True


BACKENDS: Mapping[str, type[Profile]] = {
    "local": Profile,
    "spark-submit": SparkSubmitProfile,
    "emr-serverless": EmrServerlessProfile,
}
"""Headrace's own backends, by name."""


def parse_profile(values: Any) -> Profile:
    """Return the profile of the backend that the values name.

    Raises ValidationError, and ValueError for keys of another backend.
    """
    if not isinstance(values, Mapping):
        return Profile.model_validate(values)
    backend = values.get("backend", "local")
    kind = _find_backend(backend) if isinstance(backend, str) else None
    if kind is None:
        raise _unknown_backend(backend)
    for name, other in BACKENDS.items():
        keys = [key for key in other.model_fields if key not in kind.model_fields]
        if any(values.get(key) != other.model_fields[key].default for key in keys if key in values):
            raise ValueError(f"only the backend {name} takes {_join(keys, 'and')}")
        # A default value asks for nothing.
        values = {key: value for key, value in values.items() if key not in keys}
    return kind.model_validate(values)


AnyProfile = Annotated[Profile, BeforeValidator(parse_profile)]
"""A profile whose backend decides which keys it has."""


def _find_backend(name: str) -> type[Profile] | None:
    """Return the class of a backend. Raises ValueError if the code of its package is invalid."""
    if name in BACKENDS:
        return BACKENDS[name]
    for entry in entry_points(group=_GROUP, name=name):
        try:
            kind = entry.load()
        except Exception as error:  # the code of a package can raise anything
            raise ValueError(
                f"the package of the backend {name} cannot be loaded: {error}"
            ) from error
        if isinstance(kind, type) and issubclass(kind, Profile):
            return kind
        raise ValueError(f"the entry point {name} of {_GROUP} is no subclass of Profile")
    return None


def _join(words: list[str], conjunction: str) -> str:
    *first, last = words
    return f"{', '.join(first)} {conjunction} {last}" if first else last


def _unknown_backend(backend: object) -> ValidationError:
    installed = [entry.name for entry in entry_points(group=_GROUP)]
    names = list(map(repr, [*BACKENDS, *installed]))
    return ValidationError.from_exception_data(
        "Profile",
        [
            {
                "type": "literal_error",
                "loc": ("backend",),
                "input": backend,
                "ctx": {"expected": _join(names, "or")},
            }
        ],
    )
