"""The discriminator in training: when it plays, and how it learns.

In: pairs of real and decoded clips. Out: its own updates. What it says to the tokenizer is part of objective.py.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from lightning_fabric import Fabric
from torch import Tensor

from adaptok.config import Geometry
from adaptok.shapes import Video
from adaptok.training.discriminator import Discriminator, LeCam, discriminator_loss
from adaptok.training.finite import check_finite
from adaptok.training.learner import Learner, below
from adaptok.training.processes import over_all
from adaptok.training.settings import AdversaryConfig, TokenizerTraining


class Adversary:
    """A discriminator with its optimizer and its running means."""

    def __init__(
        self, fabric: Fabric, geometry: Geometry, config: AdversaryConfig, settings: TokenizerTraining, steps: int
    ) -> None:
        self.fabric = fabric
        self.config = config
        self.lecam_weight = settings.losses.lecam
        self.network = Discriminator(geometry, config)
        optimizer = replace(
            settings.optimizer,
            kind="adam",
            rate=config.rate,
            final_rate=min(settings.optimizer.final_rate, config.rate),
        )
        self.learner = Learner(fabric, self.network, optimizer, steps, settings.run)
        self.lecam = LeCam(config.lecam_decay).to(fabric.device)

    def plays(self, step: int) -> bool:
        """Whether the adversarial losses count at this step."""
        return step >= self.config.start

    def learn(self, pairs: Sequence[tuple[Video, Video]], names: Sequence[str], step: int) -> dict[str, float]:
        """One update from real and decoded clips of the videos `names`, at every n-th step."""
        if step % self.config.every:
            return {}
        values = {"discriminator": 0.0, "lecam": 0.0, "real": 0.0, "fake": 0.0}
        for real_video, fake_video in pairs:
            real, fake = self.learner.forward(real_video), self.learner.forward(fake_video)
            loss = discriminator_loss(real, fake, self.config.real_label)
            penalty = self.lecam(real, fake)
            check_finite(self.fabric, loss, "the discriminator's loss", names, step)
            self.fabric.backward((loss + self.lecam_weight * penalty) / len(pairs))
            means = torch.stack([real.mean(), fake.mean()]).detach()
            self.lecam.update(over_all(self.fabric, means, "mean"))
            parts = (loss, penalty, real.mean(), fake.mean())
            for name, value in zip(values, parts, strict=True):
                values[name] += value.item() / len(pairs)
        self.learner.clip(step, names)
        self.learner.update(step)
        return values

    def tensors(self) -> dict[str, Tensor]:
        """Everything that changes."""
        return {"lecam": self.lecam.means, **{f"network/{k}": v for k, v in self.learner.tensors().items()}}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """The opposite of `tensors`."""
        self.lecam.means.copy_(tensors["lecam"])
        self.learner.restore(below(tensors, "network/"))
