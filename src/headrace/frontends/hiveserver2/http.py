"""HiveServer2 over HTTP: each request carries one call, and each response its answer."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from headrace.frontends.hiveserver2.calls import HiveServer2Calls
from headrace.frontends.hiveserver2.wire import read_call
from headrace.frontends.http.auth import Authenticated, node_of

PATH = "/cliservice"
MEDIA_TYPE = "application/x-thrift"

router = APIRouter(include_in_schema=False)


@router.post(PATH)
@router.post(f"{PATH}/", name="answer_call_of_pyhive")
async def answer_call(request: Request, caller: Authenticated) -> Response:
    """Answer a call."""
    state = request.app.state
    if not hasattr(state, "hiveserver2"):
        state.hiveserver2 = HiveServer2Calls(node_of(request))
    message = await request.body()
    content = await state.hiveserver2.answer(caller, read_call(message))
    return Response(content, media_type=MEDIA_TYPE)
