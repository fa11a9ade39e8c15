"""Write the rows of a DataFrame as a result. The query runs once."""

from headrace.driver.output.write import OutputOptions, write_result

__all__ = ["OutputOptions", "write_result"]
