"""Session as one HTML file, which is stepped and searched through without Python or a network.

The page runs the widget's own script on a model that never changes. A content security policy lets
it run this script and nothing else, and load nothing from anywhere; names and values enter it as
JSON only.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from html import escape
from typing import Final

from mpcsim.lab.explorer.browser_files import script, style
from mpcsim.lab.explorer.model.model import as_json
from mpcsim.lab.explorer.model.views import Detail, View
from mpcsim.version import __version__

DISABLED_NOTE: Final = (
    "This is a saved session: altering messages and changing links needs Python "
    "(Explorer.live of mpcsim)."
)
"""Reason, in the page, why some functions are disabled."""

_WARNING: Final = (
    '<p class="warning" role="alert"><strong>This file contains SECRETS</strong> of the parties: '
    "whoever reads it can take their shares and nonces. Pass it to nobody who must not have them."
    "</p>"
)

# Model as of anywidget, without a kernel.
_START: Final = """
{
const state = JSON.parse(document.getElementById("session").textContent);
const handlers = {};
const model = {
  get: (name) => state[name],
  set: (name, value) => {
    if (state[name] === value) return;
    state[name] = value;
    for (const act of handlers[`change:${name}`] ?? []) act();
  },
  on: (name, act) => { (handlers[name] ??= []).push(act); },
  off: (name, act) => { handlers[name] = (handlers[name] ?? []).filter((a) => a !== act); },
  save_changes: () => {},
  send: () => {},
};
const place = document.getElementById("explorer");
place.replaceChildren();
render({ model, el: place });
}
"""

_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ margin: 12px; font: 14px/1.45 system-ui, sans-serif; color-scheme: light dark; }}
.warning {{ margin: 0 0 12px; padding: 10px 14px; border-radius: 6px; color: #fff;
  background: #a30000; font-size: 16px; }}
.about {{ margin: 8px 4px; font-size: 12px; }}
{style}</style>
</head>
<body>
{warning}<div id="explorer"><p>{title}. This page needs JavaScript.</p></div>
<p class="about">{about}</p>
<script type="application/json" id="session">{session}</script>
<script type="module">{script}</script>
</body>
</html>
"""


def saved_page(
    view: View, details: Mapping[str, Detail], *, step: int = 0, selected: str = ""
) -> str:
    """Return the page; it holds what ``view`` and ``details`` hold, and says so if that is secret.

    Args:
        step: where it begins; ``selected``: key of the message that is open.
    """
    session = {
        "view": as_json(replace(view, frozen=DISABLED_NOTE, fixed_times=DISABLED_NOTE)),
        "details": {key: as_json(detail) for key, detail in details.items()},
        "step": step,
        "selected": selected,
        "problem": "",
        "answered": 0,
        "saved": True,
    }
    # The page's own start replaces the widget's export.
    program = re.sub(r"^export default .*$", "", script(), flags=re.MULTILINE) + _START
    digest = b64encode(sha256(program.encode()).digest()).decode()
    title = f"{view.name}: {view.verdict}"
    return _PAGE.format(
        policy=f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'",
        title=escape(f"SECRETS: {title}" if view.revealed else title),
        style=style(),
        warning=f"{_WARNING}\n" if view.revealed else "",
        session=_embeddable_json(session),
        script=program,
        about=escape(
            f"Saved by mpcsim {__version__}. Seed of latencies and losses: {view.seed}; "
            f"{view.clock} time; compute: {view.compute}."
        ),
    )


def file_name(view: View) -> str:
    """Return a file name for such a page."""
    words = re.findall(r"[a-z0-9]+", view.name.lower())
    return f"{'-'.join(words) or 'session'}{'-SECRETS' if view.revealed else ''}.html"


def _embeddable_json(value: object) -> str:
    """Return JSON that ends no script element and opens no comment, whatever texts are in it."""
    text = json.dumps(value, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
