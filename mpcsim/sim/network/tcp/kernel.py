"""Event loop of one connection: packets and timers, in order of time.

``send_message`` queues a message on a connection, ``extend_message`` makes more of its bytes
available, ``run_until`` processes events up to the next arrival.
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
    PACKETS,
    SYN,
    SYN_ACK,
    SYN_SENT,
    Record,
)


@compiled
def send_pending(c: Record, h: int, now: float) -> None:
    """Send the data that the window allows."""
    if c.linux:
        linux.write_xmit(c, h, now)
    else:
        ns3.send_pending_data(c, h, now)


@compiled
def update_next_event(c: Record) -> None:
    """Set the time of the connection's next event."""
    soonest = min(c.syn_timer, c.synack_timer)
    for h in range(2):
        half = c.half[h]
        soonest = min(soonest, half.timer_expires, half.delack_expires)
        if half.head < half.tail:
            soonest = min(soonest, half.packet[half.head & PACKETS].arrives)
    c.next_event = soonest


@compiled
def send_message(
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
    """Queue a message of ``size`` bytes on half ``h``, of which ``available`` can be sent now.

    Args:
        number: identifies it when its arrival is reported, from 0 on.
        key: key of its losses.
        forward: one-way latency of its segments.
        backward: one-way latency of their acknowledgements.
        stream: whether arrivals of parts of it are reported.
    """
    opens = c.state == CLOSED
    if opens:
        handshake.open_connection(c, now, key, forward, backward)
    handshake.queue_message(c, h, number, size, available, key, forward, backward, stream)
    if opens:
        handshake.send_syn(c, now)
    extend_message(c, h, now, 0)


@compiled
def extend_message(c: Record, h: int, now: float, size: int) -> None:
    """Make ``size`` more bytes of the last message available, and send."""
    half = c.half[h]
    if size:
        half.message[(half.messages_queued - 1) & MESSAGES].available += size
    handshake.release_bytes(c, h)
    send_pending(c, h, now)
    update_next_event(c)


@compiled
def receive_packet(c: Record, d: int, now: float) -> bool:
    """Process the first packet under way in direction ``d``; return whether it has data."""
    half = c.half[d]
    packet = half.packet[half.head & PACKETS]
    half.head += 1
    kind = packet.kind
    if kind == SYN:
        if c.linux or c.synacks_sent == 0:
            half.ts_recent = packet.sent
        if not c.established:
            handshake.receive_syn(c, now)
        return False
    if kind == SYN_ACK:
        opening = c.state == SYN_SENT
        if opening:
            if not c.linux:
                ns3.estimate_rtt(c, 0, now, packet.echo)
            else:
                linux.estimate_rtt(c, 0, now - packet.echo)
        handshake.receive_syn_ack(c, now, packet.sent)
        if opening:
            send_pending(c, 0, now)
        elif c.linux:
            handshake.send_ack(c, now, packet.sent)
        return False
    if d == 0 and not c.established:
        if not c.linux:
            ns3.estimate_rtt(c, 1, now, packet.echo)
            half.rcv_pending = 2
        else:
            linux.estimate_rtt(c, 1, now - packet.echo)
        handshake.establish(c)
    segment = packet.segment
    place = segment if kind == DATA else packet.next
    if c.linux:
        if place <= half.last_ack_sent:
            half.ts_recent = packet.sent
        linux.receive_ack(
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
            linux.receive_data(c, d, now, segment)
    else:
        if place == half.rcv_nxt and place <= half.last_ack_sent:
            half.ts_recent = packet.sent
        ns3.received_ack(c, 1 - d, now, packet.ack, packet.count, packet.holes, packet.echo)
        if kind == DATA:
            receiver.receive_data(c, d, now, segment)
    return bool(kind == DATA)


@compiled
def process_event(c: Record) -> bool:
    """Process the next event; return whether data arrived."""
    now = c.next_event
    for h in range(2):
        half = c.half[h]
        if half.head < half.tail and half.packet[half.head & PACKETS].arrives <= now:
            return receive_packet(c, h, now)
    for h in range(2):
        half = c.half[h]
        if half.delack_expires <= now:
            if c.linux:
                linux.on_delack_timer(c, h)
            receiver.send_ack(c, h, now, half.rcv_nxt - 1, 1, 0)
            return False
        if half.timer_expires <= now:
            if c.linux:
                linux.on_write_timer(c, h, now)
            else:
                ns3.retx_timeout(c, h, now)
            return False
    if c.syn_timer <= now:
        handshake.send_syn(c, now)
    elif c.synack_timer <= now:
        if c.synacks_sent < handshake.SYN_ACKS:
            handshake.send_syn_ack(c, now)
        else:
            c.synack_timer = math.inf
    return False


@compiled
def report_arrival(c: Record, now: float) -> bool:
    """Report an arrival, if there is an unreported one; return whether. Answer TLS flights."""
    for h in range(2):
        while receiver.next_arrival(c, h):
            if c.arrival_number >= 0:
                c.has_unreported = 1
                return True
            send_pending(c, handshake.receive_tls_flight(c, h, -1 - c.arrival_number, now), now)
            update_next_event(c)
    c.has_unreported = 0
    return False


@compiled
def step(c: Record) -> bool:
    """Let the next thing happen, at ``c.next_event``; whether a message arrived by it."""
    now = c.next_event
    data = process_event(c)
    update_next_event(c)
    return data and report_arrival(c, now)


@compiled
def run_until(c: Record, until: float, others: float) -> tuple[bool, float]:
    """Process the next event, and further ones up to ``until`` and before ``others``.

    It stops at an arrival, or when an end aborts the connection.

    Args:
        others: time of the next event on other connections.

    Returns:
        Whether a message arrived with the last event, and the time of that event.
    """
    while True:
        at = c.next_event
        if step(c):
            return True, at
        if c.timed_out or c.next_event > until or c.next_event >= others:
            return False, at
