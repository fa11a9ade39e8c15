"""Pure data that all packages share. No I/O, no clock, no configuration."""
