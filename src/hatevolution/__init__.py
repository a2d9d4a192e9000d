"""Measure how well language models detect hate speech while language changes."""

__all__ = ["__version__"]

__version__ = "0.1.0"
