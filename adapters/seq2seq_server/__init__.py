"""A server for encoder-decoder models (T5, mT5), which vLLM has not got, in vLLM's wire format.

``python -m hatevolution.adapters.seq2seq_server --model WEIGHTS --port 8000`` serves ``/v1/completions``,
``/v1/models``, ``/health`` and ``/version``. HTTP, processes and batching are LitServe's, generation is transformers';
both come with the extra ``[seq2seq]`` and are imported when the server starts, not before.
See design/seq2seq-server.md.
"""
