"""Labels, metrics, correlations and tables, derived from a store alone."""
