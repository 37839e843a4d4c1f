"""The Ollama daemon: where it is, how it is asked, and what its answers mean. The HTTP handlers and the command line call it."""
