"""Every step of the kit beside a reviewed copy: its sentence, what it sends and what it refuses."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from coincurve import PrivateKey
from nacl.signing import SigningKey

from mpcsim.crypto import encoding as wire
from mpcsim.crypto.groups.ed25519 import ED25519
from mpcsim.crypto.groups.secp256k1 import SECP256K1
from mpcsim.sim.run.faults import Crash, delay, drop, duplicate, partition
from mpcsim.testing import ApiRun, BrokenInvariant, invariant
from mpcsim.testing.api_sequence import Call
from mpcsim.testing.backend.service import Answer, Request
from mpcsim.testing.machine.api_steps import (
    BAD_PATHS,
    FAULTS,
    HASH,
    NONSENSE,
    OPERATIONS,
    PROTECTED,
)
from mpcsim.testing.machine.rules import CONCURRENT, arguments, outages, rules
from mpcsim.testing.machine.shrink import _candidates
from mpcsim.testing.model import IssuedShare, Key, User
from mpcsim.testing.runs.fields import _changes, _spoils
from mpcsim.testing.runs.protocol_run import _code, fault_sentence

SCALAR, POINT = wire.ScalarCodec(), wire.PointCodec()
COPY = Path(__file__).with_name("steps.txt")
JSON = {"content-type": "application/json"}
DOCUMENT: dict[str, Any] = {
    "user_id": "the same", "username": "x", "created_at": 0, "signature": "00", "xpub": "x",
    "presignatures": ["p"], "keys": [{"curve": "ed25519", "key_id": "k"}], "public_key": "0xff",
    "wallets": [{"key": {"curve": "ed25519", "public_key": "0xff"}, "address": {}}],
    "token": "a.b.c", "token_type": "Bearer", "expires_in": 1, "key_id": "a-ed25519-1",
}  # fmt: skip
ED, EC = SigningKey(bytes(32)), PrivateKey(b"k" * 32)
PUBLIC = {"ed25519": bytes(ED.verify_key), "secp256k1": EC.public_key.format()}
SIGNED, HASHED = bytes.fromhex(HASH), EC.sign_recoverable(bytes.fromhex(HASH), hasher=None)
SIGNATURES = ED.sign(SIGNED).signature.hex(), HASHED[:64].hex() + f"{27 + HASHED[64]:02x}"
OWN = [{"curve": c, "key_id": f"a-{c}-{n}", "public_key": f"0x{PUBLIC[c].hex()}"}
       for c, n in (("ed25519", 1), ("secp256k1", 0))]  # fmt: skip
ADDRESSES = dict.fromkeys(("solana", "evm", "btc", "aptos", "tron", "xrp"), "x")
RIGHT = DOCUMENT | {"keys": OWN, "encrypted_share": "new", "secret_store": "new"}
RIGHT["wallets"] = [{"key": key, "address": ADDRESSES} for key in OWN]
ODD = {"keys": [{"curve": None, "key_id": 5}, *DOCUMENT["keys"]], "wallets": [5]}
SAID: dict[str, Any] = {"{}": {}, "document": DOCUMENT, "result": {"result": True}, "[]": []}
SAID |= {
    key["curve"]: RIGHT | key | {"key_id": "0" * 64, "signature": signature, "presignatures": []}
    for key, signature in zip(OWN, SIGNATURES, strict=True)
}
SAID |= {"twice": RIGHT | {name: RIGHT[name] * 2 for name in ("keys", "wallets")}}
SAID |= {"odd": DOCUMENT | ODD, "no wallets": DOCUMENT | {"wallets": None, "keys": ["k", {}]}}
ANSWERS = {
    **{name: Answer(200, json.dumps(said), JSON) for name, said in SAID.items()},
    **{f"{status}": Answer(status, '{"error": "x"}', JSON) for status in (400, 404, 409, 504)},
    **{text: Answer(404, text, JSON) for text in ("-", '{"error": "x", "b": 7}', '{"error": 7}')},
    "418": Answer(418, '{"error": "x"}', JSON),
    "plain": Answer(404, '{"error": "x"}', {"Content-Type": "text/plain"}),
    "tells": Answer(400, '{"error": "not alice, whose password is password"}', JSON),
    "755": Answer(401, '{"error": "Authentication failed: {\\"code\\": 755}"}', JSON),
    "upstream": Answer(500, '{"error": "Upstream returned 409"}', JSON),
}
AT = {"user": "alice", "curve": "ed25519"}
EC = {"user": "alice", "curve": "secp256k1"}
CALLS = [
    *(Call(name, {"user": "alice"}) for name in ("keys", "wallet", "information")),
    *(Call(name) for name in ("health", "all_list_keys", "all_sign_at_once", "lose_nothing")),
    *(Call(name, {"part": "operator"}) for name in ("stop", "start", "restart")),
    *(Call(name, at) for name in ("generate", "recover") for at in (AT, AT | {"user": "carol"})),
    *(Call(name, at | {"share": share}) for at, share in ((AT, 0), (AT, -1), (EC, 5)) for name in (
        "sign", "key_token", "public_key", "validate_password", "validate_share")),
    *(Call(name, AT | {"guess": "wrong"}) for name in ("public_key", "validate_password")),
    *(Call("validate_share", AT | {"damage": d, "where": w}) for d, w in
      (("share", "middle"), ("share", "end"), ("store", "middle"))),
    *(Call("sign_nonsense", at | {"what": what}) for at in (AT, EC) for what in NONSENSE),
    *(Call("sign_with_damage", AT | {"what": d, "where": "start"}) for d in ("share", "store")),
    *(Call("sign_with_mixture", AT | {"key_id": k, "share": -1 - k}) for k in (-1, 0, 1)),
    *(Call(name, at | {"path": "m/1", "share": share}) for name in ("child_key", "sign_with_child")
      for at, share in ((AT, -1), (AT, 0), (EC, -1))),
    *(Call("sign_with_bad_path", EC | {"path": path}) for path in BAD_PATHS),
    *(Call("presign", at | {"count": 2, "share": s}) for at, s in ((AT, -1), (AT, 0), (EC, -1))),
    *(Call("sign_presigned", at) for at in (AT, EC, EC | {"restored": True}, AT | {"share": 0})),
    *(Call(name, at) for at in (AT, EC, AT | {"user": "carol"}) for name in (
        "sign_under_unknown_key", "sign_twice_at_once", "sign_while_recovering",
        "generate_twice_at_once", "recover_twice_at_once")),
    *(Call("access_other_users_key", AT | {"owner": o, "operation": what})
      for o in ("alice", "bob") for what in OPERATIONS),
    Call("access_other_users_key_under_own_id", AT | {"owner": "bob"}),
    *(Call("unauthenticated", AT | {"fault": fault, "endpoint": " ".join(at)})
      for fault in FAULTS for at in ((), *PROTECTED[::3], ("GET", "no"))),
    Call("lose", {"nth": 3}),
]  # fmt: skip


DRAWN: dict[str, Any] = {"message": "00", "share": 0, "signer": "operator", "guess": "x"}
DRAWN |= {**EC, "count": 2, "restored": True, "path": "m"}


@dataclass
class Noted:
    """A run that only notes its steps."""

    has: bool = False
    steps: list[str] = field(default_factory=list)

    def has_key(self, *at: str) -> bool:
        return self.has

    has_old_share = has_key

    def __getattr__(self, name: str) -> Any:
        return lambda *at, **given: self.steps.append(f"{name}{at}{given or ''}")


class Canned:
    """A target with all abilities that answers everything the same."""

    stoppable = restartable = signers = ("operator", "institution")
    deepest = most_presignatures = 2

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.asked: list[str] = []
        self.taken = False

    def ask(self, requests: list[Request]) -> list[Answer]:
        for each in requests:
            body = "" if each.body is None else json.dumps(each.body)
            self.asked.append(f"{each.method} {each.path} {body} by {each.token}")
        return [self.answer] * len(requests)

    def token(self, login: str) -> str:
        return login.partition("-")[0]

    def expired_token(self, login: str) -> str:
        return f"expired of {self.token(login)}"

    def logs(self) -> str:
        return ""

    def __getattr__(self, name: str) -> Any:
        if name not in ("stop", "start", "restart", "lose", "lose_nothing"):
            raise AttributeError(name)
        return lambda *given: self.asked.append(f"{name} {given}")


@invariant
def asked_after_a_step(api: ApiRun) -> str | None:
    """Steps that are taken to their end are known by it."""
    cast(Canned, api.target).taken = True
    return None


def prepared(answer: Answer) -> tuple[Canned, ApiRun]:
    """Alice has a key on each curve, one of them recovered; bob has one; nobody has asked yet."""
    target = Canned(answer)
    api = ApiRun(target, [asked_after_a_step])
    for name, curves in {"alice": {"ed25519": 2, "secp256k1": 1}, "bob": {"ed25519": 1}}.items():
        user = api.model.users[name] = User(name, f"{name}-1", name)
        for curve, count in curves.items():
            public_key = f"0x{PUBLIC[curve].hex() if name == 'alice' else name}"
            key = user.keys[curve] = Key(curve, public_key, [], presignatures=["p", "q"])
            key.backup = [str(i) for i in range(65)]
            for i in range(count):
                text = f"{name[0]}-{curve}-{i}"
                key.replace(IssuedShare(text, f"s-{i}", f"v-{i}", public_key, curve, "password"))
    return target, api


def told(call: Call, answer: Answer, outages: Iterable[str] = ()) -> tuple[list[str], str]:
    """What the step says and sends, and what it finds and leaves behind."""
    target, api = prepared(answer)
    api._outages = dict.fromkeys(outages)
    api._in_doubt = dict.fromkeys([("alice", "ed25519")] * (len(api._outages) == 1))
    try:
        call.perform(api)
        found = "fine" if target.taken else "-"
    except BrokenInvariant as broken:
        found = f"{broken.name}: {broken.problem.replace(str(answer), '...')}"
    except (LookupError, TypeError, ValueError) as error:
        found = type(error).__name__
    shares = [f"{len(k.shares)}+{len(k.presignatures)}{k.xpub}" for _, k in api.model.every_key()]
    left = [*(shares if shares != ["2+2", "1+2", "1+2"] else ()), *api._in_doubt, *api._outages]
    left += ["unsettled"] * api._unsettled + [f"races: {api.races}"] * bool(api.races)
    secrets = sorted(set(api._secrets._whole.values()))
    said = [f"{step.sentence} {[*map(str, step.parts)]}" for step in api.sequence.steps]
    return [*said, *target.asked], " ".join(map(str, [found, *left, *secrets]))


def changed_fields() -> Iterator[str]:
    """What becomes of a value of each codec."""
    for group in (ED25519, SECP256K1):
        context, five = wire.WireContext(group), group.scalar(5)
        ab = wire.PerParty(wire.Text(9)), {1: "a", 3: "b"}
        none = wire.PerParty(wire.Optional(POINT)), {}
        values: list[tuple[wire.Codec, Any]] = [
            *((wire.Optional(wire.Unsigned(2)), value) for value in (1, None)),
            *((wire.Fixed(2), b"ab"), (wire.Bytes(9), b"ab"), (wire.Text(9), "ab"), ab, none),
            *((wire.Seq(wire.Fixed(1)), (b"a", b"b")), (wire.Seq(wire.Optional(SCALAR)), ())),
            *((SCALAR, five), (POINT, group.base(five))),
        ]
        for codec, value in values:
            for name, change in _changes(codec, value, context):
                yield f"{codec} {name}: {codec.write(change(value), context).hex()}"
            for name, spoil in _spoils(codec, value, context):
                yield f"{codec} spoilt {name}: {spoil(value).hex()}"


def sentences() -> Iterator[str]:
    """What a report calls each fault, and the code that makes it."""
    for fault in (
        *(drop(), drop("Offer", sender=1, receiver=2, nth=3), replace(delay(5.0), probability=0.5)),
        *(duplicate("Offer", after_ms=2.0), Crash(1, 2), Crash(2, 1, 10.0)),
        partition((2, 1), (4, 3), 7.0),
    ):
        yield f"{fault_sentence(fault)}: {_code((fault,))}"


def steps_of(method: str) -> Iterator[str]:
    """What each call of a method says, sends and finds, by answer."""
    cases = {name: (answer, ()) for name, answer in ANSWERS.items()}
    for status, name in (("504", "outage"), ("404", "404 in an outage"), ("ed25519", "no outage")):
        cases[name] = ANSWERS[status], ("operator", "messages")
        cases[f"in doubt, {name}"] = ANSWERS[status], ("messages",)
    for call in CALLS:
        said: dict[str, None] = {}
        found: dict[str, list[str]] = {}
        for name, case in cases.items() if call.method == method else ():
            begun, ended = told(call, *case)
            said |= dict.fromkeys(begun)
            found.setdefault(ended, []).append(name)
        if found:
            yield from (f"# {call}", *said)
            yield from (f"{', '.join(names)}: {ended}" for ended, names in found.items())


def what_is_drawn() -> Iterator[str]:
    """Rules with their arguments, what shrinks to what, changed fields, and sentences."""
    lines = ["# drawn"]
    target: Any = Canned(ANSWERS["{}"])
    lines += [" ".join(rules(cast(Any, SimpleNamespace(signers=()))))]
    lines += [*(f"{name} {drawn}" for name, drawn in arguments(target).items()), ""]
    for name, rule in rules(target).items():
        at = {n: each for n, each in DRAWN.items() if n in rule.draw}
        for what in sorted(CONCURRENT) if name == "at_once" else outages(target)[:1]:
            for run in (Noted(), Noted(has=True)):
                if not hasattr(rule.act, "__wrapped__"):
                    rule.act(run, **(at | {"what": what} if "what" in rule.draw else at))
                    lines += [f"{name}, {what if 'what' in rule.draw else ''}: {run.steps}"]
    calls = [CALLS[i] for i in (1, 17, 25, 40, -2)]
    parts = [[], [], [CALLS[0], CALLS[3]], [], []]
    lines += [
        "",
        f"{outages(target)}",
        *("; ".join(map(str, each)) for each in _candidates(calls, parts)),
    ]
    yield from (*lines, *changed_fields(), *sentences())


BLOCKS = {call.method: partial(steps_of, call.method) for call in CALLS} | {"drawn": what_is_drawn}
WRITTEN: dict[str, list[str]] = {}
for block in re.split("^# ", COPY.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
    WRITTEN.setdefault(re.split(r"\W", block)[0], []).extend(f"# {block}".splitlines())


@pytest.mark.parametrize("name", BLOCKS)
def test_steps_are_as_written_down(name):
    """A change shows in a diff: ``python -m tests.testing.test_steps``."""
    assert [*BLOCKS[name]()] == WRITTEN[name]


if __name__ == "__main__":
    every = [line for made in BLOCKS.values() for line in made()]
    COPY.write_text("\n".join([*every, ""]), encoding="utf-8")
