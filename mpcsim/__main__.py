"""``python -m mpcsim``."""

import sys

from mpcsim.cli import main

sys.exit(main())
