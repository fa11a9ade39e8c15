"""What a node decides: submit, launch, cancel, close, sweep. It never touches Spark."""
