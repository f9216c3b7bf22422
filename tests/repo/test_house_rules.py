"""Rules for what may be committed, and the version being the same everywhere."""

import re
from pathlib import Path

import mpcsim
from tests.helpers.repo import ROOT, project_files, pyproject

# A path into somebody's machine; a path that continues another one (a/tmp/b) is fine.
MACHINE_PATH = re.compile(r"(?<![\w.$})~-])/(?:work|tmp|home|root|opt|mnt|Users|private)/")
WINDOWS_PATH = re.compile(r"\b[A-Z]:\\\\?Users\b")
# Where packages come from is each machine's own business.
INDEX_OPTION = re.compile(
    r"(?<!no-emit-)\b(?:extra-)?index-url\b|\bPIP_(?:EXTRA_)?INDEX_URL\b|\bUV_[A-Z_]*INDEX\w*",
    re.IGNORECASE,
)
# A line without any of these needs no closer look.
SIGN = re.compile(
    r"/[whtromuUp]|Users|[iI][nN][dD][eE][xX]|\.(?:org|com?|net|io|dev)\b", re.IGNORECASE
)
PICTURE = '"image/png": "'
# The host of a URL, or a name that can only be one.
HOST = re.compile(
    r"://(?:[^/\s@]*@)?([\w-]+(?:\.[\w-]+)+)"
    r"|(?<![\w.])((?:[\w-]+\.)+(?:org|com|net|io|dev|co))\b(?!\.\w)",
    re.IGNORECASE,
)
HOSTS = {
    *("127.0.0.1", "192.0.2.1", "example.com", "gateway.example"),
    # Papers, standards, programs.
    *("eprint.iacr.org", "github.com", "hypothesis.readthedocs.io", "keepachangelog.com"),
    *("curl.se", "w3c.github.io", "www.nsnam.org"),
    # Names in certificates that a test makes.
    *("wallet.example.com", "ocsp.authority.example"),
    *("certs.authority.example", "revoked.authority.example"),
    *("semver.org", "sqlite.org", "ui.perfetto.dev", "www.apache.org", "www.w3.org"),
    # Measurements of networks.
    *("blog.apnic.net", "blog.codavel.com", "cloud.ibm.com", "www.cloudping.co", "www.xkyle.com"),
}
"""Those that may be named."""
# This file spells the patterns out.
NEW_LINE = "\n"
EXEMPT = {Path(__file__).resolve()}


def offences(text: str) -> list[str]:
    return [
        f"{number}: {match.group(0)}"
        for number, line in enumerate(text.split(NEW_LINE), start=1)
        if PICTURE not in line and SIGN.search(line)
        for pattern in (MACHINE_PATH, WINDOWS_PATH, INDEX_OPTION, HOST)
        for match in pattern.finditer(line)
        if pattern is not HOST or (match.group(1) or match.group(2)).lower() not in HOSTS
    ]


def test_no_file_names_a_machine_path_or_an_unknown_host():
    found = []
    for path in project_files():
        if path in EXEMPT:
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # not text
        found += [f"{path.relative_to(ROOT)}:{offence}" for offence in offences(text)]
    assert not found, "\n".join(found)


def test_version_is_the_same_everywhere():
    version = pyproject()["project"]["version"]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## \[{re.escape(version)}\]", changelog, re.MULTILINE)
    assert mpcsim.__version__ == version


def test_packages_are_typed():
    assert (ROOT / "mpcsim" / "py.typed").is_file()
    assert (ROOT / "node" / "py.typed").is_file()
