"""HiveServer2's Thrift protocol: `calls` answers it, over HTTP and over binary connections."""
