"""Who plays what, and what follows when workers die: tables of events, and a simulation of workers that fail."""

import random
from collections import Counter

import pytest

from es_core.pools.scheduler import PAUSES, Scheduler


def scheduler(workers="ab", *, tasks=8, cpus=1, call_seconds=0.001, task_seconds=1.0, **how):
    """A scheduler whose workers are ready, and whose tasks take a second each."""
    made = Scheduler(call_seconds=call_seconds, **how)
    made.task_seconds = task_seconds
    for worker in workers:
        made.join(worker, cpus)
    made.begin(range(tasks))
    return made


def carry_out(made, event):
    """Tell a scheduler of an event; what it says to that."""
    what, worker, *rest = event
    if what == "order":
        portion = made.order(worker)
        return portion and portion.numbers
    if what == "answer":
        return made.answer(worker, rest[0], seconds=float(len(rest[0])), episodes=len(rest[0]))
    if what == "die":
        return made.die(worker, rest[0])
    if what == "hang":
        return made.die(worker, rest[0], hung=True)
    return getattr(made, what)(worker, *rest)


ALONE = [
    (("order", "a"), [0, 1, 2]),
    (("die", "a", [0]), []),
    (("join", "a"), None),
    (("order", "a"), [0]),
    (("order", "a"), None),
]
# By what happens: events, and what the scheduler says to each.
TABLES = {
    "most is shared out at first": [
        (("order", "a"), [0, 1, 2]),
        (("order", "b"), [3, 4, 5]),
        (("order", "a"), None),
        (("answer", "a", [0]), None),
        (("order", "a"), None),
        (("answer", "a", [1, 2]), None),
        (("order", "a"), [6]),
        (("answer", "b", [3, 4, 5]), None),
        (("order", "b"), [7]),
        (("answer", "b", [7]), None),
        (("order", "b"), None),
    ],
    "a worker has a further task before it has played all": [
        (("order", "a"), [0, 1, 2]),
        (("answer", "a", [0, 1]), None),
        (("order", "a"), [3]),
    ],
    "what a worker had that is gone comes next": [
        (("order", "a"), [0, 1, 2]),
        (("order", "b"), [3, 4, 5]),
        (("leave", "a"), None),
        (("answer", "b", [3, 4, 5]), None),
        (("order", "b"), [0, 1, 2, 6]),
    ],
    "a task that killed its worker is played alone": [
        *ALONE,
        (("order", "b"), [1, 2, 3]),
        (("answer", "a", [0]), None),
        (("order", "a"), [4, 5]),
    ],
    "a task is given up at the third death": [
        *ALONE,
        (("die", "a", [0]), []),
        (("order", "b"), [0]),
        (("die", "b", [0]), [0]),
        (("join", "c"), None),
        (("order", "c"), [1, 2, 3, 4]),
    ],
    "a task that hangs is given up at the second hang": [
        (("order", "a"), [0, 1, 2]),
        (("hang", "a", [0]), []),
        (("order", "b"), [0]),
        (("hang", "b", [0]), [0]),
    ],
    "a worker that died between two tasks blames none": [
        (("order", "a"), [0, 1, 2]),
        (("die", "a", [-1]), []),
        (("order", "b"), [0, 1, 2, 3]),
    ],
    "a task that was answered is blamed for nothing": [
        (("order", "a"), [0, 1, 2]),
        (("answer", "a", [0]), None),
        (("die", "a", [0]), []),
        (("order", "b"), [1, 2, 3, 4]),
    ],
    "where nobody knows the culprit, all are played alone": [
        (("order", "a"), [0, 1, 2]),
        (("die", "a", [0, 1, 2]), []),
        (("order", "b"), [0]),
        (("answer", "b", [0]), None),
        (("order", "b"), [1]),
        (("answer", "b", [1]), None),
        (("order", "b"), [2]),
        (("answer", "b", [2]), None),
        (("order", "b"), [3, 4, 5, 6]),
    ],
    "a worker that cannot start is given up in the end": [
        *((("fail_to_start", "c", 10.0), pause) for pause in PAUSES),
        (("fail_to_start", "c", 10.0), None),
    ],
    "a worker that has started may fail as often again": [
        (("fail_to_start", "c", 10.0), PAUSES[0]),
        (("fail_to_start", "c", 20.0), PAUSES[1]),
        (("join", "c"), None),
        (("fail_to_start", "c", 30.0), PAUSES[0]),
    ],
}


@pytest.mark.parametrize("what", TABLES)
def test_the_scheduler_returns_the_next_decisions(what):
    made = scheduler()
    said = [(event, carry_out(made, event)) for event, _ in TABLES[what]]
    assert said == TABLES[what]


def test_a_worker_is_due_once_when_its_pause_is_over():
    made = scheduler("")
    made.fail_to_start("a", 10.0)
    made.fail_to_start("b", 10.2)
    assert made.due(10.0 + PAUSES[0] - 0.01) == []
    assert made.due(10.0 + PAUSES[0]) == ["a"]
    assert made.due(11.0 + PAUSES[0]) == ["b"]
    assert made.due(99.0) == []


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({"tasks": 1000}, [4, 4]),  # little is lost with a worker, where tasks are long
        ({"tasks": 1000, "task_seconds": 0.0}, [375, 375]),  # nobody knows how long they are
        ({"tasks": 1000, "task_seconds": 0.001}, [200, 200]),
        ({"tasks": 1000, "cpus": 16}, [79, 79]),  # a node has more to do than a process
        ({"tasks": 8, "task_seconds": 0.0001}, [4, 4]),  # an order takes as long as ten tasks
        ({"tasks": 1}, [1]),
        ({"tasks": 0}, []),
    ],
    ids=str,
)
def test_portions_fit_what_tasks_and_orders_cost(how, expected):
    made = scheduler(**how)
    portions = [made.order(worker) for worker in "ab"]
    assert [len(portion.numbers) for portion in portions if portion is not None] == expected


def test_workers_are_worn_after_so_many_episodes():
    made = scheduler(episodes_per_worker=3)
    for worker in "ab":
        made.order(worker)
    made.answer("a", [0, 1, 2], seconds=1.0, episodes=3)
    made.answer("b", [3], seconds=1.0, episodes=3)
    assert made.due_for_recycling() == ["a"]
    made.leave("a")
    made.join("a")
    assert made.due_for_recycling() == []


def test_other_tasks_wait_for_those_that_are_not_done():
    made = scheduler()
    with pytest.raises(RuntimeError, match="8 tasks are not done yet"):
        made.begin(range(3))


@pytest.mark.parametrize("seed", range(120))  # which is two thousand deaths
def test_workers_that_fail_at_random_lose_no_result_but_what_kills_them(seed):
    """Each worker plays its tasks in order, answers some at once, and dies with those that it has not answered."""
    draw = random.Random(seed)
    tasks, deadly = draw.randint(1, 500), {draw.randrange(500) for _ in range(3)}
    workers = {number: draw.choice([1, 1, 4]) for number in range(draw.randint(1, 40))}
    made = Scheduler(call_seconds=draw.choice([0.0, 0.001, 0.1]))
    for worker, cpus in workers.items():
        made.join(worker, cpus)
    made.begin(range(tasks))
    queues = {worker: [] for worker in workers}
    results, given_up, deaths = {}, [], Counter()
    for _ in range(200 * (tasks + len(workers))):
        for worker in made.workers:
            if portion := made.order(worker):
                queues[worker] += portion.numbers
        if made.done:
            break
        worker = draw.choice([worker for worker in made.workers if queues[worker]])
        count = draw.randint(1, len(queues[worker]))
        played, queues[worker] = queues[worker][:count], queues[worker][count:]
        culprit = next((number for number in played if number in deadly), None)
        if culprit is None and draw.random() < 0.1:
            culprit = draw.choice(played)  # killed from outside
            deaths[culprit] += 1
        if culprit is None:
            made.answer(worker, played, seconds=draw.random() * count, episodes=count)
            assert not results.keys() & set(played), "a result came twice"
            results |= {number: number**2 for number in played}
        else:
            known = draw.random() < 0.8
            given_up += made.die(worker, [culprit] if known else made.held(worker))
            queues[worker] = []
            made.join(worker, workers[worker])
    assert made.done
    assert results == {number: number**2 for number in range(tasks) if number not in given_up}
    assert all(number in deadly or deaths[number] for number in given_up)


def test_tasks_that_come_later_are_played_after_those_that_are_left():
    made = scheduler("a", tasks=2)
    first = made.order("a").numbers
    made.extend([7, 8])
    played = []
    while not made.done:
        portion = made.order("a")
        first += portion.numbers if portion else []
        number = made.held("a")[0]
        made.answer("a", [number], seconds=1.0, episodes=1)
        played.append(number)
    assert played == first == [0, 1, 7, 8]
