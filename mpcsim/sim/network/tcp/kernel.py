"""The kernel: what happens next on a connection, one packet or timer at a time.

``give`` hands a message to a connection, ``more`` says that more bytes of it are there, ``steps``
lets time pass up to the next arrival.
"""

from __future__ import annotations

import math

import numpy as np

from mpcsim.sim.network.tcp import handshake, linux, ns3, receiver
from mpcsim.sim.network.tcp.compiled import compiled
from mpcsim.sim.network.tcp.state import (
    CLOSED,
    DATA,
    MESSAGES,
    OPENING,
    PACKETS,
    SYN,
    SYN_ACK,
    Record,
)


@compiled
def push(c: Record, h: int, now: float) -> None:
    """Send what may be sent."""
    if c.linux:
        linux.send(c, h, now)
    else:
        ns3.send(c, h, now)


@compiled
def schedule(c: Record) -> None:
    """Note when something happens next."""
    soonest = min(c.resend_syn, c.resend_syn_ack)
    for h in range(2):
        half = c.half[h]
        soonest = min(soonest, half.timer, half.delack)
        if half.head < half.tail:
            soonest = min(soonest, half.packet[half.head & PACKETS].arrives)
    c.next = soonest


@compiled
def give(
    c: Record,
    h: int,
    now: float,
    number: int,
    size: int,
    available: int,
    key: np.uint64,
    forward: float,
    backward: float,
    stream: int,
) -> None:
    """Hand a message of ``size`` bytes to half ``h``, of which ``available`` are there already.

    Args:
        number: what its arrival will be told by, from 0 on.
        key: of its losses.
        forward: one-way latency of its segments.
        backward: of their acknowledgements.
        stream: whether the arrival of every part of it is to be told.
    """
    opens = c.state == CLOSED
    if opens:
        handshake.begin(c, now, key, forward, backward)
    handshake.put(c, h, number, size, available, key, forward, backward, stream)
    if opens:
        handshake.send_syn(c, now)
    more(c, h, now, 0)


@compiled
def more(c: Record, h: int, now: float, size: int) -> None:
    """``size`` more bytes of the message given last may go."""
    half = c.half[h]
    if size:
        half.message[(half.given - 1) & MESSAGES].available += size
    handshake.release(c, h)
    push(c, h, now)
    schedule(c)


@compiled
def take(c: Record, d: int, now: float) -> bool:
    """The first packet under way in direction ``d`` is at its other end; whether it has data."""
    half = c.half[d]
    packet = half.packet[half.head & PACKETS]
    half.head += 1
    kind = packet.kind
    if kind == SYN:
        if c.linux or c.syn_acks == 0:
            half.rcv_echo = packet.sent
        if not c.accepted:
            handshake.asked(c, now)
        return False
    if kind == SYN_ACK:
        opening = c.state == OPENING
        if opening:
            if not c.linux:
                ns3.sample(c, 0, now, packet.echo)
            else:
                linux.sample(c, 0, now - packet.echo)
        handshake.answered(c, now, packet.sent)
        if opening:
            push(c, 0, now)
        elif c.linux:
            handshake.send_ack(c, now, packet.sent)
        return False
    if d == 0 and not c.accepted:
        if not c.linux:
            ns3.sample(c, 1, now, packet.echo)
            half.rcv_pending = 2
        else:
            linux.sample(c, 1, now - packet.echo)
        handshake.accept(c)
    segment = packet.segment
    place = segment if kind == DATA else packet.next
    if c.linux:
        if place <= half.rcv_acked:
            half.rcv_echo = packet.sent
        linux.acknowledge(
            c,
            1 - d,
            now,
            packet.ack,
            packet.count,
            packet.holes,
            packet.echo,
            kind,
            packet.duplicate,
        )
        if kind == DATA:
            linux.arrive(c, d, now, segment)
    else:
        if place == half.rcv_nxt and place <= half.rcv_acked:
            half.rcv_echo = packet.sent
        ns3.acknowledge(c, 1 - d, now, packet.ack, packet.count, packet.holes, packet.echo)
        if kind == DATA:
            receiver.arrive(c, d, now, segment)
    return bool(kind == DATA)


@compiled
def happen(c: Record) -> bool:
    """Let the next thing happen; whether data arrived by it."""
    now = c.next
    for h in range(2):
        half = c.half[h]
        if half.head < half.tail and half.packet[half.head & PACKETS].arrives <= now:
            return take(c, h, now)
    for h in range(2):
        half = c.half[h]
        if half.delack <= now:
            if c.linux:
                linux.delayed(c, h)
            receiver.send_ack(c, h, now, half.rcv_nxt - 1, 1, 0)
            return False
        if half.timer <= now:
            if c.linux:
                linux.expire(c, h, now)
            else:
                ns3.expire(c, h, now)
            return False
    if c.resend_syn <= now:
        handshake.send_syn(c, now)
    elif c.resend_syn_ack <= now:
        if c.syn_acks < handshake.SYN_ACKS:
            handshake.send_syn_ack(c, now)
        else:
            c.resend_syn_ack = math.inf
    return False


@compiled
def arrivals(c: Record, now: float) -> bool:
    """Whether a message has arrived and nobody was told; TLS flights are answered here."""
    for h in range(2):
        while receiver.told(c, h):
            if c.told_number >= 0:
                c.untold = 1
                return True
            push(c, handshake.flight_arrived(c, h, -1 - c.told_number, now), now)
            schedule(c)
    c.untold = 0
    return False


@compiled
def step(c: Record) -> bool:
    """Let the next thing happen, at ``c.next``; whether a message arrived by it."""
    now = c.next
    data = happen(c)
    schedule(c)
    return data and arrivals(c, now)


@compiled
def steps(c: Record, until: float, others: float) -> tuple[bool, float]:
    """Let what comes next happen, and more up to ``until`` as long as it is before what happens on
    ``others``; whether a message arrived by the last of it, and when that was. It stops when an end
    gives up, too."""
    while True:
        at = c.next
        if step(c):
            return True, at
        if c.given_up or c.next > until or c.next >= others:
            return False, at
