"""What evolution reaches on known tasks, beside what others published: the pages in docs/results/.

Usage: python benchmarks/results.py ROW [--only NAME ...] [--seeds 0 1 ...] [--workers N]
       python benchmarks/results.py --page ROW     only write the page, from what is there
       python benchmarks/results.py --page         only write README.md, the table of all pages
       python benchmarks/results.py --list
       python benchmarks/results.py --quick        only try it out: a run of three rows (with ROW: all of its runs)

Trains every seed of a row, and writes docs/results/ROW/NAME-sSEED.json as each one finishes; those that are there are
left out, so that a row can be taken up again where it stopped. At the end it writes docs/results/ROW.md with a table
and a plot. The score is that of the last centre, with that of the best one beside it where the row says so, on 100
starts that neither training nor the choice of the best centre has seen, others for each seed. The centres themselves
stay beside the JSON, so that a later change of scoring needs no training. The folder with the runs is runs/results/.

It needs what requirements-test.txt does not bring: pip install matplotlib "gymnasium[mujoco]"
"""

import argparse
import json
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import targets
from gate import ROBOTS, gate
from report import (
    PAGES,
    QUICK,
    RUNS,
    Report,
    Target,
    arguments,
    commit,
    estimated,
    idle,
    in_words,
    page_options,
    pyplot,
    table,
    with_interval,
)

from es_core import STRATEGIES, Checkpoint, Run, evaluate, train
from es_core.formatting import percent
from es_core.statistics import compare_unpaired

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
EPISODES = 2 if QUICK else 100  # unseen starts
_MANY = 7  # kinds of runs: too many for the overview
SMALL: Mapping[str, Any] = {}
if QUICK:
    SMALL = {"population_size": 8, "generations": 1, "max_episode_steps": 20, "eval_episodes": 2, "confirm_episodes": 2}


@dataclass(frozen=True, kw_only=True)
class Row:
    """A task, how it is trained, and what is to be reached.

    Attributes:
        title: of the page.
        about: protocol and source of the line.
        runs: by name, the id of the environment and the keywords of ``train``.
        seeds: of each.
        single: names of runs for which the first seed is enough.
        line: the score to reach, and in what; without ``reached``, what is compared.
        reached: tells if it is, from the runs of each name.
        best: the centre that was best in the run's own evaluations is scored beside the last.
        threshold: a score; the page tells after how many steps an evaluated centre first had it.
        bits: the page shows the last centre's hash.
        measures: further fitness functions by which the last centres are told.
        curve: the fitness function that the curves show; "": each run's own.
    """

    title: str
    about: str
    runs: Mapping[str, tuple[str, Mapping[str, Any]]]
    seeds: Sequence[int]
    line: str
    reached: Callable[[targets.Runs], bool] | None = None
    single: Collection[str] = ()
    best: bool = False
    threshold: float | None = None
    bits: bool = False
    measures: Sequence[str] = ()
    curve: str = ""
    packages: Sequence[str] = field(default=("mujoco",))

    @property
    def planned(self) -> int:
        """Number of runs."""
        return len(self.single) + (len(self.runs) - len(self.single)) * len(self.seeds)


def _without_evaluation(**fields: Any) -> dict[str, Any]:
    """Settings of a run that spends all its steps on training, and is scored at its end alone."""
    return {"eval_every": 0, "solved_at": None, **fields}


def _fixed_length(steps: float, population_size: int, length: int = 1000) -> int:
    """Generations that make so many training steps, in an environment whose episodes have one length."""
    return round(steps / (population_size * length))


# To find a run's best centre while nearly all of its steps go into training.
LIGHT = {"eval_episodes": 4, "confirm_episodes": 4, "solved_at": None}
# So that these rows remain what they were, whatever the environments come to recommend.
STEPS = {"sigma": 0.1, "optimizer": "adam", "learning_rate": 0.05, "population_size": 64, "eval_every": 1}
CART = {
    **STEPS,
    "episodes_per_candidate": 3,
    "env_kwargs": {"observation": "without_velocities"},
    "max_steps": 1_000_000,
}
PLATE = {
    **STEPS,
    "episodes_per_candidate": 2,
    "env_kwargs": {"observation": "without_rates"},
    "max_steps": 3_000_000,
    "solved_at": None,
}

# What Trap-v0 recommends for nsra_es, for strategies beside it.
TRAP = {"sigma": 0.3, "learning_rate": 0.1, "weight_decay": 0.01}

FROM_THE_BONNET = {
    "env_kwargs": {"track": "kidney", "mirror": False},
    "preprocessing": {"skip": 2, "pixels": 6, "flatten": True},
    "max_episode_steps": 170,  # 13.6 s, where the scripted driver takes 14.4 for a lap
    "observation_normalization": True,
    "observation_std_floor": 5.0,  # shades, of 255: the sky's hardly change
    "strategy": "sep_cma_es",
    "sigma": 0.05,
    "episodes_per_candidate": 1,
    "eval_every": 5,
    "max_steps": 300_000,
}

BESIDE_THE_CART = {
    # Few pixels with smooth edges, so that a pole that leans by less than a pixel changes their shades.
    "preprocessing": {"pixels": 48, "grey": True, "resize": 8, "stack": 2, "flatten": True},
    "observation_normalization": True,
    "observation_std_floor": 2.0,
    "policy": "linear",
    "strategy": "cma_es",
    "sigma": 0.1,
    "population_size": 32,
    "max_steps": 400_000,
}

# In two million steps the walker learns hardly more than random search finds.
WALK = dict.fromkeys(("Walker2D", "Walker2D-network", "Walker2D-random_search"), 8_000_000)

SMALL_PICTURES = {
    "pool": "vector",
    "workers": None,
    "env_kwargs": {"img_height": 12, "img_width": 12, "stack_num": 2, "use_inter_area_resize": True},
    "preprocessing": {"flatten": True},
    "observation_normalization": False,
    "initialization": "zeros",  # others press one button from the beginning, which may score
    "max_steps": 300_000,
}

_NETWORK = ("network", {"policy": "mlp", "hidden_sizes": (8,)})
# Steps that a run may take, and the other kind of policy.
CLASSICS: Mapping[str, tuple[int, tuple[str, Mapping[str, Any]]]] = {
    "CartPoleSwingUp-v0": (5_000_000, ("linear", {"policy": "linear", "sigma": 1.0})),  # the sigma of the network
    "DoublePole-v0": (600_000, _NETWORK),
    "PlateFigureEight-v0": (2_000_000, _NETWORK),
    "BallMaze-v0": (800_000, _NETWORK),
}

ROWS: Mapping[str, Row] = {
    "cartpole-ars": Row(
        title="CartPole-v1, ARS, 50 000 steps",
        about="stable-baselines3-contrib with the settings of rl-baselines3-zoo: 500 ± 0 within 50 000 steps. A linear "
        "policy, two directions, no evaluation before the end.",
        runs={
            "ars": (
                "CartPole-v1",
                _without_evaluation(
                    strategy="ars",
                    population_size=4,
                    sigma=0.05,
                    learning_rate=0.02,
                    max_steps=48_000,  # a generation has at most 2000
                ),
            )
        },
        seeds=range(20),
        line="500 with at least nine of ten seeds",
        reached=lambda runs: np.mean(np.equal(targets.scores(runs, "ars"), 500)) >= 0.9,
    ),
    "swimmer-ars": Row(
        title="Swimmer-v5, ARS V1, 2 million steps",
        about="Mania et al. 2018: alpha 0.02, nu 0.01, N = b = 1, observations not normalised, each candidate with "
        "starts of its own. Independent runs of stable-baselines3-contrib, 8 seeds: 241 ± 51.",
        runs={
            "ars": (
                "Swimmer-v5",
                _without_evaluation(
                    strategy="ars",
                    observation_normalization=False,
                    episode_seeds="independent",
                    population_size=2,
                    sigma=0.01,
                    learning_rate=0.02,
                    generations=_fixed_length(2e6, 2),
                ),
            )
        },
        seeds=range(8),
        line="mean of 241",
        reached=lambda runs: np.mean(targets.scores(runs, "ars")) >= 241,
    ),
    "halfcheetah-ars": Row(
        title="HalfCheetah-v5, ARS V2-t, 12.5 million steps",
        about="Mania et al. 2018: alpha 0.02, nu 0.03, N = 32, b = 4. Independent runs of stable-baselines3-contrib, 8 "
        "seeds: 4398 ± 320, from which the mean here is not distinguishable. The paper reaches 3430 after 1707 "
        "episodes (V2-t) or 2720 (V2).",
        runs={
            "ars": (
                "HalfCheetah-v5",
                {
                    "strategy": "ars",
                    "population_size": 64,
                    "top_directions": 4,
                    "sigma": 0.03,
                    "learning_rate": 0.02,
                    "generations": _fixed_length(12.5e6, 64),
                    "eval_every": 5,
                    **LIGHT,
                },
            )
        },
        seeds=range(8),
        line="mean of 4398",
        reached=lambda runs: np.mean(targets.scores(runs, "ars")) >= 4398,
        best=True,
        threshold=3430,
    ),
    "halfcheetah-openai-es": Row(
        title="HalfCheetah-v5, OpenAI-ES, 30 million steps",
        about="Budget, population (30) and network (64-64 tanh) of es-torch, which reached about 4000 with one seed "
        "and 1700 with another. Its steps (learning rate 0.04, sigma 0.025) are too long for what 30 candidates tell: "
        "tried here with one seed, they climbed to 4000 and fell to 300 within 10 million steps. These begin half as "
        "long, end a twentieth as long, and look twice as far.",
        runs={
            "openai_es": (
                "HalfCheetah-v5",
                {
                    "population_size": 30,
                    "sigma": 0.05,
                    "learning_rate": 0.02,
                    "learning_rate_final": 0.002,
                    "hidden_sizes": (64, 64),
                    "observation_normalization": True,
                    "observation_std_floor": 0.1,
                    "generations": _fixed_length(30e6, 30),
                    "eval_every": 10,
                    **LIGHT,
                },
            )
        },
        seeds=range(3),
        line="median above 4000, none below 1700",
        reached=lambda runs: np.median(found := targets.scores(runs, "openai_es")) > 4000 and min(found) >= 1700,
        best=True,
    ),
    "hopper-ars": Row(
        title="Hopper-v5, ARS V2-t, 7 million steps",
        about="Mania et al. 2018: alpha 0.01, nu 0.025, N = 8, b = 4, survival bonus 1 left out. Independent runs of "
        "stable-baselines3-contrib, 8 seeds: 3320 ± 120.",
        runs={
            "ars": (
                "Hopper-v5",
                _without_evaluation(
                    strategy="ars",
                    population_size=16,
                    top_directions=4,
                    sigma=0.025,
                    learning_rate=0.01,
                    survival_bonus=1.0,
                    max_steps=7_000_000,
                ),
            )
        },
        seeds=range(3),
        line="mean of 3320",
        reached=lambda runs: np.mean(targets.scores(runs, "ars")) >= 3320,
    ),
    "cartpole-memory": Row(
        title="CartPoleBullet-v0 without velocities: memory or none",
        about="Position and angle are observed, not how they change: that can only be remembered. All policies have "
        "the same budget, and 16 hidden units, but for the linear one. With five seeds, those that remember are not "
        "distinguishable from each other (Welch's t: p > 0.06); of those that do not, the linear one lasts 60 steps, "
        "and the network 50 (p = 0.04).",
        runs={
            **{
                policy: ("CartPoleBullet-v0", {**CART, "policy": policy, "hidden_sizes": (16,)})
                for policy in ("rnn", "lstm", "gru", "mlp")
            },
            "linear": ("CartPoleBullet-v0", {**CART, "policy": "linear"}),
        },
        seeds=range(5),
        line="the recurrent policies' intervals above the others'",
        reached=lambda runs: targets.all_above(runs, {"rnn", "lstm", "gru"}, {"mlp", "linear"}),
        best=True,
    ),
    "torch-modules": Row(
        title="CartPole-v1, torch modules of one's own",
        about="A module without and one with a state (`benchmarks/torch_modules.py`), with one worker or two, which a "
        "run's name ends with.",
        runs={
            f"{module}-{workers}": (
                "CartPole-v1",
                {
                    "policy": f"torch_modules:{module}",
                    "workers": workers,
                    "episodes_per_candidate": 2,
                    "sigma": 0.1,
                    "learning_rate": 0.05,
                    "max_steps": 1_000_000,
                },
            )
            for module in ("Plain", "Remembering")
            for workers in (1, 2)
        },
        seeds=range(3),
        line="475, and for each seed one hash for any number of workers",
        reached=lambda runs: min(min(targets.scores(runs, name)) for name in runs) >= 475 and targets.same_bits(runs),
        bits=True,
        packages=("torch",),
    ),
    "plate-memory": Row(
        title="BalancingPlate-v0 without the plate's rates: memory or none",
        about="Eight of ten numbers are observed: how fast the plate turns is missing. It was thought that this needs "
        "a memory. It does not: linear policies, which have no biases, solve the task without one, three of five "
        "within three million steps, and networks stay far behind with this budget. Whether those that remember are "
        "better than others, five seeds do not tell (Welch's t: p = 0.28). For a task that does need a memory, see "
        "[the cart-pole without velocities](cartpole-memory.md).",
        runs={
            "gru": ("BalancingPlate-v0", {**PLATE, "policy": "gru", "hidden_sizes": (16,)}),
            "mlp": ("BalancingPlate-v0", {**PLATE, "policy": "mlp", "hidden_sizes": (32, 32)}),
            "linear": ("BalancingPlate-v0", {**PLATE, "policy": "linear", "solved_at": 1950.0}),
        },
        seeds=range(5),
        line="the recurrent policy's interval above the other's",
        reached=lambda runs: targets.all_above(runs, {"gru"}, {"mlp", "linear"}),
        best=True,
    ),
    "strategies": Row(
        title="All strategies on the three environments",
        about="`es-envs train ID --strategy NAME --max-steps 3000000`: the settings that the "
        "environments recommend, which are linear policies and 32 candidates with an episode each, and those that each "
        "strategy brings from its paper. They were chosen by a few trials with other seeds (those of OpenAI-ES for the "
        "racing car with seeds 0 and 1, too). A run ends when it is solved: its centre reaches the goal, with every "
        "one of the proof's 100 episodes successful where the environment tells success. A run that never does "
        "counts with all its steps. The machines did other things as well, so seconds say little, and steps count. "
        "Which strategies the environments recommend was decided by five seeds of an earlier version: separable "
        "CMA-ES for the racing car, OpenAI-ES for the others. None is clearly faster than these. More steps are taken "
        "(Welch's t, steps with evaluation, 21 comparisons) by ARS on the cart-pole (1.4 times as many, p = 0.02) "
        "and on the track (1.5, p = 0.02), by PGPE on the plate (1.6, p = 0.02), and by random search on the track "
        "(1.7, p = 0.02); all others have p > 0.1. Most steps of the runs "
        "that are solved at once are those of the proof. All three tasks are easy for a linear policy: random search "
        "finds one as well, on the plate with three times the steps of OpenAI-ES and not with each seed.",
        runs={
            f"{env_id.partition('-')[0]}-{name}": (
                env_id,
                {
                    "strategy": name,
                    "max_steps": 3_000_000,
                    "checkpoint_every": 1000,
                },
            )
            for env_id in ("CartPoleBullet-v0", "BalancingPlate-v0", "RaceCar-v0")
            for name in STRATEGIES
            # see erl.py, and the row about novelty; a repertoire has another goal
            if name not in {"erl", "nsra_es", "map_elites", "cma_mae"}
        },
        seeds=range(5),
        line="steps and seconds to solve, shares of seeds that solve",
        best=True,
    ),
    "classics": Row(
        title="Harder classics: what random search does not find",
        about="`es-envs train ID --max-steps N`, with N of 5 000 000 for the swing-up, "
        "600 000 for the double pole, 2 000 000 for the figure eight and 800 000 for the maze, evaluation included, "
        "and with the settings that each environment recommends, next to random search and next to the other kind of "
        "policy, a network of 8 hidden units for a linear one or the reverse, each in the same budget of steps. A "
        "run ends when it is solved, which other episodes than those of its score decide: a solved run may fail from "
        "some of these. Doing nothing and acting at random are measured when each run begins: neither has any "
        "success. Around balance DoublePole-v0 and PlateFigureEight-v0 are nearly linear, so a network has nothing "
        "to add there and takes longer; in BallMaze-v0 the ball's place alone tells how to tilt, and a network gets "
        "stuck more often. In the swing-up five weights without a bias, with the network's sigma, hold the pole up "
        "from every start with one seed of ten, and from most with two; with the others they only throw it up. With "
        "one seed of ten each, the figure eight and the maze are not solved. "
        "CartPoleSwingUp-v0 recommends its observations as they are, which was found on seeds 0, 1 and 5 of *evolved*: "
        "normalised, seed 0 reached 190 points, and seed 5 142.",
        runs={
            f"{env_id.partition('-')[0]}-{name}": (
                env_id,
                {"max_steps": steps, "checkpoint_every": 1000, **fields},
            )
            for env_id, (steps, other) in CLASSICS.items()
            for name, fields in (
                ("evolved", {}),
                ("random_search", {"strategy": "random_search"}),
                other,
            )
        },
        seeds=range(10),
        line="every seed solved, and none by random search; doing nothing solves none, and the recommended policy more "
        "than the other kind",
        reached=targets.beats_luck_and_the_other_kind,
    ),
    "pixels": Row(
        title="From pixels: the racing car and the cart-pole through cameras of their own",
        about="Linear policies that see pictures and nothing else. *racetrack*: `RaceTrack-v0` on its circuit "
        "`kidney`, which bends to both sides, as 6x6 pixels in colour from above the car's bonnet, 12.5 times a "
        "second: 216 parameters. Training goes by progress, and success is a lap within 13.6 seconds; the "
        "scripted driver, which is told where the track is, takes 14.4. *cartpole*: `CartPoleBullet-v0`, as two "
        "pictures of 8x8 grey pixels, the last and the one before, by a camera that moves along with the cart, "
        "so that no picture tells where on the rail it is: 256 parameters.",
        runs={
            "racetrack": ("RaceTrack-v0", FROM_THE_BONNET),
            "cartpole": ("CartPoleBullet-v0", BESIDE_THE_CART),
            "racetrack-random_search": (
                "RaceTrack-v0",
                {**FROM_THE_BONNET, "strategy": "random_search", "sigma": 0.1},  # with which it finds more
            ),
            "cartpole-random_search": ("CartPoleBullet-v0", {**BESIDE_THE_CART, "strategy": "random_search"}),
        },
        seeds=range(3),
        single=["racetrack-random_search"],
        line="every lap in time, and 500 steps",
        reached=lambda runs: (
            all(result["last_score"]["success_rate"] == 1 for result in runs["racetrack"])
            and min(targets.scores(runs, "cartpole")) == 500
        ),
        best=True,
    ),
    "atari": Row(
        title="Two Atari games, from twelve times twelve pixels",
        about="EnvPool's Freeway and Asterix in the vector pool: two grey pictures of 12x12 pixels, the last and the "
        "one before, to a linear policy that does nothing at first, with all else as `train` chooses it, for 300 000 "
        "steps; what the last centre's scores take comes on top. Doing nothing and random actions are measured when "
        "each run begins. Neither game proves that a policy "
        "sees: with other initial weights many first centres already score 21 and 650, by pressing one button. Boxing, "
        "which nobody wins that way, was not learnt in 700 000 steps.",
        runs={
            "freeway": ("envpool/Freeway-v5", SMALL_PICTURES),
            "asterix": ("envpool/Asterix-v5", SMALL_PICTURES),
        },
        seeds=range(3),
        line="each seed's interval above doing nothing and random actions",
        reached=lambda runs: all(targets.above_baselines(result) for results in runs.values() for result in results),
        best=True,
        packages=("envpool", "torch"),
    ),
    "fitness": Row(
        title="What fitness does: one track, three ideas of what is good",
        about="RaceTrack-v0 on its circuit `horseshoe`, which leads away from the start, round a bend, and back. All "
        "runs have the same steps, starts, linear policy and strategy (CMA-ES), and the environment gives the same "
        "rewards, which none of them uses: only the fitness function differs. *distance* is the distance from the "
        "start as the crow flies, *progress* that along the track, *time* minus the seconds of a finished lap, and "
        "minus 40 for a lap that is not finished. [How to write a fitness](../fitness.md). *progress-random_search* is "
        "*progress* with random search instead of CMA-ES.",
        runs={
            name: (
                "RaceTrack-v0",
                _without_evaluation(
                    fitness=fitness,
                    env_kwargs={"track": "horseshoe", "mirror": False},
                    strategy=strategy,
                    hidden_sizes=(),
                    population_size=16,
                    sigma=0.3,
                    episodes_per_candidate=1,
                    max_steps=250_000,
                ),
            )
            for name, fitness, strategy in (
                ("distance", "distance", "cma_es"),
                ("progress", "progress", "cma_es"),
                ("time", "time", "cma_es"),
                ("progress-random_search", "progress", "random_search"),
            )
        },
        seeds=range(5),
        line="the shares of laps finished",
        measures=("distance", "progress", "time"),
    ),
    "novelty": Row(
        title="A deceptive task: novelty against fitness alone",
        about="Trap-v0 (`examples/trap.py`): a point under an upside-down U is to get up to a finish line. Its fitness "
        "is the height it comes to, so whatever leads out of the trap costs fitness, and 0.45 is the most below the "
        "wall. All have the same policy (16 hidden units), 64 candidates and 600 generations, and a sigma of 0.3, but "
        "for random search. *nsra_es*, whose weight of fitness falls from 1 as long as nothing gets better, *nsr_es*, "
        "where it stays at 1/2, and *openai_es* have the same learning rate and weight decay. These, sigma, patience "
        "and the length of the side walls were chosen in trials with other seeds, so that novelty gets out. The task "
        "is small, and deceives gradients, not luck: random search, which draws from a sigma of 0.5, draws a policy "
        "that gets there. In trials with a longer way between more walls that was still so. The environment "
        "recommends the policy, the population and nsra_es's settings: `python -m es_core train trap:Trap-v0 "
        "--strategy nsra_es --generations 600 --eval-every 5`, in the folder `examples`.",
        runs={
            name: (
                "trap:Trap-v0",
                {
                    "strategy": strategy,
                    "generations": 600,
                    "eval_every": 5,
                    **fields,
                },
            )
            for name, strategy, fields in (
                ("nsra_es", "nsra_es", {}),
                ("nsr_es", "nsra_es", {**TRAP, "strategy_options": {"weight": 0.5, "weight_step": 0.0}}),
                ("openai_es", "openai_es", TRAP),
                ("cma_es", "cma_es", {"sigma": 0.3, "episode_seeds": "common", "restarts": 0}),
                ("ga", "ga", {"sigma": 0.3}),
                ("random_search", "random_search", {}),
            )
        },
        seeds=range(30, 35),
        line="most seeds of nsra_es solved, and none of openai_es and cma_es",
        reached=lambda runs: (
            targets.solved(runs, "nsra_es") > 0.5
            and targets.solved(runs, "openai_es") == targets.solved(runs, "cma_es") == 0
        ),
        best=True,
        packages=(),
    ),
    "locomotion": Row(
        title="Robots that run: two million steps, the walker's eight",
        about="`es-envs train ID --max-steps 2000000`, for the walker's distance 8000000: in two it came 1.5 m far "
        "with a linear policy, hardly further than with random search. Plain rows maximise the plugin's fitness, "
        "the distance in metres, plus one for lasting 1000 steps. Rows -reward maximise the sum of rewards (`--fitness "
        "episode_return`). Policies are linear, but for those of 16 hidden units (-network), and the strategy is "
        "CMA-ES, separable for the larger robots, or random search (-random_search): what the spaces decide. Each "
        "score is of its row's own fitness; episode_return and progress [m] are of the same centres.\n\n"
        "With the sum of rewards robots stand still, which earns up to 1 for each step, except A1, which then earns "
        "nothing, and runs, and the humanoid, which falls after 64 steps. With the distance most run, but the "
        "walker shuffles along, and the humanoid dives, within 67 steps. HalfCheetahBullet-v0 and AntBullet-v0 "
        "recommend a sigma of 0.5, which was found on their seeds 0 and 1: with the rule's 0.1 the half cheetah "
        "reached 1.3 and 1.4, and the ant 4.8 with seed 0. With `--sigma 0.5`, the hopper and the walker do not "
        "gain.\n\n"
        "Models are those of pybullet's own environments, and so are rewards, with differences that the plugin's "
        "README tells; for those evorobotpy publishes centres of OpenAI-ES after 50 million steps, 25 times as many "
        "(10 seeds, rewards adapted to evolution): hopper 1923, half-cheetah 2364, ant 1387, walker 763. A single seed "
        "tells what can be, not what is typical. Two runs shared a machine of two cores with other work: the seconds "
        "say little.",
        runs={
            f"{robot}{name}": (
                f"{robot}Bullet-v0",
                {**fitness, "max_steps": WALK.get(f"{robot}{name}", 2_000_000), "checkpoint_every": 100},
            )
            for robot in ROBOTS
            for name, fitness in (
                ("", {}),
                ("-reward", {"fitness": "episode_return"}),
                ("-random_search", {"strategy": "random_search"}),
                ("-network", {"policy": "mlp", "hidden_sizes": (16,)}),
            )
        },
        seeds=range(3),
        single=[
            *(f"{robot}{name}" for robot in ("Walker2D", "Humanoid", "A1") for name in ("", "-reward")),
            "Ant-reward",
            *(f"{robot}-network" for robot in ROBOTS if robot != "Walker2D"),
            *(f"{robot}-random_search" for robot in ROBOTS if robot != "Ant"),
        ],
        line="scores with those that are published",
        best=True,
        measures=("episode_return", "progress"),
        curve="progress",
        packages=(),
    ),
}


def main() -> None:
    """Train what is missing, then write the page."""
    parser = arguments(__doc__)
    parser.add_argument("row", nargs="?", choices=ROWS, metavar="ROW", help=", ".join(ROWS))
    parser.add_argument("--list", action="store_true", help="list the rows, and how much of each is there")
    parser.add_argument("--page", action="store_true", help="train nothing")
    parser.add_argument("--rescore", action="store_true", help="train nothing; score the kept centres again")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="of the row's runs only these")
    parser.add_argument("--seeds", nargs="+", type=int, metavar="S", help="of the row's seeds only these")
    parser.add_argument("--workers", type=int, metavar="N", help="worker processes (default: the usable cores)")
    options = page_options(parser)
    sys.path.append(str(EXAMPLES))  # of the row about novelty
    if options.quick and options.row is None:
        for name in ("torch-modules", "novelty", "locomotion"):
            few = {"row": name, "only": [next(iter(ROWS[name].runs))], "workers": 1}
            _train(argparse.Namespace(**{**vars(options), **few}))
            _write_page(name)
        return
    if options.page and options.row is None:
        _write_index()
        return
    if options.list or options.row is None:
        for name, row in ROWS.items():
            print(f"{name}: {len(_measured(name))} of {row.planned} runs; {row.title}")
        return
    if options.rescore:
        _rescore(options)
    elif not options.page:
        _train(options)
    _write_page(options.row)


def _train(options: argparse.Namespace) -> None:
    row = ROWS[options.row]
    report = Report(options.row, packages=row.packages)
    missing = [package for package in row.packages if report.machine["versions"][package] == "not installed"]
    if QUICK and missing:
        report.say(f"{options.row} is not tried out: {' and '.join(missing)} not installed")
        return
    for seed in row.seeds[
        : 1 if QUICK else None
    ]:  # all runs of one seed first: what is there can be compared at any time
        for name, (env_id, fields) in row.runs.items():
            path = PAGES / options.row / f"{name}-s{seed}.json"
            is_extra = name in row.single and seed != row.seeds[0]
            if path.exists() or is_extra or _is_left_out(options, name, seed):
                continue
            folder = RUNS / "results" / options.row / f"{name}-s{seed}"
            how = {"workers": options.workers, **fields, **SMALL}
            run = train(env_id, run_dir=folder, seed=seed, resume=folder.exists(), **how)
            path.parent.mkdir(parents=True, exist_ok=True)
            result = {"name": name, "seed": seed, **result_of(run, row, path), "machine": report.machine}
            _write(path, result)


def result_of(run: Run, row: Row, path: Path) -> dict[str, Any]:
    """What is written to ``path``; beside it, the centres that are scored."""
    last = run.history[-1]
    checkpoint = run.checkpoint
    if checkpoint is None:
        raise RuntimeError(f"{run.directory} has no checkpoint")
    replace(checkpoint, strategy={}).save(path.with_suffix(".safetensors"))  # a covariance matrix is large
    last_score = _score(checkpoint)
    kept = (run.best if row.best else None) or checkpoint
    if kept.generation != checkpoint.generation:
        replace(kept, strategy={}).save(path.with_suffix(".best.safetensors"))
    return {
        "env_id": run.config.env_id,
        "config": run.config.to_json(),
        "score": last_score if kept.generation == checkpoint.generation else _score(kept),
        "last_score": last_score,
        "starts": "of each seed",
        "parameter_hash": checkpoint.parameter_hash,
        "solved": last.solved,
        "generations": last.generation,
        "baselines": {name: score.mean for name, score in run.history[0].baselines.items()} or _idle(checkpoint),
        "training_steps": sum(stats.steps for stats in run.history),
        "total_steps": last.total_steps,
        "search_steps": last.search_steps,
        "seconds": sum(stats.seconds for stats in run.history),
        "curve": _curve(run, row.curve),
        "commit": commit(),
    }


def _is_left_out(options: argparse.Namespace, name: str, seed: int) -> bool:
    return bool(options.only and name not in options.only) or bool(options.seeds and seed not in options.seeds)


def _rescore(options: argparse.Namespace) -> None:
    """Score the kept centres again, for what a version after that of their runs can tell of them."""
    for path in sorted((PAGES / options.row).glob("*.json")):
        result = json.loads(path.read_text(encoding="utf-8"))
        if _is_left_out(options, result["name"], result["seed"]):
            continue
        last, best = path.with_suffix(".safetensors"), path.with_suffix(".best.safetensors")
        centre = Checkpoint.load(last, trust=True)
        last_score = _score(centre)
        score = _score(Checkpoint.load(best, trust=True)) if best.exists() else last_score
        baselines = result.get("baselines") or _idle(centre)
        _write(path, {**result, "score": score, "last_score": last_score, "baselines": baselines})


def _write(path: Path, result: Mapping[str, Any]) -> None:
    path.write_text(f"{json.dumps(result, indent=1, allow_nan=False)}\n", encoding="utf-8")
    print(f"{result['name']}, seed {result['seed']}: {result['last_score']['mean']:.1f}", flush=True)


def _score(centre: Checkpoint) -> dict[str, Any]:
    """Score of a centre on unseen starts of its own run: an interval over seeds then holds the noise of starts, too."""
    return evaluate(centre, episodes=EPISODES, seed=centre.config.seed).to_json()


def _idle(centre: Checkpoint) -> dict[str, float]:
    """What doing nothing scores from the same starts, as a run without evaluation does not measure it."""
    return {"doing nothing": _score(idle(centre))["mean"]}


def _curve(run: Run, name: str) -> list[tuple[int, float]]:
    """Training steps so far, and the centre's score then; the population's where the centre was not scored.

    Args:
        run: the run.
        name: fitness function of the score; "": that which the run is selected by.
    """
    points, steps = [], 0
    has_scores = any(stats.evaluation for stats in run.history)
    for stats in run.history:
        if has_scores and stats.evaluation is not None:
            points.append((steps, stats.evaluation.fitnesses[name] if name else stats.evaluation.mean))
        elif not has_scores and stats.fitness_mean is not None:
            points.append((steps, stats.fitness_mean))
        steps += stats.steps
    stride = max(1, len(points) // 200)
    return [(at, round(value, 4)) for at, value in points[::stride]]


def _measured(row: str) -> list[dict[str, Any]]:
    results = [json.loads(path.read_text(encoding="utf-8")) for path in sorted((PAGES / row).glob("*.json"))]
    return [{"last_score": result["score"], **result} for result in results]  # once there was no other


def _write_page(name: str) -> None:
    row, results = ROWS[name], _measured(name)
    if not results:
        print(f"{name}: nothing is measured yet")
        return
    by_run = _by_run(row, results)
    machines = sorted({in_words(result["machine"]) for result in results})
    commits = sorted({result["commit"] for result in results})
    page = f"""# {row.title}

{row.about}

{_target(row, by_run)}
{_goals(results)}
{_table([_summary(run, own, row) for run, own in by_run.items()])}

Scores are those of the last centre on {EPISODES} starts that nothing before has seen; the interval is that of the mean
over the seeds (Student's t; of equal scores there is none); steps and seconds are medians. The curves show the centre's
score while it was trained, or the population's mean where the centre was scored at the end alone.{_OF_ALL * row.best}
{_reservation(results)}
![Learning curves]({name}.svg)
{_before(name, row, results)}
{_table([_detail(each, row) for own in by_run.values() for each in own])}

`python benchmarks/results.py {name}`, commit {", ".join(commits)}; {"; ".join(machines)}.
"""
    (PAGES / f"{name}.md").write_text(page, encoding="utf-8")
    _plot(name, row, results)
    _write_index()
    print(PAGES / f"{name}.md")


_OF_ALL = """ Steps with
evaluation include the episodes that confirm a centre, but not those of the scores at a run's end."""


def _target(row: Row, by_run: targets.Runs) -> Target:
    return Target(row.line, None if row.reached is None else bool(row.reached(by_run)))


def _goals(results: Sequence[dict[str, Any]]) -> str:
    """Tell when a run is solved."""
    goals = {result["env_id"]: result["config"]["solved_at"] for result in results}
    named = [f"{env_id} at {goal:g}" for env_id, goal in goals.items() if goal is not None]
    if not named or not any(result["solved"] for result in results):
        return ""
    return f"""
Solved: {", ".join(named)}. The [confirmed](../how-it-works.md#when-a-task-is-solved) mean must reach it, and all of its
episodes must succeed where success is reported.
"""


def _reservation(results: Sequence[dict[str, Any]]) -> str:
    """What is to be known of results that an earlier version made."""
    older = [result for result in results if "starts" not in result]
    if not older:
        return ""
    which = ", ".join(sorted({result["env_id"] for result in older}))
    return f"""
**The runs of {which} are to be made anew.** The version that made them scored every seed on the same {EPISODES} starts,
so the intervals over seeds hold no noise of starts and are too narrow, and it called a run solved by its first lucky
confirmation. A difference between lines whose intervals are near each other is not distinguishable.
"""


def _before(name: str, row: Row, results: Sequence[dict[str, Any]]) -> str:
    """Medians of steps, and ranks by them in each environment, beside those of an earlier version; "" if none is kept.

    Only runs are told that have been made anew.
    """
    path = PAGES / name / "before.jsonl"
    earlier = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
    old_commits = {result["commit"] for result in earlier}
    anew = [result for result in results if result["commit"] not in old_commits]
    if not earlier or not anew:
        return ""
    kinds = {"training": itemgetter("training_steps"), "all": _search_steps}
    runs = _by_run(row, anew)
    steps = {
        (run, kind): [[float(count(each)) for each in of if each["name"] == run] for of in (earlier, anew)]
        for run in runs
        for kind, count in kinds.items()
    }
    medians = {key: np.array([np.median(of) for of in both]) for key, both in steps.items()}

    def cells(run: str) -> list[str]:
        found = [run]
        beside = [other for other in runs if row.runs[other][0] == row.runs[run][0]]
        for kind in kinds:
            own, p = medians[run, kind], compare_unpaired(*steps[run, kind]).p
            ranks = 1 + sum(medians[other, kind] < own for other in beside)
            found += [*(f"{value:,.0f}" for value in own), " → ".join(map(str, ranks))]
            found.append("" if p is None else f"{p:.2f}")
        return found

    columns = ["", *(column for kind in kinds for column in (f"{kind} steps before", "now", "rank", "p"))]
    return f"""
Medians of steps, ranks by them in each environment, and p of Welch's t test, before and since evaluations follow a
budget (before: commit {", ".join(sorted(old_commits))}):

{table(columns, [cells(run) for run in runs])}
"""


def _write_index() -> None:
    rows = []
    for name, row in ROWS.items():
        by_run = _by_run(row, _measured(name))
        title = f"[{row.title}]({name}.md)" if by_run else row.title
        found = [f"{run}: {_mean(own)}" for run, own in by_run.items()]
        line, verdict = _target(row, by_run).cells if by_run else (row.line, "")
        done = sum(map(len, by_run.values()))
        rows.append([title, line, verdict, f"{done} of {row.planned}", "; ".join(found) if len(found) < _MANY else ""])
    for path in sorted(PAGES.glob("*.json")):  # pages of other commands
        found = json.loads(path.read_text(encoding="utf-8"))
        rows.append([f"[{found['title']}]({path.stem}.md)", *Target(found["target"], found["reached"]).cells, "", ""])
    page = f"""# What evolution reaches on known tasks

Each page names the command that writes it: `python benchmarks/results.py ROW` if the table counts its runs, else a
command of its own. A command trains what is missing: hours of both cores, for some.
"Mean score" is that of the seeds' last centres on {EPISODES} unseen starts, with its 95 % interval (Student's t, no
wider than from the worst to the best seed); it is left out where more than {_MANY - 1} kinds of runs are compared. A
page says so if an earlier version made its runs.

{table(["task", "target", "reached", "runs done", "mean score"], rows)}

## Learning or luck

Is a task worth evolving for? It passes the gate if random search reaches at most 30 % of what evolution gains over
doing nothing, and doing nothing solves none of it. "Of" says what is compared: the share of seeds solved, the share of
laps finished on tracks that training never drew (fast laps: those that take no longer than the scripted driver's; in
time: those on one circuit within its time limit), the share of whole episodes, which last until their time is up, or
the score, with the lowest and the highest of several seeds. All but the laps are of the best centre, which `evaluate`
takes.
"Other policy" is a network instead of a linear policy, or the reverse. An empty cell is not measured.

{gate()}
"""
    (PAGES / "README.md").write_text(page, encoding="utf-8")


def _mean(own: Sequence[dict[str, Any]], of: str = "last_score") -> str:
    return estimated([result[of]["mean"] for result in own])


def _score_cell(score: Mapping[str, Any]) -> str:
    return with_interval(score["mean"], score["interval"])


def _by_run(row: Row, results: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """What is measured of each run of the row, in its order, by seed."""
    by_seed = sorted(results, key=lambda each: each["seed"])
    return {run: own for run in row.runs if (own := [each for each in by_seed if each["name"] == run])}


def _table(rows: Sequence[Mapping[str, str]]) -> str:
    """Without the columns in which no row has anything."""
    columns = [column for column in rows[0] if any(row[column] for row in rows)]
    return table(columns, [[row[column] for column in columns] for row in rows])


def _summary(run: str, own: Sequence[dict[str, Any]], row: Row) -> dict[str, str]:
    """A cell for each column, for all seeds of a run."""
    scores = np.array([result["last_score"]["mean"] for result in own])
    named = {name: [result["last_score"]["fitnesses"][name] for result in own] for name in row.measures}
    has_goal = own[0]["config"]["solved_at"] is not None
    floors = {
        name: [result["baselines"][name] for result in own if name in result.get("baselines", {})]
        for name in ("doing nothing", "random actions")
    }
    rates = [rate for result in own if (rate := result["last_score"]["success_rate"]) is not None]
    return {
        "": run,
        "seeds": str(len(own)),
        "mean of the seeds' scores (95 % interval)": _mean(own),
        "the same of the best centres": _mean(own, "score") if row.best else "",
        **{name: estimated(values) for name, values in floors.items()},
        "median": f"{np.median(scores):.1f}",
        "worst": f"{scores.min():.1f}",
        "best": f"{scores.max():.1f}",
        **{name: estimated(values) for name, values in named.items()},
        "success": percent(float(np.mean(rates)), 1) if rates else "",
        "solved": f"{sum(result['solved'] for result in own)} of {len(own)}" if has_goal else "",
        "training steps": f"{np.median([result['training_steps'] for result in own]):,.0f}",
        "with evaluation": f"{np.median([_search_steps(result) for result in own]):,.0f}" if row.best else "",
        "seconds": f"{np.median([result['seconds'] for result in own]):.0f}",
    }


def _detail(result: Mapping[str, Any], row: Row) -> dict[str, str]:
    """A cell for each column, for one seed."""
    rate, goal, threshold = result["last_score"]["success_rate"], result["config"]["solved_at"], row.threshold
    reached = ""
    if threshold is not None:
        reached = next((f"{steps:,}" for steps, value in result["curve"] if value >= threshold), "never")
    return {
        "run": result["name"],
        "seed": str(result["seed"]),
        "score (95 % interval over its episodes)": _score_cell(result["last_score"]),
        "success": "" if rate is None else percent(rate),
        "best centre": _score_cell(result["score"]) if row.best else "",
        f"training steps until {threshold}": reached,
        "solved": "" if goal is None else "yes" if result["solved"] else "no",
        "generations": str(result["generations"]),
        "training steps": f"{result['training_steps']:,}",
        "with evaluation": f"{_search_steps(result):,}" if row.best else "",
        "seconds": f"{result['seconds']:.0f}",
        "hash of the last centre": f"`{result['parameter_hash']}`" if row.bits else "",
    }


def _search_steps(result: Mapping[str, Any]) -> int:
    """All steps but those of the final score, which an earlier version did not take."""
    return int(result.get("search_steps", result["total_steps"]))


def _plot(name: str, row: Row, results: Sequence[dict[str, Any]]) -> None:
    """Each seed a thin line, their median a thick one; one panel for each environment."""
    if not (plt := pyplot(name)):
        return
    from matplotlib.ticker import EngFormatter

    panels: dict[tuple[str, str], list[str]] = {}  # runs by environment and by what their curves show
    for run in row.runs:
        of_run = [result for result in results if result["name"] == run]
        if of_run:
            panels.setdefault((of_run[0]["env_id"], row.curve or of_run[0]["config"]["fitness"]), []).append(run)
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    size = 1.5 + 5 * columns, 4.5 * rows
    figure, axes = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
    for unused in axes.flat[len(panels) :]:
        unused.set_visible(False)
    for ((env_id, fitness), names), axis in zip(panels.items(), axes.flat, strict=False):
        prefix = f"{names[0].partition('-')[0]}-"
        shared = prefix if all(run.startswith(prefix) for run in names) else ""
        for number, run in enumerate(names):
            curves = [np.array(r["curve"]).reshape(-1, 2) for r in results if r["name"] == run]
            colour = f"C{number % 10}"
            for curve in curves:
                axis.plot(*curve.T, color=colour, alpha=0.25, linewidth=0.8)
            grid = np.linspace(0, max(curve[-1, 0] for curve in curves), 200)
            middle = np.median([np.interp(grid, *curve.T) for curve in curves], axis=0)
            axis.plot(grid, middle, color=colour, linewidth=2, label=run.removeprefix(shared))
        axis.set(title=env_id, xlabel="environment steps of training", ylabel=fitness.rpartition(":")[2])
        axis.xaxis.set_major_formatter(EngFormatter(sep=""))
        axis.grid(alpha=0.3)
        axis.legend(frameon=False, fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=3)
    figure.savefig(PAGES / f"{name}.svg", metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    main()
