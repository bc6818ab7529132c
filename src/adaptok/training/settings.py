"""What a training run is, as frozen dataclasses: start, codebook, losses, optimizers, hours, and whole recipes.

In: numbers from a recipe's YAML (read by recipes.py). Out: values that are known to fit together before any work
starts; a contradiction is refused by the name of its field. Next on the walk: listing.py, where the data begin.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from adaptok.config import ModelConfig, ScorerConfig, StackConfig, Strict
from adaptok.training.curriculum import Ramp, Stage, need, need_share
from adaptok.training.data_settings import AugmentConfig, DataConfig


@dataclass(frozen=True, kw_only=True)
class StartConfig(Strict):
    """Initial weights that route each patch to a token and back; see start.py."""

    aligned: bool = False
    order: Literal["coarse", "raster"] = "coarse"
    """Of a block's tokens over its patches: every prefix covers the frame, or row after row."""
    clips: int = 64
    """Clips from which principal components and the first read-out are computed."""
    type_size: float = 6.0
    """Size of the component that tells patches from latents; positions have sines of size 1."""
    sharpness: float = 40.0
    """Of the first layers' attention: how much more similar a place is to itself than to all others on average."""
    value_gain: float = 0.6
    patch_gain: float = 0.25
    """Content must stay small beside positions, as the norms before attention would mix them otherwise."""
    code_gain: float = 6.0
    embed_gain: float = 4.0
    branch_gain: float = 0.3
    """Other residual branches start this much smaller than PyTorch's default."""


@dataclass(frozen=True, kw_only=True)
class CodebookConfig(Strict):
    """How the codebook comes to life."""

    quantize: Ramp = field(default_factory=Ramp)
    """Share of samples that are quantized; the others pass continuous vectors to the decoder."""
    kmeans_clips: int = 0
    """Clips whose vectors the codebook starts from when quantization begins; 0 keeps the random start."""
    follow: float = 0.0
    """Codes follow the running mean of their vectors, of which so much is kept each step (0.99, say); 0 leaves them to
    the gradient, as the paper does."""
    revive_every: int = 0
    """Steps between revivals of codes that are hardly used; 0 revives none."""
    revive_until: int | None = None
    revive_below: float = 0.1
    """A code is dead when used less than this much of an even share."""

    def __post_init__(self) -> None:
        least = min(self.kmeans_clips, self.revive_every)
        need(least >= 0, f"codebook: kmeans_clips and revive_every must be at least 0: {self}")
        need(0 <= self.follow < 1, f"codebook: follow must lie in 0..1, below 1, got {self.follow}")


@dataclass(frozen=True, kw_only=True)
class LossConfig(Strict):
    """Weights as published; 0 turns a loss off."""

    l1: float = 1.0
    mse: float = 0.0
    psnr: float = 0.0
    """Of the logarithm of each clip's squared error: easy clips count as much as hard ones, as in a mean PSNR."""
    perceptual: float = 1.0
    perceptual_net: Literal["alex", "vgg"] = "vgg"
    perceptual_frames: int | None = None
    """Frames per clip that the perceptual loss looks at; all where null."""
    quantizer: float = 0.1
    adversarial: float = 0.0
    lecam: float = 0.001
    prior: float = 0.0
    prior_mix: Ramp = field(default_factory=lambda: Ramp(share=0.5))
    """Scheduled sampling: share of its own samples that the prior's later rounds read."""

    def __post_init__(self) -> None:
        for name in ("l1", "mse", "psnr", "perceptual", "quantizer", "adversarial", "lecam", "prior"):
            need(getattr(self, name) >= 0, f"losses: {name} must be at least 0, got {getattr(self, name)}")
        judged = self.l1 + self.mse + self.psnr + self.perceptual
        need(judged > 0, "losses: one of l1, mse, psnr and perceptual must be above 0")
        frames = self.perceptual_frames
        need(frames is None or frames >= 1, f"losses: perceptual_frames must be at least 1, got {frames}")


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig(Strict):
    """Adam or AdamW for everything, or Muon for the matrices of the transformers."""

    kind: Literal["adam", "muon"] = "adam"
    rate: float = 1e-4
    """Of Adam."""
    matrix_rate: float = 3e-3
    """Of Muon, whose updates are scaled to the size of Adam's."""
    prior_rate: float | None = None
    """Of the prior; as all others where null."""
    betas: tuple[float, float] = (0.5, 0.9)
    weight_decay: float = 0.0
    decay: Literal["all", "linear"] = "all"
    """Which weights decay: all, or the matrices of linear layers only, as usual for language models."""
    warmup: int = 0
    final_rate: float = 1e-6
    """The rate at the last step; Muon's falls in proportion."""
    clip: float | None = 1.0
    """Largest norm of the gradient."""

    def __post_init__(self) -> None:
        need(self.rate > 0 and self.matrix_rate > 0, f"optimizer: rates must be positive: {self}")
        need(0 <= self.final_rate <= self.rate, f"optimizer: final_rate {self.final_rate} is above rate {self.rate}")
        need(self.prior_rate is None or self.prior_rate > 0, f"optimizer: prior_rate {self.prior_rate} is not positive")
        need_share(**{f"optimizer: beta {i}": beta for i, beta in enumerate(self.betas, 1)})
        need(self.weight_decay >= 0, f"optimizer: weight_decay must be at least 0, got {self.weight_decay}")
        need(self.warmup >= 0, f"optimizer: warmup must be at least 0, got {self.warmup}")
        need(self.clip is None or self.clip > 0, f"optimizer: clip must be positive or null, got {self.clip}")


@dataclass(frozen=True, kw_only=True)
class AdversaryConfig(Strict):
    """The discriminator and when it plays."""

    width: int = 512
    depth: int = 6
    heads: int = 8
    start: int = 0
    every: int = 1
    """The discriminator learns at every n-th step."""
    real_label: float = 0.9
    """One-sided label smoothing: what it should say of real clips."""
    rate: float = 3e-5
    lecam_decay: float = 0.999

    def __post_init__(self) -> None:
        StackConfig(width=self.width, depth=self.depth, heads=self.heads)
        need(self.start >= 0 and self.every >= 1, f"adversary: start >= 0 and every >= 1 are needed: {self}")
        need(self.rate > 0, f"adversary: rate must be positive, got {self.rate}")
        need_share(real_label=self.real_label, lecam_decay=self.lecam_decay)


@dataclass(frozen=True, kw_only=True)
class RunConfig(Strict):
    """Everything that is the same for all models: length, hardware, checkpoints."""

    steps: int | None = None
    epochs: float | None = None
    seed: int = 0
    ema: float = 0.999
    """Decay of the averaged weights, which are the ones saved for use; 0 averages nothing."""
    accumulate: int = 1
    """Each batch is computed in this many parts."""
    save_every: int = 500
    validate_every: int = 500
    validate_lpips: bool = True
    """Whether validation measures LPIPS, whose weights are fetched on first use."""
    log_every: int = 20
    accelerator: Literal["cpu", "cuda", "mps", "auto"] = "cpu"
    devices: int = 1
    nodes: int = 1
    strategy: Literal["auto", "ddp", "fsdp"] = "auto"
    """With fsdp each process holds a part of every transformer layer, for models that do not fit one device."""
    precision: Literal["32-true", "bf16-mixed", "16-mixed"] = "32-true"
    compile: bool = False
    activation_checkpointing: bool = False

    def __post_init__(self) -> None:
        need((self.steps is None) != (self.epochs is None), "run: exactly one of steps and epochs must be given")
        need((self.steps or self.epochs or 0) > 0, "run: steps or epochs must be positive")
        need(0 <= self.ema < 1, f"run: ema must lie in 0..1, below 1, got {self.ema}")
        for name in ("accumulate", "save_every", "validate_every", "log_every", "devices", "nodes"):
            need(getattr(self, name) >= 1, f"run: {name} must be at least 1, got {getattr(self, name)}")
        if self.strategy == "fsdp":
            need(self.precision != "16-mixed", "run: precision 16-mixed and strategy fsdp do not go together")
            need(not self.compile, "run: compile and strategy fsdp do not go together")

    def need_equal_parts(self, batch: int) -> None:
        """Refuse a batch that cannot be cut equally among processes and rounds of accumulation."""
        processes = self.devices * self.nodes
        need(
            batch % (processes * self.accumulate) == 0,
            f"a batch of {batch} cannot be cut into equal parts for {processes} processes (run.devices × run.nodes) "
            f"and {self.accumulate} rounds each (run.accumulate)",
        )


@dataclass(frozen=True, kw_only=True)
class TokenizerTraining(Strict):
    """The recipe of a tokenizer."""

    model: ModelConfig
    data: DataConfig
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    start: StartConfig = field(default_factory=StartConfig)
    stages: tuple[Stage, ...]
    tail_drop: Ramp = field(default_factory=Ramp)
    """Share of steps whose lengths are drawn from the model's law; the others keep every token."""
    allocated: Ramp = field(default_factory=lambda: Ramp(share=0.0))
    """Second stage: share of those steps whose lengths the model's own scorer and allocator choose."""
    codebook: CodebookConfig = field(default_factory=CodebookConfig)
    losses: LossConfig = field(default_factory=LossConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    adversary: AdversaryConfig | None = None
    run: RunConfig
    initial: Path | None = None
    """A folder with weights to start from, or an embedded model's name; a prior that they lack starts at random."""
    learn: tuple[Literal["encoder", "quantizer", "decoder", "prior"], ...] = ()
    """Parts that learn while the others stay as they are in `initial`; all where empty. [prior] adds a prior to a
    finished tokenizer, [decoder] improves pictures without changing a token."""

    def __post_init__(self) -> None:
        starts = [stage.start for stage in self.stages]
        need(bool(starts) and starts[0] == 0, "stages: the first stage must start at step 0")
        need(starts == sorted(set(starts)), f"stages: starts must rise, got {starts}")
        blocks = self.model.tokenizer.geometry.blocks
        for stage in self.stages:
            need(stage.blocks <= blocks, f"stages: {stage.blocks} blocks, but a clip of the model has {blocks}")
            self.run.need_equal_parts(stage.batch)
        need(
            (self.losses.adversarial > 0) == (self.adversary is not None),
            "losses.adversarial is above 0 if and only if there is an adversary section",
        )
        need(
            (self.losses.prior > 0) == (self.model.tokenizer.prior is not None),
            "losses.prior is above 0 if and only if model.tokenizer.prior is given",
        )
        if self.start.aligned:
            need(self.model.tokenizer.learned_slots, "start.aligned needs model.tokenizer.learned_slots: true")
            need(self.initial is None, "start.aligned and initial contradict each other: both set the first weights")
        grows = len({stage.blocks for stage in self.stages}) > 1
        need(
            self.initial is None or not grows, "stages: clips cannot grow from initial, whose later blocks are trained"
        )
        if self.learn:
            need(self.initial is not None, "learn needs initial: a folder with the weights that stay as they are")
            moved = max(self.codebook.follow, self.codebook.kmeans_clips, self.codebook.revive_every)
            need("quantizer" in self.learn or not moved, "codebook: codes may only move where the quantizer learns")
            need("prior" not in self.learn or self.losses.prior > 0, "learn: the prior learns only by losses.prior")
        if self.allocated.share > 0:
            need(self.initial is not None, "allocated needs initial: a folder with a trained tokenizer and scorer")
            whole = all(stage.blocks == blocks for stage in self.stages)
            need(whole, f"allocated needs stages of whole clips, {blocks} blocks each, as the scorer judges those")


@dataclass(frozen=True, kw_only=True)
class ScorerTraining(Strict):
    """The recipe of a scorer."""

    tokenizer: Path
    """Folder with the trained tokenizer, which stays as it is, or an embedded model's name."""
    scorer: ScorerConfig
    initial: bool = False
    """Whether to go on from the scorer that lies in the tokenizer's folder; from random weights otherwise."""
    data: DataConfig
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    batch: int = 16
    lessons: int = 0
    """Batches whose true scores are found once, before the first step, and learnt from again and again; 0 finds new
    ones at every step, which costs a decoding and a judgement for every length."""
    lessons_folder: Path | None = None
    """Where lessons are kept: a run that goes on, and runs of other metrics, then find them there. In memory only where
    null."""
    judged: tuple[Literal["perceptual", "mse", "psnr", "ssim"], ...] = ()
    """Metrics beside the scorer's own that kept lessons are judged by in passing, for scorers of those that are taught
    later: a decoding serves all."""
    true_lengths: int | None = None
    """How many lengths true scores are found at, drawn anew for every batch; those between are interpolated. All
    candidate lengths where null. Scores change slowly with length: few lengths of many clips teach more."""
    score_frames: int | None = None
    """Frames of a block that its true score looks at; all where null. Validation looks at all."""
    shape: float = 0.0
    """Weight of a second error: that of each block's curve around its own mean. How hard a block is as a whole moves no
    token; how fast it gets better does."""
    calibration_clips: int = 64
    """Clips from which mean and spread of the scores at every length are computed before the first step."""
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    run: RunConfig

    def __post_init__(self) -> None:
        need(min(self.batch, self.calibration_clips) >= 1, "batch and calibration_clips must be at least 1")
        need(self.lessons >= 0, f"lessons must be at least 0, got {self.lessons}")
        need(self.shape >= 0, f"shape must be at least 0, got {self.shape}")
        need(
            self.true_lengths is None or self.true_lengths >= 2, f"true_lengths must be at least 2: {self.true_lengths}"
        )
        need(
            self.score_frames is None or self.score_frames >= 1, f"score_frames must be at least 1: {self.score_frames}"
        )
        kept = self.lessons and self.lessons_folder is not None
        need(kept or not self.judged, "judged is of lessons that are kept: it needs lessons and lessons_folder")
        need(not self.lessons or self.run.accumulate == 1, "lessons and run.accumulate contradict each other")
        self.run.need_equal_parts(self.batch)
