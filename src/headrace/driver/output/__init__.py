"""Turning a DataFrame into a result, in one pass: the query never runs twice."""

from headrace.driver.output.options import OutputOptions
from headrace.driver.output.write import write_result

__all__ = ["OutputOptions", "write_result"]
