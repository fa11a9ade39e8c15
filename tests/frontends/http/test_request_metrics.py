"""The duration of requests, as the middleware observes it."""

from __future__ import annotations

import asyncio

import httpx
from fastapi import FastAPI
from prometheus_client import CollectorRegistry, Histogram

from headrace.frontends.http.request_metrics import RequestMetrics


async def read_statuses(app: FastAPI, *paths: str) -> list[int]:
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://node") as client:
        return [(await client.get(path)).status_code for path in paths]


def test_an_unexpected_error_is_observed_as_500() -> None:
    registry = CollectorRegistry()
    durations = Histogram("seconds", "x", ["method", "route", "status"], registry=registry)
    app = FastAPI()
    app.add_middleware(RequestMetrics, durations=durations)

    @app.get("/fail")
    async def fail() -> None:
        raise RuntimeError

    @app.get("/succeed")
    async def succeed() -> None:
        pass

    assert asyncio.run(read_statuses(app, "/fail", "/succeed")) == [500, 200]
    for path, status in (("/fail", "500"), ("/succeed", "200")):
        labels = {"method": "GET", "route": path, "status": status}
        assert registry.get_sample_value("seconds_count", labels) == 1
