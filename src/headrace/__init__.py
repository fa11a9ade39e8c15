"""A durable control plane for SQL on Apache Spark."""

__version__ = "0.1.0"
