"""Our NSRA-ES beside that of the package estorch, generation by generation: the same candidates, the same steps?

Usage: python benchmarks/nsra_es.py [--quick]

Both get the same mean and the same candidates, in a field with a wall, and from there on each has its own novelty,
archive, ranks, weight and Adam. Printed are the largest differences between the next means and between the weights, for
300 generations with each of three seeds. It takes a minute, and needs what requirements-test.txt does not bring:
pip install estorch mpich
"""

import estorch
import numpy as np
import torch
from numpy.typing import NDArray
from report import QUICK, arguments

from es_core.strategies.nsra_es import NSRAES

SIZE, POPULATION, GENERATIONS, SEEDS = 12, 32, 3 if QUICK else 300, range(3)
SIGMA, RATE, PATIENCE = 0.3, 0.1, 5
START = np.linspace(-0.1, 0.1, SIZE, dtype=np.float32)


class Walker:
    """Goes one step for each pair of parameters; behind a wall it is worth less to be higher."""

    def rollout(self, policy: torch.nn.Module) -> tuple[float, NDArray[np.float64]]:
        """Fitness: the height; behaviour: the place."""
        return self.walk(torch.nn.utils.parameters_to_vector(policy.parameters()).detach().numpy())

    @staticmethod
    def walk(parameters: NDArray[np.float32]) -> tuple[float, NDArray[np.float64]]:
        """The same for a vector ``(SIZE,)``."""
        place = np.sin(parameters.astype(float)).reshape(-1, 2).sum(axis=0)
        return float(place[1] - 2 * max(0.0, place[1] - 1.5) * (abs(place[0]) < 2)), place


class Reference(estorch.NSRA_ES):
    """Theirs, with one mean, whose candidates are given."""

    def __init__(self) -> None:
        super().__init__(
            policy=lambda: torch.nn.Linear(SIZE, 1, bias=False), agent=Walker, optimizer=torch.optim.Adam,
            population_size=POPULATION, sigma=SIGMA, meta_population_size=1, weight_t=PATIENCE,
            optimizer_kwargs={"lr": RATE},
        )  # fmt: skip
        self._archive = []  # of a random policy, which is not the mean

    @torch.no_grad()
    def move(self, mean: NDArray[np.float32], candidates: NDArray[np.float32]) -> NDArray[np.float32]:
        """The next mean ``(SIZE,)``, after these candidates ``(POPULATION, SIZE)``."""
        policy, optimizer = self.meta_population[0]
        weights = policy.weight
        weights.copy_(torch.from_numpy(mean).view_as(weights))
        self._after_optimize(policy)  # rates the mean
        self.population_returns = self._calculate_returns(list(torch.from_numpy(candidates)))
        weights.grad = -self._calculate_grad(torch.from_numpy(candidates - mean)).view_as(weights)
        optimizer.step()
        return np.array(weights.detach().numpy().ravel())


def differences(seed: int) -> tuple[float, float, float]:
    """Greatest differences of the next means and of the weights; and the smallest weight."""
    ours = NSRAES(START, population_size=POPULATION, sigma=SIGMA, seed=seed, learning_rate=RATE, patience=PATIENCE)
    theirs, worst, lowest = Reference(), np.zeros(2), 1.0
    for _ in range(GENERATIONS):
        population = ours.ask()
        candidates = np.array([population.candidate(i) for i in range(POPULATION)])
        expected = theirs.move(ours.mean, candidates)
        played = [Walker.walk(candidate) for candidate in candidates]
        ours.observe_behaviours(np.array([behaviour for _, behaviour in played]))
        ours.tell(np.array([fitness for fitness, _ in played]))
        apart = np.abs(ours.mean - expected).max(), abs(ours.weight - theirs.weight)
        worst, lowest = np.maximum(worst, apart), min(lowest, ours.weight)
    return float(worst[0]), float(worst[1]), lowest


def main() -> None:
    """Print a line for each seed."""
    arguments(__doc__).parse_args()
    for seed in SEEDS:
        means, weights, lowest = differences(seed)
        print(f"seed {seed}: means differ by {means:.1e}, weights by {weights:.1e}; the weight falls to {lowest:.2f}")


if __name__ == "__main__":
    main()
