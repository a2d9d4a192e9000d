"""Stores among themselves and with others: merge, export, import, verify, backup."""
