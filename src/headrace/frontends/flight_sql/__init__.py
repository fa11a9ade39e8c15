"""Arrow Flight SQL: `server` answers it over gRPC, by the services of `control`."""
