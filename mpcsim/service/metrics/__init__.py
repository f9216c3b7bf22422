"""Metrics of a running process in Prometheus' format, and its readiness.

They are served on a port of their own, and only if it is asked for.

Counting is done where things happen, in plain integers (``durations``, ``requests``); whatever can
be read when somebody looks is read then. What a part has of its own stands beside it:
``mpcsim/service/gateway/api/metrics.py``, ``mpcsim/service/mpc_node/metrics.py``,
``node/api/metrics.py``.

No label has a value that a caller chooses, and none names a user, a key or a request: there are as
many series as there are operations, phases and reasons. All names stand in
``notebooks/guides/metrics.md``, with what they mean.
"""
