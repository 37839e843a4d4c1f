"""Prism: a local LLM server that you can trust with your GPU."""

__version__ = "0.1.0"
