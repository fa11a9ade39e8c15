"""The native HTTP API: bodies, responses, and one module of routes for each resource."""
