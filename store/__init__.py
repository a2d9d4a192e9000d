"""The SQLite store: one writer, readers that are never blocked, answers that are never overwritten."""
