"""Which devices a worker would see."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.gpu_report import GpuDevice, GpuReport, GpuState, no_devices
from supervisor.visible_devices import visible_devices

_GIB = 1 << 30


def _device(index: int, uuid: str, capability: str | None = "8.9", total: int | None = 12 * _GIB) -> GpuDevice:
    return GpuDevice(
        index=index,
        name=f"GPU {index}",
        uuid=uuid,
        compute_capability=capability,
        vram_total_bytes=total,
        vram_used_bytes=0,
        vram_free_bytes=total,
    )


_A = _device(0, "GPU-aaaa-1")
_B = _device(1, "GPU-aabb-2")
_C = _device(2, "GPU-cccc-3")
_MIG_1 = _device(3, "MIG-dddd-1")
_MIG_2 = _device(3, "MIG-dddd-2")
_ALL = GpuReport(state=GpuState.READY, driver_path="libnvidia-ml.so.1", devices=(_A, _B, _C, _MIG_1, _MIG_2))


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (None, (_A, _B, _C, _MIG_1, _MIG_2)),
        ("0", (_A,)),
        ("2,1", (_C, _B)),
        (" 1 , 0 ", (_B, _A)),
        ("0,2,-1,1", (_A, _C)),
        ("0,9,1", (_A,)),
        ("1,x,0", (_B,)),
        ("1,,0", (_B,)),
        ("1.0", ()),
        ("٢", ()),
        ("", ()),
        ("-1", ()),
        ("NoDevFiles", ()),
        ("GPU-cccc-3,0", (_C, _A)),
        ("GPU-c", (_C,)),
        ("GPU-aab", (_B,)),
        ("GPU-aa", ()),
        ("GPU-", ()),
        ("gpu-cccc-3", ()),
        ("GPU-zzzz", ()),
        ("MIG-dddd-2", (_MIG_2,)),
        ("3", (_MIG_1,)),
        ("0,0", ()),
        ("0,GPU-aaaa", ()),
    ],
)
def test_the_variable_chooses_as_cuda_does(value: str | None, wanted: tuple[GpuDevice, ...]) -> None:
    report = visible_devices(_ALL, value)

    assert report.devices == wanted
    assert report.available == bool(wanted)


def test_a_report_in_which_nothing_is_visible_says_why() -> None:
    report = visible_devices(_ALL, "-1")

    assert report == no_devices(GpuState.ABSENT, "CUDA_VISIBLE_DEVICES hides every NVIDIA device ('-1')")


def test_unset_the_newest_and_largest_comes_first_unless_the_bus_decides() -> None:
    old = _device(0, "GPU-old", "7.5", 24 * _GIB)
    new = _device(1, "GPU-new", "10.0", 12 * _GIB)
    large = _device(2, "GPU-large", "10.0", 16 * _GIB)
    silent = _device(3, "GPU-silent", None, None)
    report = GpuReport(state=GpuState.READY, devices=(old, new, large, silent))

    assert visible_devices(report, None).devices == (large, new, old, silent)
    assert visible_devices(report, None, "FASTEST_FIRST").devices == (large, new, old, silent)
    assert visible_devices(report, None, "PCI_BUS_ID").devices == (old, new, large, silent)


@pytest.mark.parametrize("state", [GpuState.ABSENT, GpuState.LOST, GpuState.UNKNOWN])
def test_a_report_without_devices_stays_as_it_is(state: GpuState) -> None:
    report = no_devices(state, "the reason")

    assert visible_devices(report, "0") is report
    assert visible_devices(report, "") is report


def test_what_is_known_of_the_driver_stays() -> None:
    partial = GpuReport(state=GpuState.READY, driver_path="/d", error="GPU 1: lost", devices=(_A,))

    assert visible_devices(partial, "0") == partial


@given(st.text(alphabet="0123456789,-GPUMI abc", max_size=30))
def test_no_value_breaks_it_or_shows_a_device_twice(value: str) -> None:
    devices = visible_devices(_ALL, value).devices

    assert len(set(devices)) == len(devices)
    assert set(devices) <= set(_ALL.devices)


@given(st.permutations(range(3)))
def test_indices_give_the_order(order: list[int]) -> None:
    devices = visible_devices(_ALL, ",".join(map(str, order))).devices

    assert [device.index for device in devices] == order


@pytest.mark.parametrize(
    ("capability", "qualifies"),
    [("4.9", False), ("5.0", True), ("12.0", True), ("3.5", False), (None, False)],
)
def test_a_device_qualifies_from_capability_five_on(capability: str | None, qualifies: bool) -> None:
    assert _device(0, "GPU-x", capability).qualifying_cuda is qualifies


def test_a_report_that_contradicts_itself_cannot_be_made() -> None:
    with pytest.raises(ValueError, match="state 'ready' cannot have 0 devices"):
        GpuReport(state=GpuState.READY)

    with pytest.raises(ValueError, match="state 'lost' cannot have 1 devices"):
        GpuReport(state=GpuState.LOST, error="x", devices=(_A,))

    with pytest.raises(ValueError, match="must say why"):
        GpuReport(state=GpuState.ABSENT)
