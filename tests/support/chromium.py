"""Chromium, as Playwright drives it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser as Chromium
from playwright.sync_api import Page, sync_playwright


@contextmanager
def running_chromium() -> Iterator[Chromium]:
    """Yield Debian's Chromium without a window."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        yield browser
        browser.close()


def watch(page: Page) -> list[str]:
    """Return what the browser reports from now on: refused content, errors, foreign requests."""
    reports: list[str] = []
    page.on("console", lambda message: reports.append(message.text))
    page.on("pageerror", lambda error: reports.append(str(error)))

    def check(request: Any) -> None:
        if not request.url.startswith(("http://127.0.0.1:", "http://localhost:")):
            reports.append(f"request to {request.url}")

    page.on("request", check)
    return reports
