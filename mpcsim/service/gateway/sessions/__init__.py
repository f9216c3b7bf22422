"""Sessions at the gateway: ``sessions`` (life cycle, the protocol page), ``key_queue`` (places),
``routing`` (messages), ``streaming`` and ``body_validation`` (messages while they arrive)."""
