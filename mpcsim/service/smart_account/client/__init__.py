"""Client of the smart-account flow for wallet backends, with tables and figures."""

from mpcsim.service.smart_account.client.anatomy import alter_field, refusal_reason
from mpcsim.service.smart_account.client.client import (
    HttpTransport,
    RequestRefused,
    SmartAccountClient,
)
from mpcsim.service.smart_account.client.figures import digest_anatomy, gas_chart, steps_diagram
from mpcsim.service.smart_account.client.tables import (
    View,
    balances,
    balances_view,
    events_view,
    fields_view,
    receipt_view,
)

__all__ = [
    "HttpTransport",
    "RequestRefused",
    "SmartAccountClient",
    "View",
    "alter_field",
    "balances",
    "balances_view",
    "digest_anatomy",
    "events_view",
    "fields_view",
    "gas_chart",
    "receipt_view",
    "refusal_reason",
    "steps_diagram",
]
