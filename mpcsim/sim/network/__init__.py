"""How long messages take: sites and links, latencies, what TCP makes of a message, public figures.

``topology`` joins them to a ``Network``; ``draws`` is where randomness enters.
"""
