# SPDX-License-Identifier: Apache-2.0
"""include/taut/settings.h and tune.h by ctypes, and the order of the trials in which
`taut run --tune` uses them. Knows no framework."""

import collections
import ctypes
import statistics

from . import _lib

NEEDS = ("taut_tune_create", "taut_settings_create")
TRIALS = 12  # measurements of a search, with those that confirm
LIKELY = 2  # standard errors: what is less is no difference
BAYES, RANDOM, GRID = 0, 1, 2

Setting = collections.namedtuple("Setting", "piece credit fuse way")

_pointer, _u32, _u64 = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64
_double, _int = ctypes.c_double, ctypes.c_int


class _Setting(ctypes.Structure):
    _fields_ = [("piece", _u64), ("credit", _u64), ("fuse", _u64), ("way", _int)]


class _SettingsOptions(ctypes.Structure):
    _fields_ = [
        ("n_ranks", _u32),
        ("n_hosts", _u32),
        ("whole", ctypes.c_bool),
        ("ordered", ctypes.c_bool),
    ]


class _TuneOptions(ctypes.Structure):
    _fields_ = [
        ("how", _int),
        ("seed", _u64),
        ("budget", _u32),
        ("first", _u32),
        ("enough", _double),
    ]


class _Best(ctypes.Structure):
    _fields_ = [
        ("point", _u32),
        ("n_told", _u32),
        ("value", _double),
        ("low", _double),
        ("high", _double),
        ("noise", _double),
        ("gain", _double),
    ]


_error = ctypes.POINTER(_lib.Error)
_TABLE = (
    ("taut_settings_create", _int, [ctypes.POINTER(_SettingsOptions), ctypes.POINTER(_pointer), _error]),
    ("taut_settings_destroy", None, [_pointer]),
    ("taut_settings_dimensions", _pointer, [_pointer, ctypes.POINTER(_u32)]),
    ("taut_settings_points", _u32, [_pointer]),
    ("taut_settings_at", _Setting, [_pointer, _u32]),
    ("taut_settings_near", _u32, [_pointer, ctypes.POINTER(_Setting)]),
    (
        "taut_tune_create",
        _int,
        [_pointer, _u32, ctypes.POINTER(_TuneOptions), ctypes.POINTER(_pointer), _error],
    ),
    ("taut_tune_destroy", None, [_pointer]),
    ("taut_tune_predict", _int, [_pointer, ctypes.POINTER(_double), _error]),
    ("taut_tune_predicted", _double, [_pointer, _u32]),
    ("taut_tune_next", _int, [_pointer, ctypes.POINTER(_u32), _error]),
    ("taut_tune_tell", _int, [_pointer, _u32, _double, _error]),
    ("taut_tune_best", _int, [_pointer, ctypes.POINTER(_Best), _error]),
    ("taut_coll_way_name", ctypes.c_char_p, [_int]),
)


class Search:
    """A search over the settings of a job. predicted: ns by Setting, as far as they are
    known; empty: none is."""

    def __init__(self, n_ranks, n_hosts, whole=False, ordered=False, predicted=None, how=BAYES, seed=0):
        self.lib = _lib.declare(_TABLE)
        self.settings, self.tune = _pointer(), _pointer()
        options = _SettingsOptions(n_ranks, n_hosts, whole, ordered)
        self._call("taut_settings_create", ctypes.byref(options), ctypes.byref(self.settings))
        n = _u32()
        dimensions = self.lib.taut_settings_dimensions(self.settings, ctypes.byref(n))
        options = _TuneOptions(how=how, seed=seed, budget=TRIALS)
        self._call(
            "taut_tune_create", dimensions, n, ctypes.byref(options), ctypes.byref(self.tune)
        )
        self.n_points = self.lib.taut_settings_points(self.settings)
        self._predict(predicted or {})

    def _call(self, name, *arguments):
        error = _lib.Error()
        _lib.check(getattr(self.lib, name)(*arguments, ctypes.byref(error)), error)

    def _predict(self, predicted):
        found = [predicted.get(self.at(i), 0) for i in range(self.n_points)]
        if any(found):
            self._call("taut_tune_predict", self.tune, (_double * self.n_points)(*found))

    def at(self, point):
        s = self.lib.taut_settings_at(self.settings, point)
        return Setting(s.piece, s.credit, s.fuse, self.lib.taut_coll_way_name(s.way).decode())

    def near(self, setting):
        """The point that is next to a setting."""
        ways = [self.lib.taut_coll_way_name(i).decode() for i in range(8)]
        s = _Setting(setting.piece, setting.credit, setting.fuse, ways.index(setting.way))
        return self.lib.taut_settings_near(self.settings, ctypes.byref(s))

    def predicted(self, point):
        """ns; 0: nothing is known."""
        return self.lib.taut_tune_predicted(self.tune, point)

    def next(self):
        """A point; None: no other is worth a trial."""
        point, error = _u32(), _lib.Error()
        status = self.lib.taut_tune_next(self.tune, ctypes.byref(point), ctypes.byref(error))
        if status == _lib.EAGAIN:
            return None
        _lib.check(status, error)
        return point.value

    def tell(self, point, ns):
        self._call("taut_tune_tell", self.tune, point, ns)

    def best(self):
        best = _Best()
        self._call("taut_tune_best", self.tune, ctypes.byref(best))
        return best

    def close(self):
        tune, self.tune = self.tune, None
        settings, self.settings = self.settings, None
        if tune:
            self.lib.taut_tune_destroy(tune)
        if settings:
            self.lib.taut_settings_destroy(settings)


def read_predicted(words):
    """What whatif_tune_words() of the command wrote: "PIECE/CREDIT/FUSE/WAY=NS ..."."""
    found = {}
    for word in words.split():
        setting, ns = word.split("=")
        piece, credit, fuse, way = setting.split("/")
        found[Setting(int(piece), int(credit), int(fuse), way)] = float(ns)
    return found


def error_of(samples):
    """Standard error of a median, from the median distance to it."""
    middle = statistics.median(samples)
    apart = statistics.median(abs(s - middle) for s in samples)
    return 1.2533 * 1.4826 * apart / len(samples) ** 0.5


def is_better(samples, than):
    """Measurably: by more than chance leaves between medians of as many steps."""
    gain = statistics.median(than) - statistics.median(samples)
    return gain > LIKELY * (error_of(samples) ** 2 + error_of(than) ** 2) ** 0.5


def trials(search, start, say):
    """A generator of settings, each of which is to be measured: send() its samples, in
    ns. The first is `start`; the last two measure the best one and the start again,
    for the best of many was lucky, too. Returns the one to stay with."""
    n = 1
    samples = yield start
    at_start = list(samples)
    point = search.near(start)
    if search.at(point) == start:
        search.tell(point, statistics.median(samples))
    say("tune: %s, as it is: %s" % (text_of(start), ms_of(samples)))
    while n < TRIALS - 2:
        point = search.next()
        if point is None:
            break
        n += 1
        samples = yield search.at(point)
        search.tell(point, statistics.median(samples))
        predicted = search.predicted(point)
        more = ", predicted %.1f" % (predicted / 1e6) if predicted else ""
        say("tune: %s: %s%s" % (text_of(search.at(point)), ms_of(samples), more))
    if n == 1:
        return start
    best = search.at(search.best().point)
    if best == start:
        say("tune: nothing of %d is better than how it is" % n)
        return start
    samples = yield best
    at_start += yield start
    if not is_better(samples, at_start):
        say("tune: nothing of %d is measurably better than how it is" % n)
        return start
    say(
        "tune: %s stays: %s, where it was %s"
        % (text_of(best), ms_of(samples), ms_of(at_start))
    )
    return best


def ms_of(samples):
    return "%.1f ms" % (statistics.median(samples) / 1e6)


def bytes_of(number):
    for unit, name in ((1 << 20, "M"), (1 << 10, "K")):
        if number and number % unit == 0:
            return "%d%s" % (number // unit, name)
    return str(number)


def text_of(setting):
    return "piece %s, credit %s, fuse %s, way %s" % (
        bytes_of(setting.piece),
        bytes_of(setting.credit),
        bytes_of(setting.fuse),
        setting.way,
    )


def file_of(setting):
    """As src/cli/tuned.h has it."""
    return "# taut run --tuned FILE\n" + "".join(
        "%s %s\n" % pair for pair in setting._asdict().items()
    )
