"""The settings that a node has in a deployment, as the node itself would load them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from headrace.config.settings import Settings, load


def load_settings(environment: Mapping[str, str]) -> Settings:
    """Return the settings of a node with these variables.

    Raises InvalidSetting for a variable that Headrace does not know.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        return load()
