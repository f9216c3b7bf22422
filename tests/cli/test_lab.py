"""Notebooks as JupyterLab of ``mpcsim serve --lab`` reads them (in a browser:
``tests/notebooks/test_front_door.py``)."""

import asyncio
import json
import shutil
import sys
from collections.abc import Iterator

import pytest

from mpcsim.cli.service.jupyterlab.copies import refresh_copies
from tests.helpers.notebooks import notebooks


@pytest.fixture(autouse=True)
def no_kernel() -> Iterator[None]:
    """Who has loaded a kernel's shell is in a notebook, to tqdm."""
    yield
    sys.modules.pop("ipykernel.zmqshell", None)


def contents_of(folder):
    # Loads a grammar of addresses: seconds.
    from mpcsim.cli.service.jupyterlab.contents import Contents

    return Contents(root_dir=str(folder))


def opened(folder, name):
    return asyncio.run(contents_of(folder).get(name))["content"]["metadata"]


def test_a_notebook_says_what_its_kernel_will(tmp_path):
    from ipykernel.ipkernel import IPythonKernel

    original = notebooks()[0]
    copy = shutil.copy(original, tmp_path / "x.ipynb")
    metadata = opened(tmp_path, "x.ipynb")
    assert metadata["language_info"] == IPythonKernel.language_info
    assert copy.read_bytes() == original.read_bytes()


def test_what_says_more_or_is_of_another_kernel_is_left_alone(tmp_path):
    notebook = json.loads(notebooks()[0].read_text(encoding="utf-8"))
    for changed in (
        {"language_info": {"name": "python", "version": "3.0"}},
        {"kernelspec": {"name": "other", "display_name": "Other"}},
        {"kernelspec": {}, "language_info": {}},
    ):
        text = json.dumps({**notebook, "metadata": {**notebook["metadata"], **changed}})
        (tmp_path / "x.ipynb").write_text(text, encoding="utf-8")
        assert opened(tmp_path, "x.ipynb").items() >= changed.items()


def test_a_copy_follows_its_original_until_its_reader_changes_it(tmp_path):
    originals, copies = tmp_path / "notebooks", tmp_path / "copies"
    (originals / "guides").mkdir(parents=True)
    names = ["a.ipynb", "b.ipynb", "guides/c.md"]

    def write(folder, text):
        for name in names:
            (folder / name).write_text(f"{name} {text}")

    def texts():
        return [(copies / name).read_text() for name in names]

    write(originals, "first")
    for other in ("conf.py", "guides/.hidden.md"):
        (originals / other).touch()
    assert refresh_copies(originals, copies) == []
    made = sorted(path.name for path in copies.rglob("*.*"))
    assert made == [".copied.json", "a.ipynb", "b.ipynb", "c.md"]
    (copies / "a.ipynb").write_text("mine")
    for _ in range(2):
        assert (refresh_copies(originals, copies), texts()[0]) == ([], "mine")
    write(originals, "second")
    assert refresh_copies(originals, copies) == ["a.ipynb"]
    assert texts() == ["mine", "b.ipynb second", "guides/c.md second"]
    (copies / "a.ipynb").unlink()
    assert refresh_copies(originals, copies) == []
    assert texts()[0] == "a.ipynb second"
    for name in names[:2]:
        (copies / name).write_text("mine")
    write(originals, "third")
    assert refresh_copies(originals, copies) == names[:2]
