"""HTTP: what callers and drivers send, put to control and the store, and how it is answered."""
