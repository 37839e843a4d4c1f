"""An ONNX graph under construction: nodes, constants, and the file beside it that holds the large ones. The home of the `onnx` library.

Knows nothing of any model. Called by the writers of this package. Blocks on the disk while it writes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, external_data_helper, helper, numpy_helper

# The element type of an array matters at run time only, and the stored kinds are many.
AnyArray: TypeAlias = npt.NDArray[Any]
Attribute: TypeAlias = int | float | Sequence[int]
Dimensions: TypeAlias = Sequence[int | str]

CONTRIB = "com.microsoft"
_OPSET = 21
_IR_VERSION = 10
# Tensors from this size on go into the data file, each at the start of a page so that the engine can map it.
_PAGE = 4096


class GraphPart:
    """Nodes with named inputs and outputs: a whole graph, or the body of a node such as Scan."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, onnx.TensorProto] = {}
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []

    def input(self, name: str, dtype: npt.DTypeLike, dimensions: Dimensions) -> str:
        """Declare an input and return its name."""
        self.inputs.append(_value(name, dtype, dimensions))

        return name

    def output(self, name: str, dtype: npt.DTypeLike, dimensions: Dimensions) -> str:
        """Declare an output and return its name; a node must produce it."""
        self.outputs.append(_value(name, dtype, dimensions))

        return name

    def node(
        self,
        operator: str,
        inputs: Sequence[str],
        outputs: Sequence[str] | str,
        *,
        domain: str = "",
        attributes: Mapping[str, Attribute] | None = None,
        bodies: "Mapping[str, GraphPart] | None" = None,
    ) -> str:
        """Add a node, named like its first output, and return that output. An empty name leaves out an optional input or output.

        bodies: the parts inside the node (of an If, a Loop, a Scan) by the attribute that holds each; they see the names around them.
        """
        names = [outputs] if isinstance(outputs, str) else list(outputs)
        node = helper.make_node(
            operator, list(inputs), names, name=f"{names[0]}/{operator}", domain=domain, **(attributes or {})
        )

        for attribute, part in (bodies or {}).items():
            node.attribute.append(helper.make_attribute(attribute, part.to_proto(f"{names[0]}/{attribute}")))

        self.nodes.append(node)

        return names[0]

    def cast(self, value: str, dtype: npt.DTypeLike, name: str) -> str:
        """Convert the elements of `value`."""
        return self.node("Cast", [value], name, attributes={"to": _element_type(dtype)})

    def small_constant(self, name: str, value: AnyArray) -> str:
        """Add a constant that stays inside the graph's own file. The same name again is the same constant."""
        self.constants[name] = numpy_helper.from_array(value, name)

        return name

    def to_proto(self, name: str) -> onnx.GraphProto:
        """The part as ONNX has it."""
        return helper.make_graph(self.nodes, name, self.inputs, self.outputs, initializer=list(self.constants.values()))


@dataclass(frozen=True, slots=True)
class Stored:
    """Where a tensor lies in the data file, so that a second constant can name the same bytes in another shape."""

    offset: int
    length: int


class Graph(GraphPart):
    """A whole graph, written as `<name>.onnx` with `<name>.onnx.data`. Use as a context manager, and call `save` inside it."""

    def __init__(self, folder: Path, name: str = "model") -> None:
        super().__init__()
        self._path = folder / f"{name}.onnx"
        self._data_path = folder / f"{name}.onnx.data"
        self._data = self._data_path.open("xb")

    def __enter__(self) -> "Graph":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._data.close()

    def constant(self, name: str, value: AnyArray) -> str:
        """Add a constant; a large one goes into the data file."""
        if value.nbytes < _PAGE:
            return self.small_constant(name, value)

        return self.stored_constant(name, self.store(value), value.dtype, value.shape)

    def store(self, value: AnyArray) -> Stored:
        """Append the bytes of an array to the data file."""
        self._data.write(b"\0" * (-self._data.tell() % _PAGE))
        place = Stored(self._data.tell(), value.nbytes)
        np.ascontiguousarray(value).tofile(self._data)

        return place

    def stored_constant(self, name: str, place: Stored, dtype: npt.DTypeLike, shape: Sequence[int]) -> str:
        """Add a constant whose bytes are already in the data file."""
        tensor = TensorProto(name=name, data_type=_element_type(dtype), dims=shape, raw_data=b"")
        external_data_helper.set_external_data(tensor, self._data_path.name, offset=place.offset, length=place.length)
        tensor.ClearField("raw_data")
        self.constants[name] = tensor

        return name

    def save(self) -> None:
        """Write the graph; the data file is complete before."""
        self._data.flush()
        opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid(CONTRIB, 1)]
        model = helper.make_model(
            self.to_proto(self._path.stem), opset_imports=opsets, ir_version=_IR_VERSION, producer_name="prism"
        )
        self._path.write_bytes(model.SerializeToString())

        if self._data.tell() == 0:
            self._data_path.unlink()


def _element_type(dtype: npt.DTypeLike) -> int:
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def _value(name: str, dtype: npt.DTypeLike, dimensions: Dimensions) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, _element_type(dtype), list(dimensions))
