"""TCP, segment by segment, compiled: as Linux 6 (``linux``) or ns-3 3.37 (``ns3``) implement it.

Implemented: connection establishment and abort (RFC 9293), congestion control (RFC 5681, Reno; RFC
9438, CUBIC), retransmission timeout (RFC 6298), SACK recovery (RFC 6675), proportional rate
reduction (RFC 6937), RACK-TLP (RFC 8985), F-RTO (RFC 5682), delayed acknowledgements, and flights
of TLS. Assumed: packets of a direction arrive in order; segments are never split. Left out: the
receive window, closing handshakes, HyStart, ECN, pacing, BBR.

``state`` has the variables; ``kernel`` is the event loop of a connection, ``traffic`` that of all;
``wire`` is a link's direction, ``segments`` a sender's data, ``receiver`` its far end. Each rule
has a test: ``tests/sim/network/tcp/rules.txt``.
"""
