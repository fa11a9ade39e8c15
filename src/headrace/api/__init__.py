"""The HTTP server: requests of callers and drivers become calls of services in `control`."""
