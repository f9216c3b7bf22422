"""The wallet service behind the REST node: gateway, both MPC nodes, and what operates them."""
