"""How to sample: randomness, guidance, lengths, and how long.

In: what a user asks for. Out: `Rules` for one generator, in which every block has its bounds; whatever a generator
cannot do is refused with the value and the limit before any work. Next on the walk: choice.py.
"""

from dataclasses import dataclass

from adaptok.config import Strict
from adaptok.generation.config import GeneratorConfig


@dataclass(frozen=True, kw_only=True)
class Sampling(Strict):
    """What is asked for; lengths are the generator's own where nothing is given."""

    temperature: float = 1.0
    """Below 1 likelier tokens, above 1 more variety."""
    top_k: int = 0
    """Choose among so many likeliest tokens; 0 among all."""
    top_p: float = 1.0
    """Choose among the likeliest tokens that together have this probability."""
    guidance: float = 1.0
    """Classifier-free guidance: how far to go from "any class" to the class; 1 is plain sampling, 0 no class."""
    guidance_from: int = 0
    """First token of a sample that is guided; ends of blocks are counted."""
    guidance_until: int | None = None
    """First token that is not guided any more."""
    min_tokens: int | None = None
    """Fewest tokens of a block."""
    max_tokens: int | None = None
    """Most tokens of a block."""
    tokens_per_block: int | None = None
    """Exactly so many tokens in every block: a forced budget."""
    blocks: int | None = None
    """Blocks of a sample, given ones included; those of a clip if not given. More than a clip's are made by sliding."""
    overlap: int | None = None
    """Blocks that stay in sight when the window slides; half a clip's if not given."""

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise ValueError(f"temperature must be above 0, got {self.temperature:g}")
        if self.top_k < 0:
            raise ValueError(f"top_k must be at least 0, got {self.top_k}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be above 0 and at most 1, got {self.top_p:g}")
        if not 0 <= self.guidance < float("inf"):
            raise ValueError(f"guidance must be at least 0 and finite, got {self.guidance:g}")
        if not 0 <= self.guidance_from <= (self.guidance_from if self.guidance_until is None else self.guidance_until):
            raise ValueError(f"guidance from token {self.guidance_from} until {self.guidance_until} is no interval")
        if self.tokens_per_block is not None and (self.min_tokens is not None or self.max_tokens is not None):
            raise ValueError("tokens_per_block forces the length: min_tokens and max_tokens contradict it")
        if self.blocks is not None and self.blocks < 1:
            raise ValueError(f"blocks must be at least 1, got {self.blocks}")

    def rules(self, config: GeneratorConfig) -> "Rules":
        """What holds for a generator."""
        if self.guidance != 1 and not config.classes:
            raise ValueError(f"guidance {self.guidance:g} needs classes; generator {config.name!r} has none")
        m = config.tokens_per_block
        if self.tokens_per_block is not None:
            low = high = self.tokens_per_block
        else:
            low = min(config.min_tokens, self.max_tokens or m) if self.min_tokens is None else self.min_tokens
            high = max(config.longest, low) if self.max_tokens is None else self.max_tokens
        if not 1 <= low <= high <= m:
            raise ValueError(f"{low} to {high} tokens per block are asked for; 1 to {m} are possible")
        overlap = config.blocks // 2 if self.overlap is None else self.overlap
        if not 0 <= overlap < config.blocks:
            raise ValueError(f"overlap must lie in 0..{config.blocks - 1}, got {overlap}")
        return Rules(self, low, high, self.blocks or config.blocks, overlap)


@dataclass(frozen=True)
class Rules:
    """A request that one generator can fulfil."""

    sampling: Sampling
    low: int
    high: int
    """Fewest and most tokens of a block."""
    blocks: int
    overlap: int

    def guided(self, token: int) -> bool:
        """Whether a sample's token of this number is guided."""
        s = self.sampling
        late = s.guidance_until is not None and token >= s.guidance_until
        return s.guidance != 1 and token >= s.guidance_from and not late

    def guided_later(self, token: int) -> bool:
        """Whether this token or a later one is."""
        s = self.sampling
        return s.guidance != 1 and (s.guidance_until is None or token < s.guidance_until)
