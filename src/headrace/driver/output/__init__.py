"""Turning a DataFrame into a result, in one pass: the query never runs twice."""

from headrace.driver.output.spec import OutputSpec
from headrace.driver.output.write import write_result

__all__ = ["OutputSpec", "write_result"]
