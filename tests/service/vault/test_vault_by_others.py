"""What the vault seals is XChaCha20-Poly1305, by Wycheproof."""

from collections import Counter
from types import SimpleNamespace

import pytest

from mpcsim.service import vault
from mpcsim.service.vault import presignatures, sealing
from mpcsim.service.vault.strings import KEY_BYTES, NONCE_BYTES
from tests.helpers.drawn import Drawn
from tests.helpers.vectors import load


def test_xchacha20_poly1305_wycheproof(monkeypatch):
    document = load("wycheproof/xchacha20_poly1305_test.json.gz")
    checked = Counter()
    for group in document["testGroups"]:
        if (group["keySize"], group["ivSize"]) != (8 * KEY_BYTES, 8 * NONCE_BYTES):
            checked["another size"] += len(group["tests"])
            continue
        for case in group["tests"]:
            key, nonce, associated, message, ciphertext, tag = (
                bytes.fromhex(case[name]) for name in ("key", "iv", "aad", "msg", "ct", "tag")
            )
            # Ours are derived from all that is bound; these are the case's.
            monkeypatch.setattr(sealing, "share_key", lambda store, vault_key, key=key: key)
            for module in (sealing, presignatures):
                monkeypatch.setattr(
                    module, "_associated_data", lambda *bound, associated=associated: associated
                )
            store = SimpleNamespace(key_id="", curve="")
            share = vault.EncryptedShare(nonce, ciphertext + tag)
            presignature = vault.SealedPresignature(None, nonce, ciphertext + tag)
            if case["result"] == "valid":
                assert vault.open_share(share, store, None, "") == message, case["tcId"]
                assert vault.open_presignature(presignature, key, "") == message, case["tcId"]
                again = vault.seal_presignature(message, None, key, "", Drawn(NONCE_BYTES, [nonce]))
                assert again == presignature, case["tcId"]
            else:
                with pytest.raises(vault.WrongKey):
                    vault.open_share(share, store, None, "")
                with pytest.raises(vault.WrongKey):
                    vault.open_presignature(presignature, key, "")
            checked[case["result"]] += 1
    assert checked == {"valid": 246, "invalid": 60, "another size": 9}
    assert checked.total() == document["numberOfTests"]
