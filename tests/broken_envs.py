"""A good environment and copies of it with one fault each, for the tests of the conformance kit."""

import os
import random
import signal
import subprocess
import sys
import time
import warnings
from typing import ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces

LEAK = []
CALLS = []
CHILDREN = []


class Good(gymnasium.Env):
    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 30}

    def __init__(self, render_mode=None, size=1.0):
        self.render_mode = render_mode
        self.size = size
        self.observation_space = spaces.Box(-2.0, 2.0, (2,), np.float32)
        self.action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed, options=options)
        self.place = float(self.np_random.uniform(0.0, 0.1)) * self.size
        self.time = 0
        return self.observation(), {}

    def step(self, action):
        self.place += 0.1 if action else -0.1
        self.time += 1
        return self.observation(), -abs(self.place), abs(self.place) > 1 or self.time >= 60, False, {}

    def observation(self):
        return np.array([self.place, self.time / 60], np.float32)

    def render(self):
        return np.full((8, 12, 3), self.time, np.uint8)


class AnyWord(Good):
    """Its reset takes keyword arguments by another name than Gymnasium's checker looks for."""

    def reset(self, **how):
        return super().reset(**how)


class SeedAlone(Good):
    """Its reset takes no options."""

    def reset(self, *, seed=None):
        return super().reset(seed=seed)


class OneForAll(Good):
    """Its spaces, one without bounds, belong to the class, and its info holds a method."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, render_mode=None):
        self.render_mode, self.size = render_mode, 1.0

    def reset(self, *, seed=None, options=None):
        observation, _ = super().reset(seed=seed, options=options)
        return observation, {"goal": self.observation}


class SlowToReset(Good):
    """Episodes of one step after a reset that takes long."""

    def reset(self, *, seed=None, options=None):
        time.sleep(0.01)
        return super().reset(seed=seed, options=options)

    def step(self, action):
        observation, reward, *_ = super().step(action)
        return observation, reward, True, False, {}


class Parent(Good):
    """Leaves a process behind, which holds its pipes open."""

    def __init__(self, **options):
        super().__init__(**options)
        if "pytest" not in sys.modules:
            CHILDREN.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]))


class List(Good):
    def observation(self):
        return super().observation().tolist()


class Deaf(Good):
    def step(self, action):
        return super().step(self.time % 2)


class Unseeded(Good):
    def reset(self, *, seed=None, options=None):
        _, info = super().reset(seed=seed, options=options)
        self.place = float(np.random.default_rng().uniform(-0.1, 0.1))
        return self.observation(), info


class HistoryDependent(Good):
    drift = 0.0

    def step(self, action):
        observation, *rest = super().step(action)
        self.drift = self.drift + 1e-6
        self.place += self.drift
        return observation, *rest


class ProcessDependent(Good):
    offset = 0.1 * int.from_bytes(os.urandom(4)) / 2**32  # drawn once in each process

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed, options=options)
        self.place += self.offset
        return self.observation(), {}


class Shared(Good):
    steps: ClassVar = [0]

    def reset(self, *, seed=None, options=None):
        self.steps[0] = 0
        return super().reset(seed=seed, options=options)

    def step(self, action):
        self.steps[0] += 1
        self.place += 1e-3 * self.steps[0]
        return super().step(action)


class NotANumber(Good):
    def observation(self):
        return np.array([self.place, np.nan if self.time == 3 else 0.0], np.float32)


class OutOfBounds(Good):
    def observation(self):
        return np.array([self.place, float(self.time)], np.float32)


class WrongDtype(Good):
    def observation(self):
        return super().observation().astype(np.float64)


class InfiniteReward(Good):
    def step(self, action):
        observation, _, *rest = super().step(action)
        return observation, float("inf"), *rest


class Leaking(Good):
    def reset(self, *, seed=None, options=None):
        LEAK.append(np.ones(8_000))  # 64 kB
        return super().reset(seed=seed, options=options)


class WrongShape(Good):
    def observation(self):
        return np.append(super().observation(), np.float32(0))


class Keeping(Good):
    def __init__(self, thing=None, **kwargs):
        super().__init__(**kwargs)
        self.thing = thing


class Printing(Good):
    def step(self, action):
        if self.time == 3:
            print("the third step")  # noqa: T201  (the fault)
        return super().step(action)


class PrintingInC(Good):
    def step(self, action):
        os.write(1, b"from compiled code\n")
        return super().step(action)


class Hanging(Good):
    def step(self, action):
        while self.time == 7:
            pass
        return super().step(action)


class HangingInReset(Good):
    def reset(self, *, seed=None, options=None):
        time.sleep(0 if seed in {None, 0} else 3600)
        return super().reset(seed=seed, options=options)


class HangingWhenMade(Good):
    def __init__(self, **kwargs):
        time.sleep(3600)


class HangingAtTheEnd(Good):
    def close(self):
        time.sleep(3600)


class Exiting(Good):
    def step(self, action):
        sys.exit(0)


class Crashing(Good):
    def step(self, action):
        os.kill(os.getpid(), signal.SIGSEGV)


class Raising(Good):
    def step(self, action):
        raise RuntimeError("the motor is on fire")


class ResetWithoutSeed(Good):
    def reset(self, options=None):
        return super().reset(options=options)


class UnknownDistance(Good):
    """Its info holds NaN, which equals no NaN."""

    def step(self, action):
        observation, reward, terminated, truncated, _ = super().step(action)
        return observation, reward, terminated, truncated, {"distance": float("nan"), "gaps": np.full(2, np.nan)}


class Interrupting(Good):
    def step(self, action):
        if self.time == 7:
            raise KeyboardInterrupt
        return super().step(action)


class SpiedOn(Good):
    def step(self, action):
        observation, reward, *rest = super().step(action)
        return observation, reward + ("pytest" in sys.modules), *rest


class PaidByNumber(Good):
    """Its number is for a port, and finds its way into the episode."""

    def __init__(self, render_mode=None, worker=0):
        super().__init__(render_mode)
        self.worker = worker

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed, options=options)
        self.place += 1e-3 * self.worker
        return self.observation(), {}


class PaidByVariable(PaidByNumber):
    def __init__(self, render_mode=None):
        super().__init__(render_mode, int(os.environ["ES_ENVS_WORKER"]))


class PaidByProcess(Good):
    def step(self, action):
        observation, reward, *rest = super().step(action)
        return observation, reward + os.getpid() % 2, *rest


class WearingOutAll(Good):
    worn: ClassVar = [0]

    def step(self, action):
        self.worn[0] += 1
        observation, reward, *rest = super().step(action)
        return observation, reward - (self.worn[0] > 3000), *rest


class Wearing(WearingOutAll):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.worn = [0]


class WarmingUp(Good):
    cold = True

    def step(self, action):
        observation, reward, *rest = super().step(action)
        return observation, reward - self.cold, *rest

    def reset(self, *, seed=None, options=None):
        self.cold = "place" not in vars(self)
        return super().reset(seed=seed, options=options)


class WarmingUpOnce(Good):
    seen: ClassVar = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed, options=options)
        self.seen.append(seed)
        self.place += len(self.seen) == 1
        return self.observation(), {}


class ReturningNonsense(Good):
    """``reset`` or ``step`` returns something else than it must, at time ``when``."""

    reset_as = step_as = staticmethod(lambda *values: values)
    when = 0

    def reset(self, *, seed=None, options=None):
        return self.reset_as(*super().reset(seed=seed, options=options))

    def step(self, action):
        returned = super().step(action)
        return self.step_as(*returned) if self.time > self.when else returned


class ResetReturnsNothing(ReturningNonsense):
    reset_as = staticmethod(lambda *_: None)


class ResetReturnsAnArray(ReturningNonsense):
    reset_as = staticmethod(lambda observation, _: observation)


class ResetReturnsNoInfo(ReturningNonsense):
    reset_as = staticmethod(lambda observation, _: (observation, None))


class StepReturnsNothing(ReturningNonsense):
    step_as = staticmethod(lambda *_: None)


class StepReturnsFour(ReturningNonsense):
    step_as = staticmethod(lambda observation, reward, done, _, info: (observation, reward, done, info))
    when = 8


class StepReturnsNoInfo(ReturningNonsense):
    step_as = staticmethod(lambda *values: (*values[:4], None))


class StepReturnsNoReward(ReturningNonsense):
    step_as = staticmethod(lambda observation, _, *rest: (observation, None, *rest))


class GreyPicture(Good):
    def render(self):
        return np.zeros((8, 12), np.uint8)


class DarkPicture(Good):
    def render(self):
        return np.zeros((8, 12, 3), np.uint8)


class ChangedByRendering(Good):
    def render(self):
        self.place += 1e-3
        return super().render()


class ClosesOnce(Good):
    closed = False

    def close(self):
        if self.closed:
            raise OSError("already closed")
        self.closed = True


class NotInWorkers(Good):
    def __init__(self, **kwargs):
        if "pytest" not in sys.modules:
            raise RuntimeError("no place for me here")
        super().__init__(**kwargs)


class Artist(Good):
    """One fault, in the processes that draw only.

    Args:
        render_mode: as Gymnasium says.
        fault: what goes wrong.
        note: print the process's number with each frame.
    """

    def __init__(self, render_mode=None, fault=None, note=False):
        super().__init__(render_mode)
        self.fault = None if "pytest" in sys.modules else fault
        self.note = note
        if self.fault == "start":
            raise RuntimeError("no place for me here")

    def step(self, action):
        if self.fault == "step" and self.time == 7:
            raise RuntimeError("the motor is on fire")
        observation, reward, _, *rest = super().step(action)
        limit = {"shorter": 20, "longer": 80}.get(self.fault, 40)
        return observation, reward - (self.fault == "other"), self.time >= limit, *rest

    def render(self):
        if self.note:
            sys.stdout.write(f"drawn by {os.getpid()}\n")
            sys.stdout.flush()
        if self.fault == "render" and self.time == 7:
            raise RuntimeError("the lamp is broken")
        if self.fault == "crash" and self.time == 7:
            os.kill(os.getpid(), signal.SIGKILL)
        shade = 150 if self.fault else 250
        return np.full((40, 60, 3), shade - 3 * self.time, np.uint8)


def two_numbers(episode):
    return np.array([1.0, 2.0])


def nothing(episode):
    return None


def not_there(episode):
    return episode.final_info["height"]


def not_finite(episode):
    return float("nan")


class CountsSteps:
    def __init__(self):
        self.count = 0

    def on_step(self, observation, action, reward, info):
        self.count += 1

    def result(self, episode):
        return float(self.count)


class LeakingSteps(Good):
    def step(self, action):
        LEAK.append(np.ones(1_000))  # 8 kB
        return super().step(action)


class ForgetfulInfo(Good):
    """Has an info that survives reset, but not at an episode's ends."""

    counted = 0

    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        self.counted += 1
        return observation, reward, terminated, truncated, info if terminated else {**info, "counted": self.counted}


class OldFashioned(Good):
    """Fine, but a library that it uses warns its author, its infos hold sets, and one render mode needs a display."""

    metadata: ClassVar = {"render_modes": ["human", "rgb_array"], "render_fps": np.int64(10)}

    def __init__(self, render_mode=None, **kwargs):
        if render_mode == "human":
            raise RuntimeError("no display")
        super().__init__(render_mode=render_mode, **kwargs)

    def step(self, action):
        warnings.warn("an old function of a library", DeprecationWarning, stacklevel=1)
        *moment, info = super().step(action)
        return *moment, {**info, "visited": {"north", "east", "south", "west"}}


def lucky(episode):
    return episode.total_reward + random.random()


def without_end(episode):
    return [float("nan")] * episode.length


def counts_calls(episode):
    CALLS.append(episode.length)
    return [len(CALLS)]


class Lopsided(Good):
    """Its actions have bounds that others advise against."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.action_space = spaces.Box(-1.0, 3.0, (1,), np.float32)

    def step(self, action):
        return super().step(int(action[0] > 0))


class OldSeed(Good):
    """It has the method of gym before 0.26."""

    def seed(self, seed=None):
        return [seed]


class Rounding(Good):
    """Rounding brings its numbers beyond a bound."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.observation_space = spaces.Box(-2.0, 2.0, (2,), np.float64)

    def observation(self):
        return np.array([self.place, np.nextafter(2.0, 3.0)])


class GloballyNoisy(Good):
    """Its noise comes from NumPy's global generator, which nobody seeds."""

    def observation(self):
        return super().observation() + np.float32(self.time > 0) * np.float32(np.random.random())  # noqa: NPY002  (the fault)


class PaidByProcessId(Good):
    def step(self, action):
        observation, reward, *rest = super().step(action)
        return observation, reward + os.getpid(), *rest


class RealTime(Good):
    """It moves on while nobody steps it."""

    def step(self, action):
        observation, _, *rest = super().step(action)
        return observation, float(time.perf_counter_ns() % 1_000_003), *rest


def NormalizingReward():
    return gymnasium.wrappers.NormalizeReward(Good())
