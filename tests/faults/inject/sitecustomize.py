"""Fault points in a node or driver under test: Python runs this file at every start.

The tests put the folder of this file in front of PYTHONPATH, so production does not have it. The
environment variable SPARK_FAULT_PLAN names the file with the faults, which plan.py writes and
describes: a node passes variables of Spark on to its drivers.
This file imports nothing of Headrace until the program itself imports a module with points.
"""

import contextlib
import fcntl
import functools
import importlib.abc
import importlib.machinery
import json
import os
import signal
import subprocess
import sys
import threading
import time

_LAUNCHER_CALLS = ("start", "find", "poll", "kill")


class _Plan:
    """The current plan. Each scenario overwrites the file."""

    def __init__(self, file):
        self._file = file
        self._stamp = None
        self._content = {}
        self._logged = set()
        self._lock = threading.Lock()

    def read(self):
        with self._lock:
            status = os.stat(self._file)  # noqa: PTH116
            stamp = (status.st_ino, status.st_mtime_ns)
            if stamp != self._stamp:
                with open(self._file) as stream:  # noqa: PTH123 - pathlib is not loaded yet
                    self._content = json.load(stream)
                self._stamp = stamp
                self._logged = set()
            return self._content

    def find_point(self, kind, *frames):
        """Return the name of the point whose lines contain the current line of a frame.

        The first frame that is at a point counts.
        """
        for frame in frames:
            module, line = frame.f_globals.get("__name__"), frame.f_lineno
            if module == "__main__" and frame.f_globals.get("__spec__"):
                module = frame.f_globals["__spec__"].name
            for first, last, name in self.read()["points"].get(f"{kind} {module}", []):
                if first <= line <= last:
                    return name
        return f"unknown: {kind} {module}.{frame.f_code.co_qualname}, line {line}"

    def log(self, point, side, action, statement):
        passage = (point, side, statement)
        with self._lock:
            if action is None and passage in self._logged:
                return
            self._logged.add(passage)
        line = {
            "history": self._content["history"],
            "pid": os.getpid(),
            "point": point,
            "side": side,
            "action": action,
            "statement": statement,
        }
        with open(self._content["log"], "a") as stream:  # noqa: PTH123
            stream.write(json.dumps(line) + "\n")

    def count_hit(self, number, fault):
        """Count a hit of a fault over all processes. Return whether this hit triggers it."""
        with open(f"{self._file}.hits.{self._content['history']}.{number}", "a+") as stream:  # noqa: PTH123
            fcntl.flock(stream, fcntl.LOCK_EX)
            stream.write(".")
            stream.flush()
            return stream.tell() == fault["hit"]


def _kill(_seconds):
    os.kill(os.getpid(), signal.SIGKILL)


def _terminate(_seconds):
    os.kill(os.getpid(), signal.SIGTERM)


def _kill_jvm(_seconds):
    os.kill(_find_jvm(), signal.SIGKILL)


def _freeze(seconds):
    pids = [os.getpid()] + ([_find_jvm()] if _find_jvm() else [])
    arguments = " ".join(map(str, pids))
    subprocess.Popen(
        ["sh", "-c", f"sleep {seconds}; kill -CONT {arguments} 2>/dev/null"], start_new_session=True
    )
    for pid in reversed(pids):
        os.kill(pid, signal.SIGSTOP)


def _pause(seconds):
    time.sleep(seconds)


def _unreachable(_seconds):
    from headrace.errors import BackendUnreachable

    raise BackendUnreachable("A fault makes the backend unreachable.")


def _find_jvm():
    pyspark = sys.modules.get("pyspark")
    gateway = pyspark.SparkContext._gateway if pyspark else None
    return gateway.proc.pid if gateway else None


def _kill_drivers(_seconds):
    _kill_processes(is_driver_only=True)


def _kill_all(seconds):
    _kill_processes(is_driver_only=False)
    _kill(seconds)


def _kill_processes(*, is_driver_only):
    """Kill the other processes that have this plan: nodes, drivers and their JVMs."""
    own_plan = f"SPARK_FAULT_PLAN={os.environ['SPARK_FAULT_PLAN']}".encode()
    for name in os.listdir("/proc"):  # noqa: PTH208
        if not name.isdigit() or int(name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            variables, command = _read(f"/proc/{name}/environ"), _read(f"/proc/{name}/cmdline")
            is_driver = b"headrace-se_" in command
            if own_plan in variables.split(b"\0") and (is_driver or not is_driver_only):
                os.kill(int(name), signal.SIGKILL)


def _read(file):
    with open(file, "rb") as stream:  # noqa: PTH123
        return stream.read()


def _cut(_seconds):
    import psycopg

    others = "datname = current_database() AND pid <> pg_backend_pid()"
    with psycopg.connect(os.environ["HEADRACE_STORE__URL"], autocommit=True) as connection:
        connection.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}")


def _lose_answer(_seconds):
    from headrace.errors import StoreUnavailable

    raise StoreUnavailable("A fault loses the answer to the commit.")


_ACTIONS = {
    "kill": _kill,
    "kill_all": _kill_all,
    "kill_drivers": _kill_drivers,
    "cut": _cut,
    "lose_answer": _lose_answer,
    "terminate": _terminate,
    "kill_jvm": _kill_jvm,
    "freeze": _freeze,
    "pause": _pause,
    "unreachable": _unreachable,
}


def _pass(plan, point, side, statement=None):
    for number, fault in enumerate(plan.read()["faults"]):
        if (fault["point"], fault["side"]) == (point, side) and plan.count_hit(number, fault):
            action = fault["action"]
            if action == "kill_jvm" and not _find_jvm():
                action = "kill"
            plan.log(point, side, action, statement)
            _ACTIONS[action](fault["seconds"])
    plan.log(point, side, None, statement)


class _TransactionWithPoints:
    """A transaction with points before it, before its commit, and after it."""

    def __init__(self, plan, point, inner):
        self._plan, self._point, self._inner = plan, point, inner

    def __enter__(self):
        _pass(self._plan, self._point, "before")
        return self._inner.__enter__()

    def __exit__(self, *error):
        if error[0] is None:
            _pass(self._plan, self._point, "before_commit")
        answer = self._inner.__exit__(*error)
        if error[0] is None:
            _pass(self._plan, self._point, "after")
        return answer


def _patch_store(plan, module):
    write = module.Database.write

    @functools.wraps(write)
    def write_with_points(self, name, **options):
        return _TransactionWithPoints(
            plan, plan.find_point("store", sys._getframe(1)), write(self, name, **options)
        )

    module.Database.write = write_with_points


def _patch_link(plan, module):
    call = module.NodeLink._call

    @functools.wraps(call)
    def call_with_points(self, name, message, *arguments, **options):
        # The first frame is the method of NodeLink. It is the point if the method was passed on as
        # a function, since the caller of a function is not known to call the link.
        point = plan.find_point("link", sys._getframe(2), sys._getframe(1))
        statement = getattr(message, "statement_id", None)
        _pass(plan, point, "before", statement)
        answer = call(self, name, message, *arguments, **options)
        _pass(plan, point, "after", statement)
        return answer

    module.NodeLink._call = call_with_points


def _patch_launchers(plan, module):
    for operation in _LAUNCHER_CALLS:
        _patch_launcher_call(plan, module.LauncherRegistry, operation)


def _patch_launcher_call(plan, registry, operation):
    call = getattr(registry, operation)

    @functools.wraps(call)
    def call_with_points(self, *arguments):
        point = plan.find_point("launcher", sys._getframe(1))
        _pass(plan, point, "before")
        answer = call(self, *arguments)
        _pass(plan, point, "after")
        return answer

    setattr(registry, operation, call_with_points)


_PATCHES = {
    "headrace.store.database": _patch_store,
    "headrace.driver.link": _patch_link,
    "headrace.control.launchers.registry": _patch_launchers,
}


class _Finder(importlib.abc.MetaPathFinder):
    """Patches each module with points after its import."""

    def __init__(self, plan):
        self._plan = plan

    def find_spec(self, name, path, target=None):
        patch = _PATCHES.get(name)
        if patch is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        run = spec.loader.exec_module

        def run_and_patch(module):
            run(module)
            patch(self._plan, module)

        spec.loader.exec_module = run_and_patch
        return spec


if "SPARK_FAULT_PLAN" in os.environ:
    sys.meta_path.insert(0, _Finder(_Plan(os.environ["SPARK_FAULT_PLAN"])))
