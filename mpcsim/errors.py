"""Errors of the package, in four families.

``UsageError``
    A mistake of the caller: raised before anything is sent. ``ContractError`` is one of a
    protocol's author: raised when the definition is made, or when a round breaks it.
``Aborted``
    A fault of a peer: an outcome of a protocol run, never raised at the caller. It names the
    reason, the place it was found at (``Where``), the senders of the messages it is about, the
    culprits, the strength of the blame, and the consequence. It is data; ``str`` makes a sentence.
``Waiting`` (in ``mpcsim.protocols.engine``)
    Nobody's fault: messages are missing.
``InternalError``
    Our bug, or an event of negligible probability.

``InvalidEncoding`` is the only error decoders raise; a party turns it into an ``Aborted`` that
names the sender.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import Enum

__all__ = [
    "AbortReason",
    "Aborted",
    "Blame",
    "CheckFailed",
    "Consequence",
    "ContractError",
    "Evidence",
    "InRound",
    "InternalError",
    "InvalidEncoding",
    "MissingExtra",
    "MpcError",
    "OnReceipt",
    "Reason",
    "UsageError",
    "Where",
    "blaming",
    "check",
    "check_type",
    "escape_unprintable",
    "needs_extra",
    "unknown",
    "with_article",
]


class MpcError(Exception):
    """Base of everything this package raises on purpose."""


class UsageError(MpcError, ValueError):
    """The caller used the API wrongly; nothing was sent and nothing was lost."""

    def _render_traceback_(self) -> list[str]:
        """Return the line that IPython shows in place of a traceback; ``%debug`` has the rest."""
        frames = traceback.extract_tb(self.__traceback__)
        cell = next((frame.lineno for frame in frames if frame.name == "<module>"), None)
        where = "" if cell is None else f" (line {cell} of the cell)"
        return [f"{type(self).__name__}: {self}{where}"]


class ContractError(UsageError):
    """A protocol breaks its own definition: a mistake of its author, whose place is named."""


class InvalidEncoding(MpcError):
    """Bytes from outside are not the canonical encoding of a valid value."""


class InternalError(MpcError):
    """A bug of this package, or an event of negligible probability."""


class MissingExtra(UsageError, ModuleNotFoundError):
    """A library is not installed; the text names the extra of this package that brings it."""

    def __init__(self, text: str, *, name: str) -> None:
        """
        Args:
            name: of the library.
        """
        ImportError.__init__(self, text, name=name)


@contextmanager
def needs_extra(extra: str, what: str) -> Iterator[None]:
    """Name the extra that is missing, if an import inside does not find a library.

    Args:
        extra: the one that brings the library; empty: the package itself does, without extras.
        what: the subject of the sentence, such as ``a figure``.

    Raises:
        MissingExtra: a library is not installed.
    """
    try:
        yield
    except MissingExtra:
        raise
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name in ("", "mpcsim", "node"):  # our own mistake
            raise
        package = f"mpcsim[{extra}]" if extra else "mpcsim"
        raise MissingExtra(f"{what} needs {name}: install {package}", name=name) from None


def check_type(argument: str, value: object, kind: type) -> None:
    """Check that an argument is of its type: a bool is no number, a bytearray are no bytes.

    Raises:
        UsageError: it is of another; the value, which may be secret, is not shown.
    """
    if type(value) is kind:  # as a rule; every call counts
        return
    if not isinstance(value, kind) or isinstance(value, bool):
        raise UsageError(f"{argument}: expected {kind.__name__}, not {type(value).__name__}")


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """Return the error text for an unknown name, with near names and all known ones."""
    names = {each.casefold(): each for each in known}
    near = [names[each] for each in get_close_matches(str(name).casefold(), names)]
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    return f"unknown {what} {name!r}{hint} (known: {', '.join(names.values())})"


def with_article(name: str) -> str:
    """Return a name behind ``a``, or behind ``an`` before a vowel."""
    return f"an {name}" if name[:1].lower() in {*"aeio"} else f"a {name}"


def escape_unprintable(text: str) -> str:
    """Return a line without control characters: whoever wrote it controls no terminal."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


class Consequence(Enum):
    """Consequence of an abort: what the other parties should do."""

    RETRY = "start again with a new session; no state needs to go"
    BAN = "stop working with the culprit"
    BAN_AND_DISCARD_OT = (
        "stop working with the culprit and discard the pair's long-lived OT state: "
        "each accepted or refused guess leaks bits of it"
    )

    @property
    def label(self) -> str:
        """Short form: ``retry``, ``ban`` or ``ban and discard OT``."""
        return self.name.lower().replace("_", " ").replace(" ot", " OT")


class Blame(Enum):
    """Strength of the blame: whom it convinces."""

    PUBLIC = (
        "the messages alone show it; they are authenticated to their receiver but not signed, so "
        "this convinces those who trust the receiver's word on who sent them"
    )
    PRIVATE = "only the accuser can check it: it depends on the accuser's secrets"
    TRANSPORT = (
        "rests on the transport's word for who is who: accuser and culprit had no secret before"
    )
    NOBODY = "the check cannot tell who deviated"


class AbortReason(Enum):
    """Reason of an abort: text, consequence for a named culprit, strength of the blame.

    ``Blame.NOBODY`` is the blame of the check alone. With a single peer it is that peer all the
    same, and then the consequence holds for it. A protocol's own reasons are a subclass, which its
    definition names (``Definition.reasons``)::

        class CoinReason(AbortReason):
            COIN_FIXED = ("the coin does not open its commitment", Consequence.BAN, Blame.PUBLIC)
    """

    def __init__(self, text: str, consequence: Consequence, blame: Blame) -> None:
        self.text = text
        self.consequence = consequence
        self.blame = blame


class Reason(AbortReason):
    """Reasons that the engine and the package's own protocols give."""

    MALFORMED_MESSAGE = ("message does not decode", Consequence.BAN, Blame.PUBLIC)
    CONFLICTING_MESSAGE = (
        "a second, different message for the same slot",
        Consequence.RETRY,
        Blame.NOBODY,
    )
    PEER_ABORTED = ("a peer reported that it aborted", Consequence.RETRY, Blame.NOBODY)
    SESSION_MISMATCH = (
        "parties disagree on what the session is about",
        Consequence.RETRY,
        Blame.NOBODY,
    )
    ECHO_MISMATCH = (
        "a broadcast reached two parties with different content",
        Consequence.RETRY,
        Blame.NOBODY,
    )
    COMMITMENT_OPENING = (
        "opening does not match the earlier commitment",
        Consequence.BAN,
        Blame.PUBLIC,
    )
    THRESHOLD_MISMATCH = (
        "polynomial commitment has the wrong number of coefficients",
        Consequence.BAN,
        Blame.PUBLIC,
    )
    PROOF_OF_KNOWLEDGE = (
        "proof of knowledge of the constant term fails",
        Consequence.BAN,
        Blame.PUBLIC,
    )
    SHARE_INCONSISTENT = (
        "share does not lie on the committed polynomial",
        Consequence.BAN,
        Blame.PRIVATE,
    )
    DEGENERATE_KEY = (
        "the public key or a public share is the identity",
        Consequence.RETRY,
        Blame.NOBODY,
    )
    WRONG_CONSTANT_TERM = (
        "dealer's constant term is not its Lagrange-weighted old share",
        Consequence.BAN,
        Blame.PUBLIC,
    )
    CONFIRMATION_MISMATCH = (
        "party confirmed another result than ours",
        Consequence.RETRY,
        Blame.NOBODY,
    )
    CHANNEL_KEY_INVALID = (
        "key-agreement public key is of low order",
        Consequence.BAN,
        Blame.PUBLIC,
    )
    BASE_OT_DEGENERATE = (
        "base-OT message leads to the identity",
        Consequence.BAN,
        Blame.PUBLIC,
    )
    ALL_BUT_ONE_OT_CHECK = (
        "all-but-one OT leads to other leaves than those committed to",
        Consequence.BAN,
        Blame.PRIVATE,
    )
    OT_EXTENSION_CHECK = (
        "OT-extension correlation check fails",
        Consequence.BAN_AND_DISCARD_OT,
        Blame.PRIVATE,
    )
    SETUP_DISCARDED = (
        "the multiplication set-up with a peer was discarded while the session ran",
        Consequence.RETRY,
        Blame.NOBODY,
    )
    MULTIPLICATION_CHECK = (
        "random-VOLE consistency check (mu) fails",
        Consequence.BAN,
        Blame.PRIVATE,
    )
    GAMMA_U_MISMATCH = (
        "nonce used in the multiplication is not the committed one",
        Consequence.BAN,
        Blame.PRIVATE,
    )
    GAMMA_V_MISMATCH = (
        "key share used in the multiplication is not the published one",
        Consequence.BAN,
        Blame.PRIVATE,
    )
    PUBLIC_KEY_MISMATCH = (
        "the signers' public shares do not add up to the public key",
        Consequence.BAN,
        Blame.NOBODY,
    )
    DEGENERATE_NONCE = (
        "the signature nonce is the identity or r is zero",
        Consequence.RETRY,
        Blame.NOBODY,
    )
    ZERO_DENOMINATOR = (
        "the signature's denominator is zero",
        Consequence.BAN,
        Blame.NOBODY,
    )
    SIGNATURE_INVALID = (
        "the assembled signature does not verify",
        Consequence.BAN,
        Blame.NOBODY,
    )
    SIGNATURE_SHARE_INVALID = (
        "signature share does not match the signer's commitments",
        Consequence.BAN,
        Blame.PUBLIC,
    )


@dataclass(frozen=True)
class Evidence:
    """A message that led to an abort, as it was received."""

    sender: int
    kind: str
    payload: bytes = field(repr=False)


@dataclass(frozen=True)
class InRound:
    """Place of an abort: in a round, over everything that had come by then."""

    round: int
    name: str

    def __str__(self) -> str:
        return f"in round {self.round} ({self.name})"


@dataclass(frozen=True)
class OnReceipt:
    """Place of an abort: on receipt of a message, over it alone."""

    sender: int
    kind: str

    def __str__(self) -> str:
        return f"while receiving from party {self.sender}"


Where = InRound | OnReceipt
"""Place of an abort; as text, part of a sentence with its preposition."""


@dataclass(frozen=True)
class Aborted:
    """A run that ended because a check failed.

    ``culprits`` are parties that certainly deviated, as far as this party can tell (see
    ``blame``); ``suspects`` is a set at least one of whom did, or whose messages were tampered
    with, when no single one can be named.
    """

    reason: AbortReason
    where: Where
    culprits: frozenset[int] = frozenset()
    suspects: frozenset[int] = frozenset()
    about: frozenset[int] = frozenset()
    """Senders of the messages that the failed check was about, blamed or not."""
    detail: str = ""
    evidence: tuple[Evidence, ...] = ()
    unsealed: bool = False
    """Whether the culprits' identity rests on the transport alone."""
    prepared: bool = False
    """Whether phase one of a two-phase protocol was over: keep the old *and* the new result."""
    reported_by: int | None = None
    """Peer that reported the abort, for PEER_ABORTED."""

    @property
    def consequence(self) -> Consequence:
        """Consequence of the reason; never a ban on the transport's word."""
        if self.blame in (Blame.NOBODY, Blame.TRANSPORT):
            return Consequence.RETRY
        return self.reason.consequence

    @property
    def blame(self) -> Blame:
        """Strength of the blame; ``NOBODY`` whenever no culprit could be named."""
        if not self.culprits:
            return Blame.NOBODY
        if self.unsealed:
            return Blame.TRANSPORT
        return Blame.PRIVATE if self.reason.blame is Blame.NOBODY else self.reason.blame

    def __str__(self) -> str:
        if self.culprits:
            who = "party " + ", ".join(map(str, sorted(self.culprits)))
        elif len(self.suspects) == 1:
            who = f"party {min(self.suspects)} is a suspect"
        elif self.suspects:
            who = "one of parties " + ", ".join(map(str, sorted(self.suspects)))
        else:
            who = "nobody can be named"
        extra = f" ({self.detail})" if self.detail else ""
        return f"aborted {self.where}: {self.reason.text}{extra}; {who}; {self.consequence.label}"


class CheckFailed(Exception):
    """A consistency check failed. Internal: a party turns it into an ``Aborted``.

    Primitives raise it without a culprit; the round, which knows the sender of the message that it
    was checking, adds the name (``blaming``).
    """

    def __init__(
        self,
        reason: AbortReason,
        culprits: Iterable[int] = (),
        suspects: Iterable[int] = (),
        *,
        about: Iterable[int] = (),
        detail: str = "",
        evidence: Iterable[Evidence] = (),
        reported_by: int | None = None,
    ) -> None:
        """
        Args:
            about: senders of the checked messages; by default, those who are blamed.
        """
        super().__init__(reason.text)
        self.reason = reason
        self.culprits = frozenset(culprits)
        self.suspects = frozenset(suspects)
        self.about = frozenset(about) or self.culprits | self.suspects
        self.detail = detail
        self.evidence = tuple(evidence)
        """Further messages as evidence, which the inbox does not hold."""
        self.reported_by = reported_by


def check(
    condition: bool,
    reason: AbortReason,
    culprit: int | None = None,
    *,
    suspects: Iterable[int] = (),
    about: Iterable[int] = (),
    detail: str = "",
) -> None:
    """Go on only if ``condition`` holds; otherwise the run aborts for ``reason``."""
    if not condition:
        named = () if culprit is None else (culprit,)
        raise CheckFailed(reason, named, suspects, about=about, detail=detail)


@contextmanager
def blaming(culprit: int) -> Iterator[None]:
    """Add the sender of the checked message as culprit to any check that fails inside."""
    try:
        yield
    except CheckFailed as failed:
        raise CheckFailed(failed.reason, {culprit}, detail=failed.detail) from None
