"""Who sees whom: one small table per network, the only place where causality is written down.

In: the role and block of a query and of a key. Out: whether the query may attend to the key.
The dense mask, the block-by-block forward and the memory rule all derive from these tables (next: layout.py).

| network          | query         | sees patches            | sees latents            |
|------------------|---------------|-------------------------|-------------------------|
| encoder          | patch, latent | own and earlier blocks  | own and earlier blocks  |
| decoder          | patch         | own block               | own and earlier blocks  |
| decoder          | latent        | -                       | own and earlier blocks  |
| scorer           | latent        | -                       | own and earlier blocks  |
| prior, generator | token         | itself and earlier tokens                         |
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class Role(Enum):
    """What a row of a sequence stands for."""

    PATCH = "patch"
    LATENT = "latent"
    TOKEN = "token"


class Reach(Enum):
    """How far a query looks among the rows of one role."""

    OWN = "own block"
    PAST = "own and earlier blocks"
    PREFIX = "itself and earlier rows"


@dataclass(frozen=True)
class Visibility:
    """The table of one network: query role -> key role -> reach; an absent pair is never seen."""

    table: Mapping[Role, Mapping[Role, Reach]]

    def reach(self, query: Role, key: Role) -> Reach | None:
        """How far rows of role `query` look among rows of role `key`; None if not at all."""
        return self.table[query].get(key)

    def sees(self, query: Role, query_block: int, key: Role, key_block: int) -> bool:
        """Whether any row of the query's block may attend to rows of the key's block."""
        reach = self.reach(query, key)
        if reach is None:
            return False
        return key_block == query_block if reach is Reach.OWN else key_block <= query_block

    @property
    def remembered(self) -> frozenset[Role]:
        """Roles that some query of a later block sees; all others can be forgotten with their block."""
        return frozenset(key for row in self.table.values() for key, reach in row.items() if reach is not Reach.OWN)


_ALL_PAST = {Role.PATCH: Reach.PAST, Role.LATENT: Reach.PAST}

ENCODER = Visibility({Role.PATCH: _ALL_PAST, Role.LATENT: _ALL_PAST})
DECODER = Visibility(
    {
        Role.PATCH: {Role.PATCH: Reach.OWN, Role.LATENT: Reach.PAST},
        Role.LATENT: {Role.LATENT: Reach.PAST},
    }
)
SCORER = Visibility({Role.LATENT: {Role.LATENT: Reach.PAST}})
TOKENS = Visibility({Role.TOKEN: {Role.TOKEN: Reach.PREFIX}})
