"""Pictures of an operation: its six steps, its digest byte by byte, its gas.

Colours and figures as in ``mpcsim.sim.figures``; nothing global of matplotlib is touched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from matplotlib.axes import Axes
from matplotlib.patches import Patch, Rectangle

from mpcsim.service.smart_account.chain.chain import ZERO_ADDRESS
from mpcsim.service.smart_account.client.anatomy import (
    WORD_BYTES,
    Kind,
    Word,
    bound_words,
    packed_words,
)
from mpcsim.service.smart_account.client.client import SIGNATURE_BYTES, Ask, Flow, Step
from mpcsim.service.smart_account.client.tables import ether, receipt_of
from mpcsim.service.smart_account.endpoints import PREFIX, Endpoint
from mpcsim.service.smart_account.operation.fields import GAS, supplied_by
from mpcsim.sim.figures import (
    BLACK,
    DARK,
    GREY,
    LIGHT,
    PALE,
    WHITE,
    Chart,
    new_chart,
    tint,
)
from mpcsim.sim.figures.parts.canvas import add_heading
from mpcsim.sim.figures.parts.style import Fill

_SMALL, _TEXT, _HEAD = 7.0, 8.5, 10.0
_TITLE: Final = 0.35
"""Height of a title, in inches."""
_SHADE: Final = {Kind.ADDRESS: 0.7, Kind.NUMBER: 0.42, Kind.HASH: 0.18}


def _chart(width: float, height: float, title: str) -> tuple[Chart, Axes]:
    """Return a figure with a title, and axes over all of it, in inches from below the title."""
    figure = new_chart(width, height + _TITLE)
    add_heading(figure, title)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, width)
    axes.set_ylim(height, -_TITLE)
    axes.axis("off")
    return figure, axes


# ---------------------------------------------------------------------- six steps

_OWNER, _CALLER, _SERVICE = 0.95, 4.3, 8.6


def steps_diagram(flow: Flow) -> Chart:
    """Return a diagram of the requests and answers so far, one arrow each."""
    row = 0.62
    title = "A user operation: requests, answers and the owner's signature, in order"
    figure, axes = _chart(9.9, 0.95 + row * len(flow.steps), title)
    bottom = 0.9 + row * len(flow.steps)
    for x, name, below in (
        (_OWNER, "owner's key shares", "any two of three"),
        (_CALLER, "backend", "runs the flow"),
        (_SERVICE, "service and chain", f"paths below {PREFIX}"),
    ):
        axes.plot([x, x], [0.6, bottom], color=LIGHT, lw=1.5, zorder=1)
        axes.text(x, 0.2, name, fontsize=_HEAD, fontweight="bold", ha="center", va="center")
        axes.text(x, 0.42, below, fontsize=_SMALL, color=DARK, ha="center", va="center")
    for at, step in enumerate(flow.steps):
        _exchange(axes, 1.0 + at * row, step)
    return figure


def _exchange(axes: Axes, y: float, step: Step) -> None:
    asks = isinstance(step.action, Ask)
    far, colour = (_SERVICE, GREY) if asks else (_OWNER, BLACK)
    asked, answered = _words_of(step)
    middle = (_CALLER + far) / 2
    for there, height, style in ((True, y, "-"), (False, y + 0.24, "--")):
        start, end = (_CALLER, far) if there else (far, _CALLER)
        axes.annotate(
            "",
            (end, height),
            (start, height),
            arrowprops={"arrowstyle": "-|>", "color": colour, "lw": 1.1, "ls": style},
        )
    for text, height in ((asked, y - 0.03), (answered, y + 0.21)):
        axes.text(middle, height, text, fontsize=_SMALL, ha="center", va="bottom", color=DARK)
    axes.text(
        _CALLER + (-0.16 if asks else 0.16),
        y + 0.12,
        str(step.number),
        fontsize=_HEAD,
        fontweight="bold",
        color=WHITE,
        ha="center",
        va="center",
        bbox={"boxstyle": "circle,pad=0.25", "facecolor": colour, "edgecolor": "none"},
    )


def _words_of(step: Step) -> tuple[str, str]:
    """The request and the answer, in a line each."""
    if not isinstance(step.action, Ask):
        return "personal_sign: 32 bytes", f"r, s, v: {SIGNATURE_BYTES} bytes"
    endpoint = step.action.endpoint
    request = f"{endpoint.purpose}: {endpoint.method} {endpoint.path.removeprefix(PREFIX)}"
    if endpoint is Endpoint.RECEIPT and isinstance(step.answer, Mapping):
        return request, f"receipt: {step.answer['status']}"
    supplied = [entry.name for entry in supplied_by(endpoint)]
    if not supplied:
        return request, "digest" if endpoint is Endpoint.DIGEST else "user_op_hash"
    if endpoint in (Endpoint.GAS, Endpoint.SPONSOR):
        others = [name for name in supplied if name not in GAS]
        supplied = ["gas limits and fees", *others, "result"]
    return request, ", ".join(supplied)


# ---------------------------------------------------------------------- anatomy of the digest

_CELL = 0.186
_LEFT = 1.75
_ROW = 0.235


def digest_anatomy(flow: Flow) -> Chart:
    """Return a figure of the digest, byte by byte: from the ten packed words to the 32 bytes that
    are signed.

    Raises:
        UsageError: the digest is not known yet.
    """
    signed, message_hash = flow.signed_message, flow.message_hash
    prefix, digest = signed[:-WORD_BYTES], signed[-WORD_BYTES:]
    assembled = bound_words(flow.inner_hash, flow.entry_point, flow.chain_id)
    stages = [
        ("packed: ten words", packed_words(flow.operation)),
        ("bound to one EntryPoint on one chain", assembled),
        (
            "personal_sign (EIP-191)",
            (
                Word(0, "prefix", Kind.NUMBER, r'"\x19Ethereum Signed Message:\n32"', prefix),
                Word(len(prefix), "digest", Kind.HASH, "Keccak-256 of the three words", digest),
            ),
        ),
        (
            "what the key shares sign",
            (Word(0, "message hash", Kind.HASH, "Keccak-256 of the 60 bytes", message_hash),),
        ),
    ]
    rows = sum(len(words) for _, words in stages)
    size = _LEFT + 32 * _CELL + 2.1, rows * _ROW + len(stages) * 0.42 + 0.4
    figure, axes = _chart(*size, "From the user operation to the hash that is signed, byte by byte")
    y = 0.1
    for number, (title, words) in enumerate(stages):
        if number:
            axes.annotate(
                "",
                (_LEFT + 16 * _CELL, y + 0.36),
                (_LEFT + 16 * _CELL, y + 0.04),
                arrowprops={"arrowstyle": "-|>", "color": DARK, "lw": 1.3},
            )
            axes.text(
                _LEFT + 16.5 * _CELL, y + 0.2, "Keccak-256", fontsize=_TEXT, va="center", color=DARK
            )
        axes.text(_LEFT, y + 0.22, title, fontsize=_TEXT, fontweight="bold", va="center")
        y += 0.42
        for word in words:
            _bytes(axes, y, word)
            y += _ROW
    names = {Kind.ADDRESS: "address", Kind.NUMBER: "number or text", Kind.HASH: "hash"}
    keys = [Patch(facecolor=tint(DARK, _SHADE[kind]), label=name) for kind, name in names.items()]
    keys.append(Patch(facecolor=PALE, label="leading zeros"))
    figure.legend(handles=keys, loc="lower center", ncols=4, fontsize=_TEXT, frameon=False)
    return figure


def _bytes(axes: Axes, y: float, word: Word) -> None:
    axes.text(_LEFT - 0.1, y + _ROW / 2, word.name, fontsize=_TEXT, ha="right", va="center")
    zeros = 0 if word.kind is Kind.HASH else len(word.data) - len(word.data.lstrip(b"\0"))
    for at, byte in enumerate(word.data):
        x = _LEFT + at * _CELL
        plain = at < zeros
        face = PALE if plain else tint(DARK, _SHADE[word.kind])
        box = Rectangle((x, y), _CELL, _ROW - 0.03, facecolor=face, edgecolor=WHITE, lw=0.5)
        axes.add_patch(box)
        axes.text(
            x + _CELL / 2,
            y + (_ROW - 0.03) / 2,
            f"{byte:02x}",
            fontsize=6.1,
            family="monospace",
            color=GREY if plain else WHITE if _SHADE[word.kind] > 0.5 else BLACK,
            ha="center",
            va="center_baseline",
        )
    end = _LEFT + 32 * _CELL + 0.1
    axes.text(end, y + _ROW / 2, word.made, fontsize=_SMALL, va="center", color=DARK)


# ---------------------------------------------------------------------- gas

_GAS_PARTS: Final = {
    "pre-verification": Fill("pre-verification", 0.75),
    "verification limit": Fill("verification limit", 0.2),
    "call limit": Fill("call limit", 0.0, "////"),
    "validation and call, as executed": Fill("validation and call, as executed", 0.45),
}


def gas_chart(flows: Mapping[str, Flow]) -> Chart:
    """Return a chart of the gas limits (above) and the gas charged (below) of operations, by name.

    Raises:
        UsageError: an operation is in no block yet.
    """
    width, height = 9.5, 0.8 * len(flows)
    whole = height + 1.05 + _TITLE
    figure = new_chart(width, whole)
    add_heading(figure, "Gas of user operations: limits (upper bar) and charge (lower bar)")
    left, bottom = 2.2 / width, 0.55 / whole
    axes = figure.add_axes((left, bottom, 5.0 / width, height / whole))
    for row, flow in enumerate(flows.values()):
        _gas_bars(axes, row, flow)
    axes.set_ylim(len(flows) - 0.5, -0.5)
    axes.set_yticks(range(len(flows)), list(flows), fontsize=_TEXT)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(lambda gas, _: f"{gas / 1000:,.0f}")
    axes.set_xlabel("gas (thousands)", fontsize=_TEXT)
    axes.tick_params(axis="x", labelsize=_TEXT)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=LIGHT, lw=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    keys = [Patch(**fill.patch(), label=name) for name, fill in _GAS_PARTS.items()]
    figure.legend(
        handles=keys,
        loc="upper center",
        bbox_to_anchor=(0.5, 1 - _TITLE / whole),
        ncols=4,
        fontsize=_TEXT,
        frameon=False,
    )
    return figure


def _gas_bars(axes: Axes, row: int, flow: Flow) -> None:
    receipt = receipt_of(flow)
    operation, charged = flow.operation, int(receipt["actual_gas_used"], 16)
    fee = float(ether(int(receipt["actual_gas_cost"], 16))) * 1000
    payer = "account" if receipt["paymaster"] == ZERO_ADDRESS else "paymaster"
    executed = charged - operation.pre_verification_gas
    limits = (
        operation.pre_verification_gas,
        operation.verification_gas_limit,
        operation.call_gas_limit,
    )
    fills = list(_GAS_PARTS.values())
    above = _stack(axes, row - 0.19, limits, fills[:3])
    below = _stack(axes, row + 0.19, (limits[0], executed), (fills[0], fills[3]))
    texts = (f"limits {above:,}", f"charged {below:,}: {fee:.4f} mETH, by the {payer}")
    for y, end, text in ((row - 0.19, above, texts[0]), (row + 0.19, below, texts[1])):
        axes.annotate(
            text,
            (end, y),
            (5, 0),
            textcoords="offset points",
            fontsize=_SMALL,
            va="center",
            color=DARK,
            bbox={"facecolor": WHITE, "edgecolor": "none", "pad": 1},
        )


def _stack(axes: Axes, y: float, parts: Sequence[int], fills: Sequence[Fill]) -> int:
    """Bars end to end; where they end."""
    start = 0
    for part, fill in zip(parts, fills, strict=True):
        axes.barh(y, part, 0.32, left=start, **fill.patch())
        start += part
    return start
