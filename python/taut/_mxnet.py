# SPDX-License-Identifier: Apache-2.0
"""MXNet 1.x: steps end with gluon's Trainer or a Module's update, MXNet's own
profiler records them.

MXNet carries out everything later, in threads of its engine, and its profiler
does not say for which key a push or a pull was. So, while a step is recorded,
each exchange of a distributed kvstore stands between two operations of the
engine that do nothing and are named: one reads what is pushed, the other what
is pulled. The engine runs them when those are ready, which is what there is to
know. src/trace/formats/mxnet.c reads them back; they are in no step that is
not recorded.

The scheduler and the servers never leave `import mxnet`: they are not recorded,
and the log of a worker says how many there are."""

import ctypes
import functools
import os
import threading
import weakref

import mxnet

from . import _adapter, _process

# Steps of another trainer after which the one that counted is taken to have
# been given up.
LEADER_IS_GONE = 64

SETTLE_S = 10

RUN, STOP = 1, 0
CPU, PRIORITIZED = 1, 3  # a context's device type, a property of the engine's


def _number(name):
    try:
        return int(os.environ[name])
    except (KeyError, ValueError):
        return None


class Steps:
    """Finds the end of each step: the first trainer or module has updated."""

    def __init__(self, ended):
        self.ended = ended
        self.leader = None  # weak
        self.others = 0
        self.depth = 0

    def watch(self):
        self.wrap(mxnet.gluon.Trainer, "step")
        self.wrap(mxnet.gluon.Trainer, "update")
        for name in ("Module", "BucketingModule", "SequentialModule"):
            cls = getattr(mxnet.module, name, None)
            if cls is not None:
                self.wrap(cls, "update")

    def wrap(self, cls, name):
        method, watcher = getattr(cls, name), self

        @functools.wraps(method)
        def stepped(self, *args, **kwargs):
            watcher.depth += 1
            try:
                result = method(self, *args, **kwargs)
            finally:
                watcher.depth -= 1
            # A module that updates those it is made of has made one step.
            if not watcher.depth:
                watcher.count(self)
            return result

        setattr(cls, name, stepped)

    def count(self, trainer):
        leader = self.leader() if self.leader else None
        if leader is not trainer:
            if leader is not None and self.others < LEADER_IS_GONE:
                self.others += 1
                return
            self.leader = weakref.ref(trainer)
        self.others = 0
        self.ended()


class Profiler:
    """MXNet's profiler, past its Python face, which is the job's to use."""

    KINDS = ("profile_symbolic", "profile_imperative", "profile_api")
    FACE = ("set_config", "profiler_set_config", "set_state", "profiler_set_state")

    def __init__(self):
        self.lib = mxnet.base._LIB
        self.used = os.environ.get("MXNET_PROFILER_AUTOSTART") == "1"
        self.watch()

    def watch(self):
        """Whether the job uses it. To set it up is enough: it cannot be told
        what it was set to, so that nobody could put that back."""
        for name in self.FACE:
            function = getattr(mxnet.profiler, name, None)
            if function is not None:
                setattr(mxnet.profiler, name, self.seen(function))

    def seen(self, function):
        @functools.wraps(function)
        def used(*args, **kwargs):
            self.used = True
            return function(*args, **kwargs)

        return used


    def configure(self, **settings):
        # A dump that goes on by itself can be begun once in a process; it is
        # the default, and the job's to have.
        settings["continuous_dump"] = False
        count = len(settings)
        texts = ctypes.c_char_p * count
        keys = texts(*[key.encode() for key in settings])
        values = texts(*[os.fsencode(str(v)) for v in settings.values()])
        self.check(self.lib.MXSetProcessProfilerConfig(count, keys, values, None))

    def check(self, failed):
        if failed:
            why = mxnet.base.py_str(self.lib.MXGetLastError())
            raise OSError("MXNet's profiler: %s" % why)

    def start(self, path):
        self.configure(
            filename=path,
            profile_memory=False,
            aggregate_stats=False,
            **{kind: True for kind in self.KINDS}
        )
        self.check(self.lib.MXSetProcessProfilerState(RUN, 0, None))

    def stop(self):
        """Writes the file."""
        self.check(self.lib.MXSetProcessProfilerState(STOP, 0, None))
        self.check(self.lib.MXDumpProcessProfile(1, 0, None))
        self.configure(**{kind: False for kind in self.KINDS})


class _Context(ctypes.Structure):
    _fields_ = [("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32)]


class Marks:
    """What the recorder adds to a profile: steps, the thread's numbers, and
    named operations that do nothing but wait for arrays."""

    def __init__(self):
        self.push = getattr(mxnet.base._LIB, "MXEnginePushSyncND", None)
        # Any function of C that takes two pointers and minds neither.
        self.nothing = ctypes.cast(ctypes.CDLL(None).labs, ctypes.c_void_p)
        self.context = _Context(CPU, 0)
        self.property = ctypes.c_int(PRIORITIZED)
        self.domain = None
        self.step = None
        self.number = None  # of the step
        self.kept = []

    def begin(self):
        if self.domain is None:
            self.domain = mxnet.profiler.Domain("taut")
        mark = "thread %d %d" % (os.getpid(), threading.get_native_id())
        self.kept.append(mxnet.profiler.Marker(self.domain, mark))
        self.kept[-1].mark("thread")

    def begin_step(self, number):
        self.number = number
        self.step = mxnet.profiler.Task(self.domain, "step#%d" % number)
        self.kept.append(self.step)
        self.step.start()

    def end_step(self):
        step, self.step = self.step, None
        if step is not None:
            step.stop()

    def when_ready(self, arrays, name):
        """An operation called name, once everything written to arrays is."""
        if self.push is None:
            return
        handles = list({a.handle.value: None for a in arrays})
        text = name.encode()
        self.kept.append(text)
        self.push(
            self.nothing, None, None, ctypes.byref(self.context),
            (ctypes.c_void_p * len(handles))(*handles), len(handles), None, 0,
            ctypes.byref(self.property), 0, text,
        )

    def end(self):
        """After the dump. A step that was not ended is not in it."""
        self.step = None
        self.kept = []


def _plain(key):
    return "".join(
        c if c.isprintable() and c not in '|"\\' else "_" for c in str(key)
    )


def _arrays(value):
    return list(value) if isinstance(value, (list, tuple)) else [value]


class Stores:
    """Distributed kvstores, and what is pushed to them and pulled."""

    def __init__(self):
        self.store = None  # weak: the distributed one that was made last
        self.marks = None  # while a step is recorded
        self.pushes = {}  # key -> how often it was pushed
        self.sizes = {}  # key -> (elements, type)

    def watch(self):
        cls = mxnet.kvstore.KVStore
        made = cls.__init__
        stores = self

        @functools.wraps(made)
        def __init__(self, *args, **kwargs):
            made(self, *args, **kwargs)
            try:
                if "dist" in self.type:
                    stores.store = weakref.ref(self)
            except Exception:
                pass

        cls.__init__ = __init__
        for name in ("push", "pull", "pushpull"):
            setattr(cls, name, self.wrap(name, getattr(cls, name)))

    def wrap(self, verb, method):
        stores = self

        @functools.wraps(method)
        def exchanged(self, key, *args, **kwargs):
            store = stores.store
            if store is None or store() is not self:
                return method(self, key, *args, **kwargs)
            ours = None
            try:
                ours = stores.before(verb, key, args, kwargs)
            except Exception:
                pass
            result = method(self, key, *args, **kwargs)
            if ours:
                try:
                    stores.after(ours)
                except Exception:
                    pass
            return result

        return exchanged

    def before(self, verb, key, args, kwargs):
        """Counts; [(key, number, arrays pulled)] where that is recorded."""
        keys = _arrays(key)
        if verb != "pull":
            for one in keys:
                self.pushes[one] = self.pushes.get(one, 0) + 1
        if self.marks is None:
            return None
        one_key = not isinstance(key, (list, tuple))
        first = args[0] if args else kwargs.get("out" if verb == "pull" else "value")
        out = first if verb == "pull" else kwargs.get("out")
        if verb == "pushpull" and len(args) > 1:
            out = args[1]
        if verb != "pull":
            for one, value in zip(keys, [first] if one_key else first):
                self.pushed(one, _arrays(value))
        if verb == "pushpull" and out is None:
            out = first
        if verb == "push" or out is None:
            return None
        return list(zip(keys, [out] if one_key else out))

    def pushed(self, key, values):
        if key not in self.sizes:
            self.sizes[key] = values[0].size, values[0].dtype.__name__
        elements, dtype = self.sizes[key]
        self.marks.when_ready(
            values,
            "taut.ready|%s|%d|%d|%s"
            % (_plain(key), self.pushes[key] - 1, elements, dtype),
        )

    def after(self, pulled):
        for key, out in pulled:
            if key in self.pushes:
                self.marks.when_ready(
                    _arrays(out),
                    "taut.done|%s|%d|" % (_plain(key), self.pushes[key] - 1),
                )

    def ranks(self):
        store = self.store() if self.store else None
        if store is None:
            return None
        return store.rank, store.num_workers, None


def _settle():
    """Waits for the engine, but not for a peer that may be gone; what the job's
    own operations raised is the job's to see."""

    def wait():
        try:
            mxnet.nd.waitall()
        except Exception:
            pass

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    thread.join(SETTLE_S)


class Adapter(_adapter.Adapter):
    framework = "mxnet"
    output = "mxnet.json"

    def __init__(self, job):
        super().__init__(job)
        self.profiler = Profiler()
        self.marks = Marks()
        self.stores = Stores()
        self.path = None  # of the profile, while one is written
        Steps(self.step_ended).watch()
        self.stores.watch()

    # --- what the recorder asks ----------------------------------------------

    def ranks(self):
        found = self.stores.ranks()
        if found or "DMLC_ROLE" in os.environ:
            return found
        return _adapter.launcher_ranks()

    def busy(self):
        if self.profiler.used:
            return "the job uses MXNet's profiler itself"
        return None

    # --- the window -------------------------------------------------------

    def start(self, discard):
        folder = self.job.run if not self.job.ranks else os.path.join(
            self.job.run, "rank%d" % self.job.ranks[0])
        self.path = os.path.join(folder, "%s.%s.part" % (
            self.job.file.name, self.output))
        self.profiler.start(self.path)
        self.marks.begin()
        self.stores.marks = self.marks
        self.marks.begin_step(self.job.steps_seen)

    def between_steps(self):
        self.marks.end_step()
        self.marks.begin_step(self.job.steps_seen)

    def stop(self, folder):
        path, self.path = self.path, None
        if path is None:
            return
        if self.job.steps_seen > self.marks.number:
            self.marks.end_step()
        self.stores.marks = None
        try:
            _settle()  # what the steps began belongs to them
            self.profiler.stop()
            self.marks.end()
            if folder:
                name = self.output
                if not self.job.ranks:
                    name = "%s.%s" % (self.job.file.name, name)
                _process.place(path, os.path.join(folder, name))
                self.tell_facts()
        finally:
            try:
                os.unlink(path)
            except OSError:
                pass

    def tell_facts(self):
        log = self.job.log
        if not log:
            return
        log.fact("mxnet.version", mxnet.__version__)
        store = self.stores.store() if self.stores.store else None
        if store is None:
            return
        log.fact("mxnet.kvstore", store.type)
        log.fact("mxnet.role", os.environ.get("DMLC_ROLE", "worker"))
        log.fact("mxnet.workers", str(store.num_workers))
        if _number("DMLC_NUM_SERVER") is not None:
            log.fact("mxnet.servers", os.environ["DMLC_NUM_SERVER"])

    def forked(self):
        self.path = self.stores.marks = None
