"""One meaning for every distance: a score from 0 to 1, where higher is nearer."""

import math
from typing import Literal, get_args

__all__ = ["Distance", "checked_distance", "score_of"]

Distance = Literal["cosine", "dot", "euclid"]


def checked_distance(distance: str) -> Distance:
    """The distance of this name, or `ValueError`."""
    for known in get_args(Distance):
        if distance == known:
            return known  # type: ignore[no-any-return]
    raise ValueError(f"`distance` must be one of {get_args(Distance)}, not {distance!r}.")


def score_of(distance: Distance, measured: float) -> float:
    """Turn what was measured into a score.

    - `"cosine"`: the cosine itself; texts that point apart (below 0) have score 0.
    - `"dot"`: the logistic function of the product, so 0.5 for unrelated vectors.
    - `"euclid"`: 1 / (1 + distance).
    """
    if distance == "cosine":
        return min(1.0, max(0.0, measured))
    if distance == "dot":
        # tanh, unlike exp, has no argument that overflows.
        return 0.5 * (1.0 + math.tanh(measured / 2.0))
    return 1.0 / (1.0 + max(0.0, measured))
