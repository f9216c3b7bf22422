"""The wallet service behind the REST node: gateway and both MPC nodes, and what operates them.

Imports ``crypto``, ``protocols`` and ``sim``. In reading order:

- ``vault``: the client's share under a password; ``error_codes``, ``errors``: what is refused
- ``process``: sockets, signals, settings of a server; ``rpc``: what servers say to each other
- ``web``: HTTP, request ids, log lines; ``storage``: SQLite files
- ``mpc_node``: one MPC node; ``gateway``: sessions, activation, registry
- ``smart_account``: the ERC-4337 flow
- ``operations``: all put together; backups, restore, doctor, rotation
- ``metrics``, ``request_traces``, ``fault_injection``: looked at, and broken on purpose
"""
