"""Compilation of a deployment into the kernel's records, and the driver of the kernel.

``call_graph`` is the graph of messages of a call, ``machines`` are resources and processes;
``compilation`` and ``layout`` write them down as records, ``incidents`` the disturbances;
``latencies`` are drawn for all links. ``driver`` runs the kernel, ``stepping`` gives single steps
of it to the real service.
"""
