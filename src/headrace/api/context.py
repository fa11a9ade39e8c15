"""The node and the long polls of a request."""

from __future__ import annotations

from fastapi import Request

from headrace.api.batched_reads import BatchedReads, BatchedRenewals, Readiness
from headrace.api.event_feed import EventFeed
from headrace.api.link_calls import LinkCalls
from headrace.api.waiting import LongPolls
from headrace.control.node import Node
from headrace.model.statement import Statement


def node_of(request: Request) -> Node:
    """Return the node that answers a request."""
    node: Node = request.app.state.node
    return node


def long_polls_of(request: Request) -> LongPolls:
    """Return the long polls of the node that answers a request."""
    long_polls: LongPolls = request.app.state.long_polls
    return long_polls


def statement_reads_of(request: Request) -> BatchedReads[Statement]:
    """Return the reads of statements of the node that answers a request."""
    reads: BatchedReads[Statement] = request.app.state.statement_reads
    return reads


def link_calls_of(request: Request) -> LinkCalls:
    """Return the calls of drivers that the node works on."""
    link_calls: LinkCalls = request.app.state.link_calls
    return link_calls


def event_feed_of(request: Request) -> EventFeed:
    """Return the feed of the event streams of the node that answers a request."""
    event_feed: EventFeed = request.app.state.event_feed
    return event_feed


def renewals_of(request: Request) -> BatchedRenewals:
    """Return the renewals of drivers that the node works on."""
    renewals: BatchedRenewals = request.app.state.renewals
    return renewals


def readiness_of(request: Request) -> Readiness:
    """Return the checks whether the node that answers a request is ready."""
    readiness: Readiness = request.app.state.readiness
    return readiness
