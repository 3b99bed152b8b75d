"""Trained models: encode, decode, save and load, one at a time or a fleet at once.

A model of an ensemble has n members: its parameters are n rows. How a model is saved is in
`unweave.models.files`.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from unweave.errors import UnweaveError
from unweave.io.arrays import writable
from unweave.methods import Method
from unweave.methods.base import Nets
from unweave.methods.mixins import CustomPrior, Ensemble
from unweave.models.batches import at_once, batches
from unweave.models.config import Config
from unweave.models.files import Saved, read, write
from unweave.models.inner_runs import first_of, members_of
from unweave.models.networks import BELOW, applied, nets_of, networks_by_name, parameters_by_name
from unweave.nets.device import matmul_precision
from unweave.nets.likelihoods import mean_image
from unweave.nets.network import Network
from unweave.text import counted, size_text

__all__ = ["Fleet", "Model", "load", "saved_form"]


@dataclass(frozen=True, eq=False)
class Fleet:
    """M trained models of one fleet.

    Args:
        configs: Their runs.
        shape: Height, width and channels of their images.
        parameters: By network (`encoder`, `decoder` and the method's own), `[M, P]`; those of
            ensembles of n, `[M · n, P]`.
        curve: The losses while training, one row per model and window of steps.
        diverged_at: The step at which each model stopped being finite, or -1, `[M]`.
    """

    configs: Sequence[Config]
    shape: tuple[int, int, int]
    parameters: Mapping[str, Tensor]
    curve: pd.DataFrame
    diverged_at: np.ndarray

    def __len__(self) -> int:
        return len(self.configs)

    def __getitem__(self, place: int) -> "Model":
        place = range(len(self))[place]
        config = self.configs[place]
        return Model(
            [config],
            self.shape,
            {
                name: buffer.unflatten(0, (len(self), -1))[place]
                for name, buffer in self.parameters.items()
            },
            self.curve[self.curve["run"] == config.hash],
            self.diverged_at[place : place + 1],
        )

    def __iter__(self) -> Iterator["Model"]:
        return (self[place] for place in range(len(self)))

    def __repr__(self) -> str:
        method = self.configs[0].method
        lost = int((self.diverged_at >= 0).sum())
        note = f", {lost} diverged" if lost else ""
        models = counted(len(self), f"{method.name} model")
        return f"{models} of {size_text(self.shape)} images{note}"

    @property
    def device(self) -> torch.device:
        """Where the models are."""
        return next(iter(self.parameters.values())).device

    def to(self, device: str | torch.device) -> Self:
        """The same models on another device."""
        moved = {name: buffer.to(device) for name, buffer in self.parameters.items()}
        return type(self)(self.configs, self.shape, moved, self.curve, self.diverged_at)

    @property
    def members(self) -> "Fleet":
        """The members of all models, a model each, one model's after the other.

        A model that is no ensemble is its only member. Members of an ensemble have seeds of their
        own, of which the first is the ensemble's. Their curves are the ensemble's; the KL
        divergence of each latent, which it follows for the first member, is NaN for the others.
        """
        count = self._num_members
        if count == 1:
            return self
        configs = [member for config in self.configs for member in members_of(config)]
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
        """M_ij of ensembles, which map codes of member i to member j, float32 `[M, n, n, d, d]`.

        `codes @ maps[i, j].T` is what codes of member i are to member j. Those from a member to
        itself are identities; those that were not learned are NaN.
        """
        return np.stack([model.maps for model in self])

    @property
    def first(self) -> Self:
        """The models of the first stage, on which these build; their curves are not kept.

        Where the first stage was trained further along with the second, its models have other
        seeds than the runs they began from.
        """
        configs = [first_of(config) for config in self.configs if config.first is not None]
        if not configs:
            raise UnweaveError(f"{self.configs[0].method.name} models build on no others")
        below = {
            name.removeprefix(BELOW): buffer
            for name, buffer in self.parameters.items()
            if name.startswith(BELOW)
        }
        nothing = pd.DataFrame({"run": [], "step": []})
        return type(self)(configs, self.shape, below, nothing, np.full(len(self), -1))

    def encode(self, images: Any, seed: int = 0, member: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Mean and log-variance of the codes, float32 `[M, n, d]` each.

        Those of a model in stages are of all of them, the first stage's first.

        Args:
            images: Bytes or floats in [0, 1], `[n, H, W, C]`, NumPy or torch; or a data set, for
                all of its images.
            seed: For a data set whose images are random given their factors, the draw to encode.
            member: Of ensembles, which member encodes.
        """
        means, logvars = [], []
        for batch in self._batches(images, seed):
            with self._computing():
                codes = self.configs[0].method.encode(self.nets(member), batch)
            means.append(codes.mu.cpu())
            logvars.append(codes.logvar.cpu())
        return torch.cat(means, 1).numpy(), torch.cat(logvars, 1).numpy()

    def decode(self, codes: Any, member: int = 0) -> np.ndarray:
        """The mean images of codes, float32 in [0, 1], `[M, n, H, W, C]`.

        Args:
            codes: `[n, d]` for all models alike, or `[M, n, d]`.
            member: Of ensembles, which member decodes.
        """
        self.configs[0].method.require_decoder()
        codes = torch.as_tensor(writable(codes), dtype=torch.float32, device=self.device)
        if codes.shape[-1:] != (self.configs[0].code_size,):
            raise UnweaveError(
                f"codes have {self.configs[0].code_size} latents, but got {list(codes.shape)}"
            )
        codes = codes.expand(len(self), *codes.shape[-2:])
        parts = codes.split(self._at_once, 1)
        nets, decoded = self.nets(member), []
        for part in parts:
            with self._computing():
                decoded.append(self.configs[0].method.decode(nets, part).float())
        return mean_image(self.configs[0].likelihood, torch.cat(decoded, 1)).cpu().numpy()

    def save(self, folder: str | Path) -> list[Path]:
        """Write each model into a folder of its own, named by its run, inside `folder`."""
        places = [Path(folder) / config.hash for config in self.configs]
        for model, place in zip(self, places, strict=True):
            if not place.exists():  # by another process that trained the same run
                model.save(place)
        return places

    @cached_property
    def _networks(self) -> dict[str, Network]:
        return networks_by_name(self.configs[0], self.shape)

    @cached_property
    def _working(self) -> dict[str, Tensor]:
        """The parameters in the precision that the models were trained in, on a GPU."""
        fewer = self.configs[0].precision == "bf16" and self.device.type == "cuda"
        dtype = torch.bfloat16 if fewer else torch.float32
        return {name: buffer.to(dtype) for name, buffer in self.parameters.items()}

    @property
    def _num_members(self) -> int:
        """How many members each model has."""
        return self.configs[0].method.num_members

    def nets(self, member: int = 0) -> Nets:
        """The networks of one member of each model, as their method sees them."""
        if member not in range(self._num_members):
            raise UnweaveError(
                f"these models have {self._num_members} members, counted from 0, but got {member=}"
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
        """Batches `[M, n, H, W, C]` on the models' device, the same for every model."""
        for pixels in batches(images, seed, self.shape, self._at_once, self.device):
            yield pixels.expand(len(self), *pixels.shape)

    @property
    def _at_once(self) -> int:
        return at_once(self._networks.values(), self.shape, len(self), self.device)


class Model(Fleet):
    """One trained model: a fleet of one, without the model axis."""

    @property
    def config(self) -> Config:
        """Its run."""
        return self.configs[0]

    @property
    def maps(self) -> np.ndarray:
        """M_ij of an ensemble, float32 `[n, n, d, d]`; see `Fleet.maps`."""
        method = self.config.method
        if not isinstance(method, Ensemble):
            raise UnweaveError(
                f"{method.name} models have no maps between members; train an ensemble for that"
            )
        return method.maps(self.config.latents, self.named_parameters())

    @property
    def exponents(self) -> np.ndarray:
        """The exponents of an Lp-nested prior, root first, in the order of its layout, float32."""
        method, exponents = self.config.method, None
        if isinstance(method, CustomPrior):
            exponents = method.prior_exponents(self.config.latents, self.named_parameters())
        if exponents is None:
            raise UnweaveError(f"{method.name} models have no exponents: their prior has none")
        return exponents.numpy()

    def encode(self, images: Any, seed: int = 0, member: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Mean and log-variance of the codes, float32 `[n, d]` each; see `Fleet.encode`."""
        mean, logvar = super().encode(images, seed, member)
        return mean[0], logvar[0]

    def decode(self, codes: Any, member: int = 0) -> np.ndarray:
        """The mean images of codes `[n, d]`, float32 in [0, 1], `[n, H, W, C]`."""
        return super().decode(codes, member)[0]

    def __repr__(self) -> str:
        fate = f", diverged at step {self.diverged_at[0]:,}" if self.diverged_at[0] >= 0 else ""
        steps, seed = f"{self.config.steps:,}", self.config.seed
        return f"{self.config.method} trained for {steps} steps, seed {seed}{fate}"

    def named_parameters(self) -> dict[str, Tensor]:
        """Every parameter by name (`"encoder/0.weight"`), without the model axis.

        Those of an ensemble begin with the axis of its members.
        """
        return parameters_by_name(self._networks, self.parameters)

    def save(self, folder: str | Path) -> Path:  # type: ignore[override] # one model, one folder
        """Write the model into `folder`, which must not exist yet."""
        folder = Path(folder)
        if folder.exists():
            raise UnweaveError(f"{folder} is already there; choose another folder")
        write(saved_form(self), folder)
        return folder


def _curve_of_member(curve: pd.DataFrame, member: int) -> pd.DataFrame:
    latents = [] if member == 0 else [name for name in curve if name.startswith("kl_")]
    return curve.assign(**dict.fromkeys(latents, np.nan))


def saved_form(model: Model) -> Saved:
    """What the files of a model hold."""
    lost = int(model.diverged_at[0])
    return Saved(model.config, model.shape, model.parameters, model.curve, lost)


def load(
    folder: str | Path,
    device: str | torch.device = "cpu",
    method: type[Method] | None = None,
) -> Model:
    """The model in a folder that `save` wrote.

    Args:
        folder: Where it was saved.
        device: Where it should be.
        method: The class of its method, where that is your own and not one of `METHODS`.
    """
    saved = read(Path(folder), device, method)
    lost = np.array([saved.diverged_at])
    return Model([saved.config], saved.shape, saved.parameters, saved.curve, lost)
