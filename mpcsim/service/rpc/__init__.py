"""What gateway and MPC nodes say to each other, and how each knows who says it."""
