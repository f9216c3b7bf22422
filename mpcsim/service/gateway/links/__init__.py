"""The gateway's links to the MPC nodes."""
