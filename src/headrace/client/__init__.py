"""HTTP client for a node. It imports neither PySpark nor the packages of a server."""
