"""What is modelled: machines, workloads, arrivals, incidents, and what operations cost."""
