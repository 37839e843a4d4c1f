"""One process, one ONNX model, one thread. Started by `supervisor` as `python -m gpu_worker`; killed to give its memory back."""
