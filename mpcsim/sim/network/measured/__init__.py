"""Links that people measured: readers of what ping, mtr, hping3, tcpping, iperf3, browsers and curl
write, fits of distributions to it, and latencies that come in bursts.

``reading`` recognises a file and reads its ``Series``; ``fit`` finds distributions for one;
``assembly`` makes a ``Network`` of them; ``bursts`` keeps the order of the samples in blocks.
"""
