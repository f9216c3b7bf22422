"""The published OpenAPI document, turned against a node with a real gateway by schemathesis.

No 5xx, no undocumented status, no answer outside its schema, no way around the token, and nothing
malformed taken for good. That well-formed strings may still be refused is not a fault: they are
opaque, and only those that generate has returned open anything. Who runs none of these tests does
not load schemathesis, which takes a second.
"""

import pytest
from hypothesis import HealthCheck, given

from tests.helpers.tiers import examples
from tests.node.harness import system

pytestmark = pytest.mark.timeout(1800)

MAKE = [("POST", "/v3/wallet/generate"), ("POST", "/v3/wallet/recover")]
USE = [
    ("POST", "/v3/wallet/sign"),
    ("POST", "/v3/wallet/presign"),
    ("POST", "/v3/wallet/publickey"),
    ("POST", "/v3/wallet/validate/password"),
    ("POST", "/v3/wallet/validate/share"),
    ("GET", "/v3/wallet/token"),
]
ASK = [("GET", "/"), ("GET", "/v3/wallet"), ("GET", "/v3/wallet/key"), ("GET", "/v3/wallet/user")]
STORED = ("key_id", "encrypted_share", "secret_store")
MODES = POSITIVE, _ = ("positive", "negative")
"""Requests as the document has them, and just beside it."""


@pytest.fixture(scope="module")
def behind():
    with system() as found:
        found.make_keys()
        yield found


@pytest.fixture(scope="module")
def published(behind):
    import schemathesis

    return schemathesis.openapi.from_url(f"{behind.api.client.base_url}/api/openapi.json")


def fuzz(operation, mode, send, count=4):
    """Send that many requests, made from the document or just beside it."""
    from schemathesis import GenerationMode

    @examples(count, suppress_health_check=list(HealthCheck), database=None)
    @given(operation.as_strategy(generation_mode=GenerationMode(mode)))
    def run(case):
        send(case)

    run()


def check(case, token):
    """Send a request, and hold the answer against the document."""
    from schemathesis.specs.openapi.checks import positive_data_acceptance

    case.call_and_validate(
        headers={"Authorization": f"Bearer {token}"}, excluded_checks=[positive_data_acceptance]
    )


@pytest.mark.few(4)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("method", "path"), USE)
def test_requests(published, behind, method, path, mode):
    token = behind.gateway.token("alice")
    fuzz(published[path][method], mode, lambda case: check(case, token))


@pytest.mark.few(3)
@pytest.mark.parametrize(("method", "path"), USE)
def test_requests_with_a_stored_share(published, behind, method, path):
    token = behind.gateway.token("alice")

    def send(case):
        record = behind.keys["ed25519"]
        if isinstance(case.body, dict):
            record = behind.keys[case.body.get("curve", "ed25519")]
            case.body |= {name: record[name] for name in STORED if name in case.body}
        if "id" in case.query:
            case.query["id"] = record["key_id"]
        check(case, token)

    fuzz(published[path][method], POSITIVE, send)


def test_every_operation_is_tried(published):
    """Those that make keys or only ask are in ``test_conformance``."""
    found = {(o.ok().method.upper(), o.ok().path) for o in published.get_all_operations()}
    assert found == {*MAKE, *USE, *ASK}
