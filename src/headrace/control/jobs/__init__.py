"""Jobs on a node: plan manifests, change jobs in steps, keep their state."""
