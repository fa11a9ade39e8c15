"""What a node decides: submit, launch, cancel, close, take over. It never touches Spark.

Services take a `Caller`, which authentication creates, and a node's parts share a `NodeContext`.
"""
