"""Options that only tune a source or a sink."""

from __future__ import annotations

import pytest

from headrace.model.connector_options import is_tuning_option


@pytest.mark.parametrize(
    "key",
    [
        *("maxOffsetsPerTrigger", "MAXFILESPERTRIGGER", "rowsPerSecond", "kafka.group.id"),
        *("password", "user", "driver", "headrace.retry.enabled", "pstl.retry.max.attempts"),
        "checkpointLocation",
    ],
)
def test_rates_access_and_retries_only_tune(key: str) -> None:
    assert is_tuning_option(key)


@pytest.mark.parametrize(
    "key",
    [
        *("kafka.bootstrap.servers", "Kafka.Bootstrap.Servers", "subscribe", "path", "url"),
        *("startingOffsets", "format", "dbtable", "topic", "unknown"),
    ],
)
def test_other_options_say_which_data_is_read_or_written(key: str) -> None:
    assert not is_tuning_option(key)
