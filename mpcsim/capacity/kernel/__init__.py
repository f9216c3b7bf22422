"""The compiled discrete-event simulation, in the order of the model (``mpcsim.capacity``).

``simulation_loop`` takes the next event from ``event_queue``, the arrivals, the resources and the
network. ``calls.orders`` begins calls, ``messages`` moves their messages: through
``connection_pool``, ``admission`` (limits and key locks), ``process_queues`` and ``cpu_scheduler``.
``calls.completion`` ends calls and retries them, ``calls.statistics`` counts. ``incidents`` and
``process_failures`` disturb all that. ``draws`` are the random numbers, ``records`` the state.
"""
