"""Parametrize a test by several factors, of whose combinations `make test` runs a part."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import pytest
from tests.support.lakes import LAKES, Lake


def for_pairs(shift: int = 0, **factors: Mapping[str, object]) -> pytest.MarkDecorator:
    """Run a test with all combinations of values.

    For each combination of the other factors, `make test` runs one value of the smallest factor:
    of three factors, it runs each pair of values, and of two a part of the pairs. `make chaos` runs
    the rest. Tests that differ in `shift` run different combinations.

    Args:
        shift: Chooses the part.
        factors: By the name of the argument, its values by their ids.
    """
    modulus = min(map(len, factors.values()))
    numbered = (enumerate(values.items()) for values in factors.values())
    cases = []
    for combination in itertools.product(*numbered):
        total = shift + sum(number for number, _ in combination)
        lakes = [value for _, (_, value) in combination if isinstance(value, Lake)]
        is_chosen = total % modulus == 0 and not any(lake.is_second for lake in lakes)
        cases.append(
            pytest.param(
                *(value for _, (_, value) in combination),
                id="-".join(name for _, (name, _) in combination),
                marks=[] if is_chosen else [pytest.mark.matrix],
            )
        )
    return pytest.mark.parametrize(
        tuple(factors), cases, indirect=[name for name in factors if name == "lake"]
    )


EVERY_LAKE = {lake.name: lake for lake in sorted(LAKES, key=lambda lake: lake.is_second)}
"""Values of a factor `lake`."""


def lakes(*names: str) -> dict[str, Lake]:
    """Return values of a factor `lake`."""
    return {name: EVERY_LAKE[name] for name in names}
