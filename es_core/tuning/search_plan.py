"""The plan of a search for settings: what is searched, what is given, and the config of each run."""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import es_envs
from es_core.config.keywords import field_name, to_fields
from es_core.config.strategy_defaults import is_trainer
from es_core.config.train_config import TrainConfig
from es_core.formatting import lists
from es_core.policies.by_name import make_policy
from es_core.policies.defaults import Space
from es_core.rollout.environment import prepare_env
from es_core.strategies.by_name import require_strategy
from es_core.strategies.defaults import make_plan
from es_core.tuning.search_space import Choice, Range, default_search, domain
from es_envs.arguments import ArgumentError
from es_envs.closing import closing_env
from es_envs.text import file_name


@dataclass(frozen=True)
class SearchPlan:
    """Arguments of a search: the same plan is the same search."""

    env_id: str
    given: Mapping[str, Any]
    spaces: tuple[Space, Space]  # the environment's
    base: TrainConfig  # the settings that ``train`` would use
    domains: Mapping[str, Range | Choice]
    seeds: int
    pool: str  # "local" stands for the ray pool, too, which computes the same

    @classmethod
    def make(
        cls, env_id: str, given: Mapping[str, Any], search: Mapping[str, Any] | None, seeds: int, pool: str
    ) -> Self:
        """Make the plan of a search; for the arguments and errors see ``es_core.tune``."""
        given = to_fields(given)
        base = TrainConfig.for_env(env_id, **given)
        if is_trainer(base.strategy):
            raise ValueError(f"strategy {base.strategy!r} has no population: tune searches for settings of evolution")
        definition = es_envs.definition(env_id)
        env, base = prepare_env(definition, base)
        with closing_env(env, definition.label):
            spaces = env.observation_space, env.action_space
        base = make_plan(make_policy(base, *spaces))
        if base.eval_every == 0:
            raise ValueError("tune compares evaluations of the centre: eval_every must be at least 1, got 0")
        wanted = {field_name(name): values for name, values in (search or default_search(base, given)).items()}
        for name in wanted:
            if name in given:
                raise ValueError(f"{name} is both searched for and set, to {given[name]!r}: leave out one of the two")
        domains = {name: domain(base, name, values) for name, values in wanted.items()}
        plan = cls(env_id, dict(given), spaces, base, domains, seeds, pool)
        for name, each in domains.items():
            for value in each.values if isinstance(each, Choice) else ():
                try:
                    require_strategy(plan.config({**given, name: value}))
                except ArgumentError:  # a misspelt name
                    raise
                except ValueError:  # which may fit to other values than the base's
                    continue
        return plan

    def config(self, fields: Mapping[str, Any]) -> TrainConfig:
        """The config, decided, of a run with these fields.

        Raises:
            ValueError: they do not fit together.
        """
        config = replace(TrainConfig.for_env(self.env_id, **fields), preprocessing=self.base.preprocessing)
        return replace(make_plan(make_policy(config, *self.spaces)), decided=())

    @property
    def identity(self) -> dict[str, Any]:
        """Everything that distinguishes this search from others, as JSON."""
        settings = {f"setting {name}": value for name, value in self.base.to_json().items() if name != "env_id"}
        domains = {f"search {name}": lists(list(asdict(domain).values())) for name, domain in self.domains.items()}
        own = {"environment": self.env_id, "seeds": self.seeds, "pool": self.pool, "given": sorted(self.given)}
        return {**own, **domains, **settings}

    @property
    def combinations(self) -> float:
        """Number of combinations of settings; infinite if there is a range of numbers that are not whole."""
        return math.prod(domain.size for domain in self.domains.values())

    @property
    def name(self) -> str:
        """Name of the search's folder, unless the user gives one."""
        digest = hashlib.sha256(json.dumps(self.identity, sort_keys=True).encode()).hexdigest()
        return f"{file_name(self.env_id)}-{digest[:8]}"

    def fields(self, settings: Mapping[str, Any], seed: int) -> dict[str, Any]:
        """Fields of TrainConfig for a run with these searched settings.

        Raises:
            ValueError: they do not fit together.
        """
        chosen = {**self.given, **settings, "seed": seed}
        config = self.config(chosen)
        ratio = _candidate_episodes(self.base) / _candidate_episodes(config)
        if ratio == 1 or config.steps_per_generation is not None:
            return chosen
        counts = {name: getattr(self.base, name) for name in ("generations", "eval_every")}
        return chosen | {name: max(1, round(count * ratio)) for name, count in counts.items() if count is not None}


def _candidate_episodes(config: TrainConfig) -> int:
    return config.population_size * config.episodes_per_candidate
