"""Verbs that the gateway may ask of an MPC node, by subject; ``node`` has the table of them.

``vault``, ``key_creation``, ``signing``, ``sessions``, ``activation``, ``suspension``, ``peer``.
Each method reads a body, checks the grant for it, and returns the body of the answer.
"""
