"""β-VAE on dSprites with disent, after the example of its README."""

import json

import lightning
from turns import Turns, arguments

args = arguments()
turns = Turns(args.turn)


class Handover(lightning.Callback):  # type: ignore[misc] # library not installed here
    """Ends a turn; not counted as user code."""

    def on_train_batch_end(self, *_: object) -> None:
        turns.step()


# user: begin
import lightning as L
import numpy as np
import torch
from disent.dataset import DisentDataset
from disent.dataset.data import ArrayGroundTruthData
from disent.dataset.sampling import SingleSampler
from disent.dataset.transform import ToImgTensorF32
from disent.frameworks.vae import BetaVae
from disent.model import AutoEncoder
from disent.model.ae import DecoderConv64, EncoderConv64
from torch.utils.data import DataLoader

L.seed_everything(0)
images = np.load(args.images, mmap_mode="r")
names = ("shape", "scale", "orientation", "position_x", "position_y")
data = ArrayGroundTruthData(images, names, (3, 6, 40, 32, 32))
dataset = DisentDataset(data, sampler=SingleSampler(), transform=ToImgTensorF32())
loader = DataLoader(dataset, batch_size=64, shuffle=True)
encoder = EncoderConv64(x_shape=data.x_shape, z_size=10, z_multiplier=2)
# user: pause
if args.network == "protocol":  # third and fourth layer as in disentanglement_lib and unweave
    encoder.model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 32, 4, 2, 1), torch.nn.ReLU(inplace=True),
        torch.nn.Conv2d(32, 32, 4, 2, 1), torch.nn.ReLU(inplace=True),
        torch.nn.Conv2d(32, 64, 2, 2), torch.nn.ReLU(inplace=True),
        torch.nn.Conv2d(64, 64, 2, 2), torch.nn.ReLU(inplace=True),
        torch.nn.Flatten(), torch.nn.Linear(1024, 256), torch.nn.ReLU(inplace=True),
        torch.nn.Linear(256, 20),
    )  # fmt: skip
# user: resume
module = BetaVae(
    model=AutoEncoder(encoder, DecoderConv64(x_shape=data.x_shape, z_size=10)),
    cfg=BetaVae.cfg(
        optimizer="adam",
        optimizer_kwargs={"lr": 1e-4},
        recon_loss="bce",
        loss_reduction="mean_sum",
        beta=4,
    ),
)
trainer = L.Trainer(
    max_steps=args.steps,
    accelerator="cpu",
    logger=False,
    enable_checkpointing=False,
    callbacks=[Handover()],
)
trainer.fit(module, loader)
with torch.no_grad():
    chosen = np.load(args.encode)
    batches = [
        module.encode(torch.from_numpy(images[part]).permute(0, 3, 1, 2).float() / 255)
        for part in np.array_split(chosen, len(chosen) // 64)
    ]
np.save(args.out, torch.cat(batches).numpy())
# user: end

from disent.metrics import metric_dci, metric_mig

module.eval()
with torch.no_grad():
    own = metric_mig(dataset, module.encode, num_train=10_000, batch_size=64)
    own |= metric_dci(dataset, module.encode, num_train=1_000, num_test=500, batch_size=50)
scores = {name: float(value) for name, value in own.items()}
args.out.with_suffix(".json").write_text(json.dumps(scores))
