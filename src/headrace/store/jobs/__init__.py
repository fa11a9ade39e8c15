"""Jobs: their versions, the changes of deployments, and savepoints."""
