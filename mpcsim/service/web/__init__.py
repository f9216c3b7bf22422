"""HTTP between the services: clients, servers, errors, request ids, logs, limits."""
