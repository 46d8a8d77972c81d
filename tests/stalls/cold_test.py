# SPDX-License-Identifier: Apache-2.0
"""libtaut-stalls.so in other people's processes: what is opened becomes cold, all or the
same part each time; it is counted and listed; and nothing else changes."""

import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARY = os.environ.get("TAUT_STALLS_LIB")
FIELDS = {  # of src/stalls/control.h
    "cold_ppm": (12, "I"),
    "opened": (16, "Q"),
    "opened_bytes": (24, "Q"),
    "forgotten": (32, "Q"),
    "forgotten_bytes": (40, "Q"),
    "processes": (48, "I"),
    "is_listing": (52, "I"),
}
# What children begin with: the counters, and how to see that a file is cold.
CHILD = f"""
import ctypes, errno, mmap, os, struct, sys, threading
FIELDS = {FIELDS!r}
folder = os.environ.get("TAUT_STALLS")
page = mmap.mmap(os.open(folder + "/control", os.O_RDWR), 4096) if folder else None
def get(name):
    return struct.unpack_from(FIELDS[name][1], page, FIELDS[name][0])[0]
def put(name, value):
    struct.pack_into(FIELDS[name][1], page, FIELDS[name][0], value)
def counts():
    return [get(n) for n in ("opened", "opened_bytes", "forgotten", "forgotten_bytes")]
def since(before):
    return [b - a for a, b in zip(before, counts())]
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
def pages(fd):
    # 1 for each page of the file that is in memory, else 0
    size = os.fstat(fd).st_size
    there = (ctypes.c_ubyte * ((size + 4095) // 4096))()
    at = libc.mmap(None, size, 1, 1, fd, 0)
    assert not libc.mincore(ctypes.c_void_p(at), ctypes.c_size_t(size), there)
    libc.munmap(ctypes.c_void_p(at), ctypes.c_size_t(size))
    return [page & 1 for page in there]
def is_there(fd):
    return any(pages(fd))
def from_storage():
    with open("/proc/self/io") as io:
        return int(dict(line.split(": ") for line in io)["read_bytes"])
def read(path):
    with open(path, "rb") as file:
        return len(file.read())
"""


def from_storage():
    with open("/proc/self/io") as io:
        return int(dict(line.split(": ") for line in io)["read_bytes"])


def tells(folder):
    """True if files of the folder can be forgotten, and the system tells that it was."""
    path = os.path.join(folder, "probe")
    with open(path, "wb") as file:
        file.write(bytes(100_000))
        file.flush()
        os.fsync(file.fileno())
    fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    try:
        before = from_storage()
        os.read(fd, 100_000)
        return from_storage() - before >= 100_000
    except OSError:
        return False
    finally:
        os.close(fd)
        os.unlink(path)


def storage():
    """A folder that lies in storage; None: the temporary ones are all in memory."""
    for top in (tempfile.gettempdir(), "/var/tmp", ROOT):
        try:
            holder = tempfile.TemporaryDirectory(prefix="taut-stalls-", dir=top)
        except OSError:
            continue
        if tells(holder.name):
            return holder
        holder.cleanup()
    return None


class Cold(unittest.TestCase):
    def setUp(self):
        holder = storage()
        if holder is None:
            self.skipTest("no folder here lies in storage")
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        self.data = self.folder / "data"
        self.data.mkdir()
        self.shared = self.folder / "shared"
        self.shared.mkdir()
        (self.shared / "files").touch()
        self.control(b"tautcold" + struct.pack("I", 1))

    def control(self, head, size=4096):
        (self.shared / "control").write_bytes(head.ljust(size, b"\0"))

    def put(self, name, value):
        kind = FIELDS[name]
        with open(self.shared / "control", "r+b") as file:
            file.seek(kind[0])
            file.write(struct.pack(kind[1], value))

    def get(self, name):
        raw = (self.shared / "control").read_bytes()
        return struct.unpack_from(FIELDS[name][1], raw, FIELDS[name][0])[0]

    def files(self, n, size, name="f%d"):
        paths = [str(self.data / (name % i)) for i in range(n)]
        for path in paths:
            with open(path, "wb") as file:
                file.write(os.urandom(size))
        return paths

    def child(self, code, *args, environment=None, **options):
        """Runs code with CHILD before it; what it printed."""
        given = {"LD_PRELOAD": LIBRARY, "TAUT_STALLS": str(self.shared)}
        given.update(environment or {})
        env = {k: v for k, v in {**os.environ, **given}.items() if v is not None}
        result = subprocess.run(
            [sys.executable, "-S", "-c", CHILD + code, *map(str, args)],
            capture_output=True,
            text=True,
            timeout=100,
            env=env,
            check=False,
            **options,
        )
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout.split()

    # --- cold -----------------------------------------------------------------------

    def test_all_comes_from_storage(self):
        """Also what was written just now, and so was in no storage yet."""
        (path,) = self.files(1, 3_000_000)
        said = self.child(
            """
read(sys.argv[1])
for ppm in (0, 1000000, 0):
    put("cold_ppm", ppm)
    before = from_storage()
    read(sys.argv[1])
    print(from_storage() - before)
""",
            path,
        )
        warm, cold, again = map(int, said)
        self.assertEqual((warm, again), (0, 0))
        self.assertGreaterEqual(cold, 3_000_000)

    def test_the_same_part_each_time(self):
        paths = self.files(400, 5000)
        code = """
put("cold_ppm", 0)
for path in sys.argv[1:]:
    read(path)
put("cold_ppm", 500000)
before = counts()
for i, path in enumerate(sys.argv[1:]):
    fd = os.open(path, os.O_RDONLY)
    if not is_there(fd):
        print(i)
    os.close(fd)
print(*since(before))
"""
        *first, n, n_bytes, forgotten, forgotten_bytes = map(int, self.child(code, *paths))
        # Binomial: 200 with a deviation of 10.
        self.assertTrue(150 < len(first) < 250, len(first))
        self.assertEqual((n, n_bytes), (400, 400 * 5000))
        self.assertEqual((forgotten, forgotten_bytes), (len(first), len(first) * 5000))
        self.assertEqual(list(map(int, self.child(code, *paths)))[: len(first)], first)

    def test_more_is_cold_of_the_same(self):
        """What is cold at a share is cold at a larger one: caches are nested."""
        paths = self.files(100, 5000)
        code = """
before = set()
for ppm in (100000, 400000, 900000):
    put("cold_ppm", 0)
    for path in sys.argv[1:]:
        read(path)
    put("cold_ppm", ppm)
    cold = set()
    for path in sys.argv[1:]:
        fd = os.open(path, os.O_RDONLY)
        if not is_there(fd):
            cold.add(path)
        os.close(fd)
    assert before < cold
    before = cold
print(len(before))
"""
        (n,) = map(int, self.child(code, *paths))
        self.assertTrue(75 < n <= 100, n)

    def test_large_files_by_pieces(self):
        """Of 4 MiB, also where the system reads far ahead and keeps that together."""
        piece = 4 << 20
        (path,) = self.files(1, 20 * piece + 4096 + 17)
        code = """
def pieces(fd):
    there = pages(fd)
    return [set(there[i : i + 1024]) for i in range(0, len(there), 1024)]
for ppm in (1000000, 500000):
    put("cold_ppm", ppm)
    fd = os.open(sys.argv[1], os.O_RDONLY)
    there = pieces(fd)
    if ppm == 1000000:
        assert there == [{0}] * 21, there
        while os.read(fd, 1 << 20):
            pass
    os.close(fd)
print(*[0 if piece == {0} else 1 if piece == {1} else 2 for piece in there])
"""
        first = list(map(int, self.child(code, path)))
        self.assertEqual(len(first), 21)
        self.assertNotIn(2, first)
        self.assertTrue(2 <= sum(first) <= 19, first)
        self.assertEqual(list(map(int, self.child(code, path))), first)

    # --- every way to open --------------------------------------------------------------

    def test_each_way_to_open_is_seen(self):
        (path,) = self.files(1, 4096)
        self.put("cold_ppm", 1000000)
        code = """
for name in ("fopen", "fopen64", "freopen", "freopen64", "fdopen"):
    getattr(libc, name).restype = ctypes.c_void_p
path = sys.argv[1].encode()
here = ctypes.c_int(-100)
def stream(file):
    assert file
    libc.fclose(ctypes.c_void_p(file))
def on(name):
    null = ctypes.c_void_p(libc.fdopen(os.open("/dev/null", os.O_RDONLY), b"r"))
    return getattr(libc, name)(path, b"r", null)
ways = {
    "open": lambda: os.close(libc.open(path, 0)),
    "open64": lambda: os.close(libc.open64(path, 0)),
    "openat": lambda: os.close(libc.openat(here, path, 0)),
    "openat64": lambda: os.close(libc.openat64(here, path, 0)),
    "__open_2": lambda: os.close(libc.__open_2(path, 0)),
    "__open64_2": lambda: os.close(libc.__open64_2(path, 0)),
    "__openat_2": lambda: os.close(libc.__openat_2(here, path, 0)),
    "__openat64_2": lambda: os.close(libc.__openat64_2(here, path, 0)),
    "fopen": lambda: stream(libc.fopen(path, b"rb")),
    "fopen64": lambda: stream(libc.fopen64(path, b"r")),
    "freopen": lambda: stream(on("freopen")),
    "freopen64": lambda: stream(on("freopen64")),
}
for name, way in ways.items():
    before = counts()
    way()
    print(name, *since(before))
others = {
    "to write": lambda: os.close(os.open(path, os.O_WRONLY)),
    "both": lambda: os.close(os.open(path, os.O_RDWR)),
    "by name": lambda: os.close(os.open(path, os.O_PATH)),
    "append": lambda: stream(libc.fopen(path, b"a")),
    "r+": lambda: stream(libc.fopen(path, b"r+")),
    "folder": lambda: os.close(os.open(os.path.dirname(path), os.O_RDONLY)),
    "device": lambda: os.close(os.open("/dev/null", os.O_RDONLY)),
    "proc": lambda: os.close(os.open("/proc/self/stat", os.O_RDONLY)),
    "python": lambda: os.close(os.open(os.__file__, os.O_RDONLY)),
    "ours": lambda: os.close(os.open(folder + "/control", os.O_RDONLY)),
}
os.mkfifo(path + b".fifo")
others["pipe"] = lambda: os.close(os.open(path + b".fifo", os.O_RDONLY | os.O_NONBLOCK))
for name, way in others.items():
    before = counts()
    way()
    assert since(before) == [0] * 4, name
"""
        said = self.child(code, path)
        rows = [said[i : i + 5] for i in range(0, len(said), 5)]
        self.assertEqual(len(rows), 12)
        for name, *numbers in rows:
            with self.subTest(name):
                self.assertEqual(numbers, ["1", "4096", "1", "4096"])

    def test_what_open_says_is_kept(self):
        self.put("cold_ppm", 1000000)
        self.put("is_listing", 1)
        code = """
os.umask(0)
where = sys.argv[1]
def fails(*words):
    try:
        os.open(*words)
    except OSError as why:
        return why.errno
assert fails(where + "/none", os.O_RDONLY) == errno.ENOENT
assert fails(where, os.O_WRONLY) == errno.EISDIR
fd = os.open(where + "/made", os.O_WRONLY | os.O_CREAT, 0o640)
assert os.fstat(fd).st_mode & 0o777 == 0o640
fd = os.open(where + "/made", os.O_RDONLY | os.O_CREAT | os.O_TRUNC, 0o600)
assert os.fstat(fd).st_mode & 0o777 == 0o640
try:
    fd = os.open(where, os.O_TMPFILE | os.O_RDWR, 0o604)
    assert os.fstat(fd).st_mode & 0o777 == 0o604
except OSError as why:
    assert why.errno in (errno.EOPNOTSUPP, errno.EISDIR)
with open(where + "/full", "wb") as full:
    full.write(b"1")
ctypes.set_errno(errno.EDOM)
assert libc.open64((where + "/full").encode(), 0) >= 0
assert ctypes.get_errno() == errno.EDOM
assert not libc.fopen(b"/none", b"r") and ctypes.get_errno() == errno.ENOENT
"""
        self.child(code, self.data)

    # --- the list -------------------------------------------------------------------------

    def lines(self):
        return (self.shared / "files").read_text().splitlines()

    def test_files_are_listed_once_a_process(self):
        a, b = self.files(2, 700, "a name %d")
        os.symlink(a, self.data / "link")
        (self.data / "two\nlines").write_text("1")
        code = """
read("a name 0")
put("is_listing", 1)
for _ in range(3):
    for name in ("link", "a name 1", "two\\nlines", "a name 0"):
        read(name)
read("/sys/kernel/uevent_seqnum") if os.path.exists("/sys/kernel/uevent_seqnum") else 0
put("is_listing", 0)
read("/etc/passwd")
"""
        expected = [f"700 {os.path.realpath(a)}", f"700 {os.path.realpath(b)}"]
        self.child(code, cwd=self.data)
        self.assertEqual(self.lines(), expected)
        self.child(code, cwd=self.data)
        self.assertEqual(self.lines(), 2 * expected)

    def test_what_is_loaded_is_listed_apart(self):
        a, b = self.files(2, 700, "%d")
        code = """
put("is_listing", 1)
read("0")
put("is_listing", 2)
for _ in range(2):
    read("0")
    read("1")
put("is_listing", 1)
read("1")
read("0")
"""
        a, b = ("700 " + os.path.realpath(path) for path in (a, b))
        self.child(code, cwd=self.data)
        self.assertEqual(self.lines(), [a, "+" + a, "+" + b, b])

    def test_threads_and_forks(self):
        n, size = 60, 3000
        paths = self.files(n, size)
        self.put("cold_ppm", 300000)
        code = """
put("is_listing", 1)
before = counts()
def work():
    for _ in range(5):
        for path in sys.argv[1:]:
            os.close(os.open(path, os.O_RDONLY))
children = []
for _ in range(4):
    pid = os.fork()
    if not pid:
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        os._exit(0)
    children.append(pid)
assert all(os.waitpid(pid, 0)[1] == 0 for pid in children)
print(*since(before)[:2])
"""
        times = 4 * 8 * 5 * n
        self.assertEqual(list(map(int, self.child(code, *paths))), [times, times * size])
        whole = sorted(f"{size} {os.path.realpath(path)}" for path in paths)
        self.assertEqual(sorted(self.lines()), sorted(4 * whole))
        self.assertEqual(self.get("processes"), 1)

    # --- without harm -----------------------------------------------------------------------

    def test_a_folder_that_is_none_does_nothing(self):
        (path,) = self.files(1, 4096)
        head = (self.shared / "control").read_bytes()[:12] + struct.pack("I", 1_000_000)
        bad = {
            "short": lambda: self.control(head, 100),
            "long": lambda: self.control(head, 8192),
            "magic": lambda: self.control(b"tautcolt" + head[8:]),
            "version": lambda: self.control(head[:8] + struct.pack("I", 2) + head[12:]),
            "none": lambda: (self.shared / "control").unlink(),
        }
        for name, make in bad.items():
            with self.subTest(name):
                make()
                self.unseen(path)
        for folder in ("/nowhere", "shared", "/" + "x" * 5000, ""):
            with self.subTest(folder[:10]):
                self.unseen(path, folder)

    def unseen(self, path, folder=None):
        """The file stays in memory, whatever TAUT_STALLS names."""
        code = (
            CHILD.replace('page = mmap', 'page = None and mmap')
            + "read(sys.argv[1])\nassert is_there(os.open(sys.argv[1], os.O_RDONLY))\n"
        )
        folder = str(self.shared) if folder is None else folder
        result = subprocess.run(
            [sys.executable, "-S", "-c", code, path],
            env={**os.environ, "LD_PRELOAD": LIBRARY, "TAUT_STALLS": folder},
            check=False,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=100,
        )
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_closed_streams(self):
        """No descriptor of ours is left where the job's own would be."""
        (path,) = self.files(1, 4096)
        self.put("is_listing", 1)
        self.put("cold_ppm", 1000000)
        code = (
            "import os, sys\n"
            "fds = [os.open(sys.argv[1], os.O_RDONLY) for _ in range(3)]\n"
            "os._exit(0 if fds == [0, 1, 2] else 1)\n"
        )
        env = {**os.environ, "LD_PRELOAD": LIBRARY, "TAUT_STALLS": str(self.shared)}
        result = subprocess.run(
            ["sh", "-c", 'exec "$0" -S -c "$1" "$2" <&- >&- 2>&-', sys.executable, code, path],
            env=env,
            check=False,
            timeout=100,
        )
        self.assertEqual(result.returncode, 0)
        self.assertEqual(self.lines(), [f"4096 {os.path.realpath(path)}"])
        self.assertEqual(self.get("forgotten"), 3)


if __name__ == "__main__":
    if not LIBRARY:
        print("TAUT_STALLS_LIB is not set: nothing to preload")
        sys.exit(77)
    program = unittest.main(exit=False, verbosity=2)
    if not program.result.wasSuccessful():
        sys.exit(1)
    sys.exit(0 if program.result.testsRun > len(program.result.skipped) else 77)
