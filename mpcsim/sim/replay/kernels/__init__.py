"""Compiled loops of the replay.

``replay_loop`` is the discrete-event simulation, ``fitted_loop`` its approximation; ``draws`` is
their randomness, ``arrays`` has the array types. For models see ``mpcsim.sim.replay`` and
``mpcsim.sim.replay.fitted``.
"""
