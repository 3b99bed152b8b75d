"""What every number of a report means, and when it misleads."""

from typing import NamedTuple

from unweave.metrics import known_metric

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
    metric = known_metric(name)
    if metric is None:
        return None
    better = {True: "higher", False: "lower", None: ""}[metric.higher_is_better]
    return Meaning(metric.label, metric.explanation, metric.failure, better, metric.reference)
