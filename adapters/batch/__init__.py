"""Batches: many requests in one file, answered in another one, hours later and cheaper."""
