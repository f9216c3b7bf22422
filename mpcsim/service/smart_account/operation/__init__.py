"""A UserOperation: its fields, digest, gas, limits, sponsorship and receipt."""

from mpcsim.service.smart_account.operation.fields import FIELDS, SIGNED, mapping_table
from mpcsim.service.smart_account.operation.operation import bind

__all__ = [
    "FIELDS",
    "SIGNED",
    "bind",
    "mapping_table",
]
