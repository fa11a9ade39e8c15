"""What nodes and drivers need to know of the source and the sink. Never import PySpark here."""

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
