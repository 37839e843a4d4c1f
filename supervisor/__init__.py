"""The life of the workers: turns, start, generation, stop, memory and locks. Knows nothing of HTTP and never imports an engine."""
