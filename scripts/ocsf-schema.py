#!/usr/bin/env python3
"""Writes crates/format/tests/fixtures/ocsf-1.5.0.schema.json: what the published OCSF schema asks of
the classes that `tacho convert --format ocsf` writes, as a JSON Schema.

Usage: pip download --no-deps ocsf-json-schema==1.2.0, unpack the wheel, then
       scripts/ocsf-schema.py UNPACKED/ocsf_json_schema/ocsf/1.5.0.json

That file is the compiled schema of https://github.com/ocsf/ocsf-schema, tag 1.5.0 (Apache-2.0).
Attributes of profiles, which our lines do not use, are left out, and so are objects that they do not
have: a line with any other attribute is invalid.
"""

import json
import sys
from pathlib import Path

CLASSES = ["base_event", "authentication", "application_lifecycle", "datastore_activity"]
OBJECTS = [
    "actor", "database", "metadata", "network_endpoint", "product", "query_info", "service",
    "session", "table", "user",
]
OUT = Path(__file__).parent.parent / "crates/format/tests/fixtures/ocsf-1.5.0.schema.json"
INTEGERS = {"integer_t", "long_t", "timestamp_t", "port_t"}


def value(attribute):
    """The schema of an attribute's value; None for an object that our lines do not have."""
    kind = attribute["type"]
    if kind == "object_t":
        name = attribute["object_type"]
        if name == "object":
            return {"type": "object"}
        if name not in OBJECTS:
            return None
        schema = {"$ref": f"#/$defs/{name}"}
    elif kind in INTEGERS:
        schema = {"type": "integer"}
        if "enum" in attribute:
            schema["enum"] = sorted(int(number) for number in attribute["enum"])
        if kind == "port_t":
            schema |= {"minimum": 0, "maximum": 65535}
    elif kind == "boolean_t":
        schema = {"type": "boolean"}
    elif kind in ("float_t", "json_t"):
        schema = {}
    else:
        schema = {"type": "string"}
    return {"type": "array", "items": schema} if attribute.get("is_array") else schema


def shape(item):
    """The schema of a class or an object."""
    attributes = {n: a for n, a in item["attributes"].items() if not a.get("profile")}
    values = {name: value(attribute) for name, attribute in attributes.items()}
    schema = {
        "type": "object",
        "properties": {name: v for name, v in sorted(values.items()) if v is not None},
        "required": sorted(n for n, a in attributes.items() if a["requirement"] == "required"),
        "additionalProperties": False,
    }
    for names in [item["constraints"]["at_least_one"]] if item.get("constraints") else []:
        schema["anyOf"] = [{"required": [name]} for name in names]
    return schema


def main():
    published = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    assert published["version"] == "1.5.0", published["version"]
    classes = []
    for name in CLASSES:
        schema = shape(published["classes"][name])
        schema["properties"]["class_uid"] = {"const": published["classes"][name]["uid"]}
        classes.append({"title": name} | schema)
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$comment": "Made by scripts/ocsf-schema.py from the OCSF schema 1.5.0 (Apache-2.0).",
        "oneOf": classes,
        "$defs": {name: shape(published["objects"][name]) for name in OBJECTS},
    }
    OUT.write_text(json.dumps(schema, indent=1, sort_keys=True) + "\n", encoding="utf-8")


main()
