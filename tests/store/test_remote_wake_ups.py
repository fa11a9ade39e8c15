"""Payloads of wake-ups."""

from __future__ import annotations

from headrace.store.notifications import decode_wake_ups


def test_a_payload_has_the_topics_in_order() -> None:
    assert decode_wake_ups("sender\nsession:se_1\nlaunch", "reader") == ["session:se_1", "launch"]


def test_a_process_ignores_its_own_payloads() -> None:
    assert decode_wake_ups("sender\nsession:se_1", "sender") == []
