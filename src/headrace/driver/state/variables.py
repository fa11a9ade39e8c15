"""Session variables, by value."""

from __future__ import annotations

from typing import Any

from headrace.driver.state.jvm import Jvm
from headrace.model.snapshot import Form, Part

_CATALOG = "org.apache.spark.sql.catalyst.catalog"


def take(jvm: Jvm) -> list[Part]:
    """Every variable. What is kept is the literal that Spark holds: any type, bit for bit."""
    definitions = jvm.field(_manager(jvm), "variables").values().toSeq()
    found = [
        Part(
            name=definition.identifier().name(),
            form=Form.JAVA,
            body=jvm.freeze(definition.currentValue()),
            default=definition.defaultValueSQL(),
        )
        for definition in jvm.list_of(definitions)
    ]
    return sorted(found, key=lambda part: part.name)


def bring_back(jvm: Jvm, part: Part) -> None:
    """Declares one with the value that it had."""
    place = jvm.array(["session"])
    identifier = jvm.type("org.apache.spark.sql.connector.catalog.Identifier").of(place, part.name)
    make = jvm.type(f"{_CATALOG}.VariableDefinition")
    definition = make(identifier, part.default, jvm.thaw(part.body))
    _manager(jvm).create(jvm.sequence([part.name]), definition, True)


def copy(source: Jvm, target: Jvm) -> None:
    """Declares the variables of one session in another of the same JVM."""
    manager = _manager(target)
    for definition in source.list_of(source.field(_manager(source), "variables").values().toSeq()):
        manager.create(source.sequence([definition.identifier().name()]), definition, True)


def _manager(jvm: Jvm) -> Any:
    return jvm.state.catalogManager().tempVariableManager()
