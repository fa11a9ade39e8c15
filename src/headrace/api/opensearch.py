"""`/_plugins/_async_query`: the wire format of OpenSearch's async query API (shared peers.md)."""

from __future__ import annotations

from fastapi import APIRouter

router = APIRouter(prefix="/_plugins/_async_query", tags=["opensearch"])
