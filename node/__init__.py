"""The REST node: a stateless HTTP service that makes, recovers and uses key shares.

``app`` puts it together. A request goes through ``logs`` (one line each), ``protected`` (token and
body, in that order) and ``routes`` (what is asked) to ``wallet``, which asks ``gateway``.
``models`` and ``errors`` are what callers see, ``docs`` describes it to them, ``serving`` binds the
port.

``local`` runs all of it, gateway and MPC nodes included, in one process; ``calls`` and ``panel``
ask how long a signing call takes, and why.
"""
