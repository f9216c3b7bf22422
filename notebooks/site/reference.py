"""The pages of the reference, written from what the code says of itself."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from inspect import getdoc
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import click

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("mpcsim", "node")
JSON = "application/json"


# ---------------------------------------------------------------------- packages and modules


def packages() -> list[str]:
    """The names of all packages."""
    return [name for package in PACKAGES for name in modules(package) if is_package(name)]


def modules(package: str) -> Iterator[str]:
    """The names of a package and of all in it, each package before what it holds."""
    yield package
    for path in sorted(ROOT.joinpath(*package.split(".")).iterdir()):
        if (path / "__init__.py").is_file():
            yield from modules(f"{package}.{path.name}")
        elif path.suffix == ".py" and not path.stem.startswith("__"):
            yield f"{package}.{path.stem}"


def is_package(module: str) -> bool:
    """Whether it holds others."""
    return ROOT.joinpath(*module.split("."), "__init__.py").is_file()


def package_page(package: str) -> str:
    """A package: what it hands on, itself, its modules, and where its packages are."""
    inside = [name for name in modules(package) if name.rpartition(".")[0] == package]
    below = [name for name in inside if is_package(name)]
    parts = [
        _heading(package, "="),
        # What it hands on is described where it is from.
        f".. automodule:: {package}\n   :ignore-module-all:",
        "\n".join(_handed_on(import_module(package))),
    ]
    if below:
        entries = [f"   {name}" for name in below]
        parts.append("\n".join([".. toctree::", "   :maxdepth: 1", "", *entries]))
    for name in inside:
        if name not in below:
            parts += [_heading(name, "-"), f".. automodule:: {name}"]
    return "\n\n".join(part for part in parts if part) + "\n"


def _heading(name: str, line: str) -> str:
    return f"{name}\n{line * len(name)}"


def _handed_on(package: ModuleType) -> Iterator[str]:
    """The classes and functions that a package has from its modules, one line each."""
    for name in getattr(package, "__all__", ()):
        thing = getattr(package, name)
        if isinstance(thing, type | FunctionType) and thing.__module__ != package.__name__:
            home = f"{thing.__module__}.{thing.__qualname__}"
            about = (getdoc(thing) or "").partition("\n\n")[0].replace("\n", " ")
            yield f"* :py:obj:`{name} <{home}>`: {about}"


# ---------------------------------------------------------------------- the command line


def command_line_page(program: click.Group) -> str:
    """What ``--help`` prints, of the program and of each command."""
    parts = ["# The command line"]
    for context in _commands(click.Context(program, info_name=program.name)):
        help_text = context.command.get_help(context).rstrip()
        parts += [f"## `{context.command_path}`", f"```text\n{help_text}\n```"]
    return "\n\n".join(parts) + "\n"


def _commands(context: click.Context) -> Iterator[click.Context]:
    yield context
    if isinstance(context.command, click.Group):
        for name in context.command.list_commands(context):
            command = context.command.get_command(context, name)
            yield from _commands(click.Context(command, context, info_name=name))


# ---------------------------------------------------------------------- interfaces over HTTP


def interface_page(document: Mapping[str, Any]) -> str:
    """An OpenAPI document as Markdown."""
    parts = [f"# {document['info']['title']}", document["info"]["description"]]
    operations = [
        (f"{method.upper()} {path}", operation)
        for path, found in document["paths"].items()
        for method, operation in found.items()
    ]
    tags = {tag["name"]: tag["description"] for tag in document.get("tags", ())}
    for tag in dict.fromkeys(operation["tags"][0] for _, operation in operations):
        parts += [f"## {tag[0].upper()}{tag[1:]}", tags.get(tag, "")]
        for name, operation in operations:
            if operation["tags"][0] == tag:
                parts += _operation(name, operation)
    parts.append("## What is sent and answered")
    for name, schema in document["components"]["schemas"].items():
        parts += [f"### {name}", schema.get("description", ""), _fields(schema)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _operation(name: str, operation: Mapping[str, Any]) -> Iterator[str]:
    yield f"### `{name}`"
    yield f"**{operation['summary']}.** {operation['description']}"
    parameters = operation.get("parameters", ())
    if parameters:
        rows = [
            (f"`{p['name']}` ({p['in']})", _type(p["schema"]), p.get("description") or _about(p))
            for p in parameters
        ]
        yield _table(("parameter", "type", "what it is"), rows)
    bodies = operation.get("requestBody", {}).get("content", {})
    for media_type, body in bodies.items():
        yield f"The body is {_type(body['schema'])}, as `{media_type}`."
    rows = [
        (status, ", ".join(_forms(answer.get("content", {}))), answer["description"])
        for status, answer in sorted(operation["responses"].items())
    ]
    yield _table(("status", "answer", "when"), rows)


def _forms(content: Mapping[str, Any]) -> Iterator[str]:
    """What a body is, and its media type where it is not JSON."""
    for media_type, body in content.items():
        yield _type(body["schema"]) + (f" (`{media_type}`)" if media_type != JSON else "")


def _fields(schema: Mapping[str, Any]) -> str:
    required = schema.get("required", ())
    rows = [
        (
            f"`{name}`" + ("" if name in required else " (optional)"),
            _type(of),
            of.get("description", ""),
        )
        for name, of in schema.get("properties", {}).items()
    ]
    return _table(("field", "type", "what it is"), rows) if rows else ""


def _about(parameter: Mapping[str, Any]) -> str:
    return str(parameter["schema"].get("description", ""))


def _type(schema: Mapping[str, Any]) -> str:
    match schema:
        case {"$ref": reference}:
            name = reference.rpartition("/")[2]
            return f"[{name}](#{name.lower()})"
        case {"const": value}:
            return f"`{value!r}`"
        case {"enum": values}:
            return " or ".join(f"`{value!r}`" for value in values)
        case {"anyOf": several}:
            return " or ".join(_type(one) for one in several)
        case {"items": of}:
            return f"list of {_type(of)}"
        case {"type": [*kinds]}:
            return " or ".join(kinds)
        case {"type": "object", "properties": members}:
            return "object of " + ", ".join(f"`{name}`" for name in members)
    return str(schema.get("type", "anything"))


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [list(head), *(list(row) for row in rows)]
    lines.insert(1, ["---"] * len(lines[0]))
    cells = [[re.sub(r"\s+", " ", cell).replace("|", "\\|") for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)
