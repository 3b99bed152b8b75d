"""β-VAE on dSprites in plain PyTorch, as in `benchmarks/fleet.py`.

The network is repeated here, so that this script also runs in the environments of other libraries,
without unweave.
"""

from turns import Turns, arguments, keep_memory

args = arguments()
if args.allocator == "tuned":
    keep_memory()
turns = Turns(args.turn)

# user: begin
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

images = np.load(args.images, mmap_mode="r")


class PlainVAE(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 32, 4, 2, 1), nn.ReLU(), nn.Conv2d(32, 32, 4, 2, 1), nn.ReLU(),
            nn.Conv2d(32, 64, 2, 2), nn.ReLU(), nn.Conv2d(64, 64, 2, 2), nn.ReLU(),
            nn.Flatten(), nn.Linear(1024, 256), nn.ReLU(), nn.Linear(256, 20),
        )  # fmt: skip
        self.decoder = nn.Sequential(
            nn.Linear(10, 256), nn.ReLU(), nn.Linear(256, 1024), nn.ReLU(),
            nn.Unflatten(1, (64, 4, 4)), nn.ConvTranspose2d(64, 64, 4, 2, 1), nn.ReLU(),
            nn.ConvTranspose2d(64, 32, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(32, 32, 4, 2, 1),
            nn.ReLU(), nn.ConvTranspose2d(32, 1, 4, 2, 1),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        mu, logvar = self.encoder(x).chunk(2, -1)
        z = mu + torch.randn_like(mu) * (logvar / 2).exp()
        return self.decoder(z), mu, logvar


def pixels(indices: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(images[indices]).permute(0, 3, 1, 2).float() / 255


torch.manual_seed(0)
rng = np.random.default_rng(0)
model = PlainVAE()
optimiser = torch.optim.Adam(model.parameters(), lr=1e-4)
for _ in range(args.steps):
    x = pixels(rng.integers(len(images), size=64))
    logits, mu, logvar = model(x)
    reconstruction = F.binary_cross_entropy_with_logits(logits, x, reduction="none")
    kl = 0.5 * (mu**2 + logvar.exp() - logvar - 1).sum(1)
    loss = reconstruction.sum((1, 2, 3)).mean() + 4 * kl.mean()
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    # user: pause
    turns.step()
    # user: resume
with torch.no_grad():
    chosen = np.load(args.encode)
    parts = np.array_split(chosen, len(chosen) // 64)
    codes = torch.cat([model.encoder(pixels(part))[:, :10] for part in parts])
np.save(args.out, codes.numpy())
# user: end
