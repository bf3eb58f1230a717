"""Registers RaceCar-v0, a walled S-shaped track, and RaceTrack-v0, a new track in every episode."""

from es_envs import EnvDefinition, hookimpl

__all__ = ["register_envs"]


@hookimpl
def register_envs() -> list[EnvDefinition]:
    """This plugin's environments."""
    return [
        EnvDefinition(
            id="RaceCar-v0",
            entry_point="es_racecar.env:RaceCarEnv",
            fitness="es_racecar.fitness:distance_with_finish",
            fitnesses={"distance": "es_envs.fitness:distance_from_start"},
            behaviour="es_envs.behaviour:final_position",
            behaviours={"x": (0.0, 15.0), "y": (0.0, 8.0)},
            max_episode_steps=2000,
            solved_at=15.1,
            pretrained="es_racecar:RaceCar-v0.safetensors",
            summary="Drive a walled S-shaped track",
            recommended={
                "strategy": "sep_cma_es",
                "policy": "linear",
                "observation_normalization": False,  # its observations are of the order of 1
                "population_size": 32,
                "generations": 100,
            },
            recommended_for={
                "openai_es": {"sigma": 0.1, "learning_rate": 0.1},
                "pgpe": {"learning_rate": 0.1},  # ClipUp's rule takes more than twice the steps
            },
        ),
        EnvDefinition(
            id="RaceTrack-v0",
            entry_point="es_racecar.track_env:RaceTrackEnv",
            kwargs={"mirror": True},  # its circuits are driven counterclockwise, others may not be
            fitness="es_racecar.fitness:progress",
            fitnesses={
                "time": "es_racecar.fitness:time",
                "progress_and_time": "es_racecar.fitness:progress_and_time",
                "distance": "es_envs.fitness:distance_from_start",
            },
            behaviour="es_envs.behaviour:final_position",
            behaviours={"x": (-7.2, 7.2), "y": (-7.2, 7.2)},
            max_episode_steps=500,
            pretrained="es_racecar:RaceTrack-v0.safetensors",
            scripts={"pure_pursuit": "es_racecar.pursuit:PurePursuit"},
            summary="Race on tracks never seen before",
            recommended={
                "strategy": "cma_es",
                "policy": "linear",
                "observation_normalization": False,  # its observations are of the order of 1
                "population_size": 32,
                "sigma": 0.3,
                "episodes_per_candidate": 4,  # tracks differ more than candidates
            },
        ),
    ]
