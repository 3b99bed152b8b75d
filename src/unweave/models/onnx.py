"""Export of the encoder and decoder to ONNX, verified against torch before writing.

The graphs have the inputs and outputs of `Model.encode` and `Model.decode`, for any batch size:

    encoder.onnx    images [batch, H, W, C] in [0, 1]    →  mean, logvar [batch, latents]
    decoder.onnx    codes [batch, latents]               →  images [batch, H, W, C] in [0, 1]
    model.json      names, shapes and ranges of these, and the config of the model

The names of latents, if they have been recorded, are in `model.json` and in the metadata
`latent_names` of both graphs, as JSON.
"""

import io
import json
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from unweave import __version__
from unweave.errors import UnweaveError
from unweave.io.paths import check_free
from unweave.io.writing import whole_file
from unweave.methods.base import MODEL
from unweave.methods.batch import NOISELESS
from unweave.methods.mixins import Auxiliary, Quantised
from unweave.models.as_module import TrainedModule, check_single
from unweave.models.encoding import check_trained
from unweave.models.finding import one_run
from unweave.models.model import Model
from unweave.models.networks import networks_of
from unweave.models.rows import Features, read_rows
from unweave.nets.layers import (
    Broadcast,
    Conv,
    ConvTranspose,
    Expand,
    Layer,
    Linear,
    Pad,
    Pointwise,
    Reshape,
)
from unweave.nets.module import ModuleNetwork
from unweave.nets.network import Network, StackedNetwork
from unweave.nets.norms import AdaptiveNorm

__all__ = ["FILES", "TOLERANCE", "decoder_graph", "encoder_graph", "export_onnx"]

FILES = ENCODER, DECODER, ABOUT = "encoder.onnx", "decoder.onnx", "model.json"
TOLERANCE = 1e-4
"""Largest allowed difference from torch: absolute for values up to 1, relative for larger ones."""
CHECKED_BATCHES = (1, 7)
OPSET, IR_VERSION = 17, 8
"""ONNX versions of 2022, which older runtimes can read."""
ACTIVATIONS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "relu": ("Relu", {}),
    "tanh": ("Tanh", {}),
    "leaky_relu": ("LeakyRelu", {"alpha": 0.2}),
}


def export_onnx(
    model: Model | str | Path, folder: str | Path, *, overwrite: bool = False
) -> float:
    """Write `encoder.onnx`, `decoder.onnx` and `model.json` into a folder.

    Both graphs are first run with onnxruntime and compared with torch. If they differ by more than
    1e-4, nothing is written. For an ensemble, the first member is exported.

    Args:
        model: A model, its folder, or a folder with a model in `best`.
        folder: Output folder; created if missing.
        overwrite: Whether to replace existing files.

    Returns:
        The largest difference from torch: absolute for values up to 1, relative for larger ones.
    """
    _check_installed()
    folder = Path(folder)
    check_free([folder / name for name in FILES], overwrite)
    more: dict[str, Any] = {}
    if not isinstance(model, Model):
        run = one_run(model)
        names = {str(latent): name for latent, name in run.names.items()}
        more = _scaling(Path(model)) | ({"latent_names": names} if names else {})
        model = run.model
    check_trained(model)
    model.config.method.require_decoder()
    if isinstance(model.config.method, Auxiliary):
        raise UnweaveError(
            f"cannot export {model.config.method.name} models, since they encode images together "
            "with a known factor; export a model of another method",
            subject="method",
        )
    check_single(model, "export")
    model = model.to("cpu").members[0]
    files = {ENCODER: encoder_graph(model), DECODER: decoder_graph(model)}
    difference = largest_difference(model, files[ENCODER], files[DECODER])
    if not difference <= TOLERANCE:  # NaN too
        raise UnweaveError(
            f"nothing was written: the exported networks differ from the model by "
            f"{difference:.2g}, more than {TOLERANCE:g}; please report this",
            subject="difference",
        )
    if "latent_names" in more:
        files = {name: _with_names(file, more["latent_names"]) for name, file in files.items()}
    about = json.dumps({**_about(model, difference), **more}, indent=1, ensure_ascii=False)
    for name, content in {**files, ABOUT: f"{about}\n".encode()}.items():
        with whole_file(folder / name) as temporary:
            temporary.write_bytes(content)
    return difference


def largest_difference(model: Model, encoder: bytes, decoder: bytes) -> float:
    """Return the largest difference of onnxruntime from torch on random images and codes."""
    rng = np.random.default_rng(0)
    found = [0.0]
    for batch in CHECKED_BATCHES:
        images = rng.random((batch, *model.shape), np.float32)
        images[:1] = images[:1] > 0.5
        codes = rng.normal(size=(batch, model.config.latents)).astype(np.float32)
        pairs = [
            *zip(_run(encoder, images=images), model.encode(images), strict=True),
            *zip(_run(decoder, codes=codes), [model.decode(codes)], strict=True),
        ]
        found += [np.max(np.abs(a - b) / np.maximum(1, np.abs(b))) for a, b in pairs]
    return float(np.max(found))


def _run(content: bytes, **inputs: np.ndarray) -> list[np.ndarray]:
    import onnxruntime

    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


def _about(model: Model, difference: float) -> dict[str, Any]:
    """Return the content of `model.json`, which documents the ONNX files."""
    latents = ["batch", model.config.latents]
    images = {
        "name": "images",
        "type": "float32",
        "shape": ["batch", *model.shape],
        "axes": ["batch", "height", "width", "channels"],
        "values": "0 … 1: pixel values divided by 255",
    }
    codes = {"type": "float32", "shape": latents, "axes": ["batch", "latents"]}
    return {
        "made_by": f"unweave {__version__}",
        "encoder": {
            "file": ENCODER,
            "inputs": [images],
            "outputs": [
                {"name": "mean", **codes, "values": "about -4 … 4; the code of an image"},
                {
                    "name": "logvar",
                    **codes,
                    "values": "log-variances of the codes, about 0 or less",
                },
            ],
        },
        "decoder": {
            "file": DECODER,
            "inputs": [{"name": "codes", **codes, "values": "about -4 … 4"}],
            "outputs": [images],
        },
        "largest_difference_from_torch": difference,
        "trained_with": model.config.to_dict(),
    }


def _with_names(content: bytes, names: Mapping[str, str]) -> bytes:
    """Return an ONNX file with the names of latents in its metadata."""
    import onnx

    file = onnx.load_model_from_string(content)
    onnx.helper.set_model_props(file, {"latent_names": json.dumps(names, ensure_ascii=False)})
    return file.SerializeToString()


def _scaling(folder: Path) -> dict[str, Any]:
    """Return the feature scaling of an `Unweaver` that was fitted to features, else nothing."""
    rows = read_rows(folder)
    if not isinstance(rows, Features):
        return {}
    return {
        "features": {
            "images": "(features - low) / span, one value for each pixel",
            "low": rows.low.tolist(),
            "span": rows.span.tolist(),
        }
    }


def _check_installed() -> None:
    try:
        import onnx  # noqa: F401 (only to check that it is installed)
        import onnxruntime  # noqa: F401
    except ImportError as error:
        raise UnweaveError(
            f"exporting needs {error.name}, which is not installed; install it with "
            "pip install 'unweave[onnx]'",
            subject=error.name,
        ) from error


def encoder_graph(model: Model) -> bytes:
    """Return the encoder as the content of an ONNX file."""
    if isinstance(_network(model, "encoder"), ModuleNetwork):
        return _traced(_Encoder(model.as_module()), "images", model.shape, ["mean", "logvar"])
    graph = _Graph("images", model.shape)
    _add_network(graph, model, "encoder")
    sizes = graph.constant(np.array([model.config.latents] * 2, np.int64))
    if isinstance(model.config.method, Quantised):
        graph.add("Split", sizes, outputs=("continuous", "unused"), axis=1)
        _quantise(graph, model, model.config.method)
    else:
        graph.add("Split", sizes, outputs=("mean", "logvar"), axis=1)
    return graph.content(dict.fromkeys(("mean", "logvar"), (model.config.latents,)))


def decoder_graph(model: Model) -> bytes:
    """Return the decoder as the content of an ONNX file."""
    if isinstance(_network(model, "decoder"), ModuleNetwork):
        codes = (model.config.latents,)
        return _traced(_Decoder(model.as_module()), "codes", codes, ["images"])
    graph = _Graph("codes", (model.config.latents,))
    _add_network(graph, model, "decoder")
    if model.config.likelihood == "bernoulli":
        graph.add("Sigmoid", outputs=("images",))
    else:
        bounds = [graph.constant(np.array(bound, np.float32)) for bound in (0, 1)]
        graph.add("Clip", *bounds, outputs=("images",))
    return graph.content({"images": model.shape})


class _Encoder(nn.Module):
    """The encoder of a model, for images `[B, H, W, C]`."""

    def __init__(self, model: TrainedModule) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        return self.model.encode(images.permute(0, 3, 1, 2))


class _Decoder(_Encoder):
    """The decoder of a model, to images `[B, H, W, C]`."""

    def forward(self, codes: Tensor) -> Tensor:  # type: ignore[override] # codes, not images
        return self.model.decode(codes).permute(0, 2, 3, 1)


def _traced(module: nn.Module, name: str, shape: tuple[int, ...], outputs: list[str]) -> bytes:
    """Return a torch module as the content of an ONNX file."""
    from onnx import checker

    file = io.BytesIO()
    try:
        with warnings.catch_warnings():
            # This exporter is deprecated, but the other one needs a further package.
            warnings.simplefilter("ignore")
            torch.onnx.export(
                module,
                (torch.zeros(2, *shape),),
                file,  # type: ignore[arg-type] # open files are also accepted
                dynamo=False,
                opset_version=OPSET,
                input_names=[name],
                output_names=outputs,
                dynamic_axes={one: {0: "batch"} for one in (name, *outputs)},
            )
        content = file.getvalue()
        checker.check_model(content, full_check=True)
    except Exception as error:  # the module may contain anything
        reason = " ".join(str(error).split())
        raise UnweaveError(
            f"cannot export a torch module of this architecture ({type(error).__name__}: "
            f"{reason}); use other layers, or model.as_module() with another exporter",
            subject="architecture",
        ) from error
    return content


def _network(model: Model, name: str) -> StackedNetwork:
    return networks_of(model.config, model.shape)[MODEL][name]


class _Graph:
    """A chain of ONNX nodes, in which each node takes the output of the previous one."""

    def __init__(self, name: str, shape: tuple[int, ...]) -> None:
        self.input = name, shape
        self.last = name
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, value: np.ndarray) -> str:
        """Store an array in the file and return its name."""
        from onnx import numpy_helper

        name = f"constant{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def add(self, kind: str, *inputs: str, outputs: Sequence[str] = (), **settings: Any) -> None:
        """Add a node that takes the last output and further inputs."""
        from onnx import helper

        outputs = list(outputs) or [f"result{len(self.nodes)}"]
        self.nodes.append(helper.make_node(kind, [self.last, *inputs], outputs, **settings))
        self.last = outputs[0]

    def content(self, outputs: Mapping[str, tuple[int, ...]]) -> bytes:
        """Return the whole file as bytes, after the ONNX checker has accepted it."""
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
    network = _network(model, name)
    assert isinstance(network, Network), "modules are traced"
    weights = {key: value.numpy() for key, value in model.named_parameters().items()}
    for place, layer in enumerate(network.layers):
        own = {key: weights[f"{name}/{place}.{key}"] for key in layer.shapes}
        _add_layer(graph, layer, own)


def _add_layer(
    graph: _Graph, layer: Layer | AdaptiveNorm, weights: Mapping[str, np.ndarray]
) -> None:
    if isinstance(layer, Reshape):
        _reshape(graph, layer.shape)
    elif isinstance(layer, Broadcast):
        # The code, padded with zeros, plus the coordinates, in front of which are zeros.
        graph.add("Pad", graph.constant(np.array([0, 0, 0, 2], np.int64)))
        _reshape(graph, (1, 1, layer.latents + 2))
        graph.add("Add", graph.constant(layer.grid().numpy()))
    elif isinstance(layer, Pointwise):
        graph.add("MatMul", graph.constant(weights["weight"]))
        graph.add("Add", graph.constant(weights["bias"]))
        _activate(graph, layer.activation)
    elif isinstance(layer, Linear):
        _dense(graph, weights["weight"], weights["bias"], layer.activation)
    elif isinstance(layer, Expand):
        bias = np.tile(weights["bias"], layer.pixels)
        _dense(graph, weights["weight"], bias, layer.activation)
        _reshape(graph, (*layer.size, layer.outputs))
    elif isinstance(layer, Conv):
        _convolve(graph, layer, weights)
    elif isinstance(layer, Pad):
        left, right, top, bottom = layer.margins
        margins = np.array([0, top, left, 0, 0, bottom, right, 0], np.int64)
        graph.add("Pad", graph.constant(margins))
    else:
        raise UnweaveError(
            f"cannot export networks with the layer {type(layer).__name__} to ONNX; train another "
            "architecture, such as conv",
            subject="architecture",
        )


def _quantise(graph: _Graph, model: Model, method: Quantised) -> None:
    """Replace codes by their nearest values, `mean`, with a constant `logvar`."""
    values = method.codebook(model.config.latents, model.named_parameters())
    if method.squash != "none":
        graph.add(ACTIVATIONS[method.squash][0])
    if values is None:
        graph.add("Identity", outputs=("mean",))
    else:
        latents, count = values.shape
        _reshape(graph, (latents, 1))
        graph.add("Sub", graph.constant(values.numpy()))
        graph.add("Abs")
        graph.add("ArgMin", axis=2, keepdims=0)
        graph.add("Add", graph.constant(count * np.arange(latents)))
        places, graph.last = graph.last, graph.constant(values.numpy().flatten())
        graph.add("Gather", places, outputs=("mean",))
    graph.add("Mul", graph.constant(np.array(0, np.float32)))
    graph.add("Add", graph.constant(np.array(NOISELESS, np.float32)), outputs=("logvar",))


def _reshape(graph: _Graph, shape: tuple[int, ...]) -> None:
    graph.add("Reshape", graph.constant(np.array([-1, *shape], np.int64)))


def _dense(graph: _Graph, weight: np.ndarray, bias: np.ndarray, activation: str) -> None:
    graph.add("Gemm", graph.constant(weight), graph.constant(bias))
    _activate(graph, activation)


def _activate(graph: _Graph, activation: str) -> None:
    if activation != "none":
        kind, settings = ACTIVATIONS[activation]
        graph.add(kind, **settings)


def _convolve(graph: _Graph, layer: Conv, weights: Mapping[str, np.ndarray]) -> None:
    """Add a convolution or its transpose; ONNX is channels-first, so transposes are inserted."""
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
