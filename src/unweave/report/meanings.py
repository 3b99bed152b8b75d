"""What every number of a report means, and when it misleads."""

from typing import Any, NamedTuple

from unweave.metrics import METRICS
from unweave.report.labels import label

__all__ = ["Meaning", "meaning"]


class Meaning(NamedTuple):
    """What a number says, and when it misleads.

    Args:
        name: How it is called on the page.
        says: What it measures.
        fails: Where it misleads.
        better: `"higher"`, `"lower"` or `""`.
        reference: Where it was published.
    """

    name: str
    says: str
    fails: str
    better: str = ""
    reference: str = ""


SAYS = {
    "beta_vae": "Two images share one factor. Can a linear classifier tell which one from how far "
    "apart their codes are?",
    "factor_vae": "Within a batch one factor is fixed. Does the latent that varies least tell "
    "which one, by majority vote?",
    "mig": "For each factor: by how much does the latent that knows most about it beat the second "
    "best? In shares of what there is to know.",
    "modularity": "Does each latent know about one factor only? Whether all factors are known is "
    "not asked.",
    "dci": "Trees predict the factors. Is each latent important for one factor only? Its further "
    "numbers ask whether each factor needs one latent only (completeness), and how well factors "
    "are predicted (informativeness).",
    "sap": "For each factor: how much better does the best single latent predict it than the "
    "second best?",
    "irs": "Fix a factor and change the others. How far does a latent stay where it was?",
    "gaussian_total_correlation": "How far the codes are from uncorrelated, were they jointly "
    "normal, in nats.",
    "gaussian_wasserstein_correlation": "How far the codes are from uncorrelated, as a distance "
    "that sees their scale.",
    "mutual_info_score": "How much two latents know about each other, on average over pairs.",
    "active_units": "How many latents vary over the data: variance of the mean above 0.01.",
    "polarised_regime": "Whether latents are either used, with little noise, or left to the "
    "prior. Far below 0 they are used.",
    "elbo": "The lower bound of the log-likelihood, in nats: how well images are reconstructed "
    "less what the codes cost.",
    "pixel_error": "How far a reconstructed image is from the image: the mean squared difference "
    "of pixels, whose values are in 0 … 1.",
    "fid": "How far the reconstructed images are from the images, as sets, seen by a network that "
    "knows objects. Compare values of equally many images only.",
    "mig_density": "MIG with the densities of codes in place of histograms.",
    "mig_sup": "For each latent: by how much does the factor it knows most about beat the second?",
    "jemmig": "As MIG, but a latent that also knows other things pays for it.",
    "rmig": "As MIG, computed from the posteriors, so that their noise counts.",
    "mcc": "Latents and factors are matched one to one. How far do they correlate?",
    "infomec": "Does a latent know one factor, is a factor in one latent, and can a linear reader "
    "find it?",
    "z_diff": "The BetaVAE score under the name that reviews give it.",
    "z_min_var": "The FactorVAE score under the name that reviews give it.",
    "z_max_var": "All factors but one are fixed. Does the latent that varies most tell which one?",
    "downstream": "How well factors are predicted from the codes, learned from few rows or many.",
    "reduced_downstream": "How well a factor is still predicted once its most important latent "
    "was taken away. In a disentangled code, hardly.",
    "strong_generalisation": "What accuracy is lost where another factor was fixed in learning "
    "and varies in testing.",
    "fairness": "How far predictions of one factor depend on another that should not matter. It "
    "is an unfairness: 0 is fair.",
    "dci_es": "How easily factors are read from the codes: do the simplest predictors do as well "
    "as the largest?",
}
OTHERS = {
    "reconstruction": Meaning(
        "reconstruction",
        "What a reconstructed image misses, in nats, in the last steps of training.",
        "A model that copies pixels well may be entangled. Values of different data or likelihoods"
        " cannot be compared.",
        "lower",
    ),
    "kl": Meaning(
        "KL",
        "How much the codes tell about an image, in nats, in the last steps of training.",
        "Neither more nor less is better by itself: it is the price of the reconstruction.",
    ),
    "loss": Meaning(
        "loss",
        "What training minimised, in its last steps.",
        "Methods and strengths minimise different things, so compare it within one of them only.",
        "lower",
    ),
    "udr": Meaning(
        "UDR",
        "Unsupervised disentanglement ranking: do single latents of other models tell single "
        "latents of this one? Disentangled models are alike, entangled ones are not. No labels are"
        " used. Equal models score 0.9.",
        "Models that all fail in the same way agree, and a model with few active latents can score"
        " high.",
        "higher",
        "Duan et al., Unsupervised Model Selection for Variational Disentangled Representation "
        "Learning, arXiv:1905.12614",
    ),
    "active": Meaning(
        "active latents",
        "How many latents say something about the image: more than 0.01 nats on average.",
        "Using more latents than there are factors can mean that a factor is spread over several.",
    ),
    "found": Meaning(
        "factors found",
        "How many of the factors that at least half of the models share this model has: a latent "
        "of its own that correlates with theirs by 0.7 or more.",
        "What most models miss is no shared factor, so nobody is blamed for missing it.",
        "higher",
    ),
    "front": Meaning(
        "Pareto front",
        "1 where no other model is better in both reconstruction and KL; 2 where only those of "
        "front 1 are, and so on.",
        "It only finds models that waste capacity. Entangled models are on it, too.",
        "lower",
    ),
    "total_correlation": Meaning(
        "total correlation (training)",
        "The method's own estimate of how dependent the latents are, in its last steps.",
        "Estimated on single batches or by a discriminator, so its level means little.",
    ),
    "transition": Meaning(
        "transition",
        "How far the codes of a pair are from SlowVAE's prior of slow change, in nats, in the "
        "last steps of training.",
        "Codes that carry nothing do not move either.",
        "lower",
    ),
    "accuracy": Meaning(
        "accuracy",
        "How often PCL tells true pairs of images from false ones, in the last steps of training. "
        "Chance is 0.5.",
        "Where images change little between two moments, pairs are told without finding factors.",
        "higher",
    ),
}


def meaning(column: str) -> Meaning | None:
    """What the headline number of a column means, or None where nothing is known of it."""
    if column in OTHERS:
        return OTHERS[column]
    name = column.removeprefix("sampled.")
    metric = METRICS.get(name)
    if metric is None:
        return None
    better = {True: "higher", False: "lower", None: ""}[metric.higher_is_better]
    return Meaning(
        label(name), SAYS.get(name, _first(metric)), metric.failure, better, metric.reference
    )


def _first(metric: Any) -> str:
    """The first line of a metric's docstring."""
    return (metric.function.__doc__ or "").strip().splitlines()[0]
