"""Agreement of the two MPC nodes: each acts on the other's signed statements, whoever carries them.

``voting`` (activation of keys), ``attestations`` (suspended keys), ``restore_reconciliation`` (a
store that was restored from a backup: the protocol page).
"""
