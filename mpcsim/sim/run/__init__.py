"""Running parties over a network: in virtual time (``engine``) and in real time (``realtime``).

``session`` is what both have in common. ``compute`` says how long work takes, ``faults`` and
``adversary`` what goes wrong, ``ending`` what came of it. ``clock`` is virtual time for asyncio
programs.
"""
