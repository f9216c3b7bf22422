"""Answers held against an OpenAPI document."""

import re
from typing import Any

import httpx
from jsonschema_rs import Draft202012Validator

from mpcsim.service.error_codes import HEADER


class Documented:
    """What an interface says of itself, and whether an answer is as it says."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self.seen: set[tuple[str, str]] = set()
        """Methods and paths of which an answer was looked at."""

    def operations(self) -> dict[tuple[str, str], dict[str, Any]]:
        """By method and path."""
        return {
            (method.upper(), path): operation
            for path, operations in self.document["paths"].items()
            for method, operation in operations.items()
        }

    def check(self, answer: httpx.Response) -> None:
        """Fail unless the document has this operation, status and form."""
        method, path = answer.request.method, answer.request.url.path
        at = next(
            known
            for known in self.operations()
            if known[0] == method and re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", known[1]), path)
        )
        self.seen.add(at)
        if answer.is_error:
            assert HEADER in answer.headers
        responses = self.operations()[at]["responses"]
        schema = responses[str(answer.status_code)]["content"]["application/json"]["schema"]
        whole = {**schema, "components": self.document["components"]}
        Draft202012Validator(whole).validate(answer.json())
