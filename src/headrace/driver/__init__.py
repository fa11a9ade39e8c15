"""The PySpark process that serves one session: `python -m headrace.driver BOOTSTRAP`.

No other package imports PySpark. The driver knows a node only by the messages of the link
(`model/messages.py`).
"""
