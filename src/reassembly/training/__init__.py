"""Training: what the networks are shown, and the runs."""
