"""Costs that nobody measured, for tests of services under load."""

from functools import cache

import numpy as np

from mpcsim.capacity.model.costs import Costs, Stage
from mpcsim.capacity.model.operations import REQUEST, RESPONSE
from mpcsim.capacity.model.speed import Speed
from mpcsim.capacity.model.workload import SIGN
from mpcsim.capacity.recording import record_operation

TURN_MS = {"caller": 0.1, "node": 0.3, "gateway": 0.3, "operator": 0.2, "institution": 0.1}
"""Of event loops."""
MEAN_MS = 1.0
"""Of handling a message."""


@cache
def made_up(*names: str) -> Costs:
    """Of some operations (by default a signature): a millisecond a message, more or less."""
    generator = np.random.default_rng(1)
    stage = (Stage.from_samples("loop", MEAN_MS * generator.lognormal(0.0, 0.15, 4000)),)
    stages, version = {}, {}
    for name in names or (SIGN,):
        operation = record_operation(name)
        messages = [packet.kind for packet in operation.graph.messages]
        stages[name] = dict.fromkeys([REQUEST, RESPONSE, *messages], stage)
        version[name] = operation.digest
    return Costs(stages, TURN_MS, {}, Speed.NONE, version)
