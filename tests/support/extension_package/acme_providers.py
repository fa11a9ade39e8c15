"""What Headrace needs to know of the package. Never import PySpark here."""

from typing import Literal

from headrace.config.profiles import Profile
from headrace.model.stream_providers import APPEND, Guarantee, StreamSink, StreamSource

TICKS = StreamSource(
    name="ticks",
    options=frozenset({"count"}),
    required=(("count",),),
    reader="acme_driver:read_ticks",
)
SPOOL = StreamSink(
    name="spool",
    modes=(APPEND,),
    options=frozenset({"folder"}),
    required=(("folder",),),
    place_options=("folder",),
    guarantee=Guarantee.AT_LEAST_ONCE,
    writer="acme_driver:SpoolWriter",
)


class NicedProfile(Profile):
    """A profile whose drivers run on the host of the node, with a lower priority."""

    launcher = "acme_node:NicedLauncher"

    backend: Literal["niced"] = "niced"
    niceness: int = 10
