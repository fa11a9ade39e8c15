"""Sessions: their rows, the leases of their drivers, takeovers and warm drivers."""
