"""The ways into a node: each turns requests into calls of the services in `control`."""
