"""Tiny environments and fitness functions that workers import: this folder is on ``sys.path`` (see conftest.py)."""

import ctypes
import json
import math
import os
import signal
import sys
import time
from pathlib import Path
from typing import ClassVar

import gymnasium
import numpy as np
import psutil
from gymnasium import spaces
from gymnasium.error import DependencyNotInstalled


class Walk(gymnasium.Env):
    """Walk along a line for five steps; the action is the step's length, the reward too.

    Args:
        fault: what goes wrong, or None.
        where: a file; the fault shows only while it exists. None: always.
    """

    metadata: ClassVar = {"render_modes": [], "render_fps": 30}
    observation_space = spaces.Box(-10.0, 10.0, (2,), np.float32)
    action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, *, fault=None, where=None):
        self.fault, self.where = fault, where
        if fault == "constructor":
            raise ValueError("no simulator at this address")
        if fault == "package":
            raise DependencyNotInstalled("Box2D is not installed, run `pip install gymnasium[box2d]`")
        if fault == "spaces":
            sizes = 2, 3
            try:
                Path(where).touch(exist_ok=False)
            except FileExistsError:
                sizes = 3, 2
            self.observation_space = spaces.Box(-10.0, 10.0, sizes[:1], np.float32)
        if fault == "image":
            self.observation_space = spaces.Box(0, 255, (20, 20, 3), np.uint8)
        if fault == "text":
            self.observation_space = spaces.Dict({"name": spaces.Text(5)})
        if fault == "sequence":
            self.action_space = spaces.Sequence(spaces.Discrete(2))

    def _observation(self):
        return np.array([self.place, self.time], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed, options=options)
        self.place, self.time = float(self.np_random.uniform(-1.0, 1.0)), 0
        return self._observation(), {"position": np.array([self.place])}

    def step(self, action):
        fault = self.fault if self.where is None or Path(self.where).exists() else None
        if fault == "step":
            raise RuntimeError("the motor is on fire")
        if fault == "exit":
            sys.exit("the licence has expired")
        if fault == "delete":
            Path(self.where).unlink()
        if fault == "crash":
            os.kill(os.getpid(), signal.SIGKILL)
        self.place += float(action[0])
        self.time += 1
        observation = self._observation()
        if fault == "nan":
            observation[1] = np.nan
        if fault == "shape":
            observation = observation[:1]
        reward = "much" if fault == "reward" else float(action[0])
        info = {"position": np.array([self.place]), "energy": float(action[0]) ** 2, "note": "text"}
        return observation, reward, self.time >= 5, False, info


class Talking(Walk):
    """Walk that says on stdout what it does, and can be filmed."""

    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 30}

    def __init__(self, *, render_mode=None):
        sys.stdout.write("here I am\n")
        super().__init__()
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        sys.stdout.write("off I go\n")
        return super().reset(seed=seed, options=options)

    def step(self, action):
        sys.stdout.write("a step\n")
        return super().step(action)

    def render(self):
        sys.stdout.write("a picture\n")
        return np.full((64, 64, 3), 20 * self.time, np.uint8)


class Unclosable(Talking):
    """Talking, whose ``close`` fails, as that of a simulator which has ended by itself.

    Args:
        kind: name of the error.
    """

    def __init__(self, *, kind="OSError", render_mode=None):
        super().__init__(render_mode=render_mode)
        self.error = {"OSError": OSError, "Mute": Mute, "GeneratorExit": GeneratorExit}.get(kind, KeyboardInterrupt)

    def close(self):
        raise self.error("closed already")


class Mute(Exception):
    def __str__(self):
        raise SystemExit


class ClosesLate(Talking):
    """Talking, which does not close before the file GATE exists."""

    def close(self):
        while not Path(os.environ["GATE"]).exists():
            time.sleep(0.02)


gymnasium.register("ClosesLate-v0", entry_point="small_envs:ClosesLate", max_episode_steps=5)
gymnasium.register("Unclosable-v1", entry_point="small_envs:Unclosable", max_episode_steps=5)


class Reusing(Walk):
    """Walk, but it returns the same arrays again and again."""

    def __init__(self):
        super().__init__()
        self.here, self.info = np.zeros(2, np.float32), {"position": np.zeros(1)}

    def _reuse(self, observation, info):
        self.here[:] = observation
        self.info["position"][:] = info["position"]
        return self.here

    def reset(self, *, seed=None, options=None):
        return self._reuse(*super().reset(seed=seed, options=options)), self.info

    def step(self, action):
        observation, *others, info = super().step(action)
        return self._reuse(observation, info), *others, self.info


class Scribbled(Walk):
    """Walk, with tags in its docstring. <script>window.bitten = 1</script><img src=x onerror="window.bitten = 1">

    <iframe src="https://example.org"></iframe>
    """


class Sized(Walk):
    """Says that it can be filmed, but cannot draw "rgb_array"."""

    def __init__(self, *, render_mode=None):
        super().__init__()
        self.render_mode = render_mode


class Nested(gymnasium.Env):
    """Dict in Tuple in Dict; the position is the middle entry of the last observation."""

    observation_space = spaces.Dict(
        {
            "body": spaces.Tuple((spaces.Box(-9.0, 9.0, (1,), np.float32), spaces.Discrete(3))),
            "mode": spaces.Dict({"on": spaces.MultiBinary(2)}),
        }
    )
    action_space = spaces.Discrete(3, start=-1)

    def _observation(self):
        body = (np.array([self.place], np.float32), np.int64(self.time % 3))
        return {"body": body, "mode": {"on": np.array([self.place > 0, 1], np.int8)}}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed, options=options)
        self.place, self.time = float(self.np_random.uniform(-1.0, 1.0)), 0
        return self._observation(), {}

    def step(self, action):
        assert self.action_space.contains(np.int64(action))
        self.place += 0.5 * int(action)
        self.time += 1
        return self._observation(), 0.0, self.time >= 5, False, {}


class Seen(Walk):
    """Walk, seen by a camera: a bright patch on a noisy picture.

    Args:
        shape: of the picture.
        beside: whether the time stands beside it, in a Dict.
    """

    def __init__(self, *, shape=(36, 40, 3), beside=False):
        super().__init__()
        self.shape, self.beside = tuple(shape), beside
        self.observation_space = spaces.Box(0, 255, self.shape, np.uint8)
        if beside:
            time = spaces.Box(0.0, 5.0, (2,), np.float32)
            self.observation_space = spaces.Dict({"camera": self.observation_space, "time": time})

    def _observation(self):
        picture = self.np_random.integers(0, 100, self.shape, np.uint8)
        place = int(np.clip(4 * self.place + 15, 0, 30))
        picture[..., place : place + 3, :] += np.uint8(155)
        return {"camera": picture, "time": np.full(2, self.time, np.float32)} if self.beside else picture


class Reporting(Walk):
    """Adds a line with process and event to the file ``log`` whenever one is made or reset."""

    def __init__(self, *, log):
        super().__init__()
        self.log = Path(log)
        self._note("made")

    def _note(self, event):
        with self.log.open("a") as file:
            file.write(f"{os.getpid()} {event} torch={'torch' in sys.modules} main={_main_file()}\n")

    def reset(self, *, seed=None, options=None):
        self._note("reset")
        return super().reset(seed=seed, options=options)


def _main_file():
    return getattr(sys.modules["__main__"], "__file__", None)


def initialize():
    """An initializer: notes its process in the file that the environment variable names."""
    with Path(os.environ["SMALL_ENVS_LOG"]).open("a") as file:
        file.write(f"{os.getpid()} initialized\n")


def place_reached(episode):
    return float(episode.last_observation[0])


def way(episode):
    return float(episode.last_observation[0] - episode.first_observation[0])


def middle_of_nested(episode):
    return float(episode.last_observation["body"][0][0])


def not_a_number(episode):
    return float("nan")


def text(episode):
    return "very good"


def nothing(episode):
    pass


def failing(episode):
    raise ArithmeticError("no such thing as a distance here")


def seed_of(episode):
    return float(episode.seed)


def place_and_steps(episode):
    """A behaviour."""
    return episode.last_observation


def no_place(_):
    return [0.0, math.nan]


def a_number(_):
    return 1.0


def ever_longer(episode):
    """As many numbers as the seed's last digit says, and one."""
    return [0.0] * (1 + episode.seed % 10)


def luck(episode):
    """Normal numbers around 0, whatever a policy does."""
    return float(np.random.default_rng(episode.seed).normal())


def confirms(episode):
    """Return True if the episode confirms a centre, by the range of its seed."""
    return 1.5 <= episode.seed / 2**30 < 1.625


def good_until_confirmed(episode):
    """1, but 0 on the starts that confirm a centre."""
    return 0.0 if confirms(episode) else 1.0


def depends_on_seed(episode):
    """Differs from episode to episode, whatever the policy does."""
    return float(episode.seed % 1000)


def shifted_by_seed(episode):
    """Pays the return, and what depends on the start alone."""
    return episode.total_reward + 2.0 ** (episode.seed % 8)


def scaled_by_seed(episode):
    """Pays the return, and what depends on the start alone; from some starts much more is at stake than from others."""
    return 4.0 ** (episode.seed % 4) * episode.total_reward + 1e6 * luck(episode)


class LongestStep:
    """A per-step fitness; an instance that is used twice would remember the episode before."""

    def __init__(self):
        self.steps = []

    def on_step(self, observation, action, reward, info):
        self.steps.append(reward)

    def result(self, episode):
        assert len(self.steps) == episode.length
        return max(self.steps)


class FailingOnStep:
    def on_step(self, observation, action, reward, info):
        raise ArithmeticError("cannot measure this step")

    def result(self, episode):
        return 0.0


class FailingToStart(LongestStep):
    def __init__(self):
        raise ArithmeticError("cannot measure this episode")


NOT_CALLABLE = 3


class Gated(Walk):
    """Walk, but after some steps none is made before there is a file."""

    def __init__(self, *, gate, after):
        super().__init__()
        self.gate, self.after = Path(gate), after

    def step(self, action):
        self.after -= 1
        while self.after < 0 and not self.gate.exists():
            time.sleep(0.02)
        return super().step(action)


gymnasium.register("Gated-v0", entry_point="small_envs:Gated", max_episode_steps=5)


class Hoarding(Walk):
    """Walk, but each episode, or each of the first ones, takes 200 kB and never gives them back."""

    def __init__(self, *, most=None):
        super().__init__()
        self.hoard, self.most = [], most

    def reset(self, *, seed=None, options=None):
        if self.most is None or len(self.hoard) < self.most:
            self.hoard.append(bytearray(b"x" * 200_000))
        return super().reset(seed=seed, options=options)


class Wander(Walk):
    """Walk until the place is more than 1.5 away, for 40 steps at most: episodes of many lengths."""

    def step(self, action):
        observation, reward, _, truncated, info = super().step(action)
        return observation, reward, abs(self.place) > 1.5 or self.time >= 40, truncated, info


class Failing(Wander):
    """Wander, where episodes of some seeds fail, and spoil the environment for all that are played in it afterwards.

    Args:
        faults: by the seed of the episode, as text: what goes wrong, and when: "reset" or "step".
        once: a folder; each fault leaves a file there, and shows only if there is none yet. None: always.
        fragile: no environment can be made any more as soon as there is a file in ``once``.
        stillborn: so many times making one kills the process, or stops it; from the first fault on, if there are some.
        birth: how: the name of a signal.
    """

    def __init__(self, *, faults=None, once=None, fragile=False, stillborn=0, birth="SIGKILL"):
        super().__init__()
        self.faults, self.once = faults or {}, once
        self.spoilt = False
        if stillborn:
            found = [path.name for path in Path(once).iterdir()]
            dead = [name for name in found if name.startswith("stillborn")]
            if len(dead) < stillborn and (not self.faults or len(found) > len(dead)):
                (Path(once) / f"stillborn-{os.getpid()}").touch()
                os.kill(os.getpid(), getattr(signal, birth))
        if fragile and any(Path(once).iterdir()):
            raise RuntimeError("the simulator is out of licences")

    def reset(self, *, seed=None, options=None):
        observation, info = super().reset(seed=seed, options=options)
        self.seed, self.place = seed, self.place + 5 * self.spoilt
        self.trouble, _, self.when = self.faults.get(str(seed), "").rpartition(" in ")
        return self._failing("reset", observation), info

    def step(self, action):
        observation, reward, *ends, info = super().step(action)
        observation = self._failing("step", observation)
        info["score"] = self.place
        if self.spoilt and self.trouble == "infinite reward":
            reward = float("inf")
        if self.spoilt and self.trouble == "no fitness":
            info["score"] = float("nan")
        return observation, reward, *ends, info

    def _failing(self, when, observation):
        if not self.trouble or when != self.when or (when == "step" and self.time != 1):
            return observation
        if self.once is not None:
            try:
                (Path(self.once) / str(self.seed)).touch(exist_ok=False)
            except FileExistsError:
                return observation
        self.spoilt = True
        match self.trouble:
            case "raise":
                raise RuntimeError(f"the motor is on fire at {self.place!r}")
            case "hang":
                time.sleep(1000)
            case "hang in its own code":  # which keeps the interpreter to itself, as simulators do
                ctypes.PyDLL(None).sleep(1000)
            case "stop":  # for good: nobody tells it to go on
                os.kill(os.getpid(), signal.SIGSTOP)
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "kill the actor":  # of a cluster, from which this process descends
                os.kill(actor_and_node()[0].pid, signal.SIGKILL)
                time.sleep(1000)
            case "kill the node":
                os.kill(actor_and_node()[1].pid, signal.SIGKILL)
                time.sleep(1000)
            case "exit":
                os._exit(3)
            case "crash":
                ctypes.string_at(0)
            case "nan":
                return np.full(2, np.nan, np.float32)
            case "shape":
                return observation[:1]
            case "text":
                return np.array(["left", "right"])
            case "nothing":
                return None
            case "objects":
                return np.array([{}, {}])
        return observation


def actor_and_node():
    """The processes of the cluster from which this one descends; in between may be the one that it was forked from."""
    parents = psutil.Process().parents()
    actor = next(k for k, parent in enumerate(parents) if parent.cmdline()[0].startswith("ray::Host"))
    return parents[actor : actor + 2]


class Marked(Failing):
    """Failing, and each environment leaves a file that says who made it: the parents of its process.

    Args:
        marks: the folder.
        nap: seconds that a step takes.
        spares: the process of a node where nothing goes wrong.
        multiplies: rewards come from products of matrices, whose last bits depend on the processor.
    """

    def __init__(self, *, marks, nap=0.0, spares=None, multiplies=False, **how):
        super().__init__(**how)
        self.nap, self.multiplies = nap, multiplies
        if spares in (parent.pid for parent in psutil.Process().parents()):
            self.faults = {}
        parents = [[parent.pid, " ".join(parent.cmdline()[:2])] for parent in psutil.Process().parents()]
        (Path(marks) / f"{os.getpid()}.json").write_text(json.dumps(parents), encoding="utf-8")

    def step(self, action):
        time.sleep(self.nap)
        observation, reward, *others = super().step(action)
        if self.multiplies:
            rng = np.random.default_rng(0)
            matrix, vector = rng.normal(size=(64, 64)), rng.normal(size=64)
            for _ in range(20):
                vector = np.tanh(matrix @ vector)
            reward += float(vector.sum())
        return observation, reward, *others


class Tolled(Wander):
    """Wander, at a price for each step.

    Args:
        toll: what a step costs.
    """

    def __init__(self, *, toll=0.0):
        super().__init__()
        self.toll = toll

    def step(self, action):
        observation, reward, *rest = super().step(action)
        return observation, reward - self.toll, *rest


class Endless(Walk):
    """Walk until the step limit."""

    def step(self, action):
        observation, reward, _, truncated, info = super().step(action)
        return np.clip(observation, -10, 10), reward, False, truncated, info


class Slow(Endless):
    """Endless, as slow as a large simulation.

    Args:
        nap: seconds that a step takes.
    """

    def __init__(self, *, nap=0.008):
        super().__init__()
        self.nap = nap

    def step(self, action):
        time.sleep(self.nap)
        return super().step(action)


class Still(Endless):
    """Go on as long as no action moves: what lasts longest is to do nothing."""

    def step(self, action):
        observation, _, _, truncated, info = super().step(action)
        moved = float(np.abs(action).max())
        return observation, 1.0 - moved / 10, moved > 0, truncated, info


class Aim(gymnasium.Env):
    """One action, which should be 1 in each of four dimensions: a sphere function of the policy's biases."""

    observation_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = spaces.Box(-100.0, 100.0, (4,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed, options=options)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), -float(np.sum(np.square(action - 1.0))), True, False, {}


class Fine(Aim):
    """Actions that differ in their third decimal."""

    action_space = spaces.Box(-0.01, 0.01, (4,), np.float32)

    def step(self, action):
        return super().step(1.0 + 100.0 * (action - 0.005))


class Valley(Aim):
    """To do nothing is better than a little of anything; only who goes far finds the treasure."""

    def step(self, action):
        observation, _, *rest = super().step(action)
        return observation, 1000.0 if action.min() > 50 else float(np.sum(action / 10 - np.abs(action))), *rest


class Ledge(Valley):
    """Who hardly moves stands safe; everyone else falls."""

    def step(self, action):
        observation, depth, *rest = super().step(action)
        return observation, 100.0 + float(action[0]) if np.abs(action).max() < 0.05 else depth, *rest


class Daring(Aim):
    """The further, the better, but from ever more starts who goes far loses far more."""

    def step(self, action):
        _, *rest = super().step(action)
        far = float(np.clip(action[0], 0.0, 1.0))
        fails = self.np_random.uniform() < 0.3 * far
        return np.zeros(1, np.float32), -10.0 if fails else far, *rest[1:]


class Pitted(Aim):
    """The further right the action's first number, the better, except in a pit; from the start on, a little is luck."""

    def __init__(self, *, pit=(2.0, 2.0), luck=0.0, wide=False, breaks=False):
        super().__init__()
        self.pit, self.luck, self.breaks = pit, luck, breaks
        if wide:
            self.observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)

    def step(self, action):
        observation, *_ = super().step(action)
        place = np.clip(action[:2], 0.0, 1.0).tolist()
        falls = self.pit[0] <= place[0] <= self.pit[1]
        if falls and self.breaks:
            raise RuntimeError("fell into the pit")
        reward = 0.0 if falls else 1.0 + place[0] + self.luck * self.np_random.standard_normal()
        return observation, reward, True, False, {"place": place}


def place_of_action(episode):
    return episode.final_info["place"]


class Seconds(Aim):
    """Shows a place and a time, hundreds of times larger."""

    observation_space = spaces.Box(-1e9, 1e9, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed, options=options)
        return np.array([self.np_random.uniform(), 0.0], np.float32), {}

    def step(self, action):
        _, *rest = super().step(action)
        return np.array([self.np_random.uniform(), 600.0], np.float32), *rest


def mostly_luck(episode):
    """What the policy does hardly counts."""
    return episode.total_reward + 1000.0 * luck(episode)


def constant(episode):
    return 3.0


def tenths(episode):
    return sum([0.1] * 7)


def steps(episode):
    return float(episode.length)


def coarse(episode):
    """Hardly anything makes a difference."""
    return float(round(episode.total_reward))


def capped(episode):
    """Hardly anyone fails to reach the best."""
    return float(min(episode.total_reward, -1.0))


def calls_with_other_keyword(fault=None):
    return Walk(other=fault)


class Tilt(gymnasium.Env):
    """Keep a point that drifts away between -1 and 1; an episode ends when it leaves, and its start is drawn.

    Args:
        fault: "step": raise when the point has been moved to the right of 0.5; "nan": observe no number there.
    """

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, *, fault=None):
        self.fault = fault

    def _observation(self):
        lost = self.fault == "nan" and self.place > 0.5
        return np.array([np.nan if lost else self.place, self.time / 10], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed, options=options)
        self.place, self.time = float(self.np_random.uniform(-0.5, 0.5)), 0
        return self._observation(), {"position": np.array([self.place])}

    def step(self, action):
        self.time += 1
        self.place = 1.2 * self.place + 0.3 * float(action[0])
        if self.fault == "step" and self.place > 0.5:
            raise RuntimeError("the motor is on fire")
        info = {"position": np.array([self.place]), "score": self.time + self.place}
        return self._observation(), 1.0 - self.place**2, bool(abs(self.place) > 1), False, info


class Paid(Tilt):
    """Tilt with rewards that are ``scale`` times larger, or no numbers in the episodes that begin right of ``nan``."""

    def __init__(self, *, scale=1.0, nan=1.0):
        super().__init__()
        self.scale, self.nan = scale, nan

    def reset(self, *, seed=None, options=None):
        observation, info = super().reset(seed=seed, options=options)
        self.lost = self.place > self.nan
        return observation, info

    def step(self, action):
        observation, reward, *rest = super().step(action)
        return observation, math.nan if self.lost else self.scale * reward, *rest


class Rooms(Walk):
    """A world of so many rooms, each of which pays one for a step; it draws itself in one size.

    Args:
        width: rooms from west to east.
        height: rooms from south to north.
        fps: steps per second, of its pictures.
        render_mode: see Gymnasium.
    """

    def __init__(self, *, width=3, height=2, fps=10, render_mode=None):
        super().__init__()
        self.rooms, self.render_mode = width * height, render_mode
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": fps}

    def step(self, action):
        observation, _, *rest = super().step(action)
        return observation, float(self.rooms), *rest

    def render(self):
        picture = np.full((48, 64, 3), 200, np.uint8)
        picture[0, 1] = 0
        return picture


class Pale(Rooms):
    """Draws itself in shares of white."""

    def render(self):
        return super().render() / 255


class Swelling(Rooms):
    """Draws itself larger in each step."""

    def render(self):
        return np.full((48 + 2 * self.time, 64, 3), 200, np.uint8)


class Coins(Endless):
    """A tenth of a coin in each step, in this precision."""

    def __init__(self, *, kind):
        super().__init__()
        self.coin = np.dtype(kind).type(0.1)

    def step(self, action):
        observation, _, terminated, truncated, info = super().step(action)
        return observation, self.coin, terminated, truncated, info


class Ahead:
    """A scripted policy for Walk: a step of 1, and then of 0.5 as long as it lives."""

    def __init__(self, env, seed):
        assert isinstance(env, Walk)
        assert isinstance(seed, int)
        self.length = 1.0

    def __call__(self, observation):
        assert observation.shape == (2,)
        length, self.length = self.length, 0.5
        return np.array([length], np.float32)


class Aside:
    """A scripted policy for a pole: it pushes to one side."""

    def __init__(self, env, seed):
        self.side = seed % 2

    def __call__(self, observation):
        return self.side


class Windy(Walk):
    """Walk, in which an episode's reward for each step is the sum of both ends of a range of its own."""

    def __init__(self, *, randomize=None):
        super().__init__()
        self.wind = (randomize or {}).get("wind", (0.0, 0.0))

    def step(self, action):
        observation, _, terminated, truncated, info = super().step(action)
        return observation, float(sum(self.wind)), terminated, truncated, info


class Fleeing(gymnasium.Env):
    """A puck in the plane: a step costs its distance from the middle; far away it is out, which is cheap for the hasty.

    Args:
        goal: far away is where to go: a step costs 1 anywhere, and the more the faster.
        tells: its info says whether an episode succeeds.
    """

    observation_space = spaces.Box(-5.0, 5.0, (4,), np.float32)
    action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)

    def __init__(self, *, goal=False, tells=True):
        self.goal, self.tells = goal, tells

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed, options=options)
        self.place, self.speed = self.np_random.uniform(-1.0, 1.0, 2), np.zeros(2)
        return self._observation(), {}

    def step(self, action):
        self.speed = 0.95 * self.speed + 0.05 * np.clip(action, -1.0, 1.0)
        self.place = self.place + 0.1 * self.speed
        away = float(np.hypot(*self.place))
        reward = -1.0 - np.square(action).sum() / 4 if self.goal else -away
        info = {"is_success": self.goal and away > 3} if self.tells else {}
        return self._observation(), float(reward), away > 3, False, info

    def _observation(self):
        return np.concatenate([self.place, self.speed]).astype(np.float32)


class Needy(Walk):
    """Cannot be made without being told its goal and its chart."""

    def __init__(self, *, goal, chart, size=1):
        super().__init__()


class Widening(gymnasium.Env):
    """Asks for an action that is as far from 0 as the range of its distance is wide."""

    observation_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, randomize=None):
        self.ranges = {"distance": [0.0, 1.0], **(randomize or {})}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        low, high = (options or {}).get("randomize", self.ranges)["distance"]
        self.width = high - low
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), -abs(float(action[0]) - self.width), True, False, {}


def place_and_length(episode):
    """A behaviour of a cart with a pole: where the cart ends [m], and after what share of 30 steps."""
    return [float(episode.last_observation[0]), episode.length / 30]
