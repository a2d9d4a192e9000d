"""Batches from the store's side: what is submitted, what became of it, and its answers brought home."""
