"""The event loop in virtual time: asyncio as ever, threads, and what it refuses."""

import asyncio
import importlib
import os
import socket
import threading
import time
import unittest
import warnings
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import anyio.to_thread
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpcsim.errors import UsageError
from mpcsim.sim.run.realtime import clock
from mpcsim.sim.run.realtime.clock import (
    BUSY_ROUNDS,
    Deadlock,
    SocketsUnsupported,
    VirtualLoop,
    VirtualTimeStuck,
    run,
)


def now() -> float:
    return asyncio.get_running_loop().time()


def impatient() -> asyncio.Runner:
    """A loop that soon gives up waiting for threads."""
    return asyncio.Runner(loop_factory=partial(VirtualLoop, patience_s=0.2))


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """No test here leaves a thread behind."""
    threads = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - threads:
        thread.join(5)  # it has been told to end
    assert set(threading.enumerate()) <= threads


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    found = VirtualLoop()
    yield found
    for task in asyncio.all_tasks(found):
        task.cancel()
    found.run_until_complete(asyncio.sleep(0, None))
    found.run_until_complete(found.shutdown_default_executor())
    found.close()


# --------------------------------------------------------------------------- asyncio as ever


@pytest.mark.soak
@pytest.mark.parametrize(
    "module", ["locks", "pep492", "queues", "taskgroups", "threads", "timeouts", "waitfor"]
)
def test_cpythons_own_tests_of_asyncio_pass_in_virtual_time(module: str) -> None:
    """Those about waiting; they run in whatever loop the policy makes."""
    try:
        tests = importlib.import_module(f"test.test_asyncio.test_{module}")
    except ImportError:
        pytest.skip("this Python comes without its own tests")

    class Policy(asyncio.DefaultEventLoopPolicy):
        _loop_factory = VirtualLoop

    def policy(make: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # from Python 3.14 on
            asyncio.set_event_loop_policy(make)

    suite = unittest.defaultTestLoader.loadTestsFromModule(tests)
    policy(Policy())
    try:
        with open(os.devnull, "w") as nowhere, warnings.catch_warnings():
            warnings.simplefilter("default")  # these tests have deprecated things to test, too
            result = unittest.TextTestRunner(nowhere).run(suite)
    finally:
        policy(None)
    assert result.testsRun
    assert not result.failures + result.errors


@given(st.lists(st.lists(st.floats(0, 1e6), max_size=4), max_size=8))
def test_sleeping_takes_exactly_as_long_as_asked(naps: list[list[float]]) -> None:
    async def sleeper(mine: list[float]) -> float:
        for nap in mine:
            await asyncio.sleep(nap)
        return now()

    async def everybody() -> list[float]:
        return await asyncio.gather(*map(sleeper, naps))

    assert run(everybody()) == pytest.approx([sum(mine) for mine in naps], abs=1e-9)


# --------------------------------------------------------------------------- threads


def test_time_stands_still_while_a_thread_works() -> None:
    async def story() -> list[Any]:
        alarm = asyncio.create_task(asyncio.sleep(0.001))
        found = await asyncio.to_thread(lambda: time.sleep(0.05) or threading.current_thread())
        return [found is threading.current_thread(), now(), alarm.done()]

    assert run(story()) == [False, 0.0, False]


def test_jobs_run_one_at_a_time_in_order() -> None:
    begun: list[int] = []

    def job(n: int) -> int:
        begun.append(n)
        time.sleep(0.01 * (3 - n))
        return n

    async def story() -> list[int]:
        ended: list[int] = []

        async def one(n: int, pool: Executor) -> None:
            ended.append(await asyncio.get_running_loop().run_in_executor(pool, job, n))

        with ThreadPoolExecutor() as pool:
            await asyncio.gather(*(one(n, pool) for n in range(4)))
        return ended

    assert run(story()) == begun == [0, 1, 2, 3]


def test_a_job_given_up_before_it_begins_never_runs(loop: VirtualLoop) -> None:
    done: list[int] = []

    async def story() -> None:
        first, second = (loop.run_in_executor(None, done.append, n) for n in (1, 2))
        second.cancel()
        await first
        await asyncio.sleep(1)

    loop.run_until_complete(story())
    assert done == [1]


def test_a_job_may_call_the_loop(loop: VirtualLoop) -> None:
    async def inside() -> float:
        await asyncio.sleep(0)
        return now()

    def job() -> float:
        return asyncio.run_coroutine_threadsafe(inside(), loop).result(5)

    async def story() -> float:
        await asyncio.sleep(3)
        return await asyncio.to_thread(job)

    assert loop.run_until_complete(story()) == 3


def test_a_job_that_waits_for_a_timer_is_given_up() -> None:
    over = threading.Event()

    async def story() -> None:
        asyncio.get_running_loop().call_later(1, over.set)
        await asyncio.to_thread(over.wait)

    with impatient() as runner, pytest.raises(VirtualTimeStuck, match=r"at work for 0\.2 s"):
        try:
            runner.run(story())
        finally:
            over.set()


def test_other_threads_wake_the_loop_and_may_be_told_of(loop: VirtualLoop) -> None:
    async def story() -> float:
        limiter = anyio.to_thread.current_default_thread_limiter()
        loop.has_external_work = lambda: limiter.borrowed_tokens > 0
        alarm = asyncio.create_task(asyncio.sleep(1))
        await anyio.to_thread.run_sync(time.sleep, 0.02)
        return now() + 10 * alarm.done()

    assert loop.run_until_complete(story()) == 0


def test_other_threads_whose_result_is_here_are_not_waited_for() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        for _ in range(BUSY_ROUNDS):
            await asyncio.sleep(0)
        # Its result is taken, and the threads are idle again, in the round that is due now.
        loop.has_external_work = lambda: True
        for _ in range(20):
            await asyncio.sleep(0)
        loop.has_external_work = lambda: False

    with impatient() as runner:  # if it waited, it would give up
        runner.run(story())


# --------------------------------------------------------------------------- what work costs


def spin(s: float) -> None:
    began = time.thread_time()
    while time.thread_time() - began < s:
        pass


def test_measured_computation_moves_the_clock_and_adds_to_waiting() -> None:
    async def story() -> list[float]:
        spin(0.01)
        times = [now()]
        await asyncio.sleep(1)
        times.append(now())
        await asyncio.gather(*(asyncio.to_thread(spin, 0.01) for _ in range(2)))
        return [*times, now()]

    one, two, three = run(story(), cpu_factor=100)
    assert one >= 1
    assert two - one >= 1
    assert three - two >= 1


def test_jobs_each_have_a_core() -> None:
    """Two jobs handed over together end together, by the clock; work in the loop adds up."""

    async def story() -> list[float]:
        async def one(s: float) -> float:
            await asyncio.to_thread(spin, s)
            return now()

        began = now()
        return [at - began for at in await asyncio.gather(one(0.2), one(0.02))]

    long, short = run(story(), cpu_factor=1)
    assert 0.02 <= short < 0.2 <= long


def test_a_job_that_fails_takes_its_time_too() -> None:
    def fail() -> None:
        spin(0.01)
        raise ZeroDivisionError

    async def story() -> float:
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(fail)
        return now()

    assert run(story(), cpu_factor=1) >= 0.01


def test_a_job_sees_its_own_time() -> None:
    async def story() -> list[float]:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(5)

        def job() -> list[float]:
            began = loop.time()
            spin(0.01)
            return [began, loop.time()]

        return [*await asyncio.to_thread(job), now()]

    began, ended, after = run(story(), cpu_factor=10)
    assert 5 <= began <= ended - 0.1
    assert after >= ended
    assert run(story()) == [5, 5, 5]


@pytest.mark.parametrize("factor", [-1.0, float("inf"), float("nan")])
def test_impossible_factors(factor: float) -> None:
    with pytest.raises(UsageError, match="cpu_factor"):
        VirtualLoop(cpu_factor=factor)


# --------------------------------------------------------------------------- what it refuses


def test_deadlock_is_an_error_that_names_who_waits() -> None:
    async def stuck() -> None:
        await asyncio.Event().wait()

    async def story() -> None:
        await asyncio.sleep(0.25)
        async with asyncio.TaskGroup() as group:
            group.create_task(stuck(), name="the one")

    with pytest.raises(Deadlock, match=r"at 250\.000 ms wait .*the one \(.*stuck\) at .*\.py:\d+"):
        run(story())


def test_an_outside_call_is_no_deadlock(loop: VirtualLoop) -> None:
    """Whatever was asked from another thread before the loop went idle is done first."""
    asked: Future[float] = Future()

    async def inside() -> None:
        await asyncio.sleep(2)
        asked.set_result(now())

    async def story() -> float:
        done = asyncio.Event()

        async def told() -> None:
            await inside()
            done.set()

        caller = threading.Thread(target=asyncio.run_coroutine_threadsafe, args=(told(), loop))
        caller.start()
        caller.join()
        await done.wait()
        return asked.result()

    assert loop.run_until_complete(story()) == 2


def test_polling_for_time_to_pass_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "MAX_ROUNDS", 2_000)

    async def story() -> None:
        while now() < 1:
            await asyncio.sleep(0)

    with pytest.raises(VirtualTimeStuck, match="2000 rounds"):
        run(story())
    run(story(), cpu_factor=100)  # there, polling takes time


def test_sockets_and_pipes_are_refused(caplog: pytest.LogCaptureFixture) -> None:
    async def serve(listening: socket.socket) -> None:
        await asyncio.start_server(lambda reader, writer: None, sock=listening)

    async def connect(address: tuple[str, int]) -> None:
        await asyncio.open_connection(*address)

    async def read(end: int) -> bytes:
        reader = asyncio.StreamReader()
        with open(end, "rb") as file:
            transport, _ = await asyncio.get_running_loop().connect_read_pipe(
                lambda: asyncio.StreamReaderProtocol(reader), file
            )
            try:
                return await reader.read(1)
            finally:
                transport.close()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        with pytest.raises(SocketsUnsupported):
            run(connect(listening.getsockname()))
        with pytest.raises(SocketsUnsupported, match="no sockets"):
            run(serve(listening))
    reading, writing = os.pipe()
    with pytest.raises(SocketsUnsupported):
        run(read(reading))
    os.close(writing)
    assert "SocketsUnsupported" in caplog.text


def test_some_computing_is_free() -> None:
    async def story() -> list[float]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        times = [loop.time()]
        with loop.free(), loop.free():
            spin(0.01)
            await asyncio.to_thread(spin, 0.01)
            times.append(loop.time())
        spin(0.01)
        times.append(loop.time())
        await asyncio.to_thread(spin, 0.01)
        return [*times, loop.time()]

    began, free, loop_, thread = run(story(), cpu_factor=100)
    assert free - began < 0.5
    assert loop_ - free >= 1
    assert thread - loop_ >= 1


def test_a_running_loop_is_in_the_way() -> None:
    async def story() -> None:
        with pytest.raises(UsageError, match="another thread"):
            run(asyncio.sleep(1))

    asyncio.run(story())
