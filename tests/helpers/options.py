"""Options whose effect another test shows."""

from tests.helpers.repo import ROOT


class Shown(str):
    """Name of the test that shows an option's effect: ``tests/sim/test_x.py::test_y``."""

    def names(self, option: str) -> bool:
        """Return whether there is this test, and it has the option."""
        path, test = self.split("::")
        blocks = (ROOT / path).read_text("utf-8").split("\n\n\n")
        return any(f"def {test}(" in block and option in block for block in blocks)
