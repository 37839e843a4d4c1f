"""Which folders are models, what they are called, and how links are followed."""

import os
from pathlib import Path

import pytest

from prism.catalog import Catalog
from prism.model_entry import ModelEntry
from prism.model_walk import MAX_DEPTH
from tests.prism.model_folders import LFS_POINTER, external_data_entry, make_model_folder


def ids(catalog: Catalog) -> list[str]:
    return [model.id for model in catalog.models()]


def only_model(root: Path) -> ModelEntry:
    (model,) = Catalog([root]).models()
    return model


class TestWhatIsListed:
    def test_a_whole_folder_is_described(self, tmp_path: Path) -> None:
        folder = make_model_folder(tmp_path / "tiny", graph=bytes(3 << 20))
        os.utime(folder / "genai_config.json", (1_700_000_000, 1_700_000_000))

        assert only_model(tmp_path) == ModelEntry(
            id="tiny",
            path=folder,
            size_mb=3.0,
            exported_for="CPU",
            model_type="llama",
            context_length=2048,
            created=1_700_000_000,
            owned_by="ONNX Runtime GenAI",
        )

    def test_created_is_the_same_on_every_call(self, tmp_path: Path) -> None:  # D-23
        make_model_folder(tmp_path / "tiny")
        assert Catalog([tmp_path]).models() == Catalog([tmp_path]).models()

    def test_a_search_path_that_is_a_model_itself(self, tmp_path: Path) -> None:
        assert ids(Catalog([make_model_folder(tmp_path / "tiny")])) == ["tiny"]

    def test_missing_folders_on_the_search_path_are_passed_over(self, tmp_path: Path) -> None:
        make_model_folder(tmp_path / "there" / "tiny")
        assert ids(Catalog([tmp_path / "missing", tmp_path / "there"])) == ["tiny"]

    def test_a_file_on_the_search_path_is_passed_over(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        assert ids(Catalog([tmp_path / "file"])) == []

    def test_folders_inside_a_model_are_not_searched(self, tmp_path: Path) -> None:  # B-79
        make_model_folder(make_model_folder(tmp_path / "outer") / "inner")
        assert ids(Catalog([tmp_path])) == ["outer"]

    @pytest.mark.parametrize("name", [".convert-x-tmp", ".cache", "tiny.partial"])
    def test_folders_of_unfinished_work_are_not_listed(self, tmp_path: Path, name: str) -> None:  # D-39
        make_model_folder(tmp_path / name)
        assert ids(Catalog([tmp_path])) == []

    def test_a_plain_onnx_folder_is_no_model(self, tmp_path: Path) -> None:  # D-39
        (make_model_folder(tmp_path / "plain") / "genai_config.json").unlink()
        assert ids(Catalog([tmp_path])) == []

    @pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
    def test_a_folder_that_lacks_a_part_is_skipped_with_the_reason(self, tmp_path: Path, name: str) -> None:
        (make_model_folder(tmp_path / "half") / name).unlink()
        scan = Catalog([tmp_path]).scan()

        assert scan.models == ()
        assert [folder.path for folder in scan.skipped] == [tmp_path / "half"]
        assert name in scan.skipped[0].reason

    @pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json", "genai_config.json"])
    @pytest.mark.parametrize("content", [b"", LFS_POINTER], ids=["empty", "pointer"])
    def test_empty_files_and_git_lfs_pointers_are_no_parts(self, tmp_path: Path, name: str, content: bytes) -> None:
        (make_model_folder(tmp_path / "half") / name).write_bytes(content)
        scan = Catalog([tmp_path]).scan()

        assert scan.models == ()
        assert name in scan.skipped[0].reason
        assert ("LFS" if content else "empty") in scan.skipped[0].reason

    @pytest.mark.parametrize(
        "config",
        ["{", "[]", "{}", '{"model": []}', "[" * 100_000, "\udcff"],
        ids=["cut", "list", "empty", "wrong", "deep", "bytes"],
    )
    def test_a_broken_config_is_skipped(self, tmp_path: Path, config: str) -> None:
        folder = make_model_folder(tmp_path / "half")
        (folder / "genai_config.json").write_bytes(config.encode("utf-8", "surrogateescape"))
        assert ids(Catalog([tmp_path])) == []

    def test_weights_beside_the_graph_must_be_there(self, tmp_path: Path) -> None:
        graph = b"head" + external_data_entry("model.onnx.data") + external_data_entry("more.bin") + b"tail"
        make_model_folder(tmp_path / "half", graph=graph, weights={"model.onnx.data": b"x"})
        make_model_folder(tmp_path / "pointer", graph=graph, weights={"model.onnx.data": b"x", "more.bin": LFS_POINTER})
        make_model_folder(tmp_path / "whole", graph=graph, weights={"model.onnx.data": b"x", "more.bin": b"y"})
        scan = Catalog([tmp_path]).scan()

        assert [model.id for model in scan.models] == ["whole"]
        assert ["more.bin" in folder.reason for folder in scan.skipped] == [True, True]

    def test_every_graph_that_the_config_names_must_be_there(self, tmp_path: Path) -> None:
        make_model_folder(tmp_path / "half", model={"vision": {"filename": "vision.onnx"}})
        make_model_folder(tmp_path / "stages", model={"decoder": {"pipeline": [{"head": {"filename": "head.onnx"}}]}})
        make_model_folder(tmp_path / "whole", model={"vision": {"filename": "v.onnx"}}, weights={"v.onnx": b"x"})
        assert ids(Catalog([tmp_path])) == ["whole"]

    def test_without_a_named_graph_any_will_do(self, tmp_path: Path) -> None:
        make_model_folder(tmp_path / "unnamed", model={"decoder": {}})
        (make_model_folder(tmp_path / "none", model={"decoder": {}}) / "model.onnx").unlink()
        assert ids(Catalog([tmp_path])) == ["unnamed"]

    def test_names_that_no_answer_can_hold_are_skipped(self, tmp_path: Path) -> None:
        make_model_folder(Path(os.fsdecode(os.fsencode(tmp_path) + b"/bad-\xff")))
        make_model_folder(tmp_path / "line\nbreak")
        assert Catalog([tmp_path]).models() == ()

    @pytest.mark.parametrize("value", [True, 0, -1, "4096", None, 4096.0])
    def test_a_context_length_that_is_none_is_not_known(self, tmp_path: Path, value: object) -> None:
        make_model_folder(tmp_path / "tiny", model={"context_length": value, "type": 7})
        assert (only_model(tmp_path).context_length, only_model(tmp_path).model_type) == (None, None)


class TestNames:
    def test_a_versioned_folder_is_named_after_its_parent(self, tmp_path: Path) -> None:
        make_model_folder(tmp_path / "Microsoft" / "Phi-4-mini-instruct-generic-cpu-5" / "v5")
        assert ids(Catalog([tmp_path])) == ["Phi-4-mini-instruct-generic-cpu-5:v5"]

    def test_a_snapshot_in_a_download_cache_is_named_after_its_repository(self, tmp_path: Path) -> None:
        blobs = tmp_path / "models--acme--Tiny-ONNX" / "blobs"
        snapshot = tmp_path / "models--acme--Tiny-ONNX" / "snapshots" / "0a1b2c"
        source = make_model_folder(tmp_path / ".source", graph=bytes(2 << 20))
        blobs.mkdir(parents=True)
        snapshot.mkdir(parents=True)

        for number, file in enumerate(source.iterdir()):
            file.rename(blobs / str(number))
            (snapshot / file.name).symlink_to(f"../../blobs/{number}")

        model = only_model(tmp_path)
        assert (model.id, model.path, model.size_mb) == ("Tiny-ONNX", snapshot, 2.0)

    def test_the_first_of_two_models_with_one_name_wins(self, tmp_path: Path) -> None:
        first = make_model_folder(tmp_path / "a" / "tiny")
        second = make_model_folder(tmp_path / "b" / "tiny")
        scan = Catalog([tmp_path / "a", tmp_path / "b"]).scan()

        assert [model.path for model in scan.models] == [first]
        assert [folder.path for folder in scan.skipped] == [second]

    @pytest.mark.parametrize(
        ("name", "decoder", "expected"),
        [
            ("phi-cuda-gpu", {}, "CUDA (GPU)"),
            ("phi-gpu", {}, "CUDA (GPU)"),
            ("phi-generic-cpu", {}, "CPU"),
            ("barracuda", {}, "CPU"),  # words, not substrings
            ("plain", {"session_options": {"provider_options": [{"cuda": {}}]}}, "CUDA (GPU)"),  # D-43
            ("plain", {"session_options": {"provider_options": [{"dml": {}}]}}, "CPU"),
            ("plain", {"session_options": {"provider_options": "cuda"}}, "CPU"),
        ],
    )
    def test_what_the_files_were_built_for(
        self, tmp_path: Path, name: str, decoder: dict[str, object], expected: str
    ) -> None:
        make_model_folder(tmp_path / name, model={"decoder": {"filename": "model.onnx", **decoder}})
        assert only_model(tmp_path).exported_for == expected


class TestLinks:
    def test_linked_folders_are_followed(self, tmp_path: Path) -> None:  # D-40
        make_model_folder(tmp_path / "elsewhere" / "tiny")
        (tmp_path / "models").mkdir()
        (tmp_path / "models" / "linked").symlink_to(tmp_path / "elsewhere")
        assert ids(Catalog([tmp_path / "models"])) == ["tiny"]

    def test_loops_end(self, tmp_path: Path) -> None:
        make_model_folder(tmp_path / "a" / "tiny")
        (tmp_path / "a" / "up").symlink_to(tmp_path)
        (tmp_path / "self").symlink_to("self")
        assert ids(Catalog([tmp_path])) == ["tiny"]

    def test_a_link_to_a_sibling_does_not_take_its_name(self, tmp_path: Path) -> None:
        make_model_folder(tmp_path / "tiny")
        (tmp_path / "a-link").symlink_to("tiny")
        assert ids(Catalog([tmp_path])) == ["tiny"]

    def test_search_paths_that_overlap_list_a_model_once(self, tmp_path: Path) -> None:
        make_model_folder(tmp_path / "Microsoft" / "tiny" / "v1")
        assert ids(Catalog([tmp_path / "Microsoft", tmp_path])) == ["tiny:v1"]

    def test_the_walk_ends_at_a_depth(self, tmp_path: Path) -> None:
        make_model_folder(tmp_path.joinpath(*["d"] * (MAX_DEPTH - 1), "reached"))
        make_model_folder(tmp_path.joinpath(*["e"] * (MAX_DEPTH + 1), "beyond"))
        assert ids(Catalog([tmp_path])) == ["reached"]

    def test_the_walk_ends_at_a_number_of_entries(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("prism.model_walk.MAX_ENTRIES", 5)
        make_model_folder(tmp_path / "z")

        for number in range(20):
            (tmp_path / f"file-{number}").write_text("")

        assert Catalog([tmp_path]).models() == ()
