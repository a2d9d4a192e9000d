"""Starts the server: ``python -m hatevolution.adapters.seq2seq_server --model WEIGHTS --port 8000``."""

from __future__ import annotations

from hatevolution.adapters.seq2seq_server.options import read_options

if __name__ == "__main__":  # the worker process imports this module again, under another name
    options = read_options()
    from hatevolution.adapters.seq2seq_server.service import serve

    serve(options)
