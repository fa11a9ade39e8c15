"""Payloads of wake-ups."""

from __future__ import annotations

from headrace.store.remote_wake_ups import decode


def test_a_payload_has_the_topics_in_order() -> None:
    assert decode("sender\nsession:se_1\nlaunch", "reader") == ["session:se_1", "launch"]


def test_a_process_ignores_its_own_payloads() -> None:
    assert decode("sender\nsession:se_1", "sender") == []
