"""The compromise matrix: what each component of the service can do when it is corrupt.

Every row of the table in ``table`` is executed against the whole service (``node.local``: node,
gateway, MPC nodes and their stores, in virtual time). A corrupt component is a class that wraps the
honest one: it remembers everything it is ever sent, does whatever its holder likes, and its honest
code keeps answering, so that nobody notices. ``attack_environment`` has the
service, its users and what thieves work with; ``hostile`` the corrupt components; ``entries.toml``
what there is to say of each attack, and ``cells`` the code, a module for each corrupt component.

Where a check refuses an attack, the same attack code runs once more against a *research build*
(``builds``, ``weakened_builds``): the same service with parts replaced from outside, in which that
check is missing. There it must succeed. Some of these builds are the service as it once was.

This package alone imports the REST node; ``mpcsim attacks --service`` alone loads it.
"""

from mpcsim.attacks.service import report
from mpcsim.attacks.service.report import perform
from mpcsim.attacks.service.table import Goal

__all__ = [
    "Goal",
    "perform",
    "report",
]
