"""Agreement of the two MPC nodes: each acts on the other's signed statements, whoever carries them.

``voting`` (shares come into force), ``attestations`` (suspended keys, every hour), ``testimonies``
(a store that was restored from a backup).
"""
