"""TCP as Linux does it: congestion control, loss recovery, handshakes, and giving up."""
