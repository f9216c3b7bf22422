"""The REST node: a stateless HTTP service that makes, recovers and uses key shares.

Imports ``mpcsim``'s rooms up to ``service``. In reading order:

- ``models``, ``errors``, ``checks``: what callers send and see, and what is checked of it
- ``process``: settings, log lines, workers; ``gateway_client``: how the gateway is asked
- ``signing``: sessions of the caller's party; ``wallet``: its verbs, and passwords
- ``api``: routes and what protects them; ``app``: all of it as an ASGI application
- ``serving``: that on a port; ``controlled``: the same with switches
- ``local``: gateway, MPC nodes and node in one process, for notebooks; ``calls``: a call, recorded
"""
