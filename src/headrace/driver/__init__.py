"""The PySpark process that serves one session: `python -m headrace.driver BOOTSTRAP`.

No other package imports PySpark. The driver exchanges only the messages of the link with a
node (`model/messages.py`).
"""
