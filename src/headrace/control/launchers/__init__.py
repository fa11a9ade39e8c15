"""Where drivers run: one launcher for each backend, behind the contract in `contract.py`."""
