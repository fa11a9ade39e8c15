"""What nodes send to other systems: webhooks and OpenLineage events."""
