"""What programs print: ping, fping, hping3, mtr, iperf3 and others."""
