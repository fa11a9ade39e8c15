"""Settings, profiles, the policy of Spark options, and the home of a node."""
