"""Encoder and decoder as ONNX graphs: a node or a few for each layer of the networks."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from unweave import __version__
from unweave.methods.base import MODEL
from unweave.models.model import Model
from unweave.models.networks import networks_of
from unweave.nets.layers import Conv, ConvTranspose, Expand, Layer, Linear, Reshape
from unweave.nets.network import Network
from unweave.nets.norms import AdaptiveNorm

__all__ = ["decoder_graph", "encoder_graph"]

OPSET, IR_VERSION = 17, 8
"""Of 2022, so that older runtimes read the files."""
ACTIVATIONS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "relu": ("Relu", {}),
    "tanh": ("Tanh", {}),
    "leaky_relu": ("LeakyRelu", {"alpha": 0.2}),
}


def encoder_graph(model: Model) -> bytes:
    """The encoder as the content of an ONNX file."""
    graph = _Graph("images", model.shape)
    _add_network(graph, model, "encoder")
    sizes = graph.constant(np.array([model.config.latents] * 2, np.int64))
    graph.add("Split", sizes, outputs=("mean", "logvar"), axis=1)
    return graph.content(dict.fromkeys(("mean", "logvar"), (model.config.latents,)))


def decoder_graph(model: Model) -> bytes:
    """The decoder as the content of an ONNX file."""
    graph = _Graph("codes", (model.config.latents,))
    _add_network(graph, model, "decoder")
    if model.config.likelihood == "bernoulli":
        graph.add("Sigmoid", outputs=("images",))
    else:
        bounds = [graph.constant(np.array(bound, np.float32)) for bound in (0, 1)]
        graph.add("Clip", *bounds, outputs=("images",))
    return graph.content({"images": model.shape})


class _Graph:
    """A row of ONNX nodes, each of which takes what the last one gave.

    Args:
        name: Of the input.
        shape: Of the input, without the batch.
    """

    def __init__(self, name: str, shape: tuple[int, ...]) -> None:
        self.input = name, shape
        self.last = name
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, value: np.ndarray) -> str:
        """Keep an array in the file; its name."""
        from onnx import numpy_helper

        name = f"constant{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def add(self, kind: str, *inputs: str, outputs: Sequence[str] = (), **settings: Any) -> None:
        """Add a node of the last result and further inputs."""
        from onnx import helper

        outputs = list(outputs) or [f"result{len(self.nodes)}"]
        self.nodes.append(helper.make_node(kind, [self.last, *inputs], outputs, **settings))
        self.last = outputs[0]

    def content(self, outputs: Mapping[str, tuple[int, ...]]) -> bytes:
        """The whole file, as bytes, once ONNX's own checker is content."""
        from onnx import TensorProto, checker, helper

        def value(name: str, shape: tuple[int, ...]) -> Any:
            return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", *shape])

        results = [value(name, shape) for name, shape in outputs.items()]
        graph = helper.make_graph(
            self.nodes, "unweave", [value(*self.input)], results, self.constants
        )
        file = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            producer_name="unweave",
            producer_version=__version__,
        )
        checker.check_model(file, full_check=True)
        return file.SerializeToString()


def _add_network(graph: _Graph, model: Model, name: str) -> None:
    network: Network = networks_of(model.config, model.shape)[MODEL][name]
    weights = {key: value.numpy() for key, value in model.named_parameters().items()}
    for place, layer in enumerate(network.layers):
        own = {key: weights[f"{name}/{place}.{key}"] for key in layer.shapes}
        _add_layer(graph, layer, own)


def _add_layer(
    graph: _Graph, layer: Layer | AdaptiveNorm, weights: Mapping[str, np.ndarray]
) -> None:
    if isinstance(layer, Reshape):
        _reshape(graph, layer.shape)
    elif isinstance(layer, Linear):
        _dense(graph, weights["weight"], weights["bias"], layer.activation)
    elif isinstance(layer, Expand):
        bias = np.tile(weights["bias"], layer.side**2)
        _dense(graph, weights["weight"], bias, layer.activation)
        _reshape(graph, (layer.side, layer.side, layer.outputs))
    elif isinstance(layer, Conv):
        _convolve(graph, layer, weights)
    else:
        raise TypeError(f"no ONNX for {type(layer).__name__}; add it in {__name__}")


def _reshape(graph: _Graph, shape: tuple[int, ...]) -> None:
    graph.add("Reshape", graph.constant(np.array([-1, *shape], np.int64)))


def _dense(graph: _Graph, weight: np.ndarray, bias: np.ndarray, activation: str) -> None:
    graph.add("Gemm", graph.constant(weight), graph.constant(bias))
    if activation != "none":
        kind, settings = ACTIVATIONS[activation]
        graph.add(kind, **settings)


def _convolve(graph: _Graph, layer: Conv, weights: Mapping[str, np.ndarray]) -> None:
    """A convolution or its transpose; ONNX has channels first, runtimes cancel the transposes."""
    before = (layer.kernel - 2) // 2
    after = layer.kernel - 2 - before
    graph.add("Transpose", perm=[0, 3, 1, 2])
    graph.add(
        "ConvTranspose" if isinstance(layer, ConvTranspose) else "Conv",
        # [k, k, C, O] to [O, C, k, k], which for the transpose is [inputs, outputs, k, k].
        graph.constant(weights["weight"].transpose(3, 2, 0, 1)),
        graph.constant(weights["bias"]),
        strides=[2, 2],
        pads=[before, before, after, after],
        kernel_shape=[layer.kernel] * 2,
    )
    if layer.relu:
        graph.add("Relu")
    graph.add("Transpose", perm=[0, 2, 3, 1])
