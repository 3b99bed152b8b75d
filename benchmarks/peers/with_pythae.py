"""β-VAE on dSprites with pythae, after the notebooks of its repository."""

from pythae.trainers.training_callbacks import TrainingCallback
from turns import Turns, arguments

args = arguments()
turns = Turns(args.turn)


class Handover(TrainingCallback):  # type: ignore[misc] # library not installed here
    """Ends a turn; not counted as user code."""

    def on_train_step_end(self, *_: object, **__: object) -> None:
        turns.step()


# user: begin
import numpy as np
import torch
from pythae.data.datasets import DatasetOutput
from pythae.models import BetaVAE, BetaVAEConfig
from pythae.models.base.base_utils import ModelOutput
from pythae.models.nn import BaseDecoder, BaseEncoder
from pythae.pipelines import TrainingPipeline
from pythae.trainers import BaseTrainerConfig
from torch import nn
from torch.utils.data import Dataset, Subset

images = np.load(args.images, mmap_mode="r")


class Sprites(Dataset):
    def __len__(self) -> int:
        return len(images)

    def __getitem__(self, index: int) -> DatasetOutput:
        image = torch.from_numpy(images[index]).permute(2, 0, 1).float() / 255
        return DatasetOutput(data=image)


class Encoder(BaseEncoder):  # type: ignore[misc] # library not installed here
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 32, 4, 2, 1), nn.ReLU(), nn.Conv2d(32, 32, 4, 2, 1), nn.ReLU(),
            nn.Conv2d(32, 64, 2, 2), nn.ReLU(), nn.Conv2d(64, 64, 2, 2), nn.ReLU(),
            nn.Flatten(), nn.Linear(1024, 256), nn.ReLU(),
        )  # fmt: skip
        self.mean = nn.Linear(256, 10)
        self.logvar = nn.Linear(256, 10)

    def forward(self, x: torch.Tensor) -> ModelOutput:
        hidden = self.layers(x)
        return ModelOutput(embedding=self.mean(hidden), log_covariance=self.logvar(hidden))


class Decoder(BaseDecoder):  # type: ignore[misc] # library not installed here
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(10, 256), nn.ReLU(), nn.Linear(256, 1024), nn.ReLU(),
            nn.Unflatten(1, (64, 4, 4)), nn.ConvTranspose2d(64, 64, 4, 2, 1), nn.ReLU(),
            nn.ConvTranspose2d(64, 32, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(32, 32, 4, 2, 1),
            nn.ReLU(), nn.ConvTranspose2d(32, 1, 4, 2, 1), nn.Sigmoid(),
        )  # fmt: skip

    def forward(self, z: torch.Tensor) -> ModelOutput:
        return ModelOutput(reconstruction=self.layers(z))


config = BetaVAEConfig(input_dim=(1, 64, 64), latent_dim=10, beta=4.0, reconstruction_loss="bce")
model = BetaVAE(config, Encoder(), Decoder())
training = BaseTrainerConfig(
    output_dir=str(args.out.with_suffix("")),
    num_epochs=1,
    learning_rate=1e-4,
    per_device_train_batch_size=64,
    no_cuda=True,
    seed=0,
)
drawn = np.random.default_rng(0).permutation(len(images))[: args.steps * 64].tolist()
pipeline = TrainingPipeline(training_config=training, model=model)
pipeline(Subset(Sprites(), drawn), callbacks=[Handover()])
with torch.no_grad():
    chosen = np.load(args.encode)
    batches = [
        model.encoder(torch.from_numpy(images[part]).permute(0, 3, 1, 2).float() / 255).embedding
        for part in np.array_split(chosen, len(chosen) // 64)
    ]
np.save(args.out, torch.cat(batches).numpy())
# user: end
