"""Many runs: sweeps, comparisons, repetitions."""
