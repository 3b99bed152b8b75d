"""Cost per member of VAE ensembles by size, compared with a plain loop and a lower bound.

    python benchmarks/ensemble.py [--members 1 2 3 5 8 16] [--rows 128] [--out FILE]

A member-step is one update of one member on 64 images of dSprites. `--rows` members train at once,
in as many ensembles as needed. The plain loop is one ensemble in ordinary PyTorch: n modules,
n(n - 1) linear layers, and two loops over members.

The lower bound is measured in the same run: the step of a single model that decodes n · 64 codes
instead of 64. Partial coupling comes last: 8 and 16 members, each mapped to 1, 2 or 4 others.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from fleet import STEPS_AT_ONCE, free_memory, machine, seconds
from many_models import BATCH, LATENTS, PlainVAE
from torch import nn
from torch.nn import functional as F

import unweave as uw
from unweave.fleet.engine import Engine
from unweave.methods import VAEEnsemble
from unweave.models.config import Config
from unweave.nets.likelihoods import LIKELIHOODS

GAMMA = 10.0
COUPLED = (8, 16)
NEIGHBOURS = (1, 2, 4)
CUDA = torch.cuda.is_available()
DEVICE = torch.device("cuda" if CUDA else "cpu")
PRECISION = "bf16" if CUDA else "float32"


def plain_step(members: int, data: uw.data.Dataset) -> Callable[[], None]:
    """Step of one ensemble, written with loops."""
    models = [PlainVAE(1).to(DEVICE) for _ in range(members)]
    maps = nn.ModuleDict(
        {
            f"{i}>{j}": nn.Linear(LATENTS, LATENTS, bias=False)
            for i in range(members)
            for j in range(members)
            if i != j
        }
    ).to(DEVICE)
    parameters = [*maps.parameters(), *(p for model in models for p in model.parameters())]
    optimiser = torch.optim.Adam(parameters, lr=1e-4)

    def step() -> None:
        indices = torch.randint(len(data), (BATCH,), device=DEVICE)
        x = data.images(indices).permute(0, 3, 1, 2).float() / 255
        codes, loss = [], torch.zeros((), device=DEVICE)
        for model in models:
            mu, logvar = model.encoder(x).chunk(2, -1)
            codes.append(mu + torch.randn_like(mu) * (logvar / 2).exp())
            loss = loss + 0.5 * (mu**2 + logvar.exp() - logvar - 1).sum(1).mean()
        for i, z in enumerate(codes):
            for j, model in enumerate(models):
                mapped = z if i == j else maps[f"{i}>{j}"](z)
                reconstruction = F.binary_cross_entropy_with_logits(
                    model.decoder(mapped), x, reduction="none"
                )
                loss = loss + reconstruction.sum((1, 2, 3)).mean()
                if i != j:
                    loss = loss + GAMMA * (codes[j] - mapped).square().sum(1).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    return step


def make_engine(method: VAEEnsemble, rows: int, data: uw.data.Dataset) -> Engine:
    """Engine of ensembles with `rows` members in total."""
    count = max(1, rows // method.members)
    return Engine(
        [Config(method=method, seed=seed, precision=PRECISION) for seed in range(count)],
        data,
        DEVICE,
    )


def member_step(method: VAEEnsemble, rows: int, data: uw.data.Dataset) -> dict[str, Any]:
    """Measure time and memory of a fleet of ensembles."""
    before = free_memory(DEVICE)
    engine = make_engine(method, rows, data)
    steps = STEPS_AT_ONCE if CUDA else 1
    engine.advance(Engine.STEPS_TO_FULL_MEMORY if CUDA else 1)
    members = len(engine.configs) * method.members
    each = seconds(lambda: engine.advance(steps), 1.0, DEVICE) / steps / members
    row = {
        "members": method.members,
        "neighbours": method.mapped,
        "ensembles": len(engine.configs),
        "us_per_member_step": each * 1e6,
    }
    if CUDA:
        row["megabytes"] = (torch.cuda.max_memory_reserved() - before) / 1e6
    return row


def decoding(rows: int, batch: int, data: uw.data.Dataset) -> float:
    """µs per model to decode a batch, compute the likelihood, and backpropagate."""
    free_memory(DEVICE)
    engine = make_engine(VAEEnsemble(members=1), rows, data)
    group = engine.groups["model"]
    leaves = group.leaves()["decoder"]
    codes = torch.randn(rows, batch, LATENTS, device=DEVICE).to(engine.dtype).requires_grad_()
    images = data.images(torch.randint(len(data), (rows * batch,), device=DEVICE))
    images = images.unflatten(0, (rows, batch))

    def step() -> None:
        decoded = group.networks["decoder"](leaves, codes)
        loss = LIKELIHOODS["bernoulli"](decoded, images).mean(-1)
        torch.autograd.grad(loss, [*leaves.values(), codes], torch.ones_like(loss))

    return seconds(step, 1.0, DEVICE) / rows * 1e6


def fully_coupled(members: list[int], rows: int, data: uw.data.Dataset) -> list[dict[str, Any]]:
    found = []
    alone = member_step(VAEEnsemble(members=1), rows, data)["us_per_member_step"]
    once = decoding(rows, BATCH, data)
    for n in members:
        row = member_step(VAEEnsemble(members=n, gamma=GAMMA), rows, data)
        row["bound_us"] = alone - once + decoding(max(1, rows // n) * n, n * BATCH, data)
        row["times_bound"] = row["us_per_member_step"] / row["bound_us"]
        row["plain_us"] = seconds(plain_step(n, data), 2.0, DEVICE) / n * 1e6
        row["times_plain"] = row["plain_us"] / row["us_per_member_step"]
        found.append(row)
        print(
            f"n = {n:<3} {row['us_per_member_step']:>10,.1f} µs per member-step, "
            f"{row['times_bound']:.2f} × the lower bound ({row['bound_us']:,.1f}), "
            f"{row['times_plain']:,.1f} × as fast as the plain loop ({row['plain_us']:,.0f})",
            flush=True,
        )
    return found


def partly_coupled(members: list[int], rows: int, data: uw.data.Dataset) -> list[dict[str, Any]]:
    found = []
    for n in (n for n in COUPLED if n in members):
        for neighbours in NEIGHBOURS:
            method = VAEEnsemble(members=n, gamma=GAMMA, neighbours=neighbours)
            row = member_step(method, rows, data)
            found.append(row)
            print(
                f"n = {n:<3} each mapped to {neighbours} others: "
                f"{row['us_per_member_step']:,.1f} µs per member-step",
                flush=True,
            )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    sizes, rows = [1, 2, 3, 5, 8, 16], 128 if CUDA else 16
    parser.add_argument("--members", type=int, nargs="+", default=sizes, help="Ensemble sizes.")
    parser.add_argument("--rows", type=int, default=rows, help="Members trained at once.")
    parser.add_argument("--out", type=Path, help="Output file (JSON).")
    args = parser.parse_args()
    name = machine()
    print(name)
    data = uw.data.load("dsprites").to(DEVICE)
    result = {
        "device": name,
        "torch": torch.__version__,
        "precision": PRECISION,
        "rows": args.rows,
        "fully_coupled": fully_coupled(args.members, args.rows, data),
        "partly_coupled": partly_coupled(args.members, args.rows, data),
    }
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
