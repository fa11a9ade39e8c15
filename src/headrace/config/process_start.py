"""The start of a process whose user waits for it: what its imports need not do."""

from __future__ import annotations

import gc
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec


def pause_garbage_collection() -> None:
    """Collect no garbage until `resume_garbage_collection`.

    Nearly all objects that imports create live as long as the process. To search them again and
    again for garbage takes a tenth of the time of the imports.
    """
    gc.disable()


def resume_garbage_collection() -> None:
    """Collect garbage from now on, and never search the objects that exist now."""
    gc.freeze()
    gc.enable()


class ModuleHidden(ModuleNotFoundError):
    """A package is hidden from the imports of this process. It may be installed."""


class _Hidden(MetaPathFinder):
    """Lets the import of one package fail."""

    def __init__(self, package: str) -> None:
        self._package = package

    def find_spec(self, fullname: str, *_where: object) -> ModuleSpec | None:
        if fullname == self._package:
            raise ModuleHidden(f"{fullname} is hidden in this process.", name=fullname)
        return None


def hide_pandas() -> None:
    """Let every import of pandas in this process fail.

    pyarrow imports pandas with its first conversion, if it is installed, to recognise the objects
    of pandas. A process without such objects saves a tenth of a second of processor time.
    """
    sys.meta_path.insert(0, _Hidden("pandas"))
