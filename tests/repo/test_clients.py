"""Requests leave by no way that nobody chose: no client looks at the environment."""

import ast
import re

from tests.helpers.repo import ROOT

CLIENTS = {"Client", "AsyncClient", "ClientSession", "request", "stream"}
CLIENTS |= {"get", "head", "options", "post", "put", "patch", "delete"}
ELSEWHERE = ("urllib.request", "http.client", "requests", "urllib3")
"""Modules that look at ``HTTP_PROXY``, ``.netrc`` and their like, or could."""


def test_clients_ignore_proxies_and_netrc():
    """Each is told so, or has a transport of its own, which goes nowhere else."""
    found = []
    for path in sorted(path for room in ("mpcsim", "node") for path in (ROOT / room).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if not re.search(r"^ *(from|import) +(httpx|aiohttp|urllib|http|requests)", text, re.M):
            continue
        for part in ast.walk(ast.parse(text)):
            match part:
                case ast.Import(names=[ast.alias(name=name)]) | ast.ImportFrom(module=str(name)):
                    assert name not in ELSEWHERE, path
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="httpx" | "aiohttp"), attr=attr),
                    keywords=keywords,
                ) if attr in CLIENTS:
                    said = {each.arg: ast.unparse(each.value) for each in keywords}
                    chosen = said.get("trust_env") == "False" or "transport" in said
                    found.append((f"{path.relative_to(ROOT)}:{part.lineno}", chosen))
    assert len(found) > 10
    assert [where for where, chosen in found if not chosen] == []
