"""The conformance kit: all registered environments pass, and every fault is found and named."""

import contextlib
import json
import re
import threading
import time
import warnings

import numpy as np
import pytest
from conftest import ENV_IDS, TINY, first_fast
from gymnasium import spaces
from space_envs import ACTIONS, OBSERVATIONS, UNDONE, UNSEEN

import es_envs
from es_core import TrainConfig, train
from es_core.cli import main
from es_core.policies.by_name import make_policy
from es_core.rollout.rollout import Rollout
from es_envs import testing
from es_envs.testing.checks import require_member, suits_a_policy
from es_envs.testing.subject import Subject

OPTIONS = [
    ("CartPoleBullet-v0", {"start_noise": 0.0}),
    ("CartPoleBullet-v0", {"action_repeat": 3}),
    ("CartPoleBullet-v0", {"observation": "without_velocities"}),
    ("BalancingPlate-v0", {"observation": "without_rates"}),
    ("BalancingPlate-v0", {"action_encoding": "discrete"}),
    ("RaceCar-v0", {"control": "steering_throttle", "lidar_rays": 5}),
    ("RaceCar-v0", {"start_noise": 0.0, "width": 160, "height": 120}),
]
FAULTS = {
    "Deaf": "the smallest, the largest and random actions give the same observations and rewards (seed 0): does step ",
    "Unseeded": "reset(seed=0) gives different starts when called twice",
    "HistoryDependent": "the same seed and actions give another episode after other episodes, from step 2 on",
    "ProcessDependent": "the same seed and actions give another episode in a fresh process",
    "SpiedOn": "the same seed and actions give another episode in a fresh process, from step 1 on",
    "PaidByNumber": "another episode in a fresh process, from its start on: it depends on the process's number (`wor",
    "PaidByVariable": "another episode in a fresh process, from its start on: it depends on the process's number (`wor",
    "PaidByProcess": "the same seed and actions give another episode in a fresh process, from step 1 on",
    "WarmingUp": "the first episode that a process plays is unlike all later ones with the same seed and actions, ",
    "WarmingUpOnce": "the first episode that a process plays is unlike all later ones with the same seed and actions, ",
    "Wearing": "steps of others, from step 1 on: something survives reset (a counter of steps or episodes",
    "WearingOutAll": "steps of others, from step 1 on: something survives reset (a counter of steps or episodes",
    "Shared": "the same seed and actions give another episode next to another environment",
    "NotANumber": "the observation at step 3 under random actions (seed 0) holds NaN or infinity",
    "OutOfBounds": "is out of bounds: entry (1,) is 3.0, the space says -2.0 to 2.0",
    "WrongDtype": "has dtype float64, the space says float32",
    "InfiniteReward": "the reward at step 1 under random actions (seed 0) is inf, expected a finite number",
    "Leaking": "build the world once, in the constructor, not in reset",
    "LeakingSteps": "MB in 100 resets and 1000 steps, or fewer: build the world once",
    "ForgetfulInfo": "the same episode has other infos after other episodes, from step 1 on",
    "GreyPicture": "render must return a uint8 array (height, width, 3), got uint8 (8, 12)",
    "ChangedByRendering": "the same seed and actions give another episode while it is filmed",
    "ClosesOnce": "close, called a second time, raises OSError: already closed",
    "NotInWorkers": "in a fresh process 'broken_envs:NotInWorkers' raises RuntimeError: no place for me here, in line ",
    "ResetWithoutSeed": "reset of ResetWithoutSeed takes no argument 'seed', like the old gym's: it must be reset(",
    "WrongShape": "the observation of reset(seed=0) is no member of Box(-2.0, 2.0, (2,), float32): array([",
    "List": "is no member of Box(-2.0, 2.0, (2,), float32), since it is a list, not a numpy array: [",
    "Raising": "raises RuntimeError: the motor is on fire, in line ",
}
NOTES = {
    "AnyWord": "gymnasium.utils.env_checker.check_env says: The `reset` method does not provide",
    "SeedAlone": "gymnasium.utils.env_checker.check_env says: The `reset` method does not provide an `options` or",
    "DarkPicture": "its pictures show nothing: all pixels have one colour",
    "Lopsided": "gymnasium.utils.env_checker.check_env recommends: WARN: ",
    "OldSeed": "gymnasium.utils.env_checker.check_env recommends: WARN: Official support for the `seed` function is dr",
    "Printing": "it prints 'the third step' to stdout, which is for the results of programs: use logging",
    "PrintingInC": "it prints 'from compiled code' to stdout",
    "Rounding": "the observation of reset(seed=0) is beyond a bound, by no more than rounding: clip it",
}
STEP = "; it must return (observation, reward, terminated, truncated, info)"
NONSENSE = {
    "ResetReturnsNothing": "reset of ResetReturnsNothing returned None; it must return (observation, info)",
    "ResetReturnsAnArray": "reset of ResetReturnsAnArray returned array([",
    "ResetReturnsNoInfo": "reset of ResetReturnsNoInfo returned the info None, expected a dict",
    "StepReturnsNothing": f"step of StepReturnsNothing returned None{STEP}",
    "StepReturnsFour": f"step of StepReturnsFour returned 4 values{STEP}",
    "StepReturnsNoInfo": "step of StepReturnsNoInfo returned the info None, expected a dict",
    "StepReturnsNoReward": "step of StepReturnsNoReward returned the reward None, expected a number",
}
HOPELESS = {
    "Hanging": r"it hangs: a call had not returned after 2 s, in line \d+ of .*broken_envs.py \(step\)",
    "HangingInReset": r"it hangs: .*broken_envs.py \(reset\)",
    "HangingWhenMade": r"it hangs: .*broken_envs.py \(__init__\)",
    "HangingAtTheEnd": r"it hangs: .*broken_envs.py \(close\)",
    "Exiting": r"it ends the process in which it runs \(exit code 0\)",
    "Crashing": r"it ends the process in which it runs \(signal 11\)",
    "Interrupting": r"it raises KeyboardInterrupt in line \d+ of .*broken_envs.py \(step\)",
    **{name: re.escape(NONSENSE[name]) for name in ("ResetReturnsNothing", "StepReturnsFour", "StepReturnsNoReward")},
}
# What could pass for another fault, or shows in many checks.
TOLD_ONCE = {
    "HistoryDependent", "PaidByNumber", "PaidByProcess", "PaidByVariable", "ProcessDependent", "Raising", "Shared",
    "WarmingUp", "WarmingUpOnce", "Wearing", "WearingOutAll",
}  # fmt: skip
# A few, for the fast round: with each of them the whole kit is run.
FAST = {
    "Shared",
    "Hanging",
    "Crashing",
    "Interrupting",
}


def in_rounds(cases):
    """Parameters: ``FAST`` ones first, for the fast round."""
    return first_fast(sorted(cases.items(), key=lambda case: case[0] not in FAST), len(FAST & cases.keys()))


@pytest.fixture
def define(register):
    """Register an environment of tests/broken_envs.py for the length of a test."""
    return lambda name, **fields: register(
        f"{name}-v0", f"broken_envs:{name}", **{"plugin": None, "max_episode_steps": None, **fields}
    )


@pytest.mark.parametrize(
    ("space", "observation", "fault"),
    [
        (spaces.Discrete(3), "left", "is no member of Discrete(3): 'left'"),
        (spaces.Dict({"way": spaces.Discrete(3)}), {"way": "left"}, "is no member of Dict("),
        (spaces.Box(-1, 1, (2,)), np.array([0, np.nan], np.float32), "holds NaN or infinity"),
        (spaces.Tuple([spaces.Box(-1, 1, (1,))]), (np.array([np.inf], np.float32),), "holds NaN or infinity"),
    ],
    ids=str,
)
def test_a_wrong_observation_is_explained_whatever_its_contents(space, observation, fault):
    with pytest.raises(testing.ConformanceError, match=re.escape(f"the observation {fault}")):
        require_member(space, observation, "the observation")


@pytest.mark.parametrize("env_id", first_fast(ENV_IDS))
def test_every_registered_environment_keeps_all_promises(env_id):
    report = testing.check_env(env_id)

    assert len(report.passed) == len(report.results) == len(testing.CHECKS) + 1
    assert report.distinct_starts == 8
    assert 0 < report.step_microseconds < 1e6
    assert 0 < report.reset_microseconds < 1e6


@pytest.mark.long
@pytest.mark.parametrize(("env_id", "kwargs"), OPTIONS, ids=str)
def test_environments_keep_all_promises_with_other_arguments(env_id, kwargs):
    report = testing.check_env(env_id, **kwargs)

    assert report.distinct_starts == (1 if kwargs.get("start_noise") == 0.0 else 8)


@pytest.mark.parametrize(("env_id", "kwargs"), [(env_id, {}) for env_id in es_envs.env_ids()] + OPTIONS, ids=str)
def test_stable_baselines3_has_no_complaint_either(env_id, kwargs):
    checker = pytest.importorskip("stable_baselines3.common.env_checker")
    env = es_envs.make(env_id, render_mode="rgb_array", **kwargs)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checker.check_env(env.unwrapped)
    env.close()


def test_a_good_environment_passes(define):
    report = testing.check_env(define("Good"))

    assert report.faults == ()
    assert report.distinct_starts == 8


def test_spaces_of_a_class_without_bounds_and_methods_in_infos_are_no_fault(define):
    assert testing.examine(define("OneForAll")).faults == ()


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:an old function:DeprecationWarning")
def test_warnings_for_other_developers_are_no_fault(define):
    assert testing.examine(define("OldFashioned")).faults == ()


@pytest.mark.slow
def test_where_resets_take_long_the_cost_of_steps_is_measured_in_a_few(define):
    assert testing.check_env(define("SlowToReset")).reset_microseconds > 10_000  # else it would not end in time


def test_nan_in_an_info_is_named_once_and_taken_for_no_other_fault(define):
    (fault,) = testing.examine(define("UnknownDistance")).faults
    assert fault.endswith("step info are not equivalent for the same seed and action; NaN equals no NaN: does an info "
                          "hold one?")  # fmt: skip


@pytest.mark.long
def test_constructor_arguments_reach_the_environment(define):
    assert testing.check_env(define("Good"), size=0.0).distinct_starts == 1


@pytest.mark.parametrize(("name", "sentence"), in_rounds(FAULTS))
def test_a_broken_environment_is_caught_with_a_sentence(define, name, sentence):
    env_id = define(name)

    with pytest.raises(testing.ConformanceError) as caught:
        testing.check_env(env_id)

    assert sentence in str(caught.value)
    assert str(caught.value).count(f"{env_id}: ") == 1 or name not in TOLD_ONCE
    assert all(line.startswith(f"{env_id}: ") for line in str(caught.value).splitlines() if "v0:" in line)


@pytest.mark.parametrize(("name", "sentence"), first_fast(NOTES.items()))
def test_oddities_that_training_tolerates_are_notes_not_faults(define, name, sentence):
    report = testing.check_env(define(name))

    assert report.faults == ()
    assert any(note.startswith(sentence) for note in report.notes)


@pytest.mark.parametrize(
    "spaces",
    first_fast([{"observation": name} for name in [*UNSEEN, "of its own"]] + [{"action": name} for name in UNDONE], 2),
    ids=lambda spaces: next(iter(spaces.values())),
)
def test_check_refuses_the_spaces_that_training_refuses(register, spaces, tmp_path):
    env_id = register("Spaces-v0", "space_envs:Spaces", kwargs=spaces, max_episode_steps=5)

    with pytest.raises(ValueError, match="Spaces-v0") as refused:
        train(env_id, run_dir=tmp_path / "run", **TINY)
    found = the_verdict_on_spaces(env_id)
    assert found.status == "failed"
    assert found.message in str(refused.value)


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("observation", OBSERVATIONS)
def test_check_accepts_the_spaces_that_training_accepts(register, observation, action):
    kwargs = {"observation": observation, "action": action}
    env_id = register("Spaces-v0", "space_envs:Spaces", kwargs=kwargs, max_episode_steps=5)

    make_policy(TrainConfig.for_env(env_id), OBSERVATIONS[observation], ACTIONS[action])
    suits_a_policy(Subject(env_id, es_envs.definition(env_id), {}))


def the_verdict_on_spaces(env_id):
    return next(result for result in testing.examine_stepwise(env_id) if result.name == "suits_a_policy")


def test_each_verdict_is_known_before_the_next_check_begins(define):
    checks = testing.examine_stepwise(define("Good"))

    assert next(checks).name == "can_be_made"
    assert [next(checks).name, next(checks).name] == [check.__name__ for check in testing.CHECKS[:2]]
    checks.close()


def test_a_loop_without_end_is_found_by_the_time_of_the_processor(define, monkeypatch):
    monkeypatch.setattr("es_envs.testing.subject.PROCESSOR_LIMIT", 0.5)
    (fault,) = testing.examine(define("Hanging")).faults

    assert re.fullmatch(r"it hangs: a call .* busy, in line \d+ of .*broken_envs.py \(step\)", fault)


@pytest.mark.parametrize(("name", "sentence"), in_rounds(HOPELESS))
def test_an_environment_that_hangs_or_crashes_has_its_own_process(define, name, sentence, monkeypatch):
    monkeypatch.setattr("es_envs.testing.subject.TIME_LIMIT", 2)
    report = testing.examine(define(name))

    (fault,) = report.faults
    assert re.fullmatch(f"{sentence}.*", fault)
    assert [result.status for result in report.results] == ["failed"] + ["skipped"] * len(testing.CHECKS)


def test_a_process_that_an_environment_leaves_behind_is_not_waited_for(define):
    started = time.monotonic()
    testing.examine(define("Parent"))
    assert time.monotonic() - started < 60


@pytest.mark.parametrize(
    ("fitness", "fault"),
    first_fast(
        [
            ("not_finite", "fitness 'odd' of an episode is nan, expected a finite number"),
            ("nothing", "fitness 'odd' of an episode is None, expected a finite number"),
            ("two_numbers", "fitness 'odd' of an episode is array([1., 2.]), expected a finite number"),
            ("not_there", "fitness 'odd' raises KeyError: 'height'"),
            ("lucky", "fitness 'odd' of the same episode is -"),
        ]
    ),
)
def test_a_fitness_that_is_no_finite_number_or_not_always_the_same_is_caught(define, fitness, fault):
    env_id = define("Good", fitnesses={"odd": f"broken_envs:{fitness}"})

    (found,) = testing.examine(env_id).faults
    assert found.startswith(fault)


@pytest.mark.parametrize(
    ("behaviour", "fault"),
    first_fast(
        [
            ("without_end", "behaviour 'broken_envs:without_end' failed: ValueError: it returned array([nan"),
            ("counts_calls", "behaviour 'broken_envs:counts_calls' of the same episode differs"),
            ("not_written", "'not_written'"),
        ]
    ),
)
def test_a_behaviour_that_no_strategy_could_use_is_caught(define, behaviour, fault):
    (found,) = testing.examine(define("Good", behaviour=f"broken_envs:{behaviour}")).faults
    assert fault in found


@pytest.mark.parametrize(
    ("behaviours", "fault"),
    [
        ({"one": (0, 1)}, r"it returned \d+ numbers, and behaviours names 1"),
        ({"one": (-9, -8), "two": (-9, 9)}, r"behaviour 'one' of an episode is .*, outside its range -9 to -8"),
    ],
)
def test_a_behaviour_that_its_names_and_ranges_do_not_fit_is_caught(define, behaviours, fault):
    (found,) = testing.examine(define("Good", behaviours=behaviours)).faults
    assert re.search(fault, found)


@pytest.mark.parametrize("preprocessing", [{}, {"stack": 2}], ids=["bare", "wrapped"])
@pytest.mark.parametrize("name", NONSENSE)
def test_training_says_the_same_of_what_reset_and_step_return(define, name, preprocessing):
    config = TrainConfig.for_env(define(name, max_episode_steps=20), hidden_sizes=(), preprocessing=preprocessing)
    rollout = Rollout(es_envs.definition(config.env_id), config)
    with contextlib.closing(rollout), pytest.raises(ValueError, match=re.escape(NONSENSE[name])):
        rollout.episode(seed=0)


@pytest.mark.long
def test_a_fitness_that_watches_every_step_is_understood(define):
    testing.check_env(define("Good", fitness="broken_envs:CountsSteps"))


def test_arguments_may_be_whatever_training_takes(define):
    assert not testing.examine(define("Keeping"), thing=np.float64("inf")).faults


@pytest.mark.parametrize("thing", [lambda: 2.0, threading.Lock()], ids=["lambda", "lock"])
def test_arguments_that_no_worker_can_get_are_refused(define, thing):
    fault = testing.examine(define("Keeping"), thing=thing).faults[0]

    assert "keyword arguments must be values that pickle takes to reach a worker" in fault


def test_an_environment_that_cannot_be_made_fails_once(define):
    report = testing.examine(define("Missing"))

    assert [result.status for result in report.results] == ["failed"] + ["skipped"] * len(testing.CHECKS)
    assert "broken_envs:Missing" in report.faults[0]


def test_an_unknown_id_is_no_fault_of_an_environment():
    with pytest.raises(es_envs.UnknownEnvError, match="Did you mean 'RaceCar-v0'"):
        testing.examine("RaceCart-v0")


def test_every_check_asks_a_question_in_one_sentence():
    for check in testing.CHECKS:
        assert check.__doc__.endswith(".")
        assert "\n" not in check.__doc__


@pytest.mark.long
def test_the_command_line_prints_a_report_card(define, capsys):
    assert main(["check", define("Good")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines if line.startswith("passed ")]) == len(testing.CHECKS) + 1
    assert re.fullmatch(r"a reset takes [\d.]+ µs, a step [\d.]+ µs; 8 seeds give 8 different starts", lines[-1])

    assert main(["check", define("Good", kwargs={"size": 0.0})]) == 0
    assert capsys.readouterr().out.strip().endswith("; all 8 seeds give the same start")

    assert main(["check", define("Printing")]) == 0
    assert re.search(r"^note +it prints 'the third step' to stdout", capsys.readouterr().out, re.MULTILINE)

    assert main(["check", define("Raising")]) == 1
    assert capsys.readouterr().out.count("the motor is on fire") == 1

    assert main(["check", define("OutOfBounds")]) == 1
    out = capsys.readouterr().out
    assert re.search(r"^failed +the observation at step 3 .* is out of bounds: entry \(1,\) is 3.0", out, re.MULTILINE)
    assert re.search("^passed +Memory does not grow from reset to reset, nor from step to step", out, re.MULTILINE)


PRINTING = """
import es_envs, sys
from es_core.cli import main
es_envs.register(es_envs.EnvDefinition(id="PrintingInC-v0", entry_point="broken_envs:PrintingInC"))
sys.exit(main(["check", "PrintingInC-v0", "--json"]))
"""


@pytest.mark.long
def test_the_report_card_can_be_read_by_a_program(define, capsys, python):
    def refuse(constant):
        raise AssertionError(constant)

    assert main(["check", define("Good"), "--json"]) == 0
    card = json.loads(capsys.readouterr().out, parse_constant=refuse)
    assert {result["status"] for result in card["results"]} == {"passed"}
    assert (card["env_id"], card["distinct_starts"]) == ("Good-v0", 8)
    assert card["step_microseconds"] > 0

    assert main(["check", define("Exiting"), "--json"]) == 1
    card = json.loads(capsys.readouterr().out, parse_constant=refuse)
    assert card["step_microseconds"] is None
    assert "it ends the process" in card["results"][0]["message"]

    done = python(PRINTING)
    assert "from compiled code" in json.loads(done.out)["results"][2]["message"]

    assert main(["check", "Goood-v0"]) == 2
    assert "No environment 'Goood-v0'" in capsys.readouterr().err


AUTHOR = """
import es_envs
es_envs.register(es_envs.EnvDefinition(id="Good-v0", entry_point="broken_envs:Good"))
es_envs.register(es_envs.EnvDefinition(id="Drifting-v0", entry_point="broken_envs:HistoryDependent"))

def test_good(check_env):
    check_env("Good-v0", size=2.0)

def test_drifting(check_env):
    check_env("Drifting-v0")
"""


@pytest.mark.long
def test_an_author_has_a_fixture_in_pytest_that_is_light_to_load(python, tmp_path):
    (tmp_path / "test_author.py").write_text(AUTHOR)
    done = python(arguments=["-m", "pytest", "-q", "-p", "es_envs_pytest", "--rootdir", tmp_path], cwd=tmp_path)
    assert "1 failed, 1 passed" in done.out
    assert "Drifting-v0: the same seed and actions give another episode after other episodes" in done.out
    done = python("import es_envs_pytest, sys; print({'numpy', 'gymnasium', 'es_envs'} & set(sys.modules))")
    assert done.out.strip() == "set()"


def test_no_leak_is_claimed_where_memory_cannot_be_measured(define, monkeypatch):
    from es_envs.testing import fresh_process

    monkeypatch.setattr(fresh_process, "_memory", lambda: float("nan"))
    env = es_envs.make(define("Good"))
    assert np.isnan(fresh_process._growth(env, 0, 60, 1e6))
