"""How fresh the list of models is, and which model a name means."""

import asyncio
import contextlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prism.async_catalog import AsyncCatalog
from prism.catalog import BELIEVED_FOR_S, AmbiguousModel, Catalog, ModelNotFound
from prism.model_entry import ModelEntry
from tests.prism.model_folders import make_model_folder


def ids(catalog: Catalog) -> list[str]:
    return [model.id for model in catalog.models()]


class ManualClock:
    """A clock that stands still unless a test moves it."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class TestFreshness:
    def test_a_model_that_appears_is_found_at_once(self, tmp_path: Path) -> None:  # D-40, B-78
        catalog = Catalog([tmp_path / "not-yet" / "models"], clock=ManualClock())
        assert ids(catalog) == []
        make_model_folder(tmp_path / "not-yet" / "models" / "tiny")
        assert ids(catalog) == ["tiny"]

    def test_a_model_that_is_removed_is_gone_at_once(self, tmp_path: Path) -> None:
        folder = make_model_folder(tmp_path / "tiny")
        catalog = Catalog([tmp_path], clock=ManualClock())
        assert ids(catalog) == ["tiny"]
        (folder / "model.onnx").unlink()
        assert ids(catalog) == []

    def test_a_file_that_is_completed_in_place_is_seen_after_the_bound(self, tmp_path: Path) -> None:
        graph = make_model_folder(tmp_path / "tiny", graph=b"") / "model.onnx"
        clock = ManualClock()
        catalog = Catalog([tmp_path], clock=clock)
        assert ids(catalog) == []
        graph.write_bytes(b"graph")
        assert ids(catalog) == []
        clock.now += BELIEVED_FOR_S
        assert ids(catalog) == ["tiny"]

    def test_a_name_that_is_not_found_is_looked_for_once_more(self, tmp_path: Path) -> None:
        graph = make_model_folder(tmp_path / "tiny", graph=b"") / "model.onnx"
        catalog = Catalog([tmp_path], clock=ManualClock())
        assert ids(catalog) == []
        graph.write_bytes(b"graph")
        assert catalog.resolve("tiny").id == "tiny"

    def test_a_config_that_changes_is_read_again(self, tmp_path: Path) -> None:
        config = make_model_folder(tmp_path / "tiny") / "genai_config.json"
        clock = ManualClock()
        catalog = Catalog([tmp_path], clock=clock)
        assert catalog.models()[0].context_length == 2048
        config.write_text(json.dumps({"model": {"context_length": 9, "decoder": {"filename": "model.onnx"}}}))
        clock.now += BELIEVED_FOR_S
        assert catalog.models()[0].context_length == 9

    def test_an_unchanged_model_is_not_read_twice(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        make_model_folder(tmp_path / "tiny")
        clock = ManualClock()
        catalog = Catalog([tmp_path], clock=clock)
        first = catalog.models()
        clock.now += BELIEVED_FOR_S
        assert catalog.models()[0] is first[0]

    def test_what_is_handed_out_cannot_be_changed(self, tmp_path: Path) -> None:  # B-81
        make_model_folder(tmp_path / "tiny")
        models = Catalog([tmp_path]).models()
        assert isinstance(models, tuple)

        with pytest.raises(AttributeError):
            models[0].id = "other"  # type: ignore[misc]

    async def test_coroutines_ask_without_blocking_the_loop(self, tmp_path: Path) -> None:
        make_model_folder(tmp_path / "tiny")
        catalog = AsyncCatalog(Catalog([tmp_path]))
        answers = await asyncio.gather(*(catalog.resolve("tiny") for _ in range(8)), catalog.models())
        assert {answer.id for answer in answers[:8] if isinstance(answer, ModelEntry)} == {"tiny"}


@pytest.fixture
def installed(tmp_path: Path) -> Callable[..., Catalog]:
    """Return a function that installs models by name and gives their catalog."""

    def install(*names: str, prefers_cuda: bool = False) -> Catalog:
        for name in names:
            make_model_folder(tmp_path / name)

        return Catalog([tmp_path], prefers_cuda=prefers_cuda)

    return install


MINI_CUDA, MINI_CPU = "Phi-4-mini-instruct-cuda-gpu", "Phi-4-mini-instruct-generic-cpu"


class TestResolution:
    @pytest.mark.parametrize("name", ["Tiny-A", " Tiny-A\n", "tiny-a", "TINY-A"])
    def test_an_id_is_found_in_any_case(self, installed: Callable[..., Catalog], name: str) -> None:
        assert installed("Tiny-A", "Tiny-A-b").resolve(name).id == "Tiny-A"

    def test_the_exact_spelling_comes_first(self, installed: Callable[..., Catalog]) -> None:
        catalog = installed("TINY", "tiny")
        assert [catalog.resolve(name).id for name in ("TINY", "tiny")] == ["TINY", "tiny"]

    @pytest.mark.parametrize("name", ["", "  ", "\t\n"])
    def test_an_empty_name_means_no_model(self, installed: Callable[..., Catalog], name: str) -> None:
        with pytest.raises(ModelNotFound):
            installed("tiny").resolve(name)

    def test_the_path_of_a_listed_folder_means_it(self, installed: Callable[..., Catalog], tmp_path: Path) -> None:
        catalog = installed("tiny")
        assert catalog.resolve(str(tmp_path / "tiny")).id == "tiny"
        assert catalog.resolve(f"{tmp_path}/x/../tiny/").id == "tiny"

    @pytest.mark.parametrize("name", ["/", "/etc", "tiny/../tiny", "/a\0b", "/" + "x" * 5000])
    def test_other_paths_mean_nothing(self, installed: Callable[..., Catalog], name: str) -> None:
        with pytest.raises(ModelNotFound):
            installed("tiny").resolve(name)

    @pytest.mark.parametrize(("prefers_cuda", "expected"), [(True, MINI_CUDA), (False, MINI_CPU)])
    def test_an_alias_means_the_best_installed_build(
        self, installed: Callable[..., Catalog], prefers_cuda: bool, expected: str
    ) -> None:  # B-80
        foundry_copy = "Phi-4-mini-instruct-generic-cpu-5"
        catalog = installed(MINI_CUDA, MINI_CPU, foundry_copy, prefers_cuda=prefers_cuda)
        assert catalog.resolve("Phi-4-Mini").id == expected

    def test_an_alias_means_the_build_that_is_there(self, installed: Callable[..., Catalog]) -> None:
        assert (
            installed(MINI_CPU, "Phi-4-mini-reasoning-generic-cpu", prefers_cuda=True).resolve("phi-4-mini").id
            == MINI_CPU
        )

    def test_an_alias_without_its_builds_is_a_part_of_a_name(self, installed: Callable[..., Catalog]) -> None:
        assert installed("my-phi-4-finetune").resolve("phi-4").id == "my-phi-4-finetune"

    def test_a_part_of_one_name_means_it(self, installed: Callable[..., Catalog]) -> None:
        assert installed("qwen-2.5-7b", "smollm2-135m").resolve("SmolLM2").id == "smollm2-135m"

    @pytest.mark.parametrize("name", ["SmolLM2", "smollm2-135m"])
    def test_a_part_of_a_model_and_of_its_paged_form_means_the_model(
        self, installed: Callable[..., Catalog], name: str
    ) -> None:
        catalog = installed("smollm2-135m-paged", "smollm2-135m")

        assert catalog.resolve(name).id == "smollm2-135m"
        assert catalog.resolve("smollm2-135m-paged").id == "smollm2-135m-paged"
        assert catalog.resolve("135m-paged").id == "smollm2-135m-paged"

    def test_a_paged_form_alone_is_meant_by_a_part_of_its_name(self, installed: Callable[..., Catalog]) -> None:
        assert installed("smollm2-135m-paged").resolve("SmolLM2").id == "smollm2-135m-paged"

    def test_a_part_of_several_names_is_ambiguous(self, installed: Callable[..., Catalog]) -> None:  # B-80
        with pytest.raises(AmbiguousModel, match="'phi-4-mini-instruct'") as raised:
            installed(MINI_CUDA, MINI_CPU, "other").resolve("phi-4-mini-instruct")

        assert raised.value.names == (MINI_CUDA, MINI_CPU)
        assert MINI_CUDA in str(raised.value)
        assert MINI_CPU in str(raised.value)

    def test_an_unknown_name_is_told_what_there_is(self, installed: Callable[..., Catalog]) -> None:
        with pytest.raises(ModelNotFound, match=r"'gpt-5'.*qwen, tiny"):
            installed("tiny", "qwen").resolve("gpt-5")

    def test_without_models_the_message_says_how_to_get_one(self, installed: Callable[..., Catalog]) -> None:
        with pytest.raises(ModelNotFound, match="prism pull smollm2-135m"):
            installed().resolve("gpt-5")

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
    @given(name=st.text(max_size=30))
    def test_every_text_means_one_model_or_is_refused(
        self, tmp_path_factory: pytest.TempPathFactory, name: str
    ) -> None:
        root = tmp_path_factory.getbasetemp() / "any-name"

        if not root.exists():
            make_model_folder(root / "alpha-1")
            make_model_folder(root / "alpha-2")

        # Any other error than these two would be a fault.
        with contextlib.suppress(ModelNotFound, AmbiguousModel):
            assert name.strip().casefold() in Catalog([root]).resolve(name).id.casefold()
