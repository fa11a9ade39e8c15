"""The formats that a result can be read in, each a stream of bytes over its rows."""
