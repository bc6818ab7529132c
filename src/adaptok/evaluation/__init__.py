"""Rate and quality of a model on videos: curves, tables, a report. Start at settings.py; run.py is the door.

The walk: `settings` -> `clips` -> `store` -> `allotting`, `measuring`, `reference` -> `bench` -> `work` ->
`bootstrap` -> `result` -> `summary` -> `plots` -> `report` -> `run`.
"""

from adaptok.evaluation.result import CodeUsage, Estimate, Evaluation, Example, Row
from adaptok.evaluation.run import Shard, SkippedVideosWarning, evaluate
from adaptok.evaluation.settings import Point, Settings
from adaptok.evaluation.work import Clip, Skipped

__all__ = [
    "Clip",
    "CodeUsage",
    "Estimate",
    "Evaluation",
    "Example",
    "Point",
    "Row",
    "Settings",
    "Shard",
    "Skipped",
    "SkippedVideosWarning",
    "evaluate",
]
