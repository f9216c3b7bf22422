"""The OpenAPI document is whole, and the page at /api/docs needs nothing from outside."""

import re
from pathlib import Path

import pytest

import mpcsim
from node.models import EXPECTED
from tests.helpers.api_surface import check_described, check_surface
from tests.node.double import doubled


@pytest.fixture(scope="module")
def api():
    with doubled() as (found, _, _):
        yield found


@pytest.fixture(scope="module")
def document(api):
    response = api.get("/api/openapi.json")
    assert response.status_code == 200
    return response.json()


def test_the_surface_is_the_reviewed_one(document):
    """Endpoints, statuses, required fields and limits; see ``surface.txt``."""
    assert document["openapi"].startswith("3.1.")
    assert document["info"]["version"] == mpcsim.__version__
    assert [server["url"] for server in document["servers"]] == ["/", "http://127.0.0.1:9091"]
    assert "CORS" in document["info"]["description"]
    check_surface(document, Path(__file__).with_name("surface.txt"))


def operations(document):
    for path, found in document["paths"].items():
        for operation in found.values():
            yield path, operation


def test_every_operation_is_described(document):
    check_described(document)
    for path, operation in operations(document):
        for status, response in operation["responses"].items():
            assert response["description"]
            if status != "200":
                example = response["content"]["application/json"]["example"]
                assert set(example) == {"error"}, (path, status)


def test_every_field_that_is_asked_for_has_words_for_what_it_must_be(document):
    """Without them, a wrong one would be an internal error."""
    asked = [
        operation["requestBody"]["content"]["application/json"]["schema"]["$ref"]
        for _, operation in operations(document)
        if "requestBody" in operation
    ]
    for reference in asked:
        name = reference.rpartition("/")[2]
        fields = document["components"]["schemas"][name]["properties"].keys()
        assert fields - {"curve"} <= EXPECTED.keys(), name
    assert len(asked) >= 5


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


def test_the_frameworks_own_pages_are_off(api):
    redirect = api.get("/docs", follow_redirects=False)
    assert (redirect.status_code, redirect.headers["location"]) == (307, "api/docs")
    for path in ("/redoc", "/openapi.json", "/docs/oauth2-redirect"):
        assert api.get(path).status_code == 404
