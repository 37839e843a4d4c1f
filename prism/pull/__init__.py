"""Brings models to this machine: download, conversion, an atomic rename into the models folder."""
