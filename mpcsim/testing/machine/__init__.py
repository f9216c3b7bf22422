"""The state machine that calls a wallet backend at random."""
