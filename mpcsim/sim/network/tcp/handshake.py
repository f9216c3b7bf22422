"""Handshakes: SYN, SYN-ACK and ACK (RFC 9293, section 3.5), then the flights of TLS.

An unanswered SYN is retransmitted after 1 s, then after 2, 4, ... (RFC 6298, sections 2.1 and 5.5);
so is a SYN-ACK. Linux retransmits a SYN five times after 1 s each before the interval doubles
(``net.ipv4.tcp_syn_linear_timeouts``). It aborts 64 s after the last of ten retransmissions
(``tcp_syn_retries``, 6, and the four linear ones), after 131 s; kernels before 6.5, without linear
ones, after 127 s. ns-3 aborts 32 s after the last of six SYNs (``ConnCount``), after 63 s. A
SYN-ACK is retransmitted five times (``tcp_synack_retries``). TLS flights are messages like others;
the ``handshake_gate`` says which messages may be sent before, between and after them."""

from __future__ import annotations

import math

import numpy as np

from mpcsim.sim.network.tcp import linux
from mpcsim.sim.network.tcp.compiled import compiled
from mpcsim.sim.network.tcp.state import (
    ACK,
    ALL,
    ESTABLISHED,
    MESSAGES,
    SYN,
    SYN_ACK,
    SYN_SENT,
    Record,
)
from mpcsim.sim.network.tcp.wire import hash64, launch, uniform

FIRST_TIMEOUT_MS = 1000.0
LINEAR_TIMEOUTS = 4
SYN_RETRIES = 6
NS3_SYNS = 6
SYN_ACKS = 6


@compiled
def queue_message(
    c: Record,
    h: int,
    number: int,
    size: int,
    available: int,
    key: np.uint64,
    forward: float,
    backward: float,
    stream: int,
) -> None:
    """Append a message to a half's queue."""
    s = c.half[h]
    begin = 0
    if s.messages_queued:
        last = c.half[h].message[(s.messages_queued - 1) & MESSAGES]
        begin = last.begin + last.size
    m = c.half[h].message[s.messages_queued & MESSAGES]
    m.number = number
    m.begin = begin
    m.size = size
    m.available = available
    m.reported = 0
    m.stream = stream
    m.key = key
    m.forward = forward
    m.backward = backward
    m.first_segment = 0
    m.began = 0.0
    m.left = 0.0
    m.waited = 0.0
    m.wire_ms = 0.0
    m.resent = 0
    s.messages_queued += 1


@compiled
def release_bytes(c: Record, h: int) -> None:
    """Update the number of bytes that may be sent: those of messages below the gate."""
    s = c.half[h]
    while s.first_unreleased < min(s.messages_queued, s.handshake_gate):
        m = c.half[h].message[s.first_unreleased & MESSAGES]
        s.bytes_available = m.begin + m.available
        if m.available < m.size:
            return
        s.first_unreleased += 1


@compiled
def open_connection(c: Record, now: float, key: np.uint64, forward: float, backward: float) -> None:
    """Begin to open a connection, queueing the TLS flights; latencies are the first message's."""
    c.state = SYN_SENT
    for k in range(c.flights):
        there, back = (forward, backward) if k % 2 == 0 else (backward, forward)
        own = hash64(key + np.uint64(k + 1))
        queue_message(c, k % 2, -1 - k, c.flight[k], c.flight[k], own, there, back, 0)


@compiled
def send_syn(c: Record, now: float) -> None:
    """Send a SYN, or abort after the last one."""
    most = 1 + SYN_RETRIES + LINEAR_TIMEOUTS if c.linux else NS3_SYNS
    if c.syns_sent == most:
        c.timed_out = 1
        return
    if c.linux:
        wait = linux.timer_wait(FIRST_TIMEOUT_MS * 2.0 ** max(c.syns_sent - LINEAR_TIMEOUTS, 0))
    else:
        wait = FIRST_TIMEOUT_MS * 2.0**c.syns_sent
    c.syn_timer = now + wait
    c.syns_sent += 1
    m = c.half[0].message[0]
    slot = launch(c, 0, now, c.syn_bytes, m.forward, m.key, -1, c.syns_sent, 3)
    if slot >= 0:
        c.half[0].packet[slot].kind = SYN
        c.half[0].packet[slot].sent = now


@compiled
def receive_syn(c: Record, now: float) -> None:
    """Process a SYN.

    In Linux a retransmitted SYN restarts the SYN-ACK's timer (``tcp_check_req``), which may have
    expired just before: both ends' timers are late by up to a step, so that either may be first;
    the message's key decides."""
    if not c.linux or c.synacks_sent == 0:
        send_syn_ack(c, now)
        return
    due = c.synack_timer < now + linux.LONG_STEP_MS / 2
    if due and uniform(c.half[0].message[0].key, -1, c.synacks_sent, 6) < 0.5:
        _launch_syn_ack(c, now)
    c.synack_timer = now + linux.timer_wait(FIRST_TIMEOUT_MS * 2.0 ** (c.synacks_sent - 1))
    _launch_syn_ack(c, now)


@compiled
def send_syn_ack(c: Record, now: float) -> None:
    """Send a SYN-ACK, and start its timer."""
    if c.synack_timer <= now or c.synack_timer == math.inf:
        wait = FIRST_TIMEOUT_MS * 2.0**c.synacks_sent
        c.synack_timer = now + (linux.timer_wait(wait) if c.linux else wait)
    _launch_syn_ack(c, now)


@compiled
def _launch_syn_ack(c: Record, now: float) -> None:
    c.synacks_sent += 1
    m = c.half[0].message[0]
    slot = launch(c, 1, now, c.syn_bytes, m.backward, m.key, -1, c.synacks_sent, 4)
    if slot >= 0:
        packet = c.half[1].packet[slot]
        packet.kind = SYN_ACK
        packet.sent = now
        packet.echo = c.half[0].ts_recent


@compiled
def send_ack(c: Record, now: float, sent: float) -> None:
    """Send the opener's ACK of a SYN-ACK with time stamp ``sent``."""
    m = c.half[0].message[0]
    slot = launch(c, 0, now, c.header, m.forward, m.key, -1, c.synacks_sent, 5)
    if slot >= 0:
        packet = c.half[0].packet[slot]
        packet.kind = ACK
        packet.ack = c.half[1].rcv_nxt
        packet.count = c.half[1].rcv_arrivals
        packet.holes = 0
        packet.echo = sent
        packet.sent = now
        packet.next = c.half[0].snd_nxt
        packet.duplicate = 0


@compiled
def receive_syn_ack(c: Record, now: float, sent: float) -> None:
    """Process a SYN-ACK at the opener: ESTABLISHED; send the ACK, then queued data."""
    if c.state != SYN_SENT:
        return
    c.state = ESTABLISHED
    c.syn_timer = math.inf
    if c.linux and c.syns_sent > 2:
        c.half[0].cwnd = 1  # RFC 5681, section 3.1
    send_ack(c, now, sent)
    c.half[1].ts_recent = sent
    c.half[0].handshake_gate = 1 if c.flights and not c.early_data else ALL
    c.established_ms = now
    release_bytes(c, 0)


@compiled
def establish(c: Record) -> None:
    """Process the opener's ACK at the other end: ESTABLISHED."""
    c.established = 1
    c.synack_timer = math.inf
    if c.linux and c.synacks_sent > 2:
        c.half[1].cwnd = 1  # as in ``receive_syn_ack``
    if not c.flights:
        c.half[1].handshake_gate = ALL
        release_bytes(c, 1)


@compiled
def receive_tls_flight(c: Record, h: int, k: int, now: float) -> int:
    """Process TLS flight ``k`` at the end of half ``h``; return the half that may send next."""
    other = 1 - h
    s = c.half[other]
    s.handshake_gate = ALL if k + 2 >= c.flights else (k + 1) // 2 + 1
    if other == 0 and not c.early_data:
        c.established_ms = now
    release_bytes(c, other)
    return other
