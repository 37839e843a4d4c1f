"""What an exception's text is taken to mean."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_worker.fault_text import MAX_MESSAGE_CHARS, cause_of, engine_fault, load_fault, one_line
from ipc.messages import FailCode, LoadFailCode


@given(st.text(max_size=2_000))
def test_a_message_is_one_printable_line_of_bounded_length(text: str) -> None:
    line = one_line(text)
    assert len(line) <= MAX_MESSAGE_CHARS
    assert len(line.splitlines()) <= 1
    line.encode()
    assert "\x1b" not in line


def test_addresses_and_colours_are_taken_out() -> None:
    assert one_line("\x1b[1;31mread at 0x7ffde2A1 failed\x1b[m\n  in foo\t.cc") == "read at (address) failed in foo .cc"


def test_an_exception_without_words_is_named_by_its_kind() -> None:
    assert cause_of(MemoryError()) == "MemoryError"


@pytest.mark.parametrize(
    "words",
    [
        "std::bad_alloc",
        "bad allocation",
        "CUDA failure 2: out of memory ; GPU=0",
        "Available memory of 12 is smaller; Failed to allocate memory for requested buffer of size 4096",
        "CUBLAS_STATUS_ALLOC_FAILED",
    ],
)
def test_memory_that_ran_out_is_fatal(words: str) -> None:
    fault = engine_fault(RuntimeError(words))
    assert (fault.code, fault.is_fatal) == (FailCode.OUT_OF_MEMORY, True)
    assert load_fault(RuntimeError(words), "/models/phi").code is LoadFailCode.OUT_OF_MEMORY


def test_a_memory_error_without_words_is_out_of_memory() -> None:
    assert engine_fault(MemoryError()).code is FailCode.OUT_OF_MEMORY
    assert load_fault(MemoryError(), "/m").code is LoadFailCode.OUT_OF_MEMORY


@pytest.mark.parametrize(
    "words", ["CUDA error 700: an illegal memory access was encountered", "CUBLAS_STATUS_EXECUTION_FAILED"]
)
def test_a_device_error_is_sticky(words: str) -> None:
    fault = engine_fault(RuntimeError(words))
    assert (fault.code, fault.is_fatal) == (FailCode.ENGINE_ERROR, True)


def test_any_other_fault_of_the_engine_is_not_fatal() -> None:
    assert not engine_fault(RuntimeError("Non-zero status code returned while running Gather node")).is_fatal


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("Load model from /m/phi-cuda/model.onnx failed:Protobuf parsing failed.", LoadFailCode.BAD_MODEL),
        ("Unsupported model_type in config.json: zzz", LoadFailCode.BAD_MODEL),
        (
            "Failed to load library: libcublasLt.so.13: cannot open shared object file",
            LoadFailCode.DEVICE_UNAVAILABLE,
        ),
        ("Cuda interface not available", LoadFailCode.DEVICE_UNAVAILABLE),
    ],
)
def test_a_fault_of_loading_is_laid_at_the_right_door(words: str, code: LoadFailCode) -> None:
    assert load_fault(RuntimeError(words), "/m/phi-cuda").code is code


def test_the_missing_library_is_named() -> None:
    words = "Failed to load library: libcublasLt.so.13: cannot open shared object file: No such file or directory"
    assert "libcublasLt.so.13" in str(load_fault(RuntimeError(words), "/m"))
