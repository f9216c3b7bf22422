"""Contents of a session's messages as plain data: SECRETS that only their receivers may see."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from mpcsim.crypto.encoding import Message
from mpcsim.crypto.groups.group import Point, Scalar
from mpcsim.crypto.kernels.interface import ScalarVector
from mpcsim.errors import InvalidEncoding
from mpcsim.sim.run.message_recording import DecryptedMessage, Recording
from mpcsim.sim.traces.records import MessageRecord


def message_contents(recording: Recording, messages: Iterable[MessageRecord]) -> dict[int, Any]:
    """Return the contents of messages, by number; messages that were not recorded are left out.

    Each has ``sealed`` and ``fields``, by name: numbers, texts, and bytes, scalars and points in
    hexadecimal, as they are encoded (vectors of scalars as 32 bytes each, little-endian). One that
    is no message of its kind, or does not open with its sender's keys, has ``bytes`` in place of
    the fields: its payload, or what was sent instead.
    """
    found: dict[int, Any] = {}
    nth: defaultdict[tuple[Any, ...], int] = defaultdict(int)
    for message in messages:
        flow = message.sender, message.receiver, message.kind
        if message.fate == "duplicate":
            continue
        sent = recording.sent.get(flow, [])
        if nth[flow] < len(sent):
            opened = recording.decrypt(flow, nth[flow])
            found[message.number] = _content(opened, sent[nth[flow]][0].data)
        nth[flow] += 1
    return found


def _content(opened: DecryptedMessage, data: bytes) -> dict[str, Any]:
    payload = data if opened.payload is None else opened.payload
    try:
        fields = to_json_value(opened.kind.decode(payload, opened.context))
    except InvalidEncoding:
        return {"sealed": opened.sealed, "bytes": payload.hex()}
    return {"sealed": opened.sealed, "fields": fields}


def to_json_value(value: Any) -> Any:
    """Return a message's value in JSON's types."""
    match value:
        case Message():
            return {name: to_json_value(getattr(value, name)) for name, _ in value.CODECS}
        case Scalar() | Point() | ScalarVector():
            return value.encode().hex()
        case bytes():
            return value.hex()
        case Mapping():
            return {str(key): to_json_value(each) for key, each in value.items()}
        case None | str() | int():
            return value
    return [to_json_value(each) for each in value]
