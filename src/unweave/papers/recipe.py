"""What a recipe is: one published table or figure, and how to obtain it here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from unweave.errors import UnknownNameError, UnweaveError

__all__ = ["SCALES", "Recipe", "RecipeError"]

SCALES = {
    "smoke": "a few minutes on a CPU; it shows that everything works, not what the paper found",
    "hour": "within an hour on one H200, without downloads; fewer data sets, seeds and steps",
    "paper": "as published",
}


class RecipeError(UnweaveError):
    """A recipe that cannot be run as it was asked for."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Recipe:
    """One published table or figure: what to train, what to measure, what was published.

    Args:
        name: The paper and a word for the table or figure: `vae-ensemble/table-1`.
        title: What it shows, in a few words.
        where: Where it stands in the paper: `Table 1`, `Figures 9 and 10`.
        claim: What the paper says it shows, in one sentence.
        published: Makes a tidy frame with a column `published`: numbers, or words where the paper
            prints none.
        claims: Texts by short names, where it is judged claim by claim: the paper's claims, and
            controls of our own.
        waits_for: What has to be written before it can be obtained here; empty if nothing.
        studies: By scale, what to train: the keys of a study file. All recipes of a paper should
            share them, so that the second recipe trains nothing.
        settings: By scale, the arguments of `make`; `{"device": "cpu"}` among them says that it is
            not meant for a GPU at any scale.
        make: Trains and measures what is no study, or more than one, and returns a table, which is
            kept; it is given the `folder` where it asks for it.
        adds: Metrics that this recipe needs beyond those of its studies.
        extend: Adds to the study table what only models tell, such as how far they agree, or makes
            rows of it for their parts, such as latents; it is given the study's folder too.
        obtain: Turns the study table, or what `make` returned, into the published frame
            with a column `obtained` beside; an empty table comes where nothing is trained. Without
            it a recipe is for reference.
        verdict: Says in sentences how far the obtained frame bears out the published one.
        plot: Draws the figure from the same table into a file, `.svg` or `.png`.
    """

    name: str
    title: str
    where: str
    claim: str
    published: Callable[[], pd.DataFrame]
    claims: Mapping[str, str] = field(default_factory=dict)
    waits_for: str = ""
    studies: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    make: Callable[..., pd.DataFrame] | None = None
    adds: tuple[str, ...] = ()
    extend: Callable[[pd.DataFrame, Path], pd.DataFrame] | None = None
    obtain: Callable[[pd.DataFrame], pd.DataFrame] | None = None
    verdict: Callable[[pd.DataFrame], list[str]] | None = None
    plot: Callable[[pd.DataFrame, Path], object] | None = None

    @property
    def paper(self) -> str:
        """The first half of the name."""
        return self.name.split("/")[0]

    @property
    def slug(self) -> str:
        """The second half of the name, which names its files too."""
        return self.name.split("/")[1]

    @property
    def for_reference(self) -> bool:
        """Whether it only holds what was published: settings, drawings."""
        return self.obtain is None and not self.waits_for

    @property
    def status(self) -> str:
        """Whether it can be run, in words."""
        if self.waits_for:
            return f"waits for {self.waits_for}"
        return "for reference" if self.for_reference else "ready"

    def study(self, scale: str) -> dict[str, Any] | None:
        """What to train at a scale, as the keys of a study file; None where nothing is trained.

        Args:
            scale: Of `SCALES`.
        """
        self._check(scale)
        if not self.studies:
            return None
        keys = dict(self.studies[scale])
        return {**keys, "metrics": [*keys["metrics"], *self.adds]}

    def settings_at(self, scale: str) -> dict[str, Any] | None:
        """The arguments of `make` at a scale; None where there is none.

        Args:
            scale: Of `SCALES`.
        """
        self._check(scale)
        return None if self.make is None else dict(self.settings[scale])

    def _check(self, scale: str) -> None:
        if scale not in SCALES:
            raise UnknownNameError("scale", scale, SCALES)
        if self.waits_for:
            raise RecipeError(f"{self.name} cannot be run yet: it waits for {self.waits_for}")
