"""The HTTP mechanics that all routes share: callers, limits, errors, long polls."""
