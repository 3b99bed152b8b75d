"""Networks made of any `torch.nn.Module`, one module for all models of a fleet.

A module defines names and shapes of the parameters and the forward pass. The parameters themselves
are rows of a buffer, as for every `StackedNetwork`. On a GPU, `torch.func.vmap` applies the module
to all models at once; on a CPU it is applied to each model on one thread, so that results depend
neither on the fleet nor on the number of threads.
"""

import math
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property, lru_cache, partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.parameter import is_lazy

from unweave.errors import UnweaveError
from unweave.kernels import unit
from unweave.kernels.threads import run_all
from unweave.nets.network import StackedNetwork
from unweave.nets.sizes import Shape
from unweave.random import Stream

__all__ = ["Builder", "ModuleNetwork", "decoder_of", "encoder_of"]

Builder = Callable[[Shape, int], StackedNetwork | nn.Module]
"""Function that builds an encoder or a decoder for an image shape and a number of latents."""
CHECKED = 2
"""Number of inputs with which a new module is checked."""
_generator = threading.RLock()
"""Held while torch's global generator is seeded for a module."""


class ModuleNetwork(StackedNetwork):
    """An encoder or decoder written as a `torch.nn.Module`.

    Images enter and leave the module as floats `[B, C, H, W]`. Only parameters that require
    gradients are trained. Buffers and frozen parameters are constants of all models, with the
    values that `make` gives them under seed 0.

    Args:
        make: Function that builds a new module in each call.
        inputs: Shape of an input: that of an image, or the number of latents.
        outputs: Shape of an output.
        name: Name in error messages.
    """

    def __init__(
        self,
        make: Callable[[], Any],
        inputs: tuple[int, ...],
        outputs: tuple[int, ...],
        name: str,
    ) -> None:
        self._make, self._name = make, name
        self.inputs, self.outputs = inputs, outputs
        self._module = self._new(0)
        self._check()
        self._own = threading.local()
        self._placed: dict[tuple[torch.device, torch.dtype], dict[str, Tensor]] = {}

    @cached_property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Shape of each trained parameter by its name in the module; scalars are `(1,)`."""
        return {name: tuple(value.shape) or (1,) for name, value in _trained(self._module)}

    @cached_property
    def _scalars(self) -> set[str]:
        """Names of parameters without axes."""
        return {name for name, value in _trained(self._module) if not value.ndim}

    @property
    def unfolds(self) -> bool:
        return True  # unknown, so expect it

    def initial(self, seeds: Tensor, purpose: str, init: str = "glorot") -> Tensor:
        """Build one module per seed and return their parameters `[M, width]`.

        The module's own initialisation is used, whatever `init` is. It depends only on the seed
        and the purpose; torch's global generator is seeded meanwhile and restored afterwards.
        """
        del init
        words = Stream(seeds.cpu(), f"init {purpose}").words(1, 2)[:, 0]
        derived = ((words[:, 0] >> 1 << 32) + words[:, 1]).tolist()
        # On one thread, since libraries may round differently for other numbers of threads.
        (rows,) = run_all([lambda: [self._row(self._another(seed)) for seed in derived]])
        return torch.cat(rows).to(seeds.device)

    def with_parameters(self, row: Tensor) -> nn.Module:
        """Return a new module with the parameters of one model, `[1, width]`."""
        module, values = self._another(0), dict(self.named(row))
        with torch.no_grad():
            for name, parameter in _trained(module):
                parameter.copy_(values[name].reshape(parameter.shape))
        return module.to(row.device)

    def _apply(
        self,
        parameters: Mapping[str, Tensor],
        x: Tensor,
        code: Tensor | None = None,
        reference: int | None = None,
        hidden: list[Tensor] | None = None,
    ) -> Tensor:
        del code, reference  # only for adaptive normalisation and batch norm
        if hidden is not None:
            raise UnweaveError(
                "this method uses hidden layers of the decoder, which torch modules do not offer; "
                "use a built-in architecture, such as conv",
                subject="architecture",
            )
        own = {
            name: parameters[name].squeeze(1) if name in self._scalars else parameters[name]
            for name in self.shapes
        }
        dtype = next(iter(own.values())).dtype
        constants = self._constants(x.device, dtype)
        x = unit(x, dtype)
        if len(self.inputs) > 1:
            x = x.permute(0, 1, 4, 2, 3).contiguous()
        forward = partial(self._forward, constants)
        if x.device.type == "cpu":
            # One task: gradients would be added in an order that depends on the threads.
            (y,) = run_all([partial(_one_by_one, forward, own, x)])
        else:
            y = vmap(forward)(own, x)
        return y.permute(0, 1, 3, 4, 2) if len(self.outputs) > 1 else y

    def _forward(
        self, constants: Mapping[str, Tensor], parameters: Mapping[str, Tensor], x: Tensor
    ) -> Tensor:
        # `functional_call` changes the module while it runs, so each thread needs its own.
        if not hasattr(self._own, "module"):
            self._own.module = self._another(0)
        y: Tensor = functional_call(self._own.module, {**constants, **parameters}, (x,))
        return y

    def _constants(self, device: torch.device, dtype: torch.dtype) -> dict[str, Tensor]:
        """Return buffers and frozen parameters; copied once, since a CUDA graph cannot do so."""
        if (device, dtype) not in self._placed:
            self._placed[device, dtype] = {
                name: value.detach().to(device, dtype if value.is_floating_point() else None)
                for name, value in _constant(self._module).items()
            }
        return self._placed[device, dtype]

    def _row(self, module: nn.Module) -> Tensor:
        """Return the parameters of a module as a row of the buffer, `[1, width]`."""
        values = {name: value.detach().float()[None] for name, value in _trained(module)}
        if {name: tuple(v.shape[1:]) or (1,) for name, v in values.items()} != self.shapes:
            raise self._error(
                "has different parameters each time it is built; build it the same way each time"
            )
        return self.packed({name: v.reshape(1, *self.shapes[name]) for name, v in values.items()})

    def _another(self, seed: int) -> nn.Module:
        module = self._new(seed)
        if module is self._module:
            raise self._error("is the same module each time; build a new one in each call")
        return module

    def _new(self, seed: int) -> nn.Module:
        with _seeded(seed):
            module: nn.Module = self._make()
            if any(is_lazy(parameter) for parameter in module.parameters()):
                self._try(module)
        return module

    def _check(self) -> None:
        """Check the parts of a module and its outputs on a few images or codes."""
        for part in self._module.modules():
            if isinstance(part, nn.modules.batchnorm._BatchNorm):
                raise self._error(
                    f"contains {type(part).__name__}, whose statistics mix the images of a batch; "
                    "use torch.nn.GroupNorm",
                    type(part).__name__,
                )
        if not _trained(self._module):
            raise self._error("has no parameters to train; add layers", 0)
        before = {name: value.clone() for name, value in _constant(self._module).items()}
        with _seeded(0):
            state = torch.get_rng_state()
            outputs = self._try(self._module)
            random = not torch.equal(state, torch.get_rng_state())
        if random:
            raise self._error(
                "draws random numbers in its forward pass, for example for dropout; remove that"
            )
        for name, value in _constant(self._module).items():
            if not torch.equal(value, before[name]):
                raise self._error(
                    f"changes its buffer {name} in its forward pass; compute it in __init__", name
                )
        expected = [CHECKED, *self._outer(self.outputs)]
        found = list(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
        if found != expected:
            raise self._error(f"must return a tensor of shape {expected}, got {found}", found)

    def _try(self, module: nn.Module) -> Any:
        """Apply a module to a few images or codes."""
        shape = [CHECKED, *self._outer(self.inputs)]
        try:
            with torch.no_grad():
                return module(torch.linspace(0, 1, math.prod(shape)).reshape(shape))
        except Exception as error:  # user code may raise anything
            reason = " ".join(str(error).split())
            raise self._error(
                f"fails on inputs of shape {shape} ({type(error).__name__}: {reason}); fix it",
                shape,
            ) from error

    @staticmethod
    def _outer(shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return a shape as the module sees it, with channels first."""
        return (shape[-1], *shape[:-1])

    def _error(self, message: str, value: Any = None) -> UnweaveError:
        return UnweaveError(
            f"the {self._name} of this architecture {message}", subject="architecture", value=value
        )


@lru_cache(maxsize=32)
def encoder_of(build: Builder, shape: Shape, latents: int) -> StackedNetwork:
    """Build an encoder, from images to mean and log-variance `[B, 2 d]`."""
    return _network(build, shape, latents, "encoder", shape, (2 * latents,))


@lru_cache(maxsize=32)
def decoder_of(build: Builder, shape: Shape, latents: int) -> StackedNetwork:
    """Build a decoder, from codes `[B, d]` to images."""
    return _network(build, shape, latents, "decoder", (latents,), shape)


def _network(
    build: Builder,
    shape: Shape,
    latents: int,
    name: str,
    inputs: tuple[int, ...],
    outputs: tuple[int, ...],
) -> StackedNetwork:
    make = partial(build, shape, latents)
    with _seeded(0):
        built: object = make()
    if isinstance(built, StackedNetwork):
        return built
    if not isinstance(built, nn.Module):
        raise UnweaveError(
            f"the {name} of an architecture must be a torch.nn.Module or a Network, got "
            f"{type(built).__name__}",
            subject="architecture",
            value=type(built),
        )
    return ModuleNetwork(make, inputs, outputs, name)


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed torch's global generator, from which modules draw weights, and restore it afterwards.

    Tensors are created on the CPU, so the generators of GPUs are not used.
    """
    with _generator, torch.random.fork_rng(devices=[]), torch.device("cpu"):
        torch.default_generator.manual_seed(seed)
        yield


def _one_by_one(
    forward: Callable[[Mapping[str, Tensor], Tensor], Tensor],
    parameters: Mapping[str, Tensor],
    x: Tensor,
) -> Tensor:
    """Apply a function to each model in turn."""
    models = (
        ({name: value[place] for name, value in parameters.items()}, one)
        for place, one in enumerate(x)
    )
    return torch.stack([forward(own, one) for own, one in models])


def _trained(module: nn.Module) -> list[tuple[str, nn.Parameter]]:
    """Return the parameters that require gradients, with their names."""
    return [(name, value) for name, value in module.named_parameters() if value.requires_grad]


def _constant(module: nn.Module) -> dict[str, Tensor]:
    """Return buffers and frozen parameters by name."""
    frozen = {name: p for name, p in module.named_parameters() if not p.requires_grad}
    return {**dict(module.named_buffers()), **frozen}
