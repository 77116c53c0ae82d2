"""How figures are taken: interleaved, so that a noisy machine is noisy for both sides."""

import random
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Mapping

Step = Callable[[], Awaitable[object]]

_failures: list[str] = []


class Prepared:
    """A step with something to be done before each time that it is taken, which is not timed."""

    def __init__(self, prepare: Callable[[], object], step: Step) -> None:
        self.prepare = prepare
        self._step = step

    def __call__(self) -> Awaitable[object]:
        return self._step()


async def medians(steps: Mapping[str, Step], rounds: int, warmup: int = 20) -> dict[str, float]:
    """The median time of each step in milliseconds; every round takes each step once.

    In an order that changes: whoever comes after the heaviest step finds cold caches.
    """
    times: dict[str, list[float]] = {name: [] for name in steps}
    order = list(steps.items())
    shuffle = random.Random(7).shuffle
    for turn in range(warmup + rounds):
        shuffle(order)
        for name, step in order:
            if isinstance(step, Prepared):
                step.prepare()
            started = time.perf_counter()
            await step()
            if turn >= warmup:
                times[name].append(time.perf_counter() - started)
    return {name: statistics.median(taken) * 1000 for name, taken in times.items()}


def check(what: str, figure: float, at_most: float) -> None:
    """Print one line of the result: a ratio, and what it must not exceed."""
    holds = figure <= at_most
    print(f"{'ok  ' if holds else 'MISS'} {what}: {figure:.2f} (at most {at_most:g})", flush=True)
    if not holds:
        _failures.append(what)


def finish() -> None:
    """End the script; with the exit code 3 if a line did not hold."""
    if _failures:
        print(f"{len(_failures)} line(s) did not hold: {'; '.join(_failures)}", file=sys.stderr)
        sys.exit(3)
