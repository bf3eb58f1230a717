"""Registers BalancingPlate-v0, PlateFigureEight-v0 and BallMaze-v0: a ball on a tilting plate."""

from es_envs import EnvDefinition, hookimpl

__all__ = ["register_envs"]

ON_A_PLATE = {
    "policy": "linear",
    "observation_normalization": False,  # its observations are of the order of 1
    "strategy": "openai_es",
    "sigma": 0.1,
    "optimizer": "sgd",  # Adam takes about twice the steps
    "learning_rate": 0.1,
    "population_size": 32,
}


@hookimpl
def register_envs() -> list[EnvDefinition]:
    """This plugin's environments."""
    return [
        EnvDefinition(
            id="BalancingPlate-v0",
            entry_point="es_balancing_plate.env:BalancingPlateEnv",
            fitness="episode_length",
            max_episode_steps=2000,
            solved_at=1950.0,
            pretrained="es_balancing_plate:BalancingPlate-v0.safetensors",
            summary="Keep a ball on a tilting plate",
            recommended=ON_A_PLATE,
        ),
        EnvDefinition(
            id="PlateFigureEight-v0",
            entry_point="es_balancing_plate.figure_eight:PlateFigureEightEnv",
            fitness="episode_return",
            max_episode_steps=2000,
            solved_at=1700.0,
            summary="Roll a ball after a moving point",
            recommended=ON_A_PLATE,
        ),
        EnvDefinition(
            id="BallMaze-v0",
            entry_point="es_balancing_plate.maze:BallMazeEnv",
            fitness="episode_return",
            max_episode_steps=1000,
            solved_at=1.5,
            summary="Roll a ball through a maze",
            recommended={
                "strategy": "cma_es",
                "policy": "mlp",
                "hidden_sizes": (),
                "sigma": 0.5,  # with smaller ones many a run stays before a hole
                "population_size": 24,
            },
        ),
    ]
