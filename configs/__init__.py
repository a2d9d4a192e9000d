"""Typed, frozen configurations, and the TOML files that the project ships."""
