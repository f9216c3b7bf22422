"""Links of the gateway to the MPC nodes."""
