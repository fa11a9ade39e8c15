"""Session variables, which are captured by value."""

from __future__ import annotations

from typing import Any

from headrace.driver.py4j_bridge import Py4JBridge
from headrace.driver.state.limits import make_entry
from headrace.model.session import EntryForm, SnapshotEntry

_CATALOG = "org.apache.spark.sql.catalyst.catalog"


def capture(jvm: Py4JBridge) -> list[SnapshotEntry]:
    """Return all variables, with their values as serialised Spark literals, exact for any type."""
    entries = [
        make_entry(
            definition.identifier().name(),
            EntryForm.JAVA,
            jvm.serialize(definition.currentValue()),
            definition.defaultValueSQL(),
        )
        for definition in _list_definitions(jvm)
    ]
    return sorted(entries, key=lambda entry: entry.name)


def restore(jvm: Py4JBridge, entry: SnapshotEntry) -> None:
    """Declare a variable with its captured value and default."""
    namespace = jvm.array(["session"])
    identifier_class = jvm.type("org.apache.spark.sql.connector.catalog.Identifier")
    identifier = identifier_class.of(namespace, entry.name)
    definition_class = jvm.type(f"{_CATALOG}.VariableDefinition")
    definition = definition_class(identifier, entry.default, jvm.deserialize(entry.body))
    _manager(jvm).create(jvm.sequence([entry.name]), definition, True)


def copy(source: Py4JBridge, target: Py4JBridge) -> None:
    """Declare the variables of one session in another session of the same JVM."""
    manager = _manager(target)
    for definition in _list_definitions(source):
        manager.create(source.sequence([definition.identifier().name()]), definition, True)


def _list_definitions(jvm: Py4JBridge) -> list[Any]:
    return jvm.list_of(jvm.field(_manager(jvm), "variables").values().toSeq())


def _manager(jvm: Py4JBridge) -> Any:
    return jvm.state.catalogManager().tempVariableManager()
