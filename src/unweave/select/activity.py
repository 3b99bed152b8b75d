"""Active latents of ensemble members, over all images and over groups of images."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from unweave.analysis.activity import noise_and_signal
from unweave.analysis.latents import SelectionError
from unweave.io.arrays import on_host
from unweave.models.images import sample_rows
from unweave.models.members import Aligned, aligned_posteriors
from unweave.text import counted

if TYPE_CHECKING:
    from unweave.data.dataset import Dataset
    from unweave.models.model import Model

__all__ = ["MemberActivity", "member_activity"]

ROWS = 10_000
ALL = "all"
KINDS = ("active", "constant", "passive")
SIDE = 16
"""Pixels per side to which images are shrunk before clustering."""
NAMED = 4


@dataclass(frozen=True, eq=False)
class MemberActivity:
    """Activity of each latent of each ensemble member.

    Args:
        table: One row per group of images, member and latent: `group` (`"all"` for all images),
            `images` (their number), `member`, `latent` (the matching latent of the first member),
            `own` (the latent's number in its member); `noise`, the mean of σ²; `signal`, the
            variance of μ; `log_delta`, see `uw.metrics.polarised_regime`; `active_by_noise`, noise
            below 0.5; `active`, signal above 0.01 as well.
        by: Name of the grouping; empty without groups.
    """

    table: pd.DataFrame
    by: str = ""

    @property
    def counts(self) -> pd.DataFrame:
        """Number of `active`, `constant` and `passive` latents for each group and member.

        A constant latent has little noise, but its mean does not vary over these images. Over all
        images, such a latent is unused despite its low noise; over a group, it may encode which
        group it is.
        """
        kinds = pd.get_dummies(_kinds(self.table)).reindex(columns=KINDS, fill_value=False)
        keys = [self.table["group"], self.table["member"]]
        return kinds.groupby(keys, sort=False).sum().reset_index()

    @property
    def depends(self) -> pd.DataFrame:
        """Latents that are active for some groups and passive for others, one per row.

        Columns are `member`, `latent`, `own`; `active_for` and `passive_for`, the groups; and the
        noise there: `noise_active`, the smallest over the active groups, and `noise_passive`, the
        largest over the passive groups.
        """
        groups = self.table[self.table["group"] != ALL]
        rows = []
        for (member, latent, own), part in groups.groupby(["member", "latent", "own"]):
            kinds, noise = _kinds(part), part["noise"]
            on, off = kinds == "active", kinds == "passive"
            if on.any() and off.any():
                rows.append(
                    {
                        "member": member,
                        "latent": latent,
                        "own": own,
                        "active_for": part["group"][on].tolist(),
                        "passive_for": part["group"][off].tolist(),
                        "noise_active": noise[on].min(),
                        "noise_passive": noise[off].max(),
                    }
                )
        columns = ["member", "latent", "own", "active_for", "passive_for"]
        return pd.DataFrame(rows, columns=[*columns, "noise_active", "noise_passive"])

    def __str__(self) -> str:
        """Return one line per member, and one per latent that depends on the group of images."""
        counts = self.counts[self.counts["group"] == ALL]
        lines = [
            f"member {row.member}: {counted(row.active, 'latent')} active, {row.passive} passive"
            + (f", {row.constant} with little noise but constant" if row.constant else "")
            for row in counts.itertuples()
        ]
        lines += [
            f"member {row.member}, latent {row.own}: active for {_listed(row.active_for)} "
            f"(σ² {row.noise_active:.2f}), passive for {_listed(row.passive_for)} "
            f"(σ² {row.noise_passive:.2f})"
            for row in self.depends.itertuples()
        ]
        if self.by and self.depends.empty:
            lines.append(f"no latent is active for one {self.by} and passive for another")
        return "\n".join(lines)


def member_activity(
    model: "Model",
    data: "Dataset",
    *,
    by: str | int | Any = None,
    rows: int = ROWS,
    seed: int = 0,
) -> MemberActivity:
    """Measure how active each latent is in each ensemble member, also for groups of images.

        noise = E[σ²],    signal = Var(E[z | x]),    log Δ = log E[σ²] - log 2 E[KL]

    with expectations over the images of a group. Low noise alone is not enough: the alignment of
    an ensemble lowers the noise of unused latents to σ² = 1 / (1 + 2 γ (n - 1)), while their means
    do not vary.

    Args:
        model: Ensemble, with latents in the order of its first member; any other model counts as
            a single member.
        data: Training data or similar data.
        by: Groups of images: the name of a factor; a number of clusters (k-means of the pixels),
            if the factors are unknown; or a label for each image of the data (default: no groups).
        rows: Largest number of images, sampled without replacement.
        seed: Random seed for sampling images, for images that are random given their factors, and
            for k-means.

    References:
        Rolínek et al., Variational Autoencoders Pursue PCA Directions (by Accident),
        arXiv:1812.06775; Improving the Unsupervised Disentangled Representation Learning with VAE
        Ensemble, under review 2020, figures 3 and 11.
    """
    if model.config.method.deterministic:
        raise SelectionError(
            "an autoencoder has no noise, so the activity of its latents cannot be measured; "
            "use a method with a prior, such as beta_vae",
            subject="model",
        )
    chosen = sample_rows(data, rows, seed)
    images = data.to(model.device).inputs(chosen, seed)
    aligned = _posteriors(model, images, model.factors_of(data, chosen))
    name, labels, order = _groups(data, chosen, images, by, seed)
    parts = {ALL: np.ones(len(chosen), bool)} | {str(g): labels == g for g in order}
    tables = [_table(aligned, group, inside) for group, inside in parts.items()]
    return MemberActivity(pd.concat(tables, ignore_index=True), name)


def _posteriors(model: "Model", images: Any, factors: Mapping[str, Any]) -> Aligned:
    if model.config.method.num_members > 1:
        return aligned_posteriors(model, images)
    mean, logvar = model.encode(images, factors=factors)
    return Aligned(mean[None], logvar[None], np.eye(mean.shape[1], dtype=np.float32)[None])


def _table(aligned: Aligned, group: str, inside: np.ndarray) -> pd.DataFrame:
    parts = []
    for member, own in enumerate(aligned.latents):
        found = noise_and_signal(aligned.means[member, inside], aligned.logvars[member, inside])
        about = {"group": group, "images": int(inside.sum()), "member": member}
        parts.append(pd.DataFrame({**about, "latent": range(len(own)), "own": own, **found}))
    return pd.concat(parts, ignore_index=True)


def _kinds(table: pd.DataFrame) -> pd.Series:
    kinds = np.where(table["active_by_noise"], "constant", "passive")
    return pd.Series(np.where(table["active"], "active", kinds), table.index)


def _groups(
    data: "Dataset", chosen: np.ndarray, images: Any, by: Any, seed: int
) -> tuple[str, np.ndarray, list[Any]]:
    """Return the name of the grouping, the group of each image, and all groups in order."""
    if by is None:
        return "", np.zeros(len(chosen)), []
    if isinstance(by, str):
        return by, *_by_factor(data, chosen, by)
    if isinstance(by, int | np.integer):
        return "group", *_by_pixels(images, int(by), seed)
    labels = np.asarray(by)
    if labels.shape != (len(data),):
        raise SelectionError.must(
            "by", f"be one label for each of {len(data):,} images", list(labels.shape)
        )
    return "group", labels[chosen], np.unique(labels[chosen]).tolist()


def _by_factor(data: "Dataset", chosen: np.ndarray, name: str) -> tuple[np.ndarray, list[str]]:
    known = data.grid or data.labels
    if known is None:
        raise SelectionError(
            f"by={name!r} needs known factors, but those of {data.name} are unknown; pass a "
            "number of groups to cluster the images",
            subject="by",
            value=name,
        )
    place = known.column(name)
    classes = on_host(data.factors(chosen))[:, place]
    names = [known.axes[place].value_text(number) for number in range(len(known.axes[place]))]
    return np.array(names)[classes], [names[c] for c in np.unique(classes)]


def _by_pixels(images: Any, count: int, seed: int) -> tuple[np.ndarray, list[int]]:
    """Cluster images by k-means of their pixels; groups are numbered from 1, largest first."""
    import torch
    from sklearn.cluster import KMeans

    if not 2 <= count <= len(images):
        raise SelectionError.must("by", f"be between 2 and {len(images):,} groups", count)
    pixels = torch.as_tensor(images).float().permute(0, 3, 1, 2)
    height, width = pixels.shape[2:]
    side = (min(SIDE, height), min(SIDE, width))
    small = torch.nn.functional.adaptive_avg_pool2d(pixels, side).flatten(1).cpu().numpy()
    found = KMeans(count, n_init=1, random_state=seed % 2**32).fit_predict(small)
    largest_first = np.argsort(-np.bincount(found, minlength=count), kind="stable")
    return np.argsort(largest_first)[found] + 1, list(range(1, count + 1))


def _listed(groups: Sequence[Any]) -> str:
    shown = [str(group) for group in groups[:NAMED]]
    return ", ".join(shown) + (" …" if len(groups) > NAMED else "")
