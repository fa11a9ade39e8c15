"""Which launchers a node has: those that need nothing more, and others that a profile asks for."""

from __future__ import annotations

import importlib
import importlib.util

from headrace.control.launchers.base import Launcher
from headrace.control.launchers.local import LocalLauncher
from headrace.control.launchers.spark_submit import SparkSubmitLauncher
from headrace.errors import InvalidSetting
from headrace.settings import Settings
from headrace.storage.locations import local_path


def launchers(settings: Settings) -> list[Launcher]:
    """Raises InvalidSetting when a backend lacks what it needs on this node."""
    home = settings.home.absolute()
    found: list[Launcher] = [
        LocalLauncher(home),
        SparkSubmitLauncher(home, settings.results_location),
    ]
    asking = [name for name, one in settings.profiles.items() if one.backend == "emr-serverless"]
    if asking:
        found.append(_emr_serverless(settings, asking[0]))
    return found


def _emr_serverless(settings: Settings, profile: str) -> Launcher:
    """Imported here only: its library, boto3, is an extra."""
    what = f"Setting 'profiles.{profile}.backend': emr-serverless needs"
    if importlib.util.find_spec("boto3") is None:
        raise InvalidSetting(f"{what} boto3 on the node: pip install 'headrace[emr]'.")
    if local_path(settings.results_location) is not None:
        raise InvalidSetting(
            f"{what} a results.location that its drivers reach, such as s3://bucket/results;"
            f" it is {settings.results_location}."
        )
    module = importlib.import_module("headrace.control.launchers.emr_serverless")
    launcher: Launcher = module.EmrServerlessLauncher(settings.home.absolute())
    return launcher
