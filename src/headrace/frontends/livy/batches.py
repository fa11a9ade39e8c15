"""`/livy/batches`: SQL and Python files, each run by a batch session that ends with it.

Source of the format: apache/incubator-livy, BatchSessionServlet.scala and SessionServlet.scala.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response
from fastapi.concurrency import run_in_threadpool

from headrace.control.statements.batches import Batch, check_file
from headrace.frontends.http.api_route import json_response
from headrace.frontends.http.auth import Authenticated, node_of
from headrace.frontends.http.strict_json import StrictRoute
from headrace.frontends.livy.schemas import (
    LivyBatch,
    LivyBatchList,
    LivyBatchRequest,
    LivyLog,
    LivyMessage,
    LivyState,
)
from headrace.frontends.livy.sessions import (
    PREFIX,
    FirstLine,
    From,
    Size,
    cut_log,
    describe_driver,
    errors,
    read_log_lines,
)
from headrace.grammar.masking import mask_text

_MAX_BATCHES = 1000

BatchRef = Annotated[str, Path(description="number of the batch, or its name while it is live")]

router = APIRouter(prefix=f"{PREFIX}/batches", tags=["livy"], route_class=StrictRoute)


@router.post(
    "", status_code=201, response_model=LivyBatch, responses=errors(400, 404, 409, 415, 429)
)
def run_livy_batch(request: Request, caller: Authenticated, body: LivyBatchRequest) -> Response:
    """Run a SQL file or a Python file in a session of its own, which ends with it."""
    body.check_has_no_class()
    batch = node_of(request).batches.submit(
        caller, check_file(body.file, body.args), body.spec, owner=body.proxy_user, name=body.name
    )
    headers = {"Location": f"{PREFIX}/batches/{batch.session.number}"}
    return json_response(_describe(batch), 201, headers)


@router.get("", response_model=LivyBatchList)
def list_livy_batches(
    request: Request, caller: Authenticated, from_: From = 0, size: Size = 100
) -> Response:
    """List the batches of the caller, oldest first: the newest 1000, also those that ended."""
    page = node_of(request).batches.page(caller, limit=_MAX_BATCHES)
    listed = page[::-1]
    shown = [_describe(each) for each in listed[from_ : from_ + size]]
    return json_response(LivyBatchList(from_=from_, total=len(listed), sessions=shown))


@router.get("/{livy_batch}", response_model=LivyBatch, responses=errors(404, 409))
def show_livy_batch(request: Request, caller: Authenticated, livy_batch: BatchRef) -> Response:
    """Show a batch."""
    return json_response(_describe(node_of(request).batches.get(caller, livy_batch)))


@router.delete("/{livy_batch}", response_model=LivyMessage, responses=errors(404, 409))
def end_livy_batch(request: Request, caller: Authenticated, livy_batch: BatchRef) -> Response:
    """End a batch: its statements are cancelled. One that has ended stays as it is."""
    node_of(request).batches.close(caller, livy_batch)
    return json_response(LivyMessage(msg="deleted"))


@router.get("/{livy_batch}/state", response_model=LivyState, responses=errors(404, 409))
def show_livy_batch_state(
    request: Request, caller: Authenticated, livy_batch: BatchRef
) -> Response:
    """Show the state of a batch."""
    batch = node_of(request).batches.get(caller, livy_batch)
    return json_response(LivyState(id=batch.session.number, state=batch.state))


@router.get("/{livy_batch}/log", response_model=LivyLog, responses=errors(404, 409))
async def read_livy_batch_log(
    request: Request,
    caller: Authenticated,
    livy_batch: BatchRef,
    from_: FirstLine = -1,
    size: Size = 100,
) -> Response:
    """Read lines of the end of the driver's log, and then why the batch has failed."""
    node = node_of(request)
    batch = await run_in_threadpool(node.batches.get, caller, livy_batch)
    # The failure first: the log of a batch that ends meanwhile would otherwise have a gap.
    failure = await run_in_threadpool(node.batches.find_failure, caller, livy_batch)
    lines = await read_log_lines(node, caller, batch.session)
    lines += mask_text(failure or "").splitlines()
    return json_response(cut_log(batch.session, lines, from_, size))


def _describe(batch: Batch) -> LivyBatch:
    return LivyBatch(**describe_driver(batch.session), state=batch.state)
