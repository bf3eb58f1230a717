"""The conformance kit: tests that an environment meets training's requirements.

Use ``check_env("MyEnv-v0")`` in an environment's own tests; ``examine`` returns the same as a report card.
"""

from es_envs.testing.checks import CHECKS
from es_envs.testing.faults import ConformanceError
from es_envs.testing.report_card import CheckResult, Report, check_env, examine, examine_stepwise
from es_envs.testing.subject import MAX_STEPS

__all__ = [
    "CHECKS",
    "MAX_STEPS",
    "CheckResult",
    "ConformanceError",
    "Report",
    "check_env",
    "examine",
    "examine_stepwise",
]
