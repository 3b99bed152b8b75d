"""Trained models and fleets: encode, decode, save and load.

An ensemble model has n members and n rows of parameters. The file format is described in
`unweave.models.files`.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from unweave.data.dataset import Dataset
from unweave.errors import UnweaveError
from unweave.io.arrays import writable
from unweave.io.markup import block, paragraph, table
from unweave.kernels.threads import single_threaded
from unweave.methods import Method
from unweave.methods.base import FIRST, Nets
from unweave.methods.batch import member_seeds
from unweave.methods.mixins import (
    Auxiliary,
    CustomPrior,
    Ensemble,
    Quantised,
    check_representation,
    encoded,
)
from unweave.models.as_module import TrainedModule, as_module
from unweave.models.batches import batch_size, batches
from unweave.models.config import Config
from unweave.models.files import read, write
from unweave.models.networks import FIRST_PREFIX, applied, nets_of, networks_by_name
from unweave.models.rotation import AppliedRotation
from unweave.models.zoo import zoo_folder
from unweave.nets.device import matmul_precision
from unweave.nets.likelihoods import mean_image
from unweave.nets.network import StackedNetwork
from unweave.text import counted, size_text

__all__ = ["Fleet", "Model", "check_alike", "join", "load"]

SHOWN = 20
"""Number of models in the table of a notebook."""
COLUMNS = "columns"
"""Attribute of a curve with the columns of each run, if they differ."""


@dataclass(frozen=True, eq=False)
class Fleet:
    """M trained models, possibly of several methods and with several networks.

    Args:
        configs: Configs of the models.
        shape: Height, width and channels of the images.
        parameters: Parameters by network (`encoder`, `decoder` and others of the method),
            `[M, P]`; for ensembles of n members, `[M · n, P]`. Networks that not all models have
            are in `extra`.
        curve: Losses during training, one row per model and window of steps.
        diverged_at: Step at which each model diverged, or -1, `[M]`.
        extra: Parameters of networks that not all of the models have, or that differ in size, for
            each model (default: none).
        rotations: Rotations of the codes that are part of the parameters, for each model (default:
            none); see `uw.rotate`.
    """

    configs: Sequence[Config]
    shape: tuple[int, int, int]
    parameters: Mapping[str, Tensor]
    curve: pd.DataFrame
    diverged_at: np.ndarray
    extra: Sequence[Mapping[str, Tensor]] = ()
    rotations: Sequence[AppliedRotation | None] = ()

    def __len__(self) -> int:
        return len(self.configs)

    def __getitem__(self, place: int) -> "Model":
        place = range(len(self))[place]
        config = self.configs[place]
        parameters = {
            name: buffer.unflatten(0, (len(self), -1))[place]
            for name, buffer in self.parameters.items()
        }
        curve = self.curve[self.curve["run"] == config.hash]
        if COLUMNS in self.curve.attrs:
            curve = curve[self.curve.attrs[COLUMNS][config.hash]]
            curve.attrs.clear()
        extra = self.extra[place] if self.extra else {}
        diverged_at = self.diverged_at[place : place + 1]
        rotation = self.rotations[place] if self.rotations else None
        rotations = () if rotation is None else (rotation,)
        return Model(
            [config], self.shape, {**parameters, **extra}, curve, diverged_at, (), rotations
        )

    def __iter__(self) -> Iterator["Model"]:
        return (self[place] for place in range(len(self)))

    def __repr__(self) -> str:
        methods = ", ".join(dict.fromkeys(config.method.name for config in self.configs))
        diverged = int((self.diverged_at >= 0).sum())
        suffix = f", {diverged} diverged" if diverged else ""
        models = counted(len(self), f"{methods} model")
        return f"{models} of {size_text(self.shape)} images{suffix}"

    def _repr_html_(self) -> str:
        """Return a table of the models, for notebooks."""
        rows = [
            [place, config.method, config.seed, f"{config.steps:,}", config.latents, state]
            for place, (config, state) in enumerate(
                zip(self.configs[:SHOWN], map(_state, self.diverged_at), strict=False)
            )
        ]
        more = len(self) - len(rows)
        return block(
            paragraph(repr(self)),
            table(["", "Method", "Seed", "Steps", "Latents", "State"], rows),
            paragraph(f"and {counted(more, 'more model')}" if more else ""),
        )

    @property
    def device(self) -> torch.device:
        """Device of the models."""
        return next(iter((self.parameters or self.extra[0]).values())).device

    def to(self, device: str | torch.device) -> Self:
        """Return the models on another device."""
        moved = {name: buffer.to(device) for name, buffer in self.parameters.items()}
        extra = [{name: buffer.to(device) for name, buffer in own.items()} for own in self.extra]
        return type(self)(
            self.configs, self.shape, moved, self.curve, self.diverged_at, extra, self.rotations
        )

    @property
    def members(self) -> "Fleet":
        """Members of all models as separate models, grouped by model.

        A model that is not an ensemble is its own only member. Each member of an ensemble has its
        own seed; the first has the seed of the ensemble. Members have the curve of the ensemble,
        but the KL divergence per latent, which is that of the first member, is NaN for the others.
        """
        count = self._num_members
        if count == 1:
            return self
        configs = [member for config in self.configs for member in _members_of(config)]
        curves = [_curve_of_member(model.curve, k) for model in self for k in range(count)]
        named = [
            curve.assign(run=config.hash) for curve, config in zip(curves, configs, strict=True)
        ]
        return Fleet(
            configs,
            self.shape,
            {name: self.parameters[name] for name in ("encoder", "decoder")},
            pd.concat(named, ignore_index=True),
            np.repeat(self.diverged_at, count),
        )

    @property
    def maps(self) -> np.ndarray:
        """Maps M_ij of ensembles from codes of member i to member j, float32 `[M, n, n, d, d]`.

        `codes @ maps[i, j].T` converts codes of member i to those of member j. Maps from a member
        to itself are identities; maps that were not learned are NaN.
        """
        return np.stack([model.maps for model in self])

    @property
    def first(self) -> Self:
        """Models of the first stage, without their curves.

        If the first stage was trained jointly with the second, its models have different seeds
        from the runs they started from.
        """
        configs = [_first_of(config) for config in self.configs if config.first is not None]
        if not configs:
            raise UnweaveError(
                f"{self.configs[0].method.name} models have no first stage; use a model of a "
                "second stage, such as ms_vae",
                subject="first",
            )
        below = {
            name.removeprefix(FIRST_PREFIX): buffer
            for name, buffer in self.parameters.items()
            if name.startswith(FIRST_PREFIX)
        }
        no_curve = pd.DataFrame({"run": [], "step": []})
        return type(self)(configs, self.shape, below, no_curve, np.full(len(self), -1))

    @single_threaded()
    def encode(
        self,
        images: Any,
        seed: int = 0,
        member: int = 0,
        representation: str = "value",
        factors: Mapping[str, Any] | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and log-variance of the codes, float32 `[M, n, d]` each.

        Codes of a model with several stages contain all of them, the first stage first.

        Args:
            images: Images `[n, H, W, C]`, uint8 or floats in [0, 1], NumPy or torch; or a data
                set, for all of its images.
            seed: Random seed of the images, for data sets whose images are random given the
                factors.
            member: For ensembles, the index of the member that encodes (default 0).
            representation: For methods with quantised latents, `"value"` (default, the input of
                `decode`), `"index"` (int64) or `"continuous"`.
            factors: For methods that encode images together with a known factor, such as `ivae`,
                the classes `[n]` of factors by name (default: those of the data set).
        """
        for config in self.configs:
            check_representation(config.method, representation)
        if len(self._coded_alike) > 1:
            found = [
                self._some(places).encode(images, seed, member, representation, factors)
                for places in self._coded_alike
            ]
            mean, logvar = (self._in_order(part) for part in zip(*found, strict=True))
            return mean, logvar
        method, classes = self.configs[0].method, None
        if isinstance(method, Auxiliary):
            classes = _classes(method, images, factors).to(self.device)
        means, logvars = [], []
        for batch in self._batches(images, seed):
            with self._computing():
                if isinstance(method, Auxiliary) and classes is not None:
                    own, classes = classes.split([batch.shape[1], len(classes) - batch.shape[1]])
                    codes = method.encode_given(self.nets(member), batch, own)
                else:
                    codes = encoded(method, self.nets(member), batch, representation)
            means.append(codes.mu.cpu())
            logvars.append(codes.logvar.cpu())
        return torch.cat(means, 1).numpy(), torch.cat(logvars, 1).numpy()

    def factors_of(self, data: Dataset, rows: Any = None) -> dict[str, Tensor]:
        """Return the classes `[n]` of the factors that `encode` needs, by name; usually none.

        Args:
            data: Data set with known factors.
            rows: Indices of the images (default: all).
        """
        methods = [config.method for config in self.configs]
        return {
            method.auxiliary[0]: method.classes_in(data, rows)
            for method in methods
            if isinstance(method, Auxiliary)
        }

    @single_threaded()
    def decode(self, codes: Any, member: int = 0) -> np.ndarray:
        """Return the mean images of codes, float32 in [0, 1], `[M, n, H, W, C]`.

        Args:
            codes: Codes `[n, d]` for all models, or `[M, n, d]`.
            member: For ensembles, the index of the member that decodes (default 0).
        """
        for config in self.configs:
            config.method.require_decoder()
        codes = torch.as_tensor(writable(codes), dtype=torch.float32, device=self.device)
        if codes.shape[-1:] != (self.configs[0].code_size,):
            raise UnweaveError(
                f"codes must have {self.configs[0].code_size} latents, got the shape "
                f"{list(codes.shape)}",
                subject="codes",
            )
        codes = codes.expand(len(self), *codes.shape[-2:])
        if len(self._coded_alike) > 1:
            return self._in_order(
                [self._some(places).decode(codes[places], member) for places in self._coded_alike]
            )
        parts = codes.split(self._batch_size, 1)
        nets, decoded = self.nets(member), []
        for part in parts:
            with self._computing():
                decoded.append(self.configs[0].method.decode(nets, part).float())
        return mean_image(self.configs[0].likelihood, torch.cat(decoded, 1)).cpu().numpy()

    def save(self, folder: str | Path) -> list[Path]:
        """Write each model into its own folder inside `folder`, named by its run."""
        places = [Path(folder) / config.hash for config in self.configs]
        for model, place in zip(self, places, strict=True):
            if not place.exists():  # another process may have trained the same run
                model.save(place)
        return places

    @cached_property
    def _alike(self) -> list[list[int]]:
        """Indices of the models of each kind."""
        kinds: dict[str, list[int]] = {}
        for place, config in enumerate(self.configs):
            kinds.setdefault(config.kind, []).append(place)
        return list(kinds.values())

    @cached_property
    def _coded_alike(self) -> list[list[int]]:
        """Indices of models that encode and decode together: with equal networks, or of a kind."""
        if len(self._alike) == 1:
            return self._alike
        together: dict[Any, list[int]] = {}
        for places in self._alike:
            config = self.configs[places[0]]
            kind = type(config.method)
            plain = (kind.encode, kind.decode) == (Method.encode, Method.decode)
            key = _coding(config, self.shape) if plain else config.kind
            together.setdefault(key, []).extend(places)
        return list(together.values())

    def _some(self, places: Sequence[int]) -> "Fleet":
        """Return a fleet of some of the models."""
        return join([self[place] for place in places])

    def _in_order(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """Join arrays `[m, …]` of the models in `_coded_alike`, in the order of the fleet."""
        order = np.argsort([place for places in self._coded_alike for place in places])
        return np.concatenate(parts)[order]

    @cached_property
    def _networks(self) -> dict[str, StackedNetwork]:
        networks = networks_by_name(self.configs[0], self.shape)
        return {name: network for name, network in networks.items() if name in self.parameters}

    @cached_property
    def _working(self) -> dict[str, Tensor]:
        """Parameters in the training precision on a GPU, else in float32."""
        use_bf16 = self.configs[0].precision == "bf16" and self.device.type == "cuda"
        dtype = torch.bfloat16 if use_bf16 else torch.float32
        return {name: buffer.to(dtype) for name, buffer in self.parameters.items()}

    @property
    def _num_members(self) -> int:
        """Number of members per model."""
        return self.configs[0].method.num_members

    def nets(self, member: int = 0) -> Nets:
        """Return the networks of one member of each model, as passed to their method."""
        if member not in range(self._num_members):
            raise UnweaveError(
                f"member must be at least 0 and below {self._num_members}, got {member}"
            )
        rows = {name: self._working[name][member :: self._num_members] for name in self._networks}
        apply = {
            name: partial(applied, network, rows[name], rows[name].dtype)
            for name, network in self._networks.items()
        }
        return nets_of(self.configs[0], apply)

    @contextmanager
    def _computing(self) -> Iterator[None]:
        with torch.no_grad(), matmul_precision(self.configs[0].precision):
            yield

    def _batches(self, images: Any, seed: int) -> Iterator[Tensor]:
        """Yield batches `[M, n, H, W, C]` on the models' device, the same for every model."""
        for pixels in batches(images, seed, self.shape, self._batch_size, self.device):
            yield pixels.expand(len(self), *pixels.shape)

    @property
    def _batch_size(self) -> int:
        return batch_size(self._networks.values(), self.shape, len(self), self.device)


class Model(Fleet):
    """One trained model: a fleet of one, without the model axis."""

    @property
    def config(self) -> Config:
        """Config of the model."""
        return self.configs[0]

    @property
    def maps(self) -> np.ndarray:
        """Maps M_ij of an ensemble, float32 `[n, n, d, d]`; see `Fleet.maps`."""
        method = self.config.method
        if not isinstance(method, Ensemble):
            raise UnweaveError(
                f"{method.name} models have no maps between members; train vae_ensemble instead",
                subject="maps",
            )
        return method.maps(self.config.latents, self.named_parameters())

    @property
    def exponents(self) -> np.ndarray:
        """Exponents of an Lp-nested prior, root first, in the order of its layout, float32."""
        method, exponents = self.config.method, None
        if isinstance(method, CustomPrior):
            exponents = method.prior_exponents(self.config.latents, self.named_parameters())
        if exponents is None:
            raise UnweaveError(
                f"{method.name} models have no exponents; only Lp-nested priors have them",
                subject="exponents",
            )
        return exponents.numpy()

    @property
    def codebook(self) -> np.ndarray:
        """Values of each quantised latent, by index, float32 `[d, V]`."""
        method, values = self.config.method, None
        if isinstance(method, Quantised):
            values = method.codebook(self.config.latents, self.named_parameters())
        if values is None:
            raise UnweaveError(
                f"codes of {method.name} are not quantised; use a method such as qlae",
                subject="codebook",
            )
        return values.cpu().numpy()

    def encode(
        self,
        images: Any,
        seed: int = 0,
        member: int = 0,
        representation: str = "value",
        factors: Mapping[str, Any] | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and log-variance of the codes, float32 `[n, d]`; see `Fleet.encode`."""
        mean, logvar = super().encode(images, seed, member, representation, factors)
        return mean[0], logvar[0]

    def decode(self, codes: Any, member: int = 0) -> np.ndarray:
        """Return the mean images of codes `[n, d]`, float32 in [0, 1], `[n, H, W, C]`."""
        return super().decode(codes, member)[0]

    def as_module(self, member: int = 0) -> TrainedModule:
        """Return the model as an ordinary `torch.nn.Module` with its own copy of the weights.

        The module has `encode`, `decode` and `forward` (reconstruction) for float tensors
        `[B, C, H, W]` in [0, 1], with gradients.

        Args:
            member: For ensembles, the index of the member (default 0).
        """
        return as_module(self, member)

    def __repr__(self) -> str:
        diverged = self.diverged_at[0]
        suffix = f", diverged at step {diverged:,}" if diverged >= 0 else ""
        steps, seed = f"{self.config.steps:,}", self.config.seed
        used = Quantised.latents_in_use(self.curve)
        if used is not None:
            suffix += f", {used[0]} of {counted(used[1], 'latent')} in use"
        rotated = f", {self.rotations[0]}" if self.rotations else ""
        return f"{self.config.method} trained for {steps} steps, seed {seed}{rotated}{suffix}"

    def _repr_html_(self) -> str:
        """Return the most important settings, for notebooks."""
        config = self.config
        rows: list[list[object]] = [
            ["Images", size_text(self.shape)],
            ["Latents", config.latents],
            ["Architecture", config.architecture],
            ["Likelihood", config.likelihood],
            ["Steps", f"{config.steps:,} of {counted(config.batch, 'image')}"],
            ["Run", config.hash],
        ]
        return block(paragraph(repr(self)), table(["Setting", "Value"], rows))

    def named_parameters(self) -> dict[str, Tensor]:
        """Return all parameters by name (`"encoder/0.weight"`), without the model axis.

        Parameters of an ensemble have its members as the first axis.
        """
        return {
            f"{network}/{name}": (value[0] if len(value) == 1 else value).contiguous()
            for network, buffer in self.parameters.items()
            for name, value in self._networks[network].named(buffer)
        }

    def save(  # type: ignore[override] # one model, one folder
        self, folder: str | Path, *, compact: bool = False
    ) -> Path:
        """Write the model into `folder`, which must not exist yet.

        Args:
            folder: New folder.
            compact: Whether to round weights to bfloat16 and omit networks that are used in
                training only, such as the discriminator of FactorVAE. The files are less than
                half as large; a second stage cannot be trained on such a model.
        """
        folder = Path(folder)
        if folder.exists():
            raise UnweaveError(f"{folder} already exists; choose another folder")
        write(self, folder, compact)
        return folder


def load(
    folder: str | Path,
    device: str | torch.device = "cpu",
    method: type[Method] | None = None,
) -> Model:
    """Load a saved model.

    Args:
        folder: Folder of the saved model, or `zoo:NAME` for a model of the zoo.
        device: Device of the loaded model (default `"cpu"`).
        method: Class of a custom method that is not in `METHODS`.
    """
    found = zoo_folder(folder) or Path(folder)
    config, shape, parameters, curve, diverged, rotation = read(found, device, method)
    rotations = () if rotation is None else (rotation,)
    return Model([config], shape, parameters, curve, np.array([diverged]), (), rotations)


def join(models: Sequence[Fleet]) -> Fleet:
    """Combine models, possibly of several methods and with several networks, into one fleet."""
    first = models[0]
    check_alike([config for model in models for config in model.configs], first.shape)
    widths = [{name: value.shape[1] for name, value in m.parameters.items()} for m in models]
    shared = [
        name for name, width in widths[0].items() if all(w.get(name) == width for w in widths)
    ]
    extra: Sequence[Mapping[str, Tensor]] = ()
    if any(model.extra or model.parameters.keys() - shared for model in models):
        extra = [
            {name: buffer for name, buffer in model.parameters.items() if name not in shared}
            for fleet in models
            for model in fleet
        ]
    rotations = [
        rotation for model in models for rotation in model.rotations or [None] * len(model)
    ]
    return Fleet(
        [config for model in models for config in model.configs],
        first.shape,
        {name: torch.cat([model.parameters[name] for model in models]) for name in shared},
        _joined_curves(models),
        np.concatenate([model.diverged_at for model in models]),
        extra,
        rotations if any(rotations) else (),
    )


def _state(diverged_at: int) -> str:
    """Describe whether a model was trained to the end."""
    return "trained" if diverged_at < 0 else f"diverged at step {diverged_at:,}"


def _joined_curves(models: Sequence[Fleet]) -> pd.DataFrame:
    """Combine curves; if their columns differ, remember which of them each run has."""
    curve = pd.concat([model.curve for model in models], ignore_index=True)
    columns = {
        config.hash: model.curve.attrs.get(COLUMNS, {}).get(config.hash, list(model.curve))
        for model in models
        for config in model.configs
    }
    curve.attrs = {COLUMNS: columns} if len(set(map(tuple, columns.values()))) > 1 else {}
    return curve


def check_alike(configs: Sequence[Config], shape: tuple[int, int, int]) -> None:
    """Check that all runs have codes of the same size, and as many members and stages."""
    kinds = {config.kind: config for config in configs}.values()
    if len({_common(config, shape) for config in kinds}) > 1:
        raise UnweaveError(
            "models of one fleet must have the same numbers of latents, members and stages; "
            "train models that differ in these separately"
        )


def _common(config: Config, shape: tuple[int, int, int]) -> tuple[Any, ...]:
    """Return what all models of a fleet have in common."""
    below = [
        (name, network)
        for name, network in networks_by_name(config, shape).items()
        if name.startswith(FIRST_PREFIX)
    ]
    return (*below, config.method.num_members, config.code_size)


def _coding(config: Config, shape: tuple[int, int, int]) -> tuple[Any, ...]:
    """Return what models that encode and decode together have in common."""
    networks = networks_by_name(config, shape)
    return networks["encoder"], networks.get("decoder"), config.likelihood, config.precision


def _classes(method: Auxiliary, images: Any, factors: Mapping[str, Any] | None) -> Tensor:
    """Return the classes `[n]` that a method needs to encode images; see `Fleet.encode`."""
    if not isinstance(images, Dataset):
        return method.classes_given(factors, 1 if np.ndim(images) == 3 else len(images))
    if factors is None:
        return method.classes_in(images)
    return method.classes_given(factors, len(images))


def _members_of(config: Config) -> list[Config]:
    """Return the configs of an ensemble's members; the first has the seed of the ensemble."""
    if not isinstance(config.method, Ensemble):
        return [config]
    seeds = member_seeds(torch.tensor([config.seed]), config.method.num_members).tolist()
    return [replace(config, method=config.method.member_method(), seed=seed) for seed in seeds]


def _first_of(config: Config) -> Config:
    """Return the config of the first stage, with a new seed if it was trained further."""
    assert config.first is not None
    if not config.method.extra_optimisers().get(FIRST):
        return config.first
    (seed,) = member_seeds(torch.tensor([config.seed]), 2).tolist()[1:]
    return replace(config.first, seed=seed)


def _curve_of_member(curve: pd.DataFrame, member: int) -> pd.DataFrame:
    latents = [] if member == 0 else [name for name in curve if name.startswith("kl_")]
    return curve.assign(**dict.fromkeys(latents, np.nan))
