"""Notebooks as JupyterLab gets to read them: with what it would learn from their kernel.

The files here say of their language its name, and nothing of the machine that ran them. JupyterLab
enters the rest when the kernel runs, and takes the notebook for changed because of it. So it is
entered before; the files stay as they are.
"""

from __future__ import annotations

from typing import Any, Final

from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager

KERNEL: Final = "python3"
"""The kernel of the Python that runs JupyterLab."""


class Contents(AsyncLargeFileManager):
    """The folder's files; a notebook that says no more than "Python" says which."""

    async def get(self, path: str, *arguments: Any, **named: Any) -> dict[str, Any]:
        """Return a file or folder, as its base class gives it."""
        model: dict[str, Any] = await super().get(path, *arguments, **named)  # type: ignore[no-untyped-call]
        if model["type"] == "notebook" and model["content"] is not None:
            complete(model["content"]["metadata"])
        return model


def complete(metadata: dict[str, Any]) -> None:
    """Enter in a notebook's metadata what this Python's kernel says of its language."""
    bare = metadata.get("language_info") == {"name": "python"}
    if bare and metadata.get("kernelspec", {}).get("name") == KERNEL:
        from ipykernel.ipkernel import IPythonKernel  # half a second

        metadata["language_info"] = dict(IPythonKernel.language_info)
