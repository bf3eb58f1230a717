"""The number of workers, and which pool they are in, do not change a bit of a run: not of metrics, nor of files."""

import functools
import itertools
import shutil

import pytest
from conftest import STRATEGIES, first_fast, options_for
from written import lines, require_equal

from es_core import rebuild, train
from es_core.runs.checkpoint import parameter_hash

SETTINGS = {
    "generations": 3,
    "population_size": 8,
    "max_episode_steps": 40,
    "eval_episodes": 2,
    "confirm_episodes": 2,
    "policy": "mlp",
    "hidden_sizes": (4,),
    "sigma": 0.3,
    "observation_normalization": True,
    "checkpoint_every": 1,
    "engine": "compiled",
}
LEARNS = {"learning_starts": 100, "gradient_steps": 0.1, "learner_options": {"batch_size": 8}}
OF_STRATEGY = {"erl": {"observation_normalization": False, "strategy_options": LEARNS}}


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """A run of a strategy; each is played once."""

    @functools.cache
    def play(strategy, workers, pool="local", engine="compiled", **fields):
        folder = tmp_path_factory.mktemp("runs") / "run"
        settings = {**SETTINGS, "engine": engine, **OF_STRATEGY.get(strategy, options_for(strategy, 4)), **fields}
        how = {"run_dir": folder, "workers": workers, "pool": pool, "progress": False}
        return train("CartPole-v1", strategy=strategy, **how, **settings)

    return play


@pytest.mark.parametrize("strategy", first_fast(STRATEGIES, 3))
def test_three_workers_give_the_result_of_one(strategy, played):
    one = played(strategy, 1)
    assert len({line["parameter_hash"] for line in lines(one)}) > 1, "the centre should move, or this shows nothing"
    assert len({line["episode_length"] for line in lines(one)[:-1]}) > 1
    assert one.checkpoint_generations() == [0, 1, 2, 3]
    require_equal(played(strategy, 3), one)


@pytest.mark.parametrize(("strategy", "workers", "pool"), [(name, 1, "local") for name in STRATEGIES if name != "erl"])
def test_every_checkpoint_can_be_rebuilt_from_the_first_and_the_log(strategy, workers, pool, played, tmp_path):
    run = played(strategy, workers, pool)
    kept = shutil.ignore_patterns("000001*", "000002*", "000003*", "best*")
    folder = shutil.copytree(run.directory, tmp_path / "run", ignore=kept)
    for generation in (1, 2, 3):
        rebuild(folder, generation).save(tmp_path / "rebuilt.safetensors")
        assert (tmp_path / "rebuilt.safetensors").read_bytes() == run.checkpoint_path(generation).read_bytes()


@pytest.mark.parametrize(("pool", "workers"), [("local", 2), ("local", 8)])
def test_neither_the_number_of_workers_nor_the_pool_changes_a_bit(pool, workers, played):
    require_equal(played("openai_es", workers, pool), played("openai_es", 1))


@pytest.mark.slow
def test_the_number_of_workers_does_not_change_a_bit_of_the_torch_engine(played):
    one, three = (played("openai_es", workers, "local", "torch") for workers in (1, 3))
    require_equal(one, three)


@pytest.mark.long
@pytest.mark.parametrize(("module", "pool"), [("Remembering", "local"), ("Net", "local")])
def test_the_number_of_workers_does_not_change_a_bit_of_a_torch_module(module, pool, played):
    one, two = (
        played("openai_es", workers, pool, "torch", policy=f"small_modules:{module}", hidden_sizes=(32, 32))
        for workers in (1, 2)
    )
    require_equal(one, two)


@pytest.mark.long
@pytest.mark.parametrize(
    ("strategy", "workers", "pool", "engine"),
    [
        *((*case, "compiled") for case in itertools.product(STRATEGIES, (2, 8), ("local",))),
        ("openai_es", 2, "local", "torch"),
    ],
)
def test_all_strategies_workers_and_pools(strategy, workers, pool, engine, played):
    reference = played(strategy, 1, "local", engine)
    require_equal(played(strategy, workers, pool, engine), reference)


def test_every_line_of_the_metrics_has_the_hash_of_its_centre(tmp_path):
    run = train("CartPole-v1", run_dir=tmp_path / "run", workers=1, progress=False, **SETTINGS)
    written = lines(run)
    assert [line["generation"] for line in written] == [0, 1, 2, 3]
    for line, following in itertools.pairwise(written):
        assert line["parameter_hash"] == parameter_hash(run.checkpoint_at(line["generation"]).mean)
        assert line["next_hash"] == following["parameter_hash"]
