"""The servers of open models: how they are started, watched and stopped. See design/serving.md."""
