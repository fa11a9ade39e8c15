"""Measurements in interleaved rounds, so that a load on the machine affects all systems alike."""

from __future__ import annotations

import statistics
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import psutil

MEDIAN_OF = 30
"""Smallest number of rounds for a median."""

Measurement = Callable[[], float]
"""Performs an action once and returns its seconds, or its rate per second."""


@dataclass(frozen=True)
class Sample:
    """Values of one measurement, in the order of the rounds."""

    values: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def spread(self) -> tuple[float, float]:
        """The 10th and the 90th percentile."""
        tenths = statistics.quantiles(self.values, n=10)
        return tenths[0], tenths[-1]


def interleaved(
    measurements: Mapping[str, Measurement], *, warm_up: int, rounds: int
) -> dict[str, Sample]:
    """Run every measurement once in each round and return the samples by name.

    The first measurement of a round is another one in each round. The values of the first `warm_up`
    rounds are discarded.
    """
    names = list(measurements)
    samples = {name: Sample() for name in names}
    for number in range(warm_up + rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            value = measurements[name]()
            if number >= warm_up:
                samples[name].values.append(value)
    return samples


class MemoryGrowth:
    """Largest growth of the resident memory of a process, in bytes."""

    def __init__(self) -> None:
        self.bytes = 0


@contextmanager
def memory_growth(process: psutil.Process) -> Iterator[MemoryGrowth]:
    """Measure the memory of a process every 20 ms during the block."""
    growth, ended = MemoryGrowth(), threading.Event()
    initial = process.memory_info().rss

    def watch() -> None:
        while not ended.wait(0.02):
            growth.bytes = max(growth.bytes, process.memory_info().rss - initial)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield growth
    finally:
        ended.set()
        watcher.join()
