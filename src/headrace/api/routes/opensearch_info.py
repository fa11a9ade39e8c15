"""`/`: what a client of OpenSearch asks a cluster for first (`info` and `ping`).

Both calls need the token, as OpenSearch requires its credentials for both.
"""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from headrace import __version__
from headrace.api.context import node_of
from headrace.api.http.opensearch_errors import INFO_PATH as PATH
from headrace.api.http.responses import json_response
from headrace.api.http.schemas import ResponseModel

SERVED_VERSION = "3.0.0"
"""Version of OpenSearch whose async query API a node serves."""

router = APIRouter(tags=["opensearch"])


class ClusterVersion(ResponseModel):
    """The version that clients of OpenSearch compare. Every field of OpenSearch is present."""

    distribution: str
    """Always `opensearch`."""
    number: str
    """Version of OpenSearch whose async query API the node serves."""
    build_type: str
    """Always `unknown`: this is not a build of OpenSearch."""
    build_hash: str
    """Always `unknown`."""
    build_date: str
    """Always `unknown`."""
    build_snapshot: bool
    """Always false."""
    lucene_version: str
    """Always `none`: there is no index."""
    minimum_wire_compatibility_version: str
    """Oldest version of OpenSearch whose clients the node serves."""
    minimum_index_compatibility_version: str
    """The same version: there is no index."""


class ClusterInfo(ResponseModel):
    """What a client of OpenSearch learns about the cluster."""

    name: str
    """Id of the node that answers."""
    cluster_name: str
    """Always `headrace`."""
    cluster_uuid: str
    """Always `_na_`, as for a cluster of OpenSearch without an id."""
    version: ClusterVersion
    """Version of OpenSearch that clients see."""
    tagline: str
    """Name and version of Headrace."""


@router.get(PATH, response_model=ClusterInfo)
async def show_cluster_info(request: Request) -> Response:
    """Answer `info()` of OpenSearch's clients."""
    return json_response(_describe(node_of(request).id))


@router.head(PATH, response_class=Response, response_description="The node answers.")
async def ping_cluster() -> Response:
    """Answer `ping()` of OpenSearch's clients: 200 without a body."""
    return Response(media_type="application/json")


def _describe(node_id: str) -> ClusterInfo:
    return ClusterInfo(
        name=node_id,
        cluster_name="headrace",
        cluster_uuid="_na_",
        version=ClusterVersion(
            distribution="opensearch",
            number=SERVED_VERSION,
            build_type="unknown",
            build_hash="unknown",
            build_date="unknown",
            build_snapshot=False,
            lucene_version="none",
            minimum_wire_compatibility_version="2.0.0",
            minimum_index_compatibility_version="2.0.0",
        ),
        tagline=f"Headrace {__version__}: SQL on Apache Spark",
    )
