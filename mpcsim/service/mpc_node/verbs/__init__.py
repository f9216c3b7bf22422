"""Requests that the gateway may make of an MPC node, by subject; ``node`` has the table of verbs.

``vault``, ``key_creation``, ``signing``, ``sessions``, ``activation``, ``suspension``, ``peer``.
Each method reads a body, checks the grant for it, and returns the body of the answer.
"""
