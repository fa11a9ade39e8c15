"""Wake-ups inside a process: none is lost, and nobody is left behind."""

from __future__ import annotations

import threading
import time

import pytest

from headrace.store.signals import Signals


def test_a_wake_before_the_wait_is_kept() -> None:
    signals = Signals()
    with signals.subscribe("topic") as subscription:
        signals.publish(["topic"])
        signals.publish(["topic"])
        assert subscription.wait(0)
        assert not subscription.wait(0), "several wakes become one"


def test_a_wait_ends_with_the_wake() -> None:
    signals = Signals()
    with signals.subscribe("topic") as subscription:
        thread = threading.Thread(target=signals.publish, args=[["topic"]])
        started = time.monotonic()
        thread.start()
        assert subscription.wait(30)
        assert time.monotonic() - started < 10
        thread.join()


def test_a_wait_runs_out() -> None:
    with Signals().subscribe("topic") as subscription:
        assert not subscription.wait(0.01)


def test_only_the_topic_is_woken() -> None:
    signals = Signals()
    with signals.subscribe("one") as one, signals.subscribe("two") as two:
        signals.publish(["two", "three"])
        assert not one.wait(0)
        assert two.wait(0)


def test_all_who_wait_are_woken() -> None:
    signals = Signals()
    woken: list[int] = []
    with (
        signals.subscribe("one", lambda: woken.append(1)),
        signals.subscribe("one", lambda: woken.append(2)),
        signals.subscribe("two", lambda: woken.append(3)) as two,
    ):
        signals.publish(["one"])
        assert sorted(woken) == [1, 2]
        signals.publish_all()
        assert sorted(woken) == [1, 1, 2, 2, 3]
        assert two.wait(0)


def test_a_failing_callback_holds_nobody_up(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise LookupError("no such loop")

    signals = Signals()
    with signals.subscribe("topic", fail) as first, signals.subscribe("topic") as second:
        signals.publish(["topic"])
        assert first.wait(0)
        assert second.wait(0)
    assert "no such loop" in caplog.text


def test_topics_go_with_their_last_subscription() -> None:
    signals = Signals()
    first, second = signals.subscribe("topic"), signals.subscribe("topic")
    assert signals.topics == 1
    first.close()
    first.close()
    assert signals.topics == 1
    second.close()
    assert signals.topics == 0
    signals.publish(["topic"])
    assert signals.topics == 0


def test_no_wake_is_lost_between_two_threads() -> None:
    """Each side wakes the other in turn: a lost wake would leave both waiting."""
    signals = Signals()
    rounds = 2000
    with signals.subscribe("ping") as ping, signals.subscribe("pong") as pong:

        def answer() -> None:
            for _ in range(rounds):
                assert ping.wait(20)
                signals.publish(["pong"])

        thread = threading.Thread(target=answer)
        thread.start()
        for _ in range(rounds):
            signals.publish(["ping"])
            assert pong.wait(20)
        thread.join()
