"""What parties learn, and what they do not."""

import json
from types import SimpleNamespace

import pytest

from mpcsim.lab.explorer import Explorer
from mpcsim.lab.explorer.model import KnowledgeTrace
from mpcsim.lab.explorer.model.knowledge import BEFORE, KNOWLEDGE, OWN, secrets_in
from mpcsim.lab.explorer.model.model import as_json, details
from mpcsim.lab.explorer.model.model import view as make_view
from mpcsim.protocols.signing import PROTOCOLS

SECRET_KEPT = {"ecdsa": {"x_i", "r_i", "phi_i", "chi_ij", "sk_i", "c_ij"}, "frost": {"sk_i"}}


def gained(view):
    return [(step.party, item) for step in view.steps for item in step.gained]


def test_everything_that_the_tables_point_at_is_there(session):
    """A path that leads nowhere would mean that the protocol has changed under the table."""
    known = KNOWLEDGE[session.view.protocol]
    recording = session.recording
    for round_, items in known.by_round.items():
        for item in items:
            if not item.path:
                continue
            learning = KnowledgeTrace(session.view.protocol, recording, reveal=True)
            kept = [learning._stored_value(i, round_, item.path) for i in recording.parties]
            assert any(value is not None for value in kept), (round_, item)


def test_the_tables_fit_the_protocols():
    for name, definition in PROTOCOLS.items():
        known = KNOWLEDGE[name]
        assert set(known.by_message) == {sends.kind for _, sends in definition.kinds()}
        rounds = {r.number for r in definition.rounds}
        assert set(known.by_round) <= {BEFORE, *rounds}
        assert rounds <= set(known.by_round)


def test_nobody_is_told_what_it_must_never_learn(session):
    view = session.view
    rows = [row for party in view.parties for row in view.never[str(party.id)]]
    assert not any(row.found for row in rows)
    searched = [row.name for row in rows if row.found is False]
    if view.protocol != "frost":
        assert searched
    assert any(row.name == "the private key" for row in rows)
    assert view.never["network"]


def test_a_secret_that_is_given_away_is_found(wallet, explorer):
    """The search finds what is there: the share of party 3, sent by it as a nonce."""
    share = wallet.shares[3].secret_share.encode()
    explorer.edit(3, 1, "Commit", "nonce", "replace", share)
    found = {row.name: row.found for row in explorer.view.never["1"]}
    assert found["x_3"] is True
    assert found["r_3"] is False


def test_secrets_are_not_in_what_the_browser_gets(session):
    text = json.dumps([as_json(session.view), {k: as_json(d) for k, d in session.details.items()}])
    recording = session.recording
    secrets = [
        secret
        for party in recording.parties.values()
        for path in ("share.secret_share", "share.peers")
        for secret in secrets_in(_find(party.setup, path))
    ]
    known = KNOWLEDGE[session.view.protocol]
    learning = KnowledgeTrace(session.view.protocol, recording, reveal=True)
    for round_, items in known.by_round.items():
        for item in items:
            if item.kind == OWN and item.name != "R_i" and item.path:
                for i in recording.parties:
                    secrets += secrets_in(learning._stored_value(i, round_, item.path))
    assert not [s for s in secrets if s.hex() in text]
    assert not session.view.revealed


def _find(value, path):
    for name in path.split("."):
        value = getattr(value, name, None)
    return value


def test_secrets_show_on_request(wallet):
    explorer = Explorer.live(wallet, "sign", signers=(1, 3), reveal=True)
    view = explorer.view
    assert view.revealed
    own = {item.name: item.value for who, item in gained(view) if who == 1 and item.kind == OWN}
    assert own["x_i"] == wallet.shares[1].secret_share.encode().hex()
    assert set(own) >= SECRET_KEPT["ecdsa"]
    assert all(own[name] for name in SECRET_KEPT["ecdsa"])
    shown = [f.value for f in explorer.details["3>1 Respond"].fields]
    assert all(shown[1:])


def test_a_party_that_breaks_off_learns_nothing_from_that_round(explorer):
    explorer.edit(3, 1, "Respond", "R_i", "+ G")
    names = [item.name for who, item in gained(explorer.view) if who == 1]
    assert "R_3" in names
    assert "R" not in names
    explorer.reset().edit(3, 1, "Respond", "", "append a byte")
    names = [item.name for who, item in gained(explorer.view) if who == 1]
    assert "R_3" not in names


def test_what_a_party_does_not_have_is_not_listed(monkeypatch):
    learning = KnowledgeTrace("ecdsa", SimpleNamespace(kept={(1, 1): "kept"}), reveal=True)
    for value, listed in ((None, False), ((), False), ((1,), True), (0, True)):
        monkeypatch.setattr(learning, "_stored_value", lambda *_, value=value: value)
        assert learning._has_item(SimpleNamespace(path="path"), 1, 1) == listed


@pytest.mark.parametrize("reveal", [False, True])
def test_a_trace_alone_has_names_but_no_values(wallet, reveal):
    result = wallet.sign(signers=(1, 3))
    view = make_view(result.trace, network=wallet.network, reveal=reveal)
    items = [item for _, item in gained(view)]
    assert {"r_i", "chi_ij", "sk_i"} <= {item.name for item in items}
    assert all(item.value is None and not item.hidden for item in items)
    assert all(row.found is None for rows in view.never.values() for row in rows)
    assert all(f.value is None for d in details(result.trace, None).values() for f in d.fields)
