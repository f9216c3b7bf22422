"""What is sealed end to end is AES-256-GCM, by Wycheproof."""

from collections import Counter
from dataclasses import replace

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from mpcsim.crypto import SeededRng
from mpcsim.protocols.engine import Envelope, channel
from tests.helpers.vectors import load

PAIR_SECRET = bytes(range(32))
ENVELOPE = Envelope(2, 1, True, 1, 2, bytes(32), b"")


def key_bytes(monkeypatch):
    """How long the keys are that messages are sealed under."""
    lengths = []

    def recording(key):
        lengths.append(len(key))
        return AESGCM(key)

    with monkeypatch.context() as patched:
        patched.setattr(channel, "AESGCM", recording)
        sealed = channel.seal(PAIR_SECRET, ENVELOPE, b"", SeededRng(0))
        assert channel.unseal(PAIR_SECRET, sealed) == b""
    (length,) = set(lengths)
    return length


def test_aes_gcm_wycheproof(monkeypatch):
    document = load("wycheproof/aes_gcm_test.json.gz")
    ours = key_bytes(monkeypatch), len(channel._NONCE), channel.TAG_BYTES
    assert ours == (32, 12, 16)
    salt = SeededRng("salt").bytes(channel.SALT_BYTES)
    checked = Counter()
    for group in document["testGroups"]:
        sizes = tuple(group[name] // 8 for name in ("keySize", "ivSize", "tagSize"))
        if sizes != ours:
            checked["another size"] += len(group["tests"])
            continue
        for case in group["tests"]:
            key, nonce, header, message, sealed, tag = (
                bytes.fromhex(case[name]) for name in ("key", "iv", "aad", "msg", "ct", "tag")
            )
            # Key, nonce and header are the case's; what is left is how a body is cut and opened.
            monkeypatch.setattr(channel, "AESGCM", lambda _, key=key: AESGCM(key))
            monkeypatch.setattr(channel, "_NONCE", nonce)
            monkeypatch.setattr(Envelope, "header", lambda _, header=header: header)
            body = salt + sealed + tag
            opened = channel.unseal(PAIR_SECRET, replace(ENVELOPE, body=body))
            if case["result"] == "valid":
                assert opened == message, case["tcId"]
                again = channel.seal(PAIR_SECRET, ENVELOPE, message, SeededRng("salt"))
                assert again.body == body, case["tcId"]
            else:
                assert opened is None, case["tcId"]
            checked[case["result"]] += 1
    assert checked == {"valid": 39, "invalid": 27, "another size": 250}
    assert checked.total() == document["numberOfTests"]
