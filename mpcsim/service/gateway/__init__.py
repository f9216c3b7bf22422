"""The gateway: sessions, activation of keys, suspensions, and the registry, over links to both MPC nodes."""
