"""Two fleets, and the names of their series."""

from unweave.methods import VAE, BetaVAE
from unweave.models.config import Config
from unweave.trackers.tracker import series_name

BETAS = [Config(method=BetaVAE(beta=beta), seed=seed) for beta in (1, 4) for seed in (0, 1)]
PLAIN = [Config(method=VAE(), seed=7)]
FIRST, SECOND = (
    [
        series_name(config.hash, config.method.name, config.seed, **strengths)
        for config, strengths in zip(configs, values, strict=True)
    ]
    for configs, values in (
        (BETAS, [{"beta": 1.0}, {"beta": 1.0}, {"beta": 4.0}, {"beta": 4.0}]),
        (PLAIN, [{}]),
    )
)
