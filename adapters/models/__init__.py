"""One adapter per kind of endpoint."""
