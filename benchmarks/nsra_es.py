"""Our NSRA-ES beside that of the package estorch, generation by generation: the same candidates, the same steps?

Usage: python benchmarks/nsra_es.py

Both get the same mean and the same candidates, in a field with a wall, and from there on each has its own novelty,
archive, ranks, weight and Adam. Printed are the largest differences between the next means and between the weights, for
300 generations with each of three seeds. It takes a minute, and needs what requirements-test.txt does not bring:
pip install estorch mpich
"""

import estorch
import numpy as np
import torch
from numpy.typing import NDArray

from es_core.strategies.nsra_es import NSRAES

SIZE, POPULATION, GENERATIONS, SEEDS = 12, 32, 300, range(3)
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


def differences(seed: int) -> tuple[float, float, float]:
    """Of the means and of the weights, at most; and the smallest weight."""
    ours = NSRAES(START, population_size=POPULATION, sigma=SIGMA, seed=seed, learning_rate=RATE, patience=PATIENCE)
    theirs = estorch.NSRA_ES(
        policy=lambda: torch.nn.Linear(SIZE, 1, bias=False), agent=Walker, optimizer=torch.optim.Adam,
        population_size=POPULATION, sigma=SIGMA, meta_population_size=1, weight_t=PATIENCE,
        optimizer_kwargs={"lr": RATE},
    )  # fmt: skip
    policy, optimizer = theirs.meta_population[0]
    torch.nn.utils.vector_to_parameters(torch.from_numpy(START.copy()), policy.parameters())
    theirs.best_reward, theirs._archive = -np.inf, []
    parameter, worst, lowest = next(policy.parameters()), np.zeros(2), 1.0
    with torch.no_grad():
        for _ in range(GENERATIONS):
            theirs._after_optimize(policy)  # rates the mean: theirs does it at a generation's end, ours at its beginning
            population = ours.ask()
            candidates = np.array([population.candidate(i) for i in range(POPULATION)])
            played = [Walker.walk(candidate) for candidate in candidates]
            theirs.population_returns = theirs._calculate_returns(list(torch.from_numpy(candidates)))
            gradient = theirs._calculate_grad(torch.from_numpy(candidates - ours.mean))
            parameter.grad = -gradient.view_as(parameter)
            optimizer.step()
            ours.observe_behaviours(np.array([behaviour for _, behaviour in played]))
            ours.tell(np.array([fitness for fitness, _ in played]))
            apart = np.abs(ours.mean - parameter.detach().numpy().ravel()).max(), abs(ours.weight - theirs.weight)
            worst, lowest = np.maximum(worst, apart), min(lowest, ours.weight)
            parameter.copy_(torch.from_numpy(ours.mean).view_as(parameter))  # else one rank that differs is a new way
    return float(worst[0]), float(worst[1]), lowest


def main() -> None:
    """Print a line for each seed."""
    for seed in SEEDS:
        means, weights, lowest = differences(seed)
        print(f"seed {seed}: means differ by {means:.1e}, weights by {weights:.1e}; the weight falls to {lowest:.2f}")


if __name__ == "__main__":
    main()
