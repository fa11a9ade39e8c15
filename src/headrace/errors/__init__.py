"""All errors that Headrace raises, below one root class.

The docstring of a class is its default message. `code` is stable and part of the API, `status` is
the HTTP status, and `exit_code` is the exit code of a command (docs/reference/errors.md).
"""

# A new error needs no entry here.
from headrace.errors.base import *  # noqa: F403
from headrace.errors.jobs import *  # noqa: F403
from headrace.errors.refusals import *  # noqa: F403
from headrace.errors.statements import *  # noqa: F403
from headrace.errors.streams import *  # noqa: F403
