"""Profiles: named backends with their Spark configuration. Part of the settings."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from headrace.text.durations import Duration

_REQUIRED_KEYS = {"emr-serverless": ("application_id", "execution_role_arn")}


def _default_start_timeout(values: dict[str, Any]) -> timedelta:
    slow = values.get("master") == "yarn" or values.get("backend") == "emr-serverless"
    return timedelta(seconds=600 if slow else 120)


class Section(BaseModel):
    """Base of the sections. Unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Profile(Section):
    """A named backend and Spark configuration for drivers."""

    backend: Literal["local", "spark-submit", "emr-serverless"] = "local"
    """Where drivers run."""
    master: str = "local[*]"
    """Spark master URL."""
    deploy_mode: Literal["client", "cluster"] = "client"
    """`client`: the driver runs on the host of the node; `cluster`: on a host of the cluster."""
    cluster_url: str | None = None
    """HTTP address of the web UI of a standalone master, or of YARN's ResourceManager."""
    conf: dict[str, str] = {}
    """Spark configuration of the drivers."""
    env: dict[str, str] = {}
    """Environment variables of the drivers."""
    inherit_env: list[str] = []
    """Names of variables that drivers inherit from the node, for example `AWS_PROFILE`. Without
    them, drivers inherit only what Java, Spark, Hadoop and Python need."""
    warm: int = Field(default=0, ge=0)
    """Number of warm drivers to keep ready for new sessions."""
    python: str | None = None
    """Python interpreter of the driver; default: that of the node."""
    start_timeout: Duration = Field(default_factory=_default_start_timeout)
    """Longest start of a driver. Default: 2 minutes; 10 minutes on YARN and EMR Serverless, where
    an application may have to wait for resources."""
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
    def _check_required(self) -> Profile:
        """Raise ValueError if the backend needs a key that is missing."""
        missing = [
            key for key in _REQUIRED_KEYS.get(self.backend, ()) if getattr(self, key) is None
        ]
        if missing:
            raise ValueError(f"{self.backend} needs {' and '.join(missing)}")
        return self

    @model_validator(mode="after")
    def _check_deploy_mode(self) -> Profile:
        """Raise ValueError for a deploy mode that the backend or master does not support."""
        if self.backend != "spark-submit":
            if self.deploy_mode == "cluster" or self.cluster_url is not None:
                raise ValueError("only the backend spark-submit takes deploy_mode and cluster_url")
        elif self.deploy_mode == "cluster":
            if self.master == "yarn" and self.cluster_url is None:
                raise ValueError(
                    "deploy_mode cluster on YARN needs cluster_url, the ResourceManager's address"
                )
            if self.master != "yarn" and not self.master.startswith("k8s://"):
                raise ValueError(
                    "deploy_mode cluster needs the master yarn or k8s://…;"
                    f" Spark cannot run Python in cluster mode on {self.master!r}"
                )
        return self

    @property
    def is_remote(self) -> bool:
        """Whether drivers run on other hosts, without the disk and loopback of their node."""
        return self.deploy_mode == "cluster" or self.backend == "emr-serverless"
