"""HiveServer2 over HTTP: each request carries one call, and each response its answer."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headrace.frontends.hiveserver2.calls import HiveServer2Calls
from headrace.frontends.hiveserver2.wire import read_call
from headrace.frontends.http.auth import node_of

PATH = "/cliservice"
MEDIA_TYPE = "application/x-thrift"


async def answer_call(request: Request) -> Response:
    """Answer a call."""
    state = request.app.state
    if not hasattr(state, "hiveserver2"):
        state.hiveserver2 = HiveServer2Calls(node_of(request))
    call = read_call(await request.body())
    content = await state.hiveserver2.answer(request.state.caller, call, may_repeat=True)
    return Response(content, media_type=MEDIA_TYPE)


# A plain route of Starlette: Hive's JDBC 2.3 makes a call for each row, and FastAPI's own machinery
# would take as long as the answer. PyHive's path ends with a slash.
ROUTES = [Route(path, answer_call, methods=["POST"]) for path in (PATH, f"{PATH}/")]
