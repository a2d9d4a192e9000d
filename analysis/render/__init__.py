"""Tables for people: on the terminal, and as CSV, Parquet, Markdown and LaTeX files."""
