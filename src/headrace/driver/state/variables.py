"""Session variables, by value."""

from __future__ import annotations

from typing import Any

from headrace.driver.py4j_bridge import Py4JBridge
from headrace.model.snapshot import EntryForm, SnapshotEntry

_CATALOG = "org.apache.spark.sql.catalyst.catalog"


def capture(jvm: Py4JBridge) -> list[SnapshotEntry]:
    """Every variable. What is kept is the literal that Spark holds: any type, bit for bit."""
    definitions = jvm.field(_manager(jvm), "variables").values().toSeq()
    found = [
        SnapshotEntry(
            name=definition.identifier().name(),
            form=EntryForm.JAVA,
            body=jvm.serialize(definition.currentValue()),
            default=definition.defaultValueSQL(),
        )
        for definition in jvm.list_of(definitions)
    ]
    return sorted(found, key=lambda part: part.name)


def restore(jvm: Py4JBridge, part: SnapshotEntry) -> None:
    """Declares one with the value that it had."""
    place = jvm.array(["session"])
    identifier = jvm.type("org.apache.spark.sql.connector.catalog.Identifier").of(place, part.name)
    make = jvm.type(f"{_CATALOG}.VariableDefinition")
    definition = make(identifier, part.default, jvm.deserialize(part.body))
    _manager(jvm).create(jvm.sequence([part.name]), definition, True)


def copy(source: Py4JBridge, target: Py4JBridge) -> None:
    """Declares the variables of one session in another of the same JVM."""
    manager = _manager(target)
    for definition in source.list_of(source.field(_manager(source), "variables").values().toSeq()):
        manager.create(source.sequence([definition.identifier().name()]), definition, True)


def _manager(jvm: Py4JBridge) -> Any:
    return jvm.state.catalogManager().tempVariableManager()
