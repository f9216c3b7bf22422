"""Networks in TOML files: ``networks`` a whole one, ``latencies`` and ``tables`` its parts."""
