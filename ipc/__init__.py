"""What the front and a worker say to each other: messages, their encoding, and the channel that carries them.

Imports nothing of ours. The front (`supervisor`) holds one end, a worker (`gpu_worker`) the other; `prism` sees the messages only.
"""
