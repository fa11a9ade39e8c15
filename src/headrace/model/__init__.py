"""Pure data: what every room speaks about. No I/O, no clock, no configuration."""
