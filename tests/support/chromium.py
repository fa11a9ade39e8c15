"""Chromium, as Playwright drives it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser as Chromium
from playwright.sync_api import Page, expect, sync_playwright

EXPECT_SECONDS = 30
"""Longest time for which `expect` waits.

A page that follows its objects asks again after 3 s, or 5 s after a failure. The limit of
Playwright, 5 s, leaves too little for a machine with much other work.
"""

COMPLETION_DELAY = 200
"""Milliseconds after which a list of names takes keys. CodeMirror ignores them for the first 75."""


@contextmanager
def running_chromium() -> Iterator[Chromium]:
    """Yield Debian's Chromium without a window."""
    expect.set_options(timeout=1000 * EXPECT_SECONDS)
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


def pause_clock(page: Page) -> None:
    """Let the time of a page pass by `page.clock.run_for` alone. The clock must be installed.

    An installed clock also runs by itself: what a page may do within a time would depend on the
    speed of the machine.
    """
    page.clock.pause_at(page.evaluate("Date.now() / 1000") + 1)
