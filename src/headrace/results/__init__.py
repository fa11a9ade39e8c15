"""Rows of results: Arrow layout, reading and formats. This package does not import PySpark."""
