"""The guide's Kubernetes objects: their fields are the API's, their values this project's."""

import json
import re
from typing import Any

import pytest
import yaml

from node.process.settings import Settings
from node.serving import SHUTDOWN_S
from tests.helpers.repo import ROOT

GUIDE = (ROOT / "notebooks" / "guides" / "kubernetes.md").read_text(encoding="utf-8")
API = json.loads((ROOT / "tests" / "repo" / "kubernetes_api.json").read_text(encoding="utf-8"))
"""Fields by type, of release 1.37: as in the models of the package `kubernetes` 37.0.2."""
PLAIN = {"str": str, "int": int, "bool": bool, "object": (int, str)}


def objects() -> dict[str, Any]:
    (text,) = re.findall(r"^```yaml\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
    return {each["kind"]: each for each in yaml.safe_load_all(text)}


def faults(value: Any, kind: str, where: str) -> list[str]:
    """What of a value is not as the API has it."""
    if found := re.fullmatch(r"List\[(.+)\]", kind):
        if not isinstance(value, list):
            return [f"{where}: no list"]
        return [f for n, each in enumerate(value) for f in faults(each, found[1], f"{where}.{n}")]
    if found := re.fullmatch(r"Dict\[str, (.+)\]", kind):
        # Quantities and the like, which the models do not narrow down, are texts here.
        item = "str" if found[1] not in API else found[1]
        return [f for name, each in value.items() for f in faults(each, item, f"{where}.{name}")]
    if kind in PLAIN:
        return [] if isinstance(value, PLAIN[kind]) else [f"{where}: no {kind}"]
    fields, required = API[kind]["fields"], API[kind]["required"]
    wrong = [f"{where}: {name} is missing" for name in required if name not in value]
    for name, each in value.items():
        inner = f"{where}.{name}"
        wrong += faults(each, fields[name], inner) if name in fields else [f"{inner}: unknown"]
    return wrong


@pytest.mark.parametrize("kind", ["Secret", "Deployment", "Service"])
def test_every_field_is_the_apis(kind):
    assert faults(objects()[kind], f"V1{kind}", kind) == []


def test_the_values_are_those_of_the_image():
    found = objects()
    pod = found["Deployment"]["spec"]["template"]
    (node,) = pod["spec"]["containers"]
    dockerfile = (ROOT / "Dockerfile").read_text()
    user = f"USER {pod['spec']['securityContext']['runAsUser']}"
    assert f"{user}:{pod['spec']['securityContext']['runAsGroup']}\n" in dockerfile
    ports = {port["name"]: port["containerPort"] for port in node["ports"]}
    variables = {each["name"]: each.get("value") for each in node["env"]}
    assert f"EXPOSE {ports['http']}\n" in dockerfile
    assert variables["METRICS_PORT"] == str(ports["metrics"])
    assert set(variables) <= set(re.findall(r"^ *([A-Z_]+):", Settings.variables(), re.MULTILINE))
    for probe, page in (("startup", "/"), ("liveness", "/"), ("readiness", "/ready")):
        assert node[f"{probe}Probe"]["httpGet"]["path"] == page
    wait_s = node["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert pod["spec"]["terminationGracePeriodSeconds"] >= wait_s + SHUTDOWN_S + 10
    key = next(each for each in node["env"] if "valueFrom" in each)["valueFrom"]["secretKeyRef"]
    assert key["name"] == found["Secret"]["metadata"]["name"]
    assert key["key"] in found["Secret"]["stringData"]
    labels = pod["metadata"]["labels"]
    assert found["Service"]["spec"]["selector"] == labels
    assert found["Deployment"]["spec"]["selector"]["matchLabels"] == labels
