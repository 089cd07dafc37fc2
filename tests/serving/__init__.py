"""Requests and tokens: percentiles, objectives, symptoms, what a token costs."""
