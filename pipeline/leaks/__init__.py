"""Leak analysis: verdicts over epochs, attributes that tell leaking epochs apart, merging, root causes."""
