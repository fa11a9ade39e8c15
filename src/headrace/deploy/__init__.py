"""What a deployment does, as pure functions: manifests, fingerprints, and decisions about jobs."""
