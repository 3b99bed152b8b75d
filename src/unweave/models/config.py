"""A run: everything that one trained model depends on, as plain data."""

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
from unweave.methods.mixins import SecondStage
from unweave.methods.settings import settings_of
from unweave.nets.adam import Adam
from unweave.nets.architectures import ARCHITECTURES, Architecture, find_architecture, name_of
from unweave.nets.network import INITS
from unweave.text import shown

__all__ = ["PRECISIONS", "RUN_NAME", "Config", "group_into_fleets"]

SINGLE = (float, int, bool, str)
"""Types of fields of which a run has one value; several are a grid."""
PRECISIONS = ("float32", "tf32", "bf16")
LIMITS = {"seed": (0, 2**63 - 1), "steps": (0, 2**32), "batch": (1, 2**20), "latents": (1, 10_000)}
"""The least and the most of each whole number: a config of somebody else's may ask for anything,
and random numbers are counted by the step in 32 bits."""
MOST_STAGES = 8
Item = TypeVar("Item")
RUN_NAME = re.compile(r"[0-9a-f]{16}")
"""What `Config.hash` gives, and so the name of a run's folder."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """What a model is trained with. Equal configs give equal models.

    Args:
        method: The objective and its hyperparameters.
        data: How the data set is made (`Dataset.origin`).
        seed: Of initial weights, batches and noise.
        steps: Updates of the parameters.
        batch: Images per step.
        latents: Size of the code.
        architecture: Of those that the method takes, by default the first of them; or your own,
            an `Architecture` or `package.module:NAME` of one.
        likelihood: Of those that the method takes, by default all of `LIKELIHOODS`.
        init: Of `INITS`.
        optimiser: Adam, of the encoder and decoder.
        precision: `float32`; `tf32` or `bf16` multiply with fewer digits, on a GPU.
        first: The run of the stage before, where the method builds on one.
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
            raise UnweaveError(f"method must be one of uw.methods, but got {shown(self.method)}")
        if self.architecture == "":
            object.__setattr__(self, "architecture", next(iter(self.method.architectures)))
        own: object = self.architecture
        if isinstance(own, Architecture):
            object.__setattr__(self, "architecture", name_of(own))
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
                raise UnweaveError(f"{name} must be a whole number, but got {shown(value)}")
            object.__setattr__(self, name, operator.index(value))
            if not least <= getattr(self, name) <= most:
                raise UnweaveError(
                    f"{name} must be between {least} and {most:,}, but got {shown(value)}"
                )
        if not isinstance(self.optimiser, Adam):
            raise UnweaveError(f"the optimiser must be a uw.Adam, but got {shown(self.optimiser)}")
        self._check_data()
        self.method.check_latents(self.latents)
        self._check_first()

    def _architectures(self) -> Iterable[str]:
        """Valid names; also of the user's own where the method takes any encoder and decoder."""
        names = self.method.architectures
        if not is_reference(self.architecture) or not set(ARCHITECTURES) <= set(names):
            return names
        find_architecture(self.architecture)
        return (*names, self.architecture)

    def _check_data(self) -> None:
        """Require a list of steps; `unweave.data.origin` checks the steps themselves."""
        steps = self.data if isinstance(self.data, list | tuple) else [self.data]
        for step in steps:
            if not isinstance(step, list | tuple) or not step or not isinstance(step[0], str):
                raise UnweaveError(
                    "data must be a list of steps, each a list that begins with its name, but got "
                    f"{shown(step)}"
                )

    def _check_first(self) -> None:
        second = isinstance(self.method, SecondStage)
        if self.first is None and second:
            raise UnweaveError(
                f"{self.method.name} builds on trained models; say on which: first=…"
            )
        if self.first is not None and not isinstance(self.first, Config):
            raise UnweaveError(f"first must be the run before, but got {shown(self.first)}")
        if self.first is not None and not second:
            raise UnweaveError(
                f"{self.method.name} builds on no other models; leave out what came first"
            )
        if self.first is not None and self.first.method.num_members > 1:
            raise UnweaveError(
                f"{self.method.name} builds on single models, and {self.first.method.name} trains "
                "several members each; choose one of them: fleet.members"
            )
        if len(self.stages) > MOST_STAGES:
            raise UnweaveError(f"a model has at most {MOST_STAGES} stages; build on fewer")

    @property
    def code_size(self) -> int:
        """Latents of a trained model: its own, after those of the stages before."""
        return self.latents + (0 if self.first is None else self.first.code_size)

    @property
    def stages(self) -> dict[str, range]:
        """The latents of each stage, by name: `C` of the first, `Z` of the second, then `Z2` …

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
        """What latents are called: `latent 3`, or where there are several stages `C 3`, `Z 0`."""
        if self.first is None:
            return [f"latent {latent}" for latent in range(self.latents)]
        return [
            f"{stage} {latent - own.start}" for stage, own in self.stages.items() for latent in own
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        plain = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        if self.first is None:
            del plain["first"]
        else:
            plain["first"] = self.first.to_dict()
        plain["method"] = {"name": saved_name(type(self.method)), **_plain(self.method)}
        plain["optimiser"] = _plain(self.optimiser)
        plain["data"] = [list(step) for step in self.data]
        return plain

    @classmethod
    def from_dict(
        cls, plain: Any, own: type[Method] | None = None, at: tuple[str, ...] = ()
    ) -> "Config":
        """The inverse of `to_dict`.

        Args:
            plain: From a file, so it may be anything; what is no config is an `UnweaveError`.
            own: The class of a method that may be found by no name.
            at: Where it stands in its file, for messages.
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
        settings = {n: value for n, value in method.items() if n != "name"}
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
        """A name for this run that no other run has."""
        text = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def fleet(self) -> str:
        """What all runs of one fleet have in common; only those with the same can share one."""
        plain = self.to_dict()
        plain["seed"] = None
        for name, setting in settings_of(type(self.method)).items():
            if setting.per_model:
                plain["method"][name] = None
        for name in ("lr", "beta1", "beta2", "eps"):
            plain["optimiser"][name] = None
        if self.first is not None:
            plain["first"] = self.first.fleet
        return json.dumps(plain, sort_keys=True)


def group_into_fleets(
    items: Iterable[Item], config_of: Callable[[Item], Config] | None = None
) -> list[list[Item]]:
    """Runs, or items that each belong to one, grouped by `Config.fleet`, in order of appearance.

    Example:
        >>> from unweave.methods import AE, VAE
        >>> runs = [Config(method=VAE()), Config(method=AE()), Config(method=VAE(), seed=1)]
        >>> [[run.method.name for run in fleet] for fleet in group_into_fleets(runs)]
        [['vae', 'vae'], ['ae']]
    """
    fleets: dict[str, list[Item]] = {}
    for item in items:
        config: Any = item if config_of is None else config_of(item)
        fleets.setdefault(config.fleet, []).append(item)
    return list(fleets.values())


def _plain(settings: Any) -> dict[str, Any]:
    """The fields of a dataclass, with 1 and 1.0 written alike where it wants floats."""
    kind: type = type(settings)
    values = {name: getattr(settings, name) for name in settings_of(kind)}
    return {
        name: float(value) if settings_of(kind)[name].kind is float else value
        for name, value in values.items()
    }


@cache
def _settings_schema(kind: type[Method]) -> Schema:
    """What a file may say of a method besides its name."""
    return Schema(f"the settings of {kind.name}", f"setting of {kind.__name__}", fields_of(kind))


FILE = Schema(
    "a config",
    "setting of Config",
    {
        "method": Required[dict[str, Any]],
        "data": list[Any],
        "seed": int,
        "steps": int,
        "batch": int,
        "latents": int,
        "architecture": str,
        "likelihood": str,
        "init": str,
        "optimiser": dict[str, Any],
        "precision": str,
        "first": Any,
    },
)
"""`config.json`."""
OPTIMISER = Schema("the optimiser", "setting of Adam", fields_of(Adam))


def _check_stages(first: Any) -> None:
    """Refuse long chains before they are followed."""
    for _ in range(MOST_STAGES):
        if not isinstance(first, Mapping):
            return
        first = first.get("first")
    raise UnweaveError(f"a model has at most {MOST_STAGES} stages; build on fewer")
