"""Streaming queries, streams and materialized views."""
