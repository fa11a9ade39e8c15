"""`make bench`: Headrace beside Spark alone, Spark Connect and the Spark Thrift Server."""
