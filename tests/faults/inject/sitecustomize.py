"""Fault points in a node or driver under test: Python runs this file at every start.

It stands in a folder that the tests put in front of PYTHONPATH, so in production it is not there.
What shall happen is read from the plan that FAULT_PLAN names: plan.py writes it, and says what is
in it. Nothing is imported but when a module with points is.
"""

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
    """The plan as it stands; another history writes another one."""

    def __init__(self, file):
        self._file = file
        self._stamp = None
        self._known = {}
        self._told = set()
        self._lock = threading.Lock()

    def now(self):
        with self._lock:
            status = os.stat(self._file)  # noqa: PTH116
            stamp = (status.st_ino, status.st_mtime_ns)
            if stamp != self._stamp:
                with open(self._file) as stream:  # noqa: PTH123 - pathlib is not loaded yet
                    self._known = json.load(stream)
                self._stamp = stamp
                self._told = set()
            return self._known

    def name(self, kind, frame):
        module, line = frame.f_globals.get("__name__"), frame.f_lineno
        if module == "__main__" and frame.f_globals.get("__spec__"):
            module = frame.f_globals["__spec__"].name
        for first, last, name in self.now()["points"].get(f"{kind} {module}", []):
            if first <= line <= last:
                return name
        return f"unknown: {kind} {module}.{frame.f_code.co_qualname}, line {line}"

    def log(self, point, side, did, statement):
        passage = (point, side, statement)
        with self._lock:
            if did is None and passage in self._told:
                return
            self._told.add(passage)
        line = {
            "history": self._known["history"],
            "pid": os.getpid(),
            "point": point,
            "side": side,
            "did": did,
            "statement": statement,
        }
        with open(self._known["log"], "a") as stream:  # noqa: PTH123
            stream.write(json.dumps(line) + "\n")

    def due(self, number, fault):
        """Whether this is the hit that the fault waits for, counted over all processes."""
        with open(f"{self._file}.hits.{self._known['history']}.{number}", "a+") as stream:  # noqa: PTH123
            fcntl.flock(stream, fcntl.LOCK_EX)
            stream.write(".")
            stream.flush()
            return stream.tell() == fault["hit"]


def _kill(_seconds):
    os.kill(os.getpid(), signal.SIGKILL)


def _kill_jvm(_seconds):
    os.kill(_jvm(), signal.SIGKILL)


def _freeze(seconds):
    pids = [os.getpid()] + ([_jvm()] if _jvm() else [])
    words = " ".join(map(str, pids))
    subprocess.Popen(
        ["sh", "-c", f"sleep {seconds}; kill -CONT {words} 2>/dev/null"], start_new_session=True
    )
    for pid in reversed(pids):
        os.kill(pid, signal.SIGSTOP)


def _pause(seconds):
    time.sleep(seconds)


def _unreachable(_seconds):
    from headrace.errors import BackendUnreachable

    raise BackendUnreachable("the backend is made to be out of reach")


def _jvm():
    pyspark = sys.modules.get("pyspark")
    gateway = pyspark.SparkContext._gateway if pyspark else None
    return gateway.proc.pid if gateway else None


_DEEDS = {
    "kill": _kill,
    "kill_jvm": _kill_jvm,
    "freeze": _freeze,
    "pause": _pause,
    "unreachable": _unreachable,
}


def _pass(plan, point, side, statement=None):
    for number, fault in enumerate(plan.now()["faults"]):
        if (fault["point"], fault["side"]) == (point, side) and plan.due(number, fault):
            deed = fault["do"]
            if deed == "kill_jvm" and not _jvm():
                deed = "kill"
            plan.log(point, side, deed, statement)
            _DEEDS[deed](fault["seconds"])
    plan.log(point, side, None, statement)


class _Around:
    """A transaction with its points before and after."""

    def __init__(self, plan, point, inner):
        self._plan, self._point, self._inner = plan, point, inner

    def __enter__(self):
        _pass(self._plan, self._point, "before")
        return self._inner.__enter__()

    def __exit__(self, *error):
        answer = self._inner.__exit__(*error)
        if error[0] is None:
            _pass(self._plan, self._point, "after")
        return answer


def _store(plan, module):
    write = module.Database.write

    @functools.wraps(write)
    def around(self, name):
        return _Around(plan, plan.name("store", sys._getframe(1)), write(self, name))

    module.Database.write = around


def _link(plan, module):
    call = module.NodeLink._call

    @functools.wraps(call)
    def around(self, name, message, *arguments, **options):
        # The first frame is the method of NodeLink.
        point = plan.name("link", sys._getframe(2))
        statement = getattr(message, "statement_id", None)
        _pass(plan, point, "before", statement)
        answer = call(self, name, message, *arguments, **options)
        _pass(plan, point, "after", statement)
        return answer

    module.NodeLink._call = around


def _launcher(plan, module):
    for op in _LAUNCHER_CALLS:
        _launcher_call(plan, module.LauncherRegistry, op)


def _launcher_call(plan, backends, op):
    call = getattr(backends, op)

    @functools.wraps(call)
    def around(self, *arguments):
        point = plan.name("launcher", sys._getframe(1))
        _pass(plan, point, "before")
        answer = call(self, *arguments)
        _pass(plan, point, "after")
        return answer

    setattr(backends, op, around)


_PATCHES = {
    "headrace.store.database": _store,
    "headrace.driver.link": _link,
    "headrace.control.launchers.registry": _launcher,
}


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules with points where everybody does, and patches them once they are there."""

    def __init__(self, plan):
        self._plan = plan

    def find_spec(self, name, path, target=None):
        patch = _PATCHES.get(name)
        if patch is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        run = spec.loader.exec_module

        def and_patch(module):
            run(module)
            patch(self._plan, module)

        spec.loader.exec_module = and_patch
        return spec


if "FAULT_PLAN" in os.environ:
    sys.meta_path.insert(0, _Finder(_Plan(os.environ["FAULT_PLAN"])))
