"""Networks in TOML files: what ``Network.load`` reads and ``Network.save`` writes.

    name = "office"

    [sites.client]
    [sites.gateway]
    service_ms = 0.2
    ...

    [links.client-gateway]      # any name; it is what errors say
    a = "client"
    b = "gateway"
    latency = "office line"     # one way: milliseconds, a distribution's name, or a table
    mbit_per_s = 40.0
    loss = 0.001

    [distributions."office line"]
    kind = "log-normal"
    median_ms = 9.5
    sigma = 0.8
    floor_ms = 7.0

    [placement]
    client = "client"           # a party's role or number, and its site
    ...

    [connection]
    tls_round_trips = 1

Keys are the fields of ``Site``, ``Link``, ``Connection`` and the latencies, and what is left out is
as there. An error begins with the path of its entry: ``links.client-gateway.latency.sigma: ...``.
"""
