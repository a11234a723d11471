"""Waits that Ctrl-C ends, also where Polars is loaded."""

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from anachron.io.waiting import result_of
from support.processes import surroundings

# Each waits for what does not come while the test lasts.
WAITS = {
    "a future": """
        from concurrent.futures import Future
        from anachron.io.waiting import result_of
        print("waits", flush=True)
        result_of(Future())
    """,
    "a worker process": """
        import time
        from anachron.io.cluster import map_in_order
        def items():
            yield 600.0
            yield 600.0
            print("waits", flush=True)
        list(map_in_order(time.sleep, items(), workers=2))
    """,
}


@pytest.mark.parametrize("what", WAITS)
def test_ctrl_c_ends_a_wait(what):
    lines = [line.removeprefix(" " * 8) for line in WAITS[what].splitlines()]
    body = "\n".join(f"    {line}" for line in ["import polars as pl", "pl.DataFrame({'a': [1]}).select('a')", *lines])
    code = f"if __name__ == '__main__':\n{body}\n"
    with subprocess.Popen([sys.executable, "-c", code], env=surroundings(), stdout=-1, stderr=-1, text=True) as waiting:
        assert waiting.stdout.readline() == "waits\n"
        waiting.send_signal(signal.SIGINT)
        try:
            _, errors = waiting.communicate(timeout=120)
        finally:
            waiting.kill()
    assert errors.rstrip().endswith("KeyboardInterrupt")


def test_a_result_and_an_exception_are_passed_on():
    with ThreadPoolExecutor(1) as pool:
        assert result_of(pool.submit(len, "abc")) == 3
        with pytest.raises(ZeroDivisionError):
            result_of(pool.submit(divmod, 1, 0))
