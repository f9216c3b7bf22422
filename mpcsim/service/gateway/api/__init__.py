"""HTTP interface of the gateway: routes, OpenAPI document, token keys, metrics, smart accounts."""

from mpcsim.service.gateway.api.smart_accounts import MakeService, in_own_process, over_rpc
from mpcsim.service.gateway.api.token_keys import TOKEN_LIFETIME_S

__all__ = [
    "TOKEN_LIFETIME_S",
    "MakeService",
    "in_own_process",
    "over_rpc",
]
