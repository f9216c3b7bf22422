"""Three parties over loopback sockets: they finish, and whatever goes wrong ends in plain words."""

import asyncio
import os
import socket
from contextlib import ExitStack, suppress
from dataclasses import replace

import pytest
from coincurve import PublicKey
from nacl.signing import VerifyKey

from mpcsim.errors import Aborted, Reason
from mpcsim.ids import HOLDERS
from mpcsim.protocols import dkg, ecdsa, frost, results
from mpcsim.protocols.engine import Done
from mpcsim.sim import Adversary, alter_kind
from tests.examples.socket_driver import PeerGone, drive

DEADLINE_S = 60.0
"""Against hanging; sessions take a second at most."""


def over_sockets(parties, *, silent=(), deadline_s=DEADLINE_S, **options):
    """How each party's drive ended: its outcome, or what it raised."""

    async def together():
        parties_by_id = {party.me: party for party in parties}
        with ExitStack() as stack:
            made = {
                i: stack.enter_context(socket.create_server(("127.0.0.1", 0)))
                for i in (*parties_by_id, *silent)
            }
            at = {i: listening.getsockname() for i, listening in made.items()}
            drives = (
                drive(
                    p, made[i], {j: at[j] for j in at if j != i}, deadline_s=deadline_s, **options
                )
                for i, p in parties_by_id.items()
            )
            ends = await asyncio.gather(*drives, return_exceptions=True)
        return dict(zip(parties_by_id, ends, strict=True))

    return asyncio.run(together())


def generation(curve, **options):
    agreed, sid = dkg.setup(curve, 2, HOLDERS), os.urandom(32)
    return [dkg.party(agreed, i, session_id=sid, **options) for i in HOLDERS]


def test_a_key_and_an_ed25519_signature_that_libsodium_accepts():
    shares = results(over_sockets(generation("ed25519")))
    sid = os.urandom(32)
    setups = [frost.setup(shares[i], HOLDERS, b"pay 5 to bob") for i in HOLDERS]
    signatures = results(over_sockets(frost.party(s, session_id=sid) for s in setups))
    assert len({signature.encode() for signature in signatures.values()}) == 1
    key = VerifyKey(shares[1].public_key.encode())
    assert key.verify(b"pay 5 to bob", signatures[3].encode())


def test_a_key_and_a_secp256k1_signature_that_libsecp256k1_accepts():
    shares = results(over_sockets(generation("secp256k1")))
    digest, sid = os.urandom(32), os.urandom(32)
    setups = [ecdsa.setup(shares[i], (1, 3), digest) for i in (1, 3)]
    signature = results(over_sockets(ecdsa.party(s, session_id=sid) for s in setups))[1].encode()
    recoverable = signature[:64] + bytes([signature[64] - 27])
    found = PublicKey.from_signature_and_message(recoverable, digest, hasher=None)
    assert found.format() == shares[3].public_key.encode()


def test_a_peer_that_says_nothing_is_named_when_the_deadline_is_over():
    ends = over_sockets(generation("ed25519")[:2], silent=(3,), deadline_s=0.5)
    for end in ends.values():
        assert isinstance(end, TimeoutError)
        assert "waiting in round 2 (reveal) for Commit from 3" in str(end)


def test_a_cheater_is_named_and_the_others_are_told():
    one, two, three = generation("ed25519")
    cheat = Adversary(two, alter_kind("Reveal", lambda m: replace(m, blinding=bytes(32)), to={1}))
    ends = over_sockets([one, cheat, three])
    assert isinstance(ends[1], Aborted)
    assert ends[1].reason is Reason.COMMITMENT_OPENING
    assert ends[1].culprits == {2}
    assert isinstance(ends[3], Aborted)
    assert ends[3].reason is Reason.PEER_ABORTED
    assert ends[3].reported_by == 1


@pytest.mark.parametrize(
    "noise", [b"", b"\0", b"\0\1", b"\0\1\0\0\0\3abc", b"\0\x09", b"\0\1\xff\xff\xff\xff"]
)
def test_what_strangers_send_does_not_stop_a_session(noise):
    """They dial before the peers do; whom they pose as is lost, which ends in plain words."""

    async def disturbed():
        parties = generation("ed25519")
        made = [socket.create_server(("127.0.0.1", 0)) for _ in parties]
        at = dict(zip(HOLDERS, (listening.getsockname() for listening in made), strict=True))
        with suppress(OSError):
            _, writer = await asyncio.open_connection(*at[2])
            writer.write(noise)
            writer.close()
        drives = [
            drive(p, s, {j: at[j] for j in HOLDERS if j != p.me}, deadline_s=DEADLINE_S)
            for p, s in zip(parties, made, strict=True)
        ]
        return await asyncio.gather(*drives, return_exceptions=True)

    ends = asyncio.run(disturbed())
    posed = noise[:2] == b"\0\1"
    assert all(isinstance(end, PeerGone if posed else Done) for end in ends), ends
