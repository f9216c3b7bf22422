"""JupyterLab on the notebooks, as ``mpcsim serve --lab`` starts it.

``labconfig`` holds other defaults for its settings: it does not ask whether it may fetch news, and
looks for no newer version. ``jupyter_server_config.json`` keeps its log quiet at the end. A user's
own settings win. The notebooks that it opens are copies (``copies``).
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Final

from mpcsim.cli.ports import LAB_PORT, port
from mpcsim.cli.service.jupyterlab.copies import FOLDER, refresh_copies
from mpcsim.service.operations import HOST, Program
from mpcsim.service.process import command_ending_with_parent

ORIGINALS: Final = Path("notebooks")
FIRST: Final = "01_start_here.ipynb"
_CONFIGURATION: Final = Path(__file__).parent


def lab_program(at: Program, node: Program, data: Path) -> tuple[Program, list[str]]:
    """JupyterLab, and the lines that tell its address, with the token that lets one in.

    Args:
        at: the gateway.
    """
    page, lines = "/lab", []
    if (ORIGINALS / FIRST).is_file():
        page = f"/lab/tree/{FOLDER / FIRST}"
        if kept := refresh_copies(ORIGINALS, FOLDER):
            newer = f"{FOLDER}/ keeps what you have changed; {ORIGINALS}/ has newer"
            lines.append(f"{'notebooks':<12} {newer} {', '.join(kept)}")
    lab_port, token = port("LAB_PORT", LAB_PORT), secrets.token_hex(16)
    command = [*command_ending_with_parent("jupyterlab"), "--no-browser", f"--ip={HOST}"]
    command += [f"--port={lab_port}", "--ServerApp.port_retries=0", "--ServerApp.root_dir=."]
    command += ["--log-level=ERROR", "--LabApp.log_level=ERROR"]
    command += ["--LabApp.extension_manager=readonly"]
    command += [f"--ServerApp.contents_manager_class={__name__}.contents.Contents"]
    # Otherwise each kernel warns that its messages travel in the clear.
    command.append("--KernelManager.transport_encryption=auto")
    if os.geteuid() == 0:
        # As in a container. It listens on loopback alone, and asks for its token.
        command.append("--allow-root")
    command.append(f"--LabApp.default_url={page}")
    given = os.environ.get("JUPYTER_CONFIG_PATH")
    environment = {
        "JUPYTER_CONFIG_PATH": os.pathsep.join([*([given] if given else []), str(_CONFIGURATION)]),
        "JUPYTER_TOKEN": token,
        "WAAS_API_URL": at.address,
        "WALLET_NODE_URL": node.address,
        "MPCSIM_DATA": str(data.resolve()),
    }
    lab = Program("lab", command, lab_port, "LAB_PORT", "/api", environment, stops_aside=True)
    return lab, [f"{'JupyterLab':<12} {lab.address}{page}?token={token}", *lines]
