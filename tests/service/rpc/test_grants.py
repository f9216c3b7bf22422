"""Grants: what an MPC node takes for one, and for what."""

import pytest

from mpcsim.crypto.rng import SeededRng
from mpcsim.ids import INSTITUTION, OPERATOR
from mpcsim.service.rpc import grants

KEY, BOOT = bytes(range(32)), b"b" * 16
SCOPE = grants.Scope("sign", "alice", b"k" * 32, b"s" * 32, b"pay 5 to bob")


class Ends:
    """An issuer and a reader that agree, unless told otherwise."""

    def __init__(self, party=OPERATOR, key=KEY):
        self.now = 1_800_000_000.0
        self.issuer = grants.GrantIssuer(
            party, grants.Keyring(grants.LinkKeys(key)), SeededRng(1), lambda: self.now
        )
        self.reader = grants.GrantReader(
            OPERATOR, grants.Keyring(grants.LinkKeys(KEY)), BOOT, lambda: self.now
        )

    def issue(self, scope=SCOPE, boot=BOOT):
        return self.issuer.issue(scope, boot)

    def refused(self, data, text, kind=grants.GrantRefused):
        with pytest.raises(kind, match=text) as refused:
            self.reader.read(data)
        assert type(refused.value) is kind
        assert refused.value.status == 401


@pytest.fixture
def ends():
    return Ends()


SCOPES = [
    SCOPE,
    grants.Scope("standing"),
    grants.Scope("close", "alice", None, b"s" * 32),
    grants.Scope("sign", message=b""),
    grants.Scope("sign", message=b"", path=(0, 7)),
]


@pytest.mark.parametrize("scope", SCOPES)
def test_a_grant_is_for_its_scope(ends, scope):
    grant = ends.reader.read(ends.issue(scope))
    assert grant.user_id == scope.user_id
    grant.check(scope)


OTHER_SCOPES = [
    ("verb", {"verb": "open"}),
    ("user", {"user_id": "mallory"}),
    ("user", {"user_id": ""}),
    ("key", {"key_id": b"K" * 32}),
    ("key", {"key_id": None}),
    ("session", {"session_id": b"S" * 32}),
    ("session", {"session_id": None}),
    ("message", {"message": b"pay 5 to eve"}),
    ("message", {"message": b""}),
    ("message", {"message": None}),
    ("message", {"path": (7,)}),
]


@pytest.mark.parametrize(("what", "other"), OTHER_SCOPES)
def test_a_grant_is_for_nothing_else(ends, what, other):
    for granted, asked in [(SCOPE, SCOPE._replace(**other)), (SCOPE._replace(**other), SCOPE)]:
        grant = ends.reader.read(ends.issue(granted))
        with pytest.raises(grants.GrantRefused, match=f"^the grant is for another {what}$"):
            grant.check(asked)


def test_a_grant_is_good_once(ends):
    data, other = ends.issue(), ends.issue()
    assert data != other, "the same twice are two"
    ends.reader.read(data)
    ends.refused(data, "used before")
    ends.reader.read(other)
    ends.now += 59
    ends.refused(data, "used before")


def test_a_grant_is_good_for_a_minute_and_not_remembered_for_longer(ends):
    used, data = ends.issue(), ends.issue()
    ends.reader.read(used)
    ends.now += 60
    for late in (used, data):
        ends.refused(late, "expired")
    ends.reader.read(ends.issue())
    assert len(ends.reader._used) == len(ends.reader._expiring) == 1


@pytest.mark.parametrize("fast_s", [1, 50, 59])
def test_a_used_grant_is_not_good_again_when_the_readers_clock_steps_back(ends, fast_s):
    used = ends.issue()
    start = ends.now
    ends.now = start + fast_s
    ends.reader.read(used)
    ends.now = start + grants.LIFETIME_S + 1
    ends.reader.read(ends.issue())  # what has expired is forgotten
    ends.now = start
    ends.refused(used, "used before")
    ends.reader.read(ends.issue())  # what is issued by the gateway's right clock is good


def test_clocks_may_differ_by_less_than_a_minute(ends):
    for ahead, fine in [(60, True), (60.1, False), (-59.9, True), (-60, False)]:
        now = ends.now
        ends.now += ahead
        data = ends.issue()
        ends.now = now
        if fine:
            ends.reader.read(data)
        else:
            ends.refused(data, "the clocks differ by over a minute")


def test_a_grant_from_before_a_start_is_told_from_others(ends):
    ends.refused(ends.issue(boot=b"B" * 16), "before this MPC node's last start", grants.StaleGrant)


def test_a_grant_is_good_at_one_mpc_node():
    for strange in (Ends(key=bytes(32)), Ends(INSTITUTION, bytes(32))):
        strange.refused(strange.issue(), "not the gateway's")
    ends = Ends(INSTITUTION)  # the same key at both would be a mistake
    ends.refused(ends.issue(), "for another MPC node")


def test_no_byte_of_a_grant_can_be_changed_left_out_or_added(ends):
    data = ends.issue()
    for at in range(len(data)):
        ends.refused(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :], "not the gateway's")
        ends.refused(data[:at], "not the gateway's")
    ends.refused(data + b"\0", "not the gateway's")
    ends.reader.read(data)


def test_what_is_no_grant_though_the_key_is_right(ends):
    content = ends.issue()[32:]
    for wrong in (b"", content[:-1], content + b"\0"):
        ends.refused(grants._mac(KEY, wrong) + wrong, "malformed")


def test_a_key_that_is_changed():
    old, new = grants.LinkKeys(KEY), grants.LinkKeys(bytes([7]) * 32)
    now, at_gateway, at_node = [1000.0], [old], [old]
    looked = []

    def ring(file):
        known = file[0]

        def reread():
            nonlocal known
            looked.append(file)
            changed, known = file[0] is not known, file[0]
            return known if changed else None

        return grants.Keyring(known, reread)

    issuer = grants.GrantIssuer(OPERATOR, ring(at_gateway), SeededRng(1), lambda: now[0])
    reader = grants.GrantReader(OPERATOR, ring(at_node), BOOT, lambda: now[0])

    def grant():
        return issuer.issue(grants.Scope("sign"), BOOT)

    reader.read(grant())
    early, looked[:] = grant(), []
    at_node[0] = grants.LinkKeys(KEY, new.key)
    at_gateway[0] = new
    reader.read(grant())
    assert not looked  # nobody looks all the time
    now[0] += 1
    of_new = grant()
    assert looked == [at_gateway]
    at_node[0] = grants.LinkKeys(new.key, KEY, until=1050.0)
    reader.read(of_new)
    now[0] += 0.5
    reader.read(early)
    newest = grants.GrantIssuer(
        OPERATOR, grants.Keyring(grants.LinkKeys(bytes(32))), SeededRng(2), lambda: now[0]
    )
    looked.clear()
    with pytest.raises(grants.GrantRefused, match="not the gateway's"):
        reader.read(newest.issue(grants.Scope("sign"), BOOT))
    at_node[0] = grants.LinkKeys(bytes(32), new.key, until=1050.0)
    reader.read(newest.issue(grants.Scope("sign"), BOOT))
    assert looked == [at_node] * 2  # at once, since a grant was not good
    reader.read(grant())
    now[0] = 1050.0
    with pytest.raises(grants.GrantRefused, match="not the gateway's"):
        reader.read(grant())
    now[0] = 0.0  # a clock that is put back does not keep anybody from looking
    at_node[0] = new
    reader.read(grant())
