"""The surface of an OpenAPI document: what callers rely on, in its order, without its prose.

``surface(document)`` is a few lines an operation and one a field, to be compared with a reviewed
copy beside the test, so that a field that became optional, a limit or a status shows in the diff.
Of a field's words it shows the beginning of its example, and whether there are none.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.helpers.reviewed import check_reviewed

PROSE = {"title", "description", "examples", "example", "summary"}

Json = Mapping[str, Any]


def check_surface(document: Json, reviewed: Path) -> None:
    """Fail with the difference if the document's surface is another one than the reviewed copy."""
    check_reviewed(surface(document), reviewed)


def check_described(document: Json) -> None:
    """Fail where an operation has no words or no name of its own, an example is no value of its
    field, or an error code has no row."""
    found = [operation for each in document["paths"].values() for operation in each.values()]
    for operation in found:
        assert operation["summary"], operation
        assert operation["description"], operation
    assert len({operation["operationId"] for operation in found}) == len(found)
    for schema in document["components"]["schemas"].values():
        for field in schema.get("properties", {}).values():
            pattern = field.get("pattern", "")
            assert all(re.search(pattern, str(each)) for each in field.get("examples", ())), field
    for code in document["components"]["headers"]["X-Error-Code"]["schema"]["enum"]:
        assert f"\n| `{code}` | " in document["info"]["description"]


def surface(document: Json) -> Iterator[str]:
    """Return one line for each operation, parameter, body, field and header."""
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            security = operation.get("security", document.get("security", []))
            schemes = ", ".join(name for scheme in security for name in scheme) or "open"
            tags = ", ".join(operation["tags"])
            yield f"{method.upper()} {path} ({schemes}) {tags}: {operation['summary']}"
            for parameter in operation.get("parameters", ()):
                mark = "" if parameter.get("required") else "?"
                name = f"{parameter['in']} {parameter['name']}{mark}"
                about = {**parameter["schema"], **parameter}
                yield f"  {name}: {_text(parameter['schema'])}{_words(about)}"
            if body := operation.get("requestBody"):
                yield f"  body{'' if body.get('required') else '?'}: {_content(body)}"
            answers: dict[str, list[str]] = {}
            for status, response in operation["responses"].items():
                headers = "".join(f" {name}" for name in sorted(response.get("headers", ())))
                answers.setdefault(_content(response) + headers, []).append(status)
            for content, statuses in answers.items():
                yield f"  {' '.join(statuses)}: {content}"
    components = document.get("components", {})
    for name, schema in sorted(components.get("schemas", {}).items()):
        yield f"{name}: {_text(schema)}"
        yield from _fields(schema, "  ")
    for name, header in sorted(components.get("headers", {}).items()):
        yield f"header {name}{'' if header.get('required') else '?'}: {_text(header['schema'])}"
    for name, scheme in sorted(components.get("securitySchemes", {}).items()):
        yield f"security {name}: {_text(scheme)}"


def _fields(schema: Json, indent: str) -> Iterator[str]:
    for field, about in schema.get("properties", {}).items():
        mark = "" if field in schema.get("required", ()) else "?"
        yield f"{indent}{field}{mark}: {_text(about)}{_words(about)}"
        for nested in (about, about.get("items", {}), about.get("additionalProperties", {})):
            if isinstance(nested, Mapping):
                yield from _fields(nested, indent + "  ")


def _words(about: Json) -> str:
    """Whether a field is described, and the beginning of its example."""
    example = "".join(f" e.g. {str(each)[:12]}" for each in about.get("examples", ()))
    return example if "description" in about or "$ref" in about else f"{example} (no words)"


def _content(answer: Json) -> str:
    return ", ".join(
        f"{kind} {_text(about.get('schema', {}))}".strip()
        for kind, about in sorted(answer.get("content", {}).items())
    )


def _text(schema: Json) -> str:
    """A schema in one line: its type, then its limits."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    parts = []
    for name, value in sorted(schema.items(), key=lambda item: (item[0] != "type", item[0])):
        if name in PROSE or name in ("properties", "required"):
            continue
        if name in ("anyOf", "oneOf", "allOf"):
            parts.append("(" + f" {name} ".join(_text(each) for each in value) + ")")
        elif name in ("items", "additionalProperties") and isinstance(value, Mapping):
            parts.append(f"{name}({_text(value)})")
        elif name == "enum":
            parts.append("|".join(str(each) for each in value))
        else:
            parts.append(str(value) if name == "type" else f"{name}={value}")
    return " ".join(parts)
