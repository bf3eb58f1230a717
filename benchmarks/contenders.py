"""One run of defaults.py: a contender on a task, within a budget of processor time, and its score on unseen starts.

Usage: python benchmarks/contenders.py NAME TASK SEED SECONDS FILE [SETTINGS] [--quick]

Each contender is what a user gets who knows nothing but the task's id: the defaults of its library or, for EvoTorch,
which has none, the example in its repository (examples/scripts/rl_gym.py, without the bonus of that example's robot).
SETTINGS, as JSON, are those of es-envs in a trial or an ablation, where they are not the defaults. All use one core.
The budget counts the processor time of the process and all its children, from the start of training.
"""

import json
import logging
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import other_strategies
import psutil
from report import QUICK, arguments, commit

import es_envs
from es_core import Run, TrainConfig, evaluate, train
from es_core.rollout.fitness import fresh_fitnesses, load_fitnesses, observers_of, with_fitness
from es_core.runs.scores import Evaluation
from es_core.seeding import Purpose, episode_seeds
from es_core.training.advice import Adviser
from es_envs.episode import play

EPISODES = 2 if QUICK else 100  # unseen starts


class Budget:
    """Processor time of this process and its children [s], from ``begin`` on: libraries are imported before."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._began = seconds, 0.0

    def begin(self) -> None:
        """Begin to count."""
        self._began = self._used()

    @property
    def spent(self) -> float:
        """What was used so far."""
        return self._used() - self._began

    def is_spent(self) -> bool:
        """Return True if it is used up."""
        return self.spent >= self._seconds

    @staticmethod
    def _used() -> float:
        this = psutil.Process()
        times = [this.cpu_times()]
        for child in this.children(recursive=True):
            try:
                times.append(child.cpu_times())
            except psutil.NoSuchProcess:  # it is in this process's children_user now
                continue
        return sum(time.user + time.system + time.children_user + time.children_system for time in times)


class SpentError(Exception):
    """The budget is used up; ends a library's own loop."""


def ours(task: str, seed: int, budget: Budget, **settings: Any) -> dict[str, Any]:
    """``train(task)``; the last centre."""
    other_strategies.register()
    budget.begin()
    with tempfile.TemporaryDirectory() as folder:
        run = train(
            task,
            seed=seed,
            workers=1,
            run_dir=Path(folder) / "run",
            progress=False,
            on_generation=lambda _: not budget.is_spent(),
            **settings,
        )
        last, checkpoint = run.history[-1], run.checkpoint
        assert checkpoint is not None
        return {
            "config": run.config.to_json(),
            "generations": last.generation,
            "steps": last.total_steps,
            "training_steps": sum(stats.steps for stats in run.history),
            "solved": last.solved,
            "restarts": int(last.rules.get("plateau") or 0),
            "advice": _advice(run),
            "curve": [stats.fitness_mean for stats in run.history if stats.fitness_mean is not None],
            "score": evaluate(checkpoint, episodes=EPISODES, seed=seed, workers=1).to_json(),
            "best_score": evaluate(run, episodes=EPISODES, seed=seed, workers=1).to_json(),
        }


def _advice(run: Run) -> dict[int, str]:
    """What the run's progress bar would have said, by generation."""
    adviser = Adviser(restarts=run.config.restarts)
    advised = {stats.generation: adviser.advise(run.history[: k + 1]) for k, stats in enumerate(run.history)}
    return {generation: sentence for generation, sentence in advised.items() if sentence}


def random_search(task: str, seed: int, budget: Budget) -> dict[str, Any]:
    """Random search, as we have it; its mean is the best candidate."""
    return ours(task, seed, budget, strategy="random_search", generations=10**6, solved_at=None)


def random_actions(task: str, seed: int, _: Budget) -> dict[str, Any]:
    """Actions drawn from the action space: what no learning gives."""
    space = es_envs.make(task).action_space
    space.seed(seed)
    return {"steps": 0, "score": score(task, seed, lambda: lambda _: space.sample())}


def ppo(task: str, seed: int, budget: Budget) -> dict[str, Any]:
    """PPO of Stable-Baselines3 with its defaults, and four environments, as in its documentation's first example."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env

    return _baseline(
        PPO("MlpPolicy", make_vec_env(_maker(task), 4, seed=seed), seed=seed, device="cpu"), task, seed, budget
    )


def ars(task: str, seed: int, budget: Budget) -> dict[str, Any]:
    """ARS of stable-baselines3-contrib with its defaults."""
    from sb3_contrib import ARS
    from stable_baselines3.common.env_util import make_vec_env

    return _baseline(ARS("LinearPolicy", make_vec_env(_maker(task), 1, seed=seed), seed=seed), task, seed, budget)


def _baseline(model: Any, task: str, seed: int, budget: Budget) -> dict[str, Any]:
    from stable_baselines3.common.callbacks import BaseCallback

    class Stop(BaseCallback):
        def _on_step(self) -> bool:
            return True

        def _on_rollout_end(self) -> None:  # the policy is whole here
            if budget.is_spent():
                raise SpentError

    budget.begin()
    with suppress(SpentError):
        model.learn(10**9, callback=Stop())

    def begin() -> Callable[[Any], Any]:
        return lambda observation: model.predict(observation, deterministic=True)[0]

    return {"steps": model.num_timesteps, "score": score(task, seed, begin)}


def _maker(task: str) -> Callable[[], Any]:
    return lambda: es_envs.make(task)


def pgpe(task: str, seed: int, budget: Budget) -> dict[str, Any]:
    """PGPE of EvoTorch, as in the example of its repository."""
    import torch
    from evotorch.algorithms import PGPE
    from evotorch.neuroevolution import GymNE

    logging.getLogger("evotorch.core").setLevel(logging.WARNING)
    problem = GymNE(_maker(task), "Linear(obs_length, act_length)", observation_normalization=True)
    problem.manual_seed(seed)
    search = PGPE(
        problem,
        popsize=200,
        center_learning_rate=0.01125,
        stdev_learning_rate=0.1,
        optimizer="clipup",
        optimizer_config={"max_speed": 0.015},
        radius_init=0.27,
        num_interactions=150_000,
        popsize_max=3200,
    )
    budget.begin()
    while not budget.is_spent():
        search.step()
    policy = problem.to_policy(search.status["center"])
    discrete = hasattr(es_envs.make(task).action_space, "n")

    def act(observation: Any) -> Any:
        with torch.no_grad():
            outputs = policy(torch.as_tensor(np.asarray(observation), dtype=torch.float32)).numpy()
        return int(outputs.argmax()) if discrete else outputs

    return {"steps": int(problem.interaction_count), "score": score(task, seed, lambda: act)}


def score(task: str, seed: int, begin: Callable[[], Callable[[Any], Any]]) -> dict[str, Any]:
    """Score actions on the starts on which ``evaluate`` scores a run of this seed, by the task's own fitness."""
    definition = es_envs.definition(task)
    fitnesses, env = load_fitnesses(definition, TrainConfig.for_env(task)), es_envs.make(task).unwrapped
    episodes = []
    for start in episode_seeds(seed, Purpose.TEST, EPISODES):
        measured = fresh_fitnesses(fitnesses)
        played = play(env, begin(), int(start), definition.max_episode_steps or 0, observers_of(measured))
        try:
            next(played)
        except StopIteration as end:
            episodes.append(with_fitness(end.value, measured))
    return Evaluation.from_episodes(episodes).to_json()


CONTENDERS: Mapping[str, Callable[..., dict[str, Any]]] = {
    "es-envs": ours,
    "random search": random_search,
    "random actions": random_actions,
    "PPO": ppo,
    "ARS": ars,
    "PGPE": pgpe,
}


def main() -> None:
    """Run it, and write a JSON file."""
    parser = arguments(__doc__)
    parser.add_argument("name", choices=CONTENDERS, metavar="NAME")
    parser.add_argument("task", metavar="TASK")
    parser.add_argument("seed", type=int, metavar="SEED")
    parser.add_argument("seconds", type=float, metavar="SECONDS")
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("settings", nargs="?", type=json.loads, default={}, metavar="SETTINGS")
    given = parser.parse_args()
    head = {"contender": given.name, "task": given.task, "seed": given.seed, "budget": given.seconds}
    found = CONTENDERS[given.name](given.task, given.seed, Budget(given.seconds), **given.settings)
    given.file.parent.mkdir(parents=True, exist_ok=True)
    partial = given.file.with_suffix(".partial")
    content = {**head, "commit": commit(), **found}
    partial.write_text(f"{json.dumps(content, indent=1, allow_nan=False)}\n", encoding="utf-8")
    partial.replace(given.file)


if __name__ == "__main__":
    main()
