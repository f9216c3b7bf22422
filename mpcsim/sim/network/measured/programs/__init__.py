"""Readers of the output of ping, fping, hping3, tcpping, mtr, iperf3 and mahimahi."""
