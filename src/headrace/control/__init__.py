"""Decisions of a node: submit, launch, cancel, close, take over. No module here uses Spark.

The services take a `Caller`, which authentication creates. They share one `NodeContext`.
"""
