"""Activation and suspension of keys: two protocols between gateway and MPC nodes, a page each.

``decision`` (activation, the page), ``activation`` (its messages), ``idempotency``;
``suspensions`` (suspension, the page), ``attestations``.
"""
