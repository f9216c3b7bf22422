"""HTTP interface of the gateway: routes, OpenAPI document, token keys, metrics, smart accounts."""

from typing import TYPE_CHECKING

from mpcsim.lazy_names import lazy_names

if TYPE_CHECKING:
    from mpcsim.service.gateway.api.smart_accounts import MakeService, in_own_process, over_rpc
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "MakeService",
    "in_own_process",
    "over_rpc",
]
