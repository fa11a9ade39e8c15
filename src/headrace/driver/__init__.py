"""The PySpark process that serves one session: `python -m headrace.driver BOOTSTRAP`.

The only importer of PySpark. It knows the node by the link's messages alone.
"""
