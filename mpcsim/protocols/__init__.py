"""The wallet's protocols. Each has a module of messages, of steps (pure functions, in the order of
the paper or RFC) and of rounds (the contract, and how the steps are put together)."""
