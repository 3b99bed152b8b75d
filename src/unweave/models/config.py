"""The config of a run: everything that one trained model depends on, as plain data."""

import dataclasses
import hashlib
import json
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, SupportsIndex, TypeVar

from unweave.errors import UnknownNameError, UnweaveError
from unweave.io.extensions import is_reference
from unweave.io.schema import Required, Schema, fields_of
from unweave.methods import PARTS, Method, find_method, saved_name
from unweave.methods.base import MODEL
from unweave.methods.mixins import SecondStage
from unweave.methods.settings import settings_of
from unweave.nets.adam import FIRST_FIELDS, SHARED_FIELDS, Adam
from unweave.nets.architectures import ARCHITECTURES, Architecture, find_architecture, name_of
from unweave.nets.network import INITS
from unweave.text import shown

__all__ = ["PRECISIONS", "RUN_NAME", "Config", "group_into_fleets"]

SCALAR_TYPES = (float, int, bool, str)
"""Types of fields with one value per run; a list of values is a grid."""
PRECISIONS = ("float32", "tf32", "bf16")
LIMITS = {"seed": (0, 2**63 - 1), "steps": (0, 2**32), "batch": (1, 2**20), "latents": (1, 10_000)}
"""Smallest and largest value of each integer. Untrusted configs may contain any value, and random
streams count steps in 32 bits."""
MAX_STAGES = 8
Item = TypeVar("Item")
RUN_NAME = re.compile(r"[0-9a-f]{16}")
"""Pattern of `Config.hash`, which is also the name of a run's folder."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """All settings of one trained model. Equal configs give equal models.

    Args:
        method: Method with its hyperparameters.
        data: Steps that create the data set (`Dataset.origin`).
        seed: Random seed of initial weights, batches and noise (default 0).
        steps: Number of training steps (default 300,000).
        batch: Images per step (default 64).
        latents: Number of latents (default 10).
        architecture: One of the method's `architectures` (default: the first), a custom
            `Architecture`, or the `package.module:NAME` of one.
        likelihood: One of the method's `likelihoods` (default `"bernoulli"`).
        init: Weight initialisation, one of `INITS` (default `"glorot"`).
        optimiser: Adam settings for the encoder and decoder.
        precision: `"float32"` (default); `"bf16"` for faster matrix multiplications and
            convolutions on a GPU and on CPUs with bf16 instructions; or `"tf32"` on a GPU.
        first: Config of the first stage, for methods that build on one.
    """

    method: Method
    data: tuple[Any, ...] = ()
    seed: int = 0
    steps: int = 300_000
    batch: int = 64
    latents: int = 10
    architecture: str = ""
    likelihood: str = "bernoulli"
    init: str = "glorot"
    optimiser: Adam = field(default_factory=Adam)
    precision: str = "float32"
    first: "Config | None" = None

    def __post_init__(self) -> None:
        if not isinstance(self.method, Method):
            raise UnweaveError(f"method must be one of uw.methods, got {shown(self.method)}")
        if self.architecture == "":
            object.__setattr__(self, "architecture", next(iter(self.method.architectures)))
        architecture: object = self.architecture
        if isinstance(architecture, Architecture):
            object.__setattr__(self, "architecture", name_of(architecture))
        for kind, name, valid in (
            ("architecture", self.architecture, self._architectures()),
            ("likelihood", self.likelihood, self.method.likelihoods),
            ("initialisation", self.init, INITS),
            ("precision", self.precision, PRECISIONS),
        ):
            if not isinstance(name, str) or name not in valid:
                raise UnknownNameError(kind, name, valid)
        for name, (least, most) in LIMITS.items():
            value = getattr(self, name)
            if not isinstance(value, SupportsIndex) or isinstance(value, bool):
                raise UnweaveError(f"{name} must be an integer, got {shown(value)}")
            object.__setattr__(self, name, operator.index(value))
            if not least <= getattr(self, name) <= most:
                raise UnweaveError(
                    f"{name} must be between {least} and {most:,}, got {shown(value)}",
                    subject=name,
                )
        if not isinstance(self.optimiser, Adam):
            raise UnweaveError(f"optimiser must be a uw.Adam, got {shown(self.optimiser)}")
        self._check_data()
        self.method.check_latents(self.latents)
        self._check_first()

    def _architectures(self) -> Iterable[str]:
        """Return valid names, with a custom one if the method supports any encoder and decoder."""
        names = self.method.architectures
        if not is_reference(self.architecture) or not set(ARCHITECTURES) <= set(names):
            return names
        find_architecture(self.architecture)
        return (*names, self.architecture)

    def _check_data(self) -> None:
        """Check for a list of steps; `unweave.data.origin` checks the steps themselves."""
        steps = self.data if isinstance(self.data, list | tuple) else [self.data]
        for step in steps:
            if not isinstance(step, list | tuple) or not step or not isinstance(step[0], str):
                raise UnweaveError(
                    "data must be a list of steps, each a list that starts with a name, got "
                    f"{shown(step)}",
                    subject="data",
                )

    def _check_first(self) -> None:
        second = isinstance(self.method, SecondStage)
        if self.first is None and second:
            raise UnweaveError(
                f"{self.method.name} builds on trained models; pass them as first=…",
                subject="first",
            )
        if self.first is not None and not isinstance(self.first, Config):
            raise UnweaveError(f"first must be a Config, got {shown(self.first)}")
        if self.first is not None and not second:
            raise UnweaveError(
                f"{self.method.name} does not build on other models; omit first",
                subject="first",
                value=self.first,
            )
        if self.first is not None and self.first.method.num_members > 1:
            raise UnweaveError(
                f"{self.method.name} builds on single models, but {self.first.method.name} has "
                "several members per model; choose one of them from fleet.members",
                subject="members",
            )
        if len(self.stages) > MAX_STAGES:
            raise UnweaveError(
                f"a model has at most {MAX_STAGES} stages; build on fewer", subject="stages"
            )

    @property
    def code_size(self) -> int:
        """Number of latents of all stages together."""
        return self.latents + (0 if self.first is None else self.first.code_size)

    @property
    def stages(self) -> dict[str, range]:
        """Latents of each stage, by name: `C` for the first, `Z` for the second, then `Z2` …

        Example:
            >>> from unweave.methods import MSVAE, VAE
            >>> Config(method=MSVAE(), latents=5, first=Config(method=VAE())).stages
            {'C': range(0, 10), 'Z': range(10, 15)}
        """
        before = {} if self.first is None else self.first.stages
        name = ("C", "Z")[len(before)] if len(before) < 2 else f"Z{len(before)}"
        return {**before, name: range(self.code_size - self.latents, self.code_size)}

    @property
    def latent_names(self) -> list[str]:
        """Names of latents: `latent 3`, or `C 3` and `Z 0` if there are several stages."""
        if self.first is None:
            return [f"latent {latent}" for latent in range(self.latents)]
        return [
            f"{stage} {latent - own.start}" for stage, own in self.stages.items() for latent in own
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the config as plain data, for JSON."""
        plain = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        if self.first is None:
            del plain["first"]
        else:
            plain["first"] = self.first.to_dict()
        saved_as, later = self.method.saved_as, self.method.saved_if_set
        method = {
            saved_as.get(name, name): value
            for name, value in _plain(self.method).items()
            if name not in later or value != getattr(type(self.method), name)
        }
        plain["method"] = {"name": saved_name(type(self.method)), **method}
        plain["optimiser"] = self.optimiser.to_dict()
        plain["data"] = [list(step) for step in self.data]
        return plain

    @classmethod
    def from_dict(
        cls, plain: Any, own: type[Method] | None = None, at: tuple[str, ...] = ()
    ) -> "Config":
        """Create a config from the result of `to_dict`.

        Args:
            plain: Plain data, possibly from a file; invalid data raise an `UnweaveError`.
            own: Class of a custom method that cannot be imported by name.
            at: Position in the file, for error messages.
        """
        values = FILE.check(plain, at)
        first, data = values.pop("first", None), values.pop("data", ())
        method, optimiser = values.pop("method"), values.pop("optimiser", {})
        _check_stages(first)
        name = method.get("name", "")
        if own is not None and name in (own.name, saved_name(own)):
            kind = own
        else:
            part = PARTS.get(name) if isinstance(name, str) else None
            kind = part or find_method(name)
        settings = kind.with_new_names({n: v for n, v in method.items() if n != "name"})
        return cls(
            **values,
            data=tuple(data),
            method=kind(**_settings_schema(kind).check(settings, [*at, "method"])),
            optimiser=Adam(**OPTIMISER.check(optimiser, [*at, "optimiser"])),
            first=None if first is None else cls.from_dict(first, own, (*at, "first")),
        )

    def __hash__(self) -> int:
        return hash(self.hash)

    @property
    def hash(self) -> str:
        """Unique name of this run."""
        text = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def kind(self) -> str:
        """Settings that runs of one kind share: all but seeds, strengths and learning rates."""
        plain = self._without_values()
        if self.first is not None:
            plain["first"] = self.first.kind
        return json.dumps(plain, sort_keys=True)

    @property
    def fleet(self) -> str:
        """Settings that all runs of a fleet share, whatever their method.

        Runs with equal values can train together. Methods that build the encoder and decoder
        themselves, and second stages, share a fleet only with runs of the same kind.
        """
        shared = type(self.method).networks is Method.networks and self.first is None
        if not shared or (
            self.optimiser.clip_norm and MODEL in self.method.extra_networks(self.latents)
        ):
            return self.kind  # the norm of a gradient includes all networks of a group
        plain = self._without_values()
        plain["method"] = {"members": self.method.num_members}
        return json.dumps(plain, sort_keys=True)

    def _without_values(self) -> dict[str, Any]:
        """Return the config as plain data, without values that may differ within a kind."""
        plain = self.to_dict()
        plain["seed"] = None
        for name, setting in settings_of(type(self.method)).items():
            if setting.per_model:
                plain["method"][self.method.saved_as.get(name, name)] = None
        for name in settings_of(Adam).keys() - set(SHARED_FIELDS):
            # Later settings are left out, so that ledgers of version 0.1 have the same kinds.
            plain["optimiser"].pop(name, None)
            if name in FIRST_FIELDS:
                plain["optimiser"][name] = None
        return plain


def group_into_fleets(
    items: Iterable[Item],
    config_of: Callable[[Item], Config] | None = None,
    *,
    mixed: bool = True,
) -> list[list[Item]]:
    """Group runs, or items that each have a config, by `Config.fleet`, in order of appearance.

    Within a fleet, runs of one kind are adjacent. If `mixed` is False, each kind is a fleet.

    Example:
        >>> from unweave.methods import VAE, BetaVAE
        >>> runs = [Config(method=VAE()), Config(method=BetaVAE()), Config(method=VAE(), seed=1)]
        >>> [[run.method.name for run in fleet] for fleet in group_into_fleets(runs)]
        [['vae', 'vae', 'beta_vae']]
    """
    fleets: dict[str, dict[str, list[Item]]] = {}
    for item in items:
        config: Any = item if config_of is None else config_of(item)
        fleet = config.fleet if mixed else config.kind
        fleets.setdefault(fleet, {}).setdefault(config.kind, []).append(item)
    return [[item for kind in kinds.values() for item in kind] for kinds in fleets.values()]


def _plain(settings: Any) -> dict[str, Any]:
    """Return the fields of a dataclass; values of float fields are converted to floats."""
    kind: type = type(settings)
    values = {name: getattr(settings, name) for name in settings_of(kind)}
    return {
        name: float(value) if settings_of(kind)[name].kind is float else value
        for name, value in values.items()
    }


@cache
def _settings_schema(kind: type[Method]) -> Schema:
    """Return the schema of a method's settings in a file, without its name."""
    return Schema(f"the settings of {kind.name}", f"setting of {kind.__name__}", fields_of(kind))


FILE = Schema(
    "a config",
    "setting of Config",
    {
        **fields_of(Config),
        "method": Required[dict[str, Any]],
        "data": list[Any],
        "optimiser": dict[str, Any],
    },
)
"""Schema of `config.json`."""
OPTIMISER = Schema("the optimiser", "setting of Adam", fields_of(Adam))


def _check_stages(first: Any) -> None:
    """Reject long chains of stages before they are followed."""
    for _ in range(MAX_STAGES):
        if not isinstance(first, Mapping):
            return
        first = first.get("first")
    raise UnweaveError(
        f"a model has at most {MAX_STAGES} stages; build on fewer", subject="stages"
    )
