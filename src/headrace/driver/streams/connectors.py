"""The classes of sources and sinks: whether a session has them, and whether Spark can use them."""

from __future__ import annotations

import difflib
from collections.abc import Collection

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from headrace.driver.failures import InvalidStream, find_condition, find_sqlstate
from headrace.driver.spark_version.connectors import PACKAGES, find_data_source, is_data_source

_NOT_FOUND = "DATA_SOURCE_NOT_FOUND"


def check_connector(session: SparkSession, provider: str, package: str | None = None) -> None:
    """Raise InvalidStream if the jars of a listed provider are not on the session's class path.

    Args:
        package: Maven package of a provider that another package adds.
    """
    package = package or PACKAGES.get(provider.lower())
    if package is None:
        return
    try:
        find_data_source(session, provider)
    except (AnalysisException, Py4JJavaError) as error:
        raise InvalidStream(
            f"The session cannot read or write {provider.lower()}, because the jars of {package}"
            " are missing. Add the package to spark.jars.packages in the configuration of the"
            " profile or of a new session."
        ).with_condition(find_condition(error), find_sqlstate(error)) from error


def check_provider(
    session: SparkSession, provider: str, listed: Collection[str], *, hint: str = ""
) -> None:
    """Raise an error if Spark has no data source with the name or class of a provider.

    Args:
        listed: Names of the providers that Headrace lists, for a suggestion.
        hint: A further sentence for the error of a provider that is missing.

    Raises:
        ProviderNotFound: With the condition of Spark's own error.
        InvalidStream: The class is no data source.
        Py4JJavaError: The class cannot be loaded.
    """
    try:
        found = find_data_source(session, provider)
    except (AnalysisException, Py4JJavaError) as error:
        if _NOT_FOUND not in str(error):
            raise
        raise _build_not_found(provider, listed, hint) from error
    if is_data_source(session, found):
        return
    raise InvalidStream(
        f"{found.getName()} is a class, but no data source of Spark: it cannot be created, or it"
        " implements none of Spark's interfaces for data sources, such as TableProvider. Write the"
        " class or the short name that the documentation of the connector gives for format()."
    )


class ProviderNotFound(InvalidStream):
    """Spark finds no data source with the name of a provider."""

    code = "provider_not_found"
    condition = _NOT_FOUND
    sqlstate = "42K02"


def _build_not_found(provider: str, listed: Collection[str], hint: str) -> ProviderNotFound:
    near = difflib.get_close_matches(provider.lower(), listed, 1)
    meant = f" Did you mean {near[0]}?" if near else ""
    meant += f" {hint}" if hint else ""
    return ProviderNotFound(
        f"Spark finds no data source {provider} in this session.{meant} To use a connector, add its"
        " Maven package to spark.jars.packages, or its jar to spark.jars, in the configuration of"
        " the profile or of a new session. A data source in Python needs an entry point of the"
        " group headrace.data_sources where drivers run (docs/guides/extend.md)."
    )
