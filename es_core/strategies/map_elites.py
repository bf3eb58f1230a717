"""MAP-Elites (Mouret and Clune 2015, "Illuminating search spaces by mapping elites", arXiv 1504.04909) with Iso+LineDD
(Vassiliades and Mouret 2018, "Discovering the Elite Hypervolume by Leveraging Interspecies Correlation",
arXiv 1804.03906, equation 1).
"""  # noqa: D205

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from es_core.config.checks import number, require_real
from es_core.seeding import generator
from es_core.strategies.population import Population
from es_core.strategies.quality_diversity import QualityDiversity
from es_core.strategies.schedules import Schedule


class MAPElites(QualityDiversity):
    """Mutates elites of its repertoire, along the line to another elite and a little in all directions.

    A candidate is x + sigma * noise + ``line_sigma`` * number * (y - x), with two elites x and y.

    Args:
        mean: around which the first candidates are drawn ``(d,)``.
        population_size: candidates in a generation.
        sigma: standard deviation of the noise in all directions, or a function of the generation (paper: 0.01).
        seed: root seed; candidates of generation g are a function of it and of the repertoire.
        ranges: see ``QualityDiversity``.
        grid: see there.
        cells: see there.
        floor: see there.
        line_sigma: standard deviation of the step along the line, in lengths of it (paper: 0.2).
        first_sigma: standard deviation of the noise in the first generation, which is to differ widely.

    Raises:
        ImportError: ribs is not installed.
        ValueError: a setting is out of range.
    """

    def __init__(
        self,
        mean: NDArray[np.float32],
        *,
        population_size: int,
        sigma: float | Schedule,
        seed: int = 0,
        ranges: Sequence[Sequence[Any]] | None = None,
        grid: Sequence[int] | None = None,
        cells: int | None = None,
        floor: float | None = None,
        line_sigma: float = 0.2,
        first_sigma: float = 0.5,
    ) -> None:
        super().__init__(
            mean,
            population_size=population_size,
            sigma=sigma,
            seed=seed,
            ranges=ranges,
            grid=grid,
            cells=cells,
            floor=floor,
        )
        self.line_sigma = require_real("line_sigma", line_sigma, number(0))
        self.first_sigma = require_real("first_sigma", first_sigma, number(0, above=True))

    def draw(self) -> Population:
        """Draw mutations of the elites; at first, noise around the mean."""
        from ribs.emitters import IsoLineEmitter

        size = (self.population_size, self.mean.size)
        first = self.mean + self.first_sigma * generator(self.emitter_seed(2)).standard_normal(size)
        emitter = IsoLineEmitter(
            self.archive(self.repertoire),
            iso_sigma=self.sigma,
            line_sigma=self.line_sigma,
            initial_solutions=first,
            batch_size=self.population_size,
            seed=self.emitter_seed(1),
        )
        return self.described(emitter.ask())
