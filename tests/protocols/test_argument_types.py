"""Set-ups refuse an argument of another type by its name, before anything is computed with it."""

from functools import partial

import pytest

from mpcsim.errors import UsageError
from mpcsim.protocols import dkg, ecdsa, frost, presign, presigned, reshare
from mpcsim.protocols.sample_keys import keys, presignatures

K, E = keys("secp256k1"), keys("ed25519")
HASH, WHO = bytes(32), (1, 2)
FIRST = {"me": 1, "auth_keys": {1: HASH, 2: HASH}, "session_id": HASH}
NUMBERS = (1.0, True, "1", b"1", None)
BYTES = (bytearray(HASH), memoryview(HASH), "0" * 32, 32, None)
IDS = (3, 1.0, b"\1\2", bytearray(WHO), *(each for n in NUMBERS for each in ((n, 2), [2, n])))
DKG = {"curve_name": "secp256k1", "threshold": 2, "parties": (1, 2, 3)}
AGREED = dkg.setup(**DKG)
PART = presignatures(2, 3, WHO)[1][0]
USED = {"share": K[1], "presignature": PART, "finisher": 1, "message_hash": HASH, "rho": HASH}
SIGNED = {"share": K[1], "signers": WHO, "message_hash": HASH}
RESHARED = {"record": K[1].record, "dealers": WHO}
OTHERS = (None, 1, "share", bytes(9))

ARGUMENTS = [
    *((dkg.setup, DKG, name, of) for name, of in (("threshold", NUMBERS), ("parties", IDS))),
    (partial(dkg.party, AGREED), {"me": 1, "session_id": HASH}, "me", NUMBERS),
    (partial(dkg.party, AGREED), {"me": 1, "session_id": HASH}, "session_id", BYTES),
    (ecdsa.setup, SIGNED, "message_hash", BYTES),
    (ecdsa.setup, SIGNED, "signers", IDS),
    (ecdsa.setup, SIGNED, "share", OTHERS),
    (ecdsa.setup, SIGNED, "path", ("m/0", [0], None, *((n,) for n in NUMBERS))),
    (frost.setup, {"share": E[1], "signers": WHO, "message": b""}, "message", BYTES),
    (frost.setup, {"share": E[1], "signers": WHO, "message": b""}, "signers", IDS),
    (frost.setup, {"share": E[1], "signers": WHO, "message": b""}, "share", OTHERS),
    (presign.setup, {"share": K[1], "signers": WHO, "count": 1}, "count", NUMBERS),
    (presign.setup, {"share": K[1], "signers": WHO, "count": 1}, "signers", IDS),
    (presign.setup, {"share": K[1], "signers": WHO, "count": 1}, "share", OTHERS),
    *((presigned.setup, USED, name, BYTES) for name in ("message_hash", "rho")),
    *((presigned.setup, USED, name, OTHERS) for name in ("share", "presignature")),
    (presigned.setup, USED, "finisher", NUMBERS),
    *((reshare.setup, RESHARED, name, IDS) for name in ("dealers", "receivers")),
    (reshare.setup, RESHARED, "threshold", NUMBERS[:-1]),
    (reshare.setup, RESHARED, "record", OTHERS),
    (reshare.setup, RESHARED, "share", OTHERS[1:]),
    *(
        (prestart, {"epoch": HASH, "signers": WHO, name: right, **FIRST}, argument, wrong)
        for prestart, name, right, of in (
            (ecdsa.prestart, "message_hash", HASH, BYTES),
            (frost.prestart, "message", HASH, BYTES),
            (presign.prestart, "count", 1, NUMBERS),
        )
        for argument, wrong in (
            *((name, of), ("epoch", BYTES), ("signers", IDS), ("me", NUMBERS)),
            ("session_id", BYTES),
        )
    ),
]


@pytest.mark.parametrize(
    ("setup", "right", "argument", "others"),
    ARGUMENTS,
    ids=[f"{getattr(each[0], '__module__', 'dkg').split('.')[-1]}-{each[2]}" for each in ARGUMENTS],
)
def test_another_type_is_refused_by_name(setup, right, argument, others):
    setup(**right)
    for other in others:
        if argument == "receivers" and other is None:
            continue
        with pytest.raises(UsageError, match=rf"^{argument}: expected \w+, not \w+$"):
            setup(**right | {argument: other})
