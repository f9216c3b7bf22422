"""The explorer in JupyterLab itself, as a user opens it."""

import pytest

pytest.importorskip("selenium", reason="selenium is not installed: no browser tests")
pytest.importorskip("jupyterlab", reason="jupyterlab is not installed: no browser tests")


from tests.lab.explorer.lab import opened
from tests.lab.explorer.page import needs_browser, short_folder

pytestmark = [pytest.mark.soak, needs_browser]

CELLS = (
    "from mpcsim import Network, Simulation\n"
    "from mpcsim.lab.explorer import Explorer\n"
    "sim = Simulation(Network.preset('seoul', institution='frankfurt'), seed=1, secrets_seed='x')\n"
    "sim.generate();",
    "Explorer.live(sim, 'sign', signers=(1, 3))",
)


@pytest.mark.parametrize("dark", [False, True])
def test_a_live_session(dark):
    with short_folder() as folder, opened(folder, CELLS, dark=dark) as page:
        page.run("window.jupyterapp.commands.execute('notebook:run-all-cells')")
        page.until("return document.querySelectorAll('.mx-message').length === 8")
        cells = page.run("return document.querySelectorAll('.jp-Notebook .jp-Cell').length")
        assert page.run("return document.querySelector('.mx').dataset.theme") == (
            "dark" if dark else "light"
        )
        # The notebook's own shortcuts stay out of it: arrows step, D D deletes no cell.
        page.run("document.querySelector('.mx').focus()")
        page.press("dd")
        page.step_to(7)
        assert page.run("return document.querySelectorAll('.jp-Notebook .jp-Cell').length") == cells
        page.alter("3>1 Respond", "R_i")
        assert "Party 1 caught it in round 4 (share)" in page.text(".mx-abort")
        assert "COMMITMENT_OPENING" in page.text(".mx-abort")
        page.run("[...document.querySelectorAll('.mx-altered button')].at(-1).click()")
        page.until("return document.querySelector('.mx-badge.good')")
        before = page.text(".mx-title")
        page.run(
            "const r = document.querySelectorAll('[type=range][data-what=one_way_ms]')[2];"
            "r.value = 10; r.dispatchEvent(new Event('input'))"
        )
        page.until(f"return document.querySelector('.mx-title').innerText !== {before!r}")
        # What Python sends on its own comes through, too.
        page.chrome.execute_cdp_cmd(
            "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(folder)}
        )
        page.run("document.querySelector('.mx-save').click()")
        page.until_true((folder / "sign-secp256k1.html").exists)
        errors = page.run("return document.querySelectorAll('.jp-RenderedText[data-mime-type"
                          "*=stderr], .jp-OutputArea-error').length")  # fmt: skip
        assert errors == 0
