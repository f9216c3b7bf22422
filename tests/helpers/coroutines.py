"""Tests that are coroutines, for the folders whose ``conftest`` takes this hook."""

import asyncio
import inspect
from contextlib import AbstractAsyncContextManager, AsyncExitStack

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine in an event loop of its own, inside the async contexts it asks for."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None

    async def call() -> None:
        async with AsyncExitStack() as stack:
            values = {name: pyfuncitem.funcargs[name] for name in names}
            for name, value in values.items():
                if isinstance(value, AbstractAsyncContextManager):
                    values[name] = await stack.enter_async_context(value)
            await pyfuncitem.obj(**values)

    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(call())
    return True
