"""Where a model is loaded, and what is said when a device fails: on a stand-in for the library, since no machine has every fault."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from gpu_worker.engine import GenAiEngine, load_engine
from gpu_worker.errors import EngineFault, LoadFault
from gpu_worker.genai_api import GenAi
from gpu_worker.load_options import LoadOptions
from gpu_worker.model_folder import ModelFolder, read_model_folder
from gpu_worker.sampling import search_options
from ipc.messages import Device, DeviceChoice, FailCode, LoadFailCode, Sampling

NO_CUBLAS = "Failed to load library: libcublasLt.so.13: cannot open shared object file: No such file or directory"


class Ids(list[int]):
    def tolist(self) -> list[int]:
        return list(self)


class FakeConfig:
    def __init__(self, folder: str) -> None:
        self.folder = folder
        # What the file says: the model was exported for another device.
        self.providers = ["dml"]
        self.overlays: list[str] = []

    def clear_providers(self) -> None:
        self.providers.clear()

    def append_provider(self, name: str) -> None:
        self.providers.append(name)

    def overlay(self, json_text: str) -> None:
        self.overlays.append(json_text)


class FakeModel:
    def __init__(self, device_type: str) -> None:
        self.device_type = device_type


class FakeTokenizer:
    def encode(self, text: str) -> Ids:
        return Ids(text.encode())

    def decode(self, tokens: Sequence[int]) -> str:
        return bytes(tokens).decode(errors="replace")


class FakeParams:
    def set_search_options(self, **options: float) -> None:
        self.options = options


class FakeGenerator:
    def __init__(self, faults: dict[str, Exception]) -> None:
        self._faults = faults

    def append_tokens(self, tokens: Sequence[int]) -> None:
        raise_if(self._faults, "append")

    def generate_next_token(self) -> None:
        raise_if(self._faults, "step")

    def get_next_tokens(self) -> Ids:
        return Ids([0])


def raise_if(faults: dict[str, Exception], place: str) -> None:
    if place in faults:
        raise faults[place]


class FakeLibrary:
    """faults: what is raised at a place: "config", "cuda" or "cpu" (building the model there), "tokenizer", "generator", "append", "step".

    cuda_device: what the engine says it runs on after CUDA was asked for.
    """

    __version__ = "0.18.0-fake"

    def __init__(self, faults: dict[str, Exception] | None = None, cuda_device: str = "CUDA") -> None:
        self.faults = faults or {}
        self.cuda_device = cuda_device
        self.configs: list[FakeConfig] = []
        self.max_lengths: list[float] = []

    def Config(self, folder: str) -> FakeConfig:
        raise_if(self.faults, "config")
        self.configs.append(FakeConfig(folder))
        return self.configs[-1]

    def Model(self, config: FakeConfig) -> FakeModel:
        is_cuda = config.providers == ["cuda"]
        raise_if(self.faults, "cuda" if is_cuda else "cpu")
        return FakeModel(self.cuda_device if is_cuda else "CPU")

    def Tokenizer(self, model: FakeModel) -> FakeTokenizer:
        raise_if(self.faults, "tokenizer")
        return FakeTokenizer()

    def GeneratorParams(self, model: FakeModel) -> FakeParams:
        return FakeParams()

    def Generator(self, model: FakeModel, params: FakeParams) -> FakeGenerator:
        raise_if(self.faults, "generator")
        self.max_lengths.append(params.options["max_length"])
        return FakeGenerator(self.faults)


@pytest.fixture
def folder(tmp_path: Path) -> ModelFolder:
    path = tmp_path / "phi-4-mini-cuda-gpu"
    path.mkdir()
    (path / "genai_config.json").write_text(json.dumps({"model": {"eos_token_id": [7, 5], "context_length": 64}}))
    (path / "tokenizer.json").write_text(
        json.dumps({"model": {"vocab": {"a": 0, "b": 1}}, "decoder": {"type": "ByteLevel"}})
    )
    return read_model_folder(path)


def load(
    library: FakeLibrary,
    folder: ModelFolder,
    choice: DeviceChoice = DeviceChoice.AUTO,
    no_cuda_reason: str | None = None,
    threads: int | None = None,
) -> GenAiEngine:
    return load_engine(as_library(library), folder, choice, no_cuda_reason, LoadOptions(threads=threads))


def as_library(fake: FakeLibrary) -> GenAi:
    # The stand-in has the library's shape for the calls that are made, but its objects fit only one another.
    return fake  # type: ignore[return-value]


def refusal(library: FakeLibrary, folder: ModelFolder, choice: DeviceChoice, reason: str | None = None) -> LoadFault:
    with pytest.raises(LoadFault) as caught:
        load(library, folder, choice, reason)

    return caught.value


def test_auto_takes_cuda_when_it_works(folder: ModelFolder) -> None:
    library = FakeLibrary()
    facts = load(library, folder).facts
    assert (facts.device, facts.fallback_reason) == (Device.CUDA, None)
    assert [config.providers for config in library.configs] == [["cuda"]]


def test_a_cuda_model_makes_one_token_before_it_counts_as_loaded(folder: ModelFolder) -> None:
    library = FakeLibrary()
    load(library, folder)
    assert library.max_lengths == [2]


@pytest.mark.parametrize("place", ["cuda", "generator", "append", "step"])
def test_auto_falls_back_with_the_cause_wherever_cuda_fails(folder: ModelFolder, place: str) -> None:
    library = FakeLibrary({place: RuntimeError(NO_CUBLAS)})
    facts = load(library, folder).facts
    assert facts.device is Device.CPU
    assert facts.fallback_reason is not None
    assert "libcublasLt.so.13" in facts.fallback_reason
    assert [config.providers for config in library.configs] == [["cuda"], []]


def test_auto_falls_back_when_the_cards_memory_is_short(folder: ModelFolder) -> None:
    facts = load(FakeLibrary({"cuda": RuntimeError("CUDA failure 2: out of memory")}), folder).facts
    assert (facts.device, facts.fallback_reason) == (Device.CPU, "CUDA failure 2: out of memory")


def test_auto_does_not_try_a_cuda_that_cannot_work(folder: ModelFolder) -> None:
    library = FakeLibrary({"cuda": AssertionError("must not be tried")})
    facts = load(library, folder, no_cuda_reason="no NVIDIA GPU was found").facts
    assert (facts.device, facts.fallback_reason) == (Device.CPU, "no NVIDIA GPU was found")
    assert len(library.configs) == 1


def test_auto_reports_the_cpus_fault_when_neither_works(folder: ModelFolder) -> None:
    broken = RuntimeError("Load model failed:Protobuf parsing failed.")
    fault = refusal(FakeLibrary({"cuda": broken, "cpu": broken}), folder, DeviceChoice.AUTO)
    assert fault.code is LoadFailCode.BAD_MODEL


def test_a_device_that_the_engine_did_not_take_is_not_reported(folder: ModelFolder) -> None:
    facts = load(FakeLibrary(cuda_device="CPU"), folder).facts
    assert facts.device is Device.CPU
    assert facts.fallback_reason == "CUDA cannot be used: the engine chose CPU"
    assert refusal(FakeLibrary(cuda_device="CPU"), folder, DeviceChoice.CUDA).code is LoadFailCode.DEVICE_UNAVAILABLE


def test_cuda_that_was_asked_for_is_tried_whatever_the_files_say(folder: ModelFolder) -> None:
    facts = load(FakeLibrary(), folder, DeviceChoice.CUDA, "no NVIDIA GPU was found").facts
    assert (facts.device, facts.fallback_reason) == (Device.CUDA, None)


def test_cuda_that_was_asked_for_and_fails_is_no_reason_for_the_cpu(folder: ModelFolder) -> None:
    library = FakeLibrary({"cuda": RuntimeError(NO_CUBLAS)})
    fault = refusal(library, folder, DeviceChoice.CUDA)
    assert fault.code is LoadFailCode.DEVICE_UNAVAILABLE
    assert "libcublasLt.so.13" in str(fault)
    assert len(library.configs) == 1


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RuntimeError("CUDA failure 2: out of memory"), LoadFailCode.OUT_OF_MEMORY),
        (RuntimeError("Load model failed:Protobuf parsing failed."), LoadFailCode.BAD_MODEL),
        (MemoryError(), LoadFailCode.OUT_OF_MEMORY),
        (TypeError("bad argument"), LoadFailCode.BAD_MODEL),
    ],
)
def test_a_folder_called_cuda_gpu_does_not_colour_the_fault(
    folder: ModelFolder, error: Exception, code: LoadFailCode
) -> None:
    named = type(error)(*(f"{folder.path}/model.onnx: {words}" for words in error.args))
    assert refusal(FakeLibrary({"cuda": named}), folder, DeviceChoice.CUDA).code is code


@pytest.mark.parametrize("place", ["config", "cpu", "tokenizer"])
def test_a_fault_on_the_cpu_is_the_models(folder: ModelFolder, place: str) -> None:
    fault = refusal(FakeLibrary({place: RuntimeError("odd file")}), folder, DeviceChoice.CPU)
    assert (fault.code, str(fault)) == (LoadFailCode.BAD_MODEL, "odd file")


def test_the_cpu_is_told_no_provider_and_the_model_its_end_tokens(folder: ModelFolder) -> None:
    library = FakeLibrary()
    load(library, folder, DeviceChoice.CPU, threads=3)
    (config,) = library.configs
    assert config.providers == []
    assert json.loads(config.overlays[0]) == {
        "model": {"eos_token_id": [5, 7], "decoder": {"session_options": {"intra_op_num_threads": 3}}}
    }


@pytest.mark.parametrize(
    ("error", "code", "is_fatal"),
    [
        (RuntimeError("std::bad_alloc"), FailCode.OUT_OF_MEMORY, True),
        (RuntimeError("CUDA error 700: illegal memory access at 0x7f00"), FailCode.ENGINE_ERROR, True),
        (RuntimeError("Gather node\n failed"), FailCode.ENGINE_ERROR, False),
        (MemoryError(), FailCode.OUT_OF_MEMORY, True),
    ],
)
@pytest.mark.parametrize("place", ["generator", "append", "step"])
def test_a_fault_under_a_request_is_named(
    folder: ModelFolder, place: str, error: Exception, code: FailCode, is_fatal: bool
) -> None:
    engine = load(FakeLibrary({place: error}), folder, DeviceChoice.CPU)
    options = search_options(Sampling(), max_length=9, model_top_k=None, vocabulary_size=None)

    def use() -> None:
        sequence = engine.start([1], options)
        sequence.feed([1])
        sequence.step()

    with pytest.raises(EngineFault) as caught:
        use()

    assert (caught.value.code, caught.value.is_fatal) == (code, is_fatal)
    assert "0x" not in str(caught.value)
    assert "\n" not in str(caught.value)
