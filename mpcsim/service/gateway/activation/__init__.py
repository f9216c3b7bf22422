"""Which key is in force: votes, decisions, attestations, suspensions."""
