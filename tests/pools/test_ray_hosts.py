"""A Ray cluster of several hosts: network namespaces of this machine, each with an address and a cable of its own."""

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import TESTS, generations, registered, wait_until
from written import lines

from es_core import Run, train

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        not hasattr(os, "geteuid") or os.geteuid() != 0 or shutil.which("ip") is None,
        reason="making network namespaces needs Linux, root and iproute2",
    ),
]

HEALTH = {
    "health_check_initial_delay_ms": 500,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 1000,
    "health_check_failure_threshold": 3,
}
SETTINGS = {
    "generations": 60,  # more than it takes until hosts have come and gone
    "population_size": 24,
    "eval_episodes": 2,
    "confirm_episodes": 3,
    "policy": "mlp",
    "hidden_sizes": (8,),
    "sigma": 0.3,
    "observation_normalization": True,
    "fitness": "final_info:score",
    "engine": "compiled",
    "progress": False,
}
PORT = 6399


def sh(*words, **how):
    return subprocess.run(words, check=True, capture_output=True, text=True, timeout=120, **how).stdout


TOKEN = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
SWITCH = "es-switch"  # in a namespace of its own, since rules of this machine's firewall may hold for its bridges


class Host:
    """A network namespace with the address 10.77.0.``number``, on a switch with the others."""

    def __init__(self, number):
        self.name, self.cable, self.address = f"es-host{number}", f"es-veth{number}", f"10.77.0.{number}"
        sh("ip", "netns", "add", self.name)
        sh("ip", "-n", SWITCH, "link", "add", self.cable, "type", "veth", "peer", "name", "eth0", "netns", self.name)
        sh("ip", "-n", SWITCH, "link", "set", self.cable, "master", "bridge", "up")
        for words in (f"addr add {self.address}/24 dev eth0", "link set eth0 up", "link set lo up"):
            sh("ip", "-n", self.name, *words.split())

    def run(self, *words):
        """A process on this host, which knows no way out to a proxy."""
        variables = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        return subprocess.Popen(
            ["ip", "netns", "exec", self.name, *words],
            env={**variables, "PYTHONPATH": str(TESTS), "RAY_USAGE_STATS_ENABLED": "0", **TOKEN},
            stdout=subprocess.DEVNULL,
        )

    def start_ray(self, *how):
        ray = Path(sys.executable).with_name("ray")
        words = ["start", f"--node-ip-address={self.address}", "--num-cpus=1", "--object-store-memory=100000000", *how]
        assert self.run(str(ray), *words).wait(timeout=120) == 0

    def cut_off(self):
        sh("ip", "-n", SWITCH, "link", "set", self.cable, "down")

    def pull_the_plug(self):
        for pid in sh("ip", "netns", "pids", self.name).split():
            os.kill(int(pid), signal.SIGKILL)

    def close(self):
        self.pull_the_plug()
        sh("ip", "netns", "delete", self.name)


@pytest.fixture
def hosts():
    sh("ip", "netns", "add", SWITCH)
    hosts = []
    try:
        sh("ip", "-n", SWITCH, "link", "add", "bridge", "type", "bridge")
        sh("ip", "-n", SWITCH, "link", "set", "bridge", "up")
        for number in (1, 2, 3, 4):
            hosts.append(Host(number))  # noqa: PERF401  (each is closed if a later one cannot be made)
        hosts[0].start_ray(
            "--head", f"--port={PORT}", "--include-dashboard=false", f"--system-config={json.dumps(HEALTH)}"
        )
        for host in hosts[1:3]:
            host.start_ray(f"--address={hosts[0].address}:{PORT}")
        yield hosts
    finally:
        for host in hosts:
            host.close()
        sh("ip", "netns", "delete", SWITCH)


def test_a_run_on_several_hosts_survives_new_cut_and_dead_hosts(hosts, tmp_path):
    with registered("Marked-v0", "small_envs:Marked", max_episode_steps=30) as env:
        (tmp_path / "marks").mkdir()
        kwargs = {"marks": str(tmp_path / "marks")}
        local = train(env.id, run_dir=tmp_path / "local", env_kwargs=kwargs, **SETTINGS)
    before = set((tmp_path / "marks").iterdir())
    code = f"""
import conftest
from es_core import train
with conftest.registered("Marked-v0", "small_envs:Marked", max_episode_steps=30):
    train("Marked-v0", run_dir={str(tmp_path / "r")!r}, pool="ray", ray_address="{hosts[0].address}:{PORT}",
          env_kwargs={kwargs | {"nap": 0.02}!r}, **{SETTINGS!r})
"""
    driver = hosts[0].run(sys.executable, "-W", "always", "-c", code)

    def until(condition):
        wait_until(condition, driver, seconds=200)

    def playing():
        return len(set((tmp_path / "marks").iterdir()) - before) - 1  # one is the driver's own

    def replaced():
        return sum(line["workers_replaced"] for line in lines(SimpleNamespace(directory=tmp_path / "r")))

    until(lambda: playing() == 3 and generations(tmp_path / "r"))
    hosts[3].start_ray(f"--address={hosts[0].address}:{PORT}")
    until(lambda: playing() == 4)
    hosts[1].cut_off()
    until(lambda: replaced() == 1)
    hosts[2].pull_the_plug()
    until(lambda: replaced() == 2)
    driver.send_signal(signal.SIGINT)
    driver.wait(timeout=200)
    hashes = [stats.parameter_hash for stats in Run.open(tmp_path / "r", trust=True).history]
    assert hashes == [stats.parameter_hash for stats in local.history][: len(hashes)]
