"""The checks: each is a function whose docstring says what training requires, and whose error says what to change."""

import inspect
import itertools
import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from numbers import Real
from typing import Any, SupportsFloat

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env as gymnasium_check_env

from es_envs import registry
from es_envs.behaviour import BehaviourDescriber
from es_envs.closing import close_env
from es_envs.definition import EnvDefinition, PluginError
from es_envs.display import BLANK, BlankFinder
from es_envs.episode import STEP, play
from es_envs.error_text import describe
from es_envs.fitness import load_fitness
from es_envs.masks import KEY, allowed, require_choices, with_masks
from es_envs.spaces import require_portable, require_supported
from es_envs.testing.episodes import Chosen, Trace, action_sources, bits, first_difference, look, playing, trace
from es_envs.testing.faults import ConformanceError, Note, Skip
from es_envs.testing.fresh_process import LEAK_RESETS, LEAK_STEPS
from es_envs.testing.subject import Subject, in_fresh_process
from es_envs.text import uncoloured

LEAK_BYTES = 1_000_000
_ROUNDINGS = 8  # by so many an observation may be beyond a bound, which harms no policy
_GYMNASIUMS_SEED = 123  # of the episodes that its checker plays


def can_be_made(subject: Subject) -> None:
    """The entry point makes an environment from the keyword arguments, and reset(seed=0) begins an episode."""
    with subject.env() as env:
        kinds = {name: parameter.kind for name, parameter in inspect.signature(env.reset).parameters.items()}
        if "seed" not in kinds and inspect.Parameter.VAR_KEYWORD not in kinds.values():
            raise ConformanceError(
                f"reset takes no seed: its parameters are ({', '.join(kinds)}); write def reset(self, *, seed=None, "
                "options=None), and begin it with super().reset(seed=seed)"
            )
        env.reset(seed=0)


def runs_by_name_in_a_fresh_process(subject: Subject) -> None:
    """A worker process can make the environment from its entry point and keyword arguments, and play to the end."""
    if isinstance(subject.rehearsal, ConformanceError):
        raise subject.rehearsal


def prints_nothing(subject: Subject) -> None:
    """Nothing is written to stdout, which is for the results of programs."""
    if isinstance(subject.rehearsal, ConformanceError):
        raise Skip("no episode could be played in a fresh process")
    if subject.rehearsal.printed:
        line = subject.rehearsal.printed.splitlines()[0][:100]
        raise Note(
            f"it prints {line!r} to stdout, which is for the results of programs: use logging, or write to stderr"
        )


def suits_a_policy(subject: Subject) -> None:
    """A policy can see its observations and choose its actions, and its spaces can be sent to another process."""
    with subject.env() as env:
        try:
            require_supported(env.observation_space, env.action_space)
            mask = env.reset(seed=0)[1].get(KEY)
            if mask is not None:
                require_choices(env.action_space)
                allowed(env.action_space, mask)
            for space in (env.observation_space, env.action_space):
                require_portable(space)
        except ValueError as error:
            raise ConformanceError(str(error)) from error


def follows_gymnasium(subject: Subject) -> None:
    """Gymnasium's own checker finds no error and has no recommendation."""
    env = registry.make(subject.env_id, **subject.kwargs)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for matters_to_others in (DeprecationWarning, PendingDeprecationWarning, ResourceWarning):
                warnings.simplefilter("ignore", matters_to_others)
            # It takes a space without bounds for a mistake.
            warnings.filterwarnings("ignore", message=".*(minimum|maximum) value is -?infinity")
            gymnasium_check_env(env.unwrapped, skip_render_check=True)  # "human" needs a display
    except Exception as error:
        start, info = with_masks(env).reset(seed=_GYMNASIUMS_SEED)
        if info.get(KEY) is not None:
            raise Skip(f"Gymnasium's checker takes actions that masks forbid: it met {describe(error)}") from error
        if start not in env.observation_space and _to_bounds(env.observation_space, start) in env.observation_space:
            raise Note(
                "gymnasium.utils.env_checker.check_env refuses a first observation that rounding has brought beyond a "
                "bound; clip it"
            ) from error
        if isinstance(error, gymnasium.error.Error) and "keyword argument" in str(error):  # by the arguments' names
            raise Note(
                f"gymnasium.utils.env_checker.check_env says: {error} Training does without, and resets it by its seed"
            ) from error
        message = f"{type(error).__name__}: {error}"
        hint = "; NaN equals no NaN: does an info hold one?" if "info are not equivalent" in message else ""
        raise ConformanceError(f"gymnasium.utils.env_checker.check_env says: {message}{hint}") from error
    finally:
        close_env(env, subject.definition.label)
    if caught:
        texts = dict.fromkeys(uncoloured(str(warning.message)) for warning in caught)
        raise Note(f"gymnasium.utils.env_checker.check_env recommends: {'; '.join(texts)}")


def stays_within_its_spaces(subject: Subject) -> None:
    """Observations are members of the observation space, rewards finite, under random and under extreme actions."""
    rounded: list[str] = []
    with subject.env() as env:
        for name, actions in action_sources(env.action_space).items():
            _check_episode(subject, env, name, actions, rounded)
    if rounded:
        raise Note(f"{rounded[0]} is beyond a bound, by no more than rounding: clip it")


def depends_on_actions(subject: Subject) -> None:
    """Observations or rewards depend on the actions."""
    with subject.env() as env:
        env.action_space.seed(0)
        ways = [*action_sources(env.action_space).values(), env.action_space.sample]  # the last: at random again
        seen = {trace(env, 0, subject.steps, choose=choose).moments for choose in ways}
    if len(seen) == 1 and not (isinstance(env.action_space, spaces.Discrete) and env.action_space.n == 1):
        raise ConformanceError(
            "the smallest, the largest and random actions give the same observations and rewards (seed 0): does step "
            "use its action? In Bullet, is the motor that it drives free, and its body where you think it is?"
        )


def resets_by_seed(subject: Subject) -> None:
    """The same seed gives the same start, bit for bit."""
    with subject.env() as env:
        for seed in range(4):
            (first, first_info), _, (again, again_info) = (env.reset(seed=s) for s in (seed, seed + 100, seed))
            if bits((first, first_info)) != bits((again, again_info)):
                raise ConformanceError(
                    f"reset(seed={seed}) gives different starts when called twice: call super().reset(seed=seed) and "
                    "draw every random number from self.np_random"
                )


def first_episode_is_like_later_ones(subject: Subject) -> None:
    """The first episode that a process plays is the same, bit for bit, when it is played again."""
    life = subject.life
    step = first_difference(life.first, life.again)
    if step and first_difference(life.again, life.third):
        raise Skip("no two episodes are the same: see the next check")
    if step:
        raise ConformanceError(
            f"the first episode that a process plays is unlike all later ones with the same seed and actions, {step}: "
            "what it prepares, later ones find done (a cache, a file read when needed, a warm-up), or it changes what "
            "reset does not set back (a counter); prepare the one in the constructor, set the other back in reset"
        )


def forgets_earlier_episodes(subject: Subject) -> None:
    """An episode is the same, bit for bit, whatever episodes came before it, few or many."""
    life = subject.life
    with subject.env() as env:
        trace(env, seed=1, steps=subject.steps)  # the first one is another check's
        fresh = trace(env, seed=1, steps=subject.steps)
        # Some are abandoned near the start: contacts that are still there after reset are the hardest to forget.
        for seed, steps in ((2, subject.steps), (3, 5), (4, subject.steps), (1, 1), (1, 2), (1, 5)):
            trace(env, seed, steps)
        again = trace(env, seed=1, steps=subject.steps)
    _insist_equal(
        fresh, again, "after other episodes", "something of them survives reset (caches, motors, contacts, counters)"
    )
    for one, other, when in (
        (life.again, life.third, "when it is played three times in a row"),
        (life.third, life.late, f"after {life.steps} steps of others"),
    ):
        step = first_difference(one, other)
        if step:
            raise ConformanceError(
                f"the same seed and actions give another episode {when}, {step}: something survives reset (a counter "
                "of steps or episodes, a file that grows, memory that fills)"
            )


def is_the_same_in_every_process(subject: Subject) -> None:
    """An episode is the same, bit for bit, in a fresh process."""
    life = subject.life
    for sibling in life.siblings:
        if isinstance(sibling, str):
            raise ConformanceError(
                f"with other processes it raises {sibling}: does it need a port or a file to itself? Let it choose one "
                "by the process's number (an argument `worker`, or the environment variable ES_ENVS_WORKER)"
            )
    differences = [first_difference(life.first, sibling) for sibling in life.siblings]
    if not life.depends_on_the_past:
        with subject.env() as env:
            look(env, 5, subject.steps)
            differences.append(first_difference(life.again, trace(env, 5, subject.steps).digests))
    for difference in filter(None, differences):
        cause = "something other than them (a global random state, the process id, the time, hash order)"
        if _depends_on_number(subject):
            cause = "the process's number (`worker`, ES_ENVS_WORKER), which is for ports and displays alone"
        raise ConformanceError(
            f"the same seed and actions give another episode in a fresh process, {difference}: it depends on {cause}"
        )


def _depends_on_number(subject: Subject) -> bool:
    """Return True if an episode differs between two processes because their numbers do."""
    one, same, other = (
        in_fresh_process(subject, "look", 5, subject.steps, worker=number).result for number in (1, 1, 2)
    )
    return not first_difference(one, same) and bool(first_difference(one, other))


def shares_nothing_between_instances(subject: Subject) -> None:
    """Two environments that step in turns do not influence each other."""
    if subject.life.depends_on_the_past:
        raise Skip("an episode depends on those before it, and so on those of other environments perhaps")
    alone = []
    for seed in (1, 2):
        with subject.env() as env:
            trace(env, seed, 1)  # the first one is another check's
            alone.append(trace(env, seed, subject.steps))
    with subject.env() as first, subject.env() as second:
        for seed, env in ((1, first), (2, second)):
            trace(env, seed, 1)
        players = [playing(first, 1, subject.steps), playing(second, 2, subject.steps)]
        traces: dict[int, Trace] = {}
        while len(traces) < len(players):
            for index, player in enumerate(players):
                if index not in traces:
                    try:
                        next(player)
                    except StopIteration as end:
                        traces[index] = end.value
    for index, expected in enumerate(alone):
        _insist_equal(
            expected,
            traces[index],
            "next to another environment",
            "the two share state (class attributes, a client id)",
        )


def has_finite_fitness(subject: Subject) -> None:
    """Every fitness that the definition names is a finite number, the same for the same episode, whole or abandoned."""
    with subject.env() as env:
        for name, target in subject.definition.fitness_names().items():
            for seed, steps in ((1, subject.steps), (2, 1)):
                fitness: Any = load_fitness(target)
                watching: list[Any] = [fitness(), fitness()] if inspect.isclass(fitness) else []
                episode = trace(env, seed, steps, watching).episode
                rate = [each.result for each in watching] or [fitness, fitness]
                try:
                    values = [function(episode) for function in rate]
                except Exception as error:
                    raise ConformanceError(f"fitness {name!r} raises {describe(error)}") from error
                for value in values:
                    is_array = isinstance(value, np.ndarray) and value.ndim > 0
                    if is_array or not isinstance(value, SupportsFloat) or not math.isfinite(value):
                        raise ConformanceError(f"fitness {name!r} of an episode is {value!r}, expected a finite number")
                if float(values[0]) != float(values[1]):
                    raise ConformanceError(
                        f"fitness {name!r} of the same episode is {values[0]!r}, then {values[1]!r}: does it draw "
                        "random numbers, or keep something from call to call?"
                    )


def describes_episodes(subject: Subject) -> None:
    """The behaviour is always as many finite numbers, within the ranges named, and the same for the same episode."""
    ranges = subject.definition.behaviours
    if subject.definition.behaviour == EnvDefinition.behaviour and not ranges:
        return
    describer = BehaviourDescriber(subject.definition)
    with subject.env() as env:
        for seed, steps in ((1, subject.steps), (2, 1)):
            episode = trace(env, seed, steps).episode
            try:
                one, other = (describer.with_behaviour(episode).behaviour for _ in range(2))
            except (PluginError, ValueError) as error:
                raise ConformanceError(str(error)) from error
            if one != other:
                raise ConformanceError(f"behaviour {subject.definition.behaviour!r} of the same episode differs")
            for value, (name, (low, high)) in zip(one, ranges.items(), strict=False):
                if not low <= value <= high:
                    raise ConformanceError(
                        f"behaviour {name!r} of an episode is {value:g}, outside its range {low:g} to {high:g}: "
                        "correct the function or the range, since a repertoire counts it as at the border"
                    )


def does_not_leak(subject: Subject) -> None:
    """Memory does not grow from reset to reset, nor from step to step."""
    # In a fresh process: memory that this one has freed would hide a leak.
    growth = float(in_fresh_process(subject, "growth", 0, subject.steps, LEAK_BYTES).result)
    if math.isnan(growth):
        raise Skip("this system has no /proc, which shows how much memory a process holds")
    if growth > LEAK_BYTES:
        raise ConformanceError(
            f"memory grows by about {growth / 1e6:.1f} MB in {LEAK_RESETS} resets and {LEAK_STEPS} steps, or fewer: "
            "build the world once, in the constructor, not in reset, and keep nothing of past episodes"
        )


def renders(subject: Subject) -> None:
    """Pictures are uint8 arrays (height, width, 3), and an episode that is filmed is the same episode."""
    if not _can_render(subject):
        raise Skip("no 'rgb_array' in metadata['render_modes']: the environment can be trained, not filmed")
    steps = min(subject.steps, 50)
    with subject.env() as env:
        unseen = trace(env, seed=1, steps=steps)
    with subject.env("rgb_array") as env:
        if env.render_mode != "rgb_array":
            raise ConformanceError("render_mode is not kept: set self.render_mode = render_mode in the constructor")
        filming, shapes, finder = playing(env, 1, steps), set(), BlankFinder()
        for step in itertools.count(1):
            try:
                next(filming)
            except StopIteration as end:
                filmed = end.value
                break
            if step % 20 == 0:
                shapes.add(_picture_shape(env.render(), finder))
        shapes.add(_picture_shape(env.render(), finder))
    if len(shapes) > 1:
        raise ConformanceError(f"render gives pictures of several sizes: {sorted(shapes)}")
    if not isinstance(env.metadata.get("render_fps"), Real) or not env.metadata["render_fps"] > 0:
        raise ConformanceError("metadata['render_fps'] must be the number of steps that make a second, for films")
    _insist_equal(unseen, filmed, "while it is filmed", "rendering or its preparation changes the simulation")
    if finder.blank:
        raise Note(f"its pictures show nothing: {BLANK}")


def closes_twice(subject: Subject) -> None:
    """An environment may be closed twice, and before its first reset."""
    for reset in (True, False):
        env = subject.definition.build(None, **subject.kwargs)
        if reset:
            env.reset(seed=0)
        for how in ("", ", called a second time,"):
            try:
                env.close()
            except (Exception, SystemExit) as error:
                raise ConformanceError(f"close{how} raises {type(error).__name__}: {error}") from error


CHECKS: tuple[Callable[[Subject], None], ...] = (
    runs_by_name_in_a_fresh_process,
    prints_nothing,
    suits_a_policy,
    follows_gymnasium,
    stays_within_its_spaces,
    depends_on_actions,
    resets_by_seed,
    first_episode_is_like_later_ones,
    forgets_earlier_episodes,
    is_the_same_in_every_process,
    shares_nothing_between_instances,
    has_finite_fitness,
    describes_episodes,
    does_not_leak,
    renders,
    closes_twice,
)


def _insist_equal(one: Trace, other: Trace, circumstance: str, suspicion: str) -> None:
    difference = first_difference(one.moments, other.moments)
    if difference:
        raise ConformanceError(
            f"the same seed and actions give another episode {circumstance}, {difference}: {suspicion}"
        )
    difference = first_difference(one.infos, other.infos)
    if difference:
        raise ConformanceError(f"the same episode has other infos {circumstance}, {difference}: {suspicion}")


def _check_episode(
    subject: Subject, env: gymnasium.Env[Any, Any], name: str, choose: Callable[[], Any], rounded: list[str]
) -> None:
    """Play an episode, and add to ``rounded`` which observations are outside their space by rounding alone."""
    env.action_space.seed(0)
    space, progress = env.observation_space, [0, 0]
    chosen = Chosen(env, 0, choose)

    def look(observation: Any, what: str) -> None:
        nearest = _to_bounds(space, observation)
        require_member(space, nearest, what)
        if bits(nearest) != bits(observation):
            rounded.append(what)

    def act(observation: Any, mask: Any = None) -> Any:
        if progress[STEP] == 0:
            look(observation, "the observation of reset(seed=0)")
        return chosen(observation, mask)

    act.takes_masks = chosen.takes_masks  # type: ignore[attr-defined]  # `play` looks for it

    def check(observation: Any, action: Any, reward: float, info: Mapping[str, Any]) -> None:  # noqa: ARG001
        when = f"at step {progress[STEP]} under {name} actions (seed 0)"
        look(observation, f"the observation {when}")
        if not math.isfinite(reward):
            raise ConformanceError(f"the reward {when} is {reward!r}, expected a finite number")

    for _ in play(env, act, 0, subject.steps, [check], progress=progress, pauses=True):
        pass


def _to_bounds(space: gymnasium.Space[Any], observation: Any) -> Any:
    """The observation, where rounding has brought a number beyond a bound with that bound instead."""
    if isinstance(space, spaces.Dict) and isinstance(observation, Mapping) and space.keys() == observation.keys():
        return {key: _to_bounds(space[key], part) for key, part in observation.items()}
    if isinstance(space, spaces.Tuple) and isinstance(observation, tuple) and len(space) == len(observation):
        return tuple(map(_to_bounds, space, observation))
    if not (isinstance(space, spaces.Box) and isinstance(observation, np.ndarray) and observation.dtype.kind == "f"):
        return observation
    if observation.shape != space.shape:
        return observation
    with np.errstate(invalid="ignore"):  # of infinite bounds
        nearest = np.clip(observation, space.low, space.high)
        slack = _ROUNDINGS * np.finfo(observation.dtype).eps * np.maximum(1, np.abs(nearest))
        return np.where(np.abs(observation - nearest) <= slack, nearest, observation).astype(observation.dtype)


def require_member(space: gymnasium.Space[Any], observation: Any, what: str) -> None:
    """Refuse an observation that is no member of its space, or not finite, with the entry or the type that is not.

    Raises:
        ConformanceError: it is none; the message begins with ``what``.
    """
    if isinstance(space, spaces.Box) and not isinstance(observation, np.ndarray | np.generic):  # Gymnasium takes it
        kind = type(observation).__name__
        raise ConformanceError(
            f"{what} is no member of {space}, since it is a {kind}, not a numpy array: {observation!r}"
        )
    if space.contains(observation) and all(np.all(np.isfinite(leaf)) for leaf in _numbers(observation)):
        return
    if any(not np.all(np.isfinite(leaf)) for leaf in _numbers(observation)):
        raise ConformanceError(f"{what} holds NaN or infinity: {observation!r}")
    if isinstance(space, spaces.Box) and isinstance(observation, np.ndarray) and observation.shape == space.shape:
        outside = np.argwhere((observation < space.low) | (observation > space.high))
        if len(outside):
            entry = tuple(outside[0].tolist())
            raise ConformanceError(
                f"{what} is out of bounds: entry {entry} is {observation[entry]}, the space says "
                f"{space.low[entry]} to {space.high[entry]}; clip it or widen the space"
            )
        raise ConformanceError(f"{what} has dtype {observation.dtype}, the space says {space.dtype}")
    raise ConformanceError(f"{what} is no member of {space}: {observation!r}")


def _numbers(value: Any) -> Iterator[Any]:
    """The numeric leaves of an observation."""
    if isinstance(value, Mapping):
        value = tuple(value.values())
    if isinstance(value, tuple | list):
        for item in value:
            yield from _numbers(item)
    elif isinstance(value, int | float | np.number) or (isinstance(value, np.ndarray) and value.dtype.kind in "fiub"):
        yield value


def _can_render(subject: Subject) -> bool:
    with subject.env() as env:
        return "rgb_array" in env.metadata.get("render_modes", ())


def _picture_shape(picture: Any, finder: BlankFinder) -> tuple[int, ...]:
    if not (
        isinstance(picture, np.ndarray) and picture.dtype == np.uint8 and picture.ndim == 3 and picture.shape[2] == 3
    ):
        seen = f"{picture.dtype} {picture.shape}" if isinstance(picture, np.ndarray) else type(picture).__name__
        raise ConformanceError(f"render must return a uint8 array (height, width, 3), got {seen}")
    finder.look(picture)
    return tuple(picture.shape)
