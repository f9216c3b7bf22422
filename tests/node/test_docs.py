"""The OpenAPI document is whole, and the page at /api/docs needs nothing from outside."""

import re

import pytest
from jsonschema_rs import meta

import mpcsim
from node.app import create_app
from node.models import EXPECTED
from node.settings import Settings
from tests.node.double import GatewayDouble, WalletDouble
from tests.node.harness import PLACES, running

TABLE = {
    "/": {"get"},
    "/v3/wallet/generate": {"post"},
    "/v3/wallet/recover": {"post"},
    "/v3/wallet/sign": {"post"},
    "/v3/wallet/presign": {"post"},
    "/v3/wallet/publickey": {"post"},
    "/v3/wallet/validate/password": {"post"},
    "/v3/wallet/validate/share": {"post"},
    "/v3/wallet/key": {"get"},
    "/v3/wallet/token": {"get"},
    "/v3/wallet/user": {"get"},
    "/v3/wallet": {"get"},
}


@pytest.fixture(scope="module", params=PLACES)
def api(request):
    app = create_app(Settings(waas_api_url="http://gateway"), GatewayDouble(), WalletDouble())
    with running(app, request.param) as found:
        yield found


@pytest.fixture(scope="module")
def document(api):
    response = api.get("/api/openapi.json")
    assert response.status_code == 200
    return response.json()


def operations(document):
    for path, found in document["paths"].items():
        for method, operation in found.items():
            yield path, method, operation


def test_every_endpoint_of_the_table(document):
    assert {path: set(found) for path, found in document["paths"].items()} == TABLE


def test_version(document):
    assert document["openapi"].startswith("3.1.")
    assert document["info"]["version"] == mpcsim.__version__


def test_every_operation_is_described(document):
    names = set()
    for path, method, operation in operations(document):
        assert operation["summary"], path
        assert operation["description"], path
        names.add(operation["operationId"])
        if method == "post":
            assert operation["requestBody"]["required"]
            assert set(operation["requestBody"]["content"]) == {"application/json"}
        for status, response in operation["responses"].items():
            assert response["description"]
            content = response["content"]["application/json"]
            reference = content["schema"]["$ref"]
            assert reference.endswith("/Error") == (status != "200"), (path, status)
            if status != "200":
                assert set(content["example"]) == {"error"}
    assert len(names) == len(list(operations(document)))


def test_errors_have_their_codes(document):
    headers = document["components"]["headers"]
    assert headers["X-Error-Code"]["required"]
    for code in headers["X-Error-Code"]["schema"]["enum"]:
        assert f"\n| `{code}` | " in document["info"]["description"]
    for _, _, operation in operations(document):
        for status, response in operation["responses"].items():
            assert (set(response.get("headers", ())) == set(headers)) == (status != "200")


def test_what_makes_a_key_may_be_named(document):
    for path, _, operation in operations(document):
        named = [p for p in operation.get("parameters", ()) if p["in"] == "header"]
        assert [p["name"] for p in named] == ["Idempotency-Key"] * path.endswith(
            ("/generate", "/recover")
        )
        for about in named:
            assert not about["required"]
            assert about["schema"]["pattern"] == "^[ -~]{1,255}$"


def test_every_field_is_described_and_has_an_example(document):
    for name, schema in document["components"]["schemas"].items():
        for field, about in schema["properties"].items():
            if "$ref" in about or about.get("type") == "array":
                continue
            assert "description" in about, (name, field)
            assert "examples" in about or "const" in about or "anyOf" in about, (name, field)


def test_every_field_that_is_asked_for_has_words_for_what_it_must_be(document):
    """Without them, a wrong one would be an internal error."""
    asked = [body["$ref"].rpartition("/")[2] for body in bodies(document)]
    for name in asked:
        fields = document["components"]["schemas"][name]["properties"].keys()
        assert fields - {"curve"} <= EXPECTED.keys(), name
    assert len(asked) >= 5


def bodies(document):
    for _, _, operation in operations(document):
        if "requestBody" in operation:
            yield operation["requestBody"]["content"]["application/json"]["schema"]


def test_only_the_health_check_is_open(document):
    scheme = document["components"]["securitySchemes"]["accessToken"]
    assert (scheme["type"], scheme["scheme"]) == ("http", "bearer")
    assert "`mpcsim token alice`" in scheme["description"]
    assert document["security"] == [{"accessToken": []}]
    for path, _, operation in operations(document):
        assert operation.get("security") == ([] if path == "/" else None)


def test_no_schema_of_the_framework(document):
    assert "422" not in str(document)
    assert not {"HTTPValidationError", "ValidationError"} & set(document["components"]["schemas"])
    for schema in document["components"]["schemas"].values():
        meta.validate(schema)


def test_the_page_and_its_parts(api):
    page = api.get("/api/docs")
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'self'" in page.headers["content-security-policy"]
    assert "://" not in page.text
    links = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert len(links) == 4
    for link in links:
        part = api.get("/api/" + link)  # as a browser resolves it
        assert part.status_code == 200, link
        assert part.content
    start = api.get("/api/docs/start.js").text
    assert "://" not in start
    assert 'url: "openapi.json"' in start
    assert "validatorUrl: null" in start


def test_swagger_ui_reads_openapi_3_1(api):
    bundle = api.get("/api/docs/swagger-ui-bundle.js").text
    version = re.search(r'PACKAGE_VERSION:"(\d+)\.', bundle)
    assert version is not None
    assert int(version[1]) >= 5


@pytest.mark.parametrize("name", ["nothing.js", "redoc.standalone.js", "..%2f__init__.py", "%2e"])
def test_no_other_files(api, name):
    response = api.get(f"/api/docs/{name}")
    assert response.status_code == 404
    assert response.json() == {"error": "Not found"}


def test_the_frameworks_own_pages_are_off(api):
    for path in ("/docs", "/redoc", "/openapi.json", "/docs/oauth2-redirect"):
        assert api.get(path).status_code == 404
