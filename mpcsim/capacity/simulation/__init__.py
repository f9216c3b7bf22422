"""From a deployment to the compiled kernel's records, and through its runs.

``shape`` is what a call consists of, ``machines`` who computes where; ``writing`` and ``layout``
write them down, ``incidents`` what happens to them; ``driving`` runs the kernel.
"""
