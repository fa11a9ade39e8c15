"""The wire format of OpenSearch's async query API."""
