"""The gateway's HTTP interface: routes, documents, limits, token keys, smart accounts."""
