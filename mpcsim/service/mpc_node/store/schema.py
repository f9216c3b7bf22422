"""Tables of an MPC node's store."""

from __future__ import annotations

from typing import Final

from mpcsim.service.mpc_node import events

SCHEMA: Final = (
    """
CREATE TABLE IF NOT EXISTS shares (
    key_id          TEXT PRIMARY KEY,
    user_id         TEXT NOT NULL,
    curve           TEXT NOT NULL,
    public_key      BLOB NOT NULL,
    share           BLOB NOT NULL,
    state           TEXT NOT NULL CHECK (state IN ('prepared', 'voted', 'active')),
    suspended       TEXT,
    recoveries      INTEGER NOT NULL DEFAULT 0,
    predecessor     TEXT,
    record          BLOB,
    suspended_there INTEGER NOT NULL DEFAULT 0,
    unmerged        INTEGER NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX IF NOT EXISTS one_active ON shares (user_id, curve) WHERE state = 'active';
CREATE UNIQUE INDEX IF NOT EXISTS one_voted ON shares (user_id, curve) WHERE state = 'voted';
CREATE INDEX IF NOT EXISTS prepared ON shares (key_id) WHERE state = 'prepared';
CREATE INDEX IF NOT EXISTS states ON shares (state, suspended);
CREATE TABLE IF NOT EXISTS signed (
    key_id  TEXT NOT NULL,
    user_id TEXT NOT NULL,
    curve   TEXT NOT NULL,
    what    TEXT NOT NULL CHECK (what IN ('vote', 'abort')),
    PRIMARY KEY (user_id, curve, key_id)
);
CREATE TABLE IF NOT EXISTS outstanding (
    key_id TEXT PRIMARY KEY,
    since  REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS put_back (
    both INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS entered (
    key_id  TEXT PRIMARY KEY,
    user_id TEXT NOT NULL,
    curve   TEXT NOT NULL,
    over    INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS open ON entered (key_id) WHERE over = 0;
CREATE INDEX IF NOT EXISTS entered_at ON entered (user_id, curve);
CREATE TABLE IF NOT EXISTS secrets (name TEXT PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS sealed_to_lost_key (key_id TEXT PRIMARY KEY);
"""
    + events.SCHEMA
)
