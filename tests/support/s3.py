"""Hadoop's file system for S3 in the Spark of a test."""

from __future__ import annotations

from pathlib import Path

import pytest

_JARS = Path(__file__).parents[2] / ".tools" / "s3"


def s3_jars() -> list[Path]:
    """Return the jars of the file system; none if they were not downloaded."""
    return sorted(_JARS.glob("*.jar"))


def s3_conf(endpoint: str) -> dict[str, str]:
    """Return the configuration of a session for a server at this address.

    Fails the test if the jars were not downloaded.
    """
    if not s3_jars():
        pytest.fail(
            "The jars of Hadoop's file system for S3 are missing. Run scripts/setup-jars s3."
        )
    return {
        "fs.s3a.endpoint": endpoint,
        "fs.s3a.endpoint.region": "eu-central-1",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.connection.ssl.enabled": "false",
        "fs.s3a.access.key": "testing",
        "fs.s3a.secret.key": "testing",
        "fs.s3a.aws.credentials.provider": (
            "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
        ),
        "fs.s3a.attempts.maximum": "2",
    }
