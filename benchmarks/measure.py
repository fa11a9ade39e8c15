"""Interleaved rounds: whatever disturbs the machine disturbs everyone alike."""

from __future__ import annotations

import statistics
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import psutil

MEDIAN_OF = 30
"""The least number of rounds that a median is taken of."""

Way = Callable[[], float]
"""Does a thing once and gives the seconds it took, or how many a second there were."""


@dataclass(frozen=True)
class Sample:
    """All the figures of one way, in the order of the rounds."""

    values: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def spread(self) -> tuple[float, float]:
        """The 10th and the 90th percentile."""
        tenths = statistics.quantiles(self.values, n=10)
        return tenths[0], tenths[-1]


def interleaved(ways: Mapping[str, Way], *, warm_up: int, rounds: int) -> dict[str, Sample]:
    """Every way once in each round; who begins moves on by one each round."""
    names = list(ways)
    samples = {name: Sample() for name in names}
    for number in range(warm_up + rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            value = ways[name]()
            if number >= warm_up:
                samples[name].values.append(value)
    return samples


class Growth:
    """How far a process's resident memory rose above where it began, in bytes."""

    def __init__(self) -> None:
        self.bytes = 0


@contextmanager
def memory_growth(process: psutil.Process) -> Iterator[Growth]:
    """Watches a process every 20 ms for the length of the block."""
    growth, ended = Growth(), threading.Event()
    begun_with = process.memory_info().rss

    def watch() -> None:
        while not ended.wait(0.02):
            growth.bytes = max(growth.bytes, process.memory_info().rss - begun_with)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield growth
    finally:
        ended.set()
        watcher.join()
