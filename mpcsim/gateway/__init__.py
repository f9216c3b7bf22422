"""The gateway, and the two MPC nodes behind it."""
