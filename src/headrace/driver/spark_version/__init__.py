"""Everything that depends on the version of Spark: look here when Spark changes.

The modules of this package name classes and private members of Spark's JVM and of PySpark. All
other modules of the driver call their functions, and hold plans and frames without a look inside.
`tests/test_architecture.py` enforces it.
"""
