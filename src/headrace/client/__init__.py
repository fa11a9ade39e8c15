"""Talking to a node over HTTP, from outside. Needs neither PySpark nor a server's packages."""
