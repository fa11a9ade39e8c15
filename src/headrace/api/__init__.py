"""HTTP: requests of callers and drivers become calls of services, whose answers become responses."""
