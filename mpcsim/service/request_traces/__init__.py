"""What became of a call at node, gateway and MPC nodes: told from the log files of all of them.

``lines`` reads the files (``mpcsim.service.web.log_files`` writes them), ``story`` puts together
what bears one request id, by who asked whom, ``text`` tells it, and ``traced`` makes a trace of it
as the simulator has them.
"""
