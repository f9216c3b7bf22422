"""How Sphinx turns the sources that ``build.py`` lays out into pages; nothing is fetched."""

from __future__ import annotations

import re
import sys
from base64 import b64encode
from html import escape
from importlib.metadata import version as version_of
from itertools import groupby
from inspect import cleandoc
from types import FunctionType
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from mermaid_render import mermaid_to_svg
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.ext.napoleon import Config, GoogleDocstring

project = "mpcsim"
release = version = version_of("mpcsim")
extensions = ["myst_nb", "sphinx.ext.autodoc"]

# Notebooks are shown with the outputs they are committed with. Widgets are pictures there, and the
# script that would bring them to life is on the internet.
nb_execution_mode = "off"
nb_ipywidgets_js: dict[str, Any] = {}
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb", ".rst": "restructuredtext"}

default_role = "code"  # the endpoints' docstrings are Markdown
autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_use_type_comments = False
python_maximum_signature_line_length = 88
toc_object_entries = False
add_module_names = False  # they are the headings
python_use_unqualified_type_names = True

suppress_warnings = [
    "misc.highlighting_failure",  # outputs that only look like code
]

root_doc = "README"
html_theme = "furo"
html_title = f"mpcsim {release}"  # stands on every page
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_copyright = False
html_copy_source = False
html_math_renderer = "mathml"

OURS = ("mpcsim", "node")
# JupyterLab's anchors are headings as they stand, MyST's are GitHub's.
ANCHOR = re.compile(r"(\]\([\w./-]*)#([^)\s]+)(\))")


def links_as_here(app: Sphinx, docname: str, source: list[str]) -> None:
    """Links lead to the same headings here."""
    source[0] = ANCHOR.sub(
        lambda m: f"{m[1]}#{re.sub(r'[^a-z0-9_-]', '', m[2].lower())}{m[3]}", source[0]
    )


SECTIONS = Config(napoleon_use_rtype=False)


def pages_as_written(lines: list[str]) -> list[str]:
    """Show the block right below a heading (participants, messages in order) as it stands: its
    columns mean something."""
    written: list[str] = []
    for blank, block in groupby(lines, lambda line: not line.strip()):
        heading, *rest = block
        page = len(rest) > 1 and re.match(r"\w", heading) and all(re.match("  ", x) for x in rest)
        written += [heading, "", "::", "", *rest] if page and not blank else [heading, *rest]
    return written


def as_written(
    app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]
) -> None:
    """Habits of our docstrings: the sections are Google's; ``Spec:`` and ``Differs:`` begin fields;
    what stands indented in a module's is an example, or a formula."""
    if lines and re.match(r"Alias for field number \d+$", lines[0]):
        lines.clear()  # a named tuple's, where nothing is said of it
    making = vars(thing).get("__init__") if isinstance(thing, type) else None
    if getattr(making, "__doc__", None):
        lines += ["", *cleandoc(making.__doc__).splitlines()]
    # As an extension napoleon would take what is before an attribute's first colon for its type.
    lines[:] = GoogleDocstring(lines, SECTIONS).lines()
    if what == "module":
        lines[:] = pages_as_written(lines)
    written: list[str] = []
    above = ""  # the last line that was not indented
    in_field = False
    for line in lines:
        field = re.match("(Spec|Differs)(?=: )", line)
        in_field = bool(field or (in_field and line))
        example = what == "module" and re.match("    (?! |>>>)", line) and written[-1:] == [""]
        if example and not above.endswith("::"):
            written += ["::", ""]
            above = "::"
        elif re.match(r"\S", line):
            above = line
        line = re.sub(r"(``\w+``)(?=\w)", r"\1\\ ", line)  # ``unit``s
        written.append(f":{line}" if field else f"    {line}" if in_field else line)
    lines[:] = written


def names_in_full(app: Sphinx, doctree: nodes.document) -> None:
    """A short name in a docstring or a type is what its module means by it; Sphinx would look at
    the ends of all names there are, and take long for it."""
    for reference in doctree.findall(pending_xref):
        if reference.attributes.pop("refspecific", False):
            module = sys.modules.get(reference.get("py:module") or "")
            thing = getattr(module, reference["reftarget"], None)
            if isinstance(thing, type):
                reference["reftarget"] = f"{thing.__module__}.{thing.__qualname__}"


def diagrams_as_pictures(app: Sphinx, doctree: nodes.document) -> None:
    """Draw each Mermaid block while the site is built: pages fetch no script."""
    for block in list(doctree.findall(nodes.literal_block)):
        if block.get("language") == "mermaid":
            svg = b64encode(mermaid_to_svg(block.astext())).decode()
            source = escape(block.astext())
            html = f'<img class="diagram" alt="{source}" src="data:image/svg+xml;base64,{svg}">'
            block.replace_self(nodes.raw("", html, format="html"))


def mathml(self: Any, node: nodes.math | nodes.math_block) -> None:
    """A formula as the browser itself shows it."""
    display = "block" if isinstance(node, nodes.math_block) else "inline"
    formula = convert(node.astext(), display=display)
    # Within words the converter leaves escapes as they are.
    self.body.append(re.sub(r"\\([_%#&])", r"\1", formula))
    raise nodes.SkipNode


def ours_alone(
    app: Sphinx, what: str, name: str, thing: object, skip: bool, options: object
) -> bool | None:
    """Nothing that a base class of others has put into a class of ours."""
    theirs = isinstance(thing, FunctionType) and not thing.__module__.startswith(OURS)
    return True if theirs else None


def defaults_as_code(
    app: Sphinx, what: str, name: str, thing: object, options: object, *written: str | None
) -> tuple[str | None, ...] | None:
    """A default that has no text of its own would keep a signature from being read at all; and a
    class's private fields are nobody's to give."""
    signature, returned = written
    if signature is None:
        return None
    signature = re.sub(r"<function (\w+)[^<>]*>", r"\1", signature)
    signature = re.sub(r"<[^<>]*>", "...", signature)
    return re.sub(r", _\w+: [\w.]+ = \w+(?=[,)])", "", signature), returned


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", links_as_here)
    app.connect("autodoc-process-docstring", as_written)
    app.connect("doctree-read", names_in_full)
    app.connect("doctree-read", diagrams_as_pictures)
    app.connect("autodoc-process-signature", defaults_as_code)
    app.connect("autodoc-skip-member", ours_alone)
    app.add_html_math_renderer("mathml", (mathml, None), (mathml, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
