# SPDX-License-Identifier: Apache-2.0
"""Found at the start of every Python of a job that `taut record`, `taut run` or
`taut stalls` runs.

It takes its own folder off sys.path again, waits for a framework to be
imported, and then lets the user's own sitecustomize run as if it had been
found in the first place: whatever that one raises, or that there is none, goes
to the interpreter, which handles it as it always does.

Most processes of a job import no framework. They pay for this file only, so it
imports nothing that is not there yet."""

import _thread
import os
import sys

FRAMEWORKS = ("torch", "tensorflow", "mxnet")
# Who is told of a framework, and the variable that asks for it. What runs the
# job's sums comes first: the recorder then sees what it put in place.
PARTS = {"_run": "TAUT_RUN", "_recorder": "TAUT_RECORD", "_stalls": "TAUT_STALLS"}


class _Waiter:
    """Looks at the name of each import; of a framework's, it sees the end."""

    def __init__(self, package):
        self.package = package
        self.waits_for = set(FRAMEWORKS)
        self.asked = set()  # threads that ask the other finders, which may ask all

    def find_spec(self, name, path=None, target=None):
        """The spec that the other finders have, its loader made to tell us. A job
        may look whether a framework is there long before it imports it."""
        thread = _thread.get_ident()
        if name not in self.waits_for or thread in self.asked:
            return None
        self.asked.add(thread)
        try:
            for finder in list(sys.meta_path):
                find = None if finder is self else getattr(finder, "find_spec", None)
                spec = find(name, path, target) if find else None
                if spec is not None:
                    self.watch(name, spec.loader)
                    return spec
        finally:
            self.asked.discard(thread)
        return None

    def watch(self, name, loader):
        def exec_module(module):
            try:
                del loader.exec_module  # only this once
            except AttributeError:
                pass
            self.was_seen()  # before: servers of MXNet never leave their import
            loader.exec_module(module)
            if name in self.waits_for:
                self.waits_for.discard(name)
                self.imported(name, module)

        try:
            if hasattr(loader, "exec_module"):
                loader.exec_module = exec_module
        except (AttributeError, TypeError):
            pass  # no loader of files: nothing of ours

    def imported(self, name, module):
        for part in PARTS:
            if os.environ.get(PARTS[part]):
                try:
                    user = self.load(part)
                except Exception as why:
                    if part == "_run" and name == "torch":
                        self.complain(why)
                    continue
                user.framework_imported(name, module)

    @staticmethod
    def was_seen():
        """What `taut run` looks for behind the job (src/cli/run_unseen.h)."""
        folder = os.environ.get("TAUT_RUN_UNSEEN")
        try:
            if folder:
                os.rmdir(folder)
        except OSError:
            pass  # another process was the first, or this is another host

    @staticmethod
    def complain(why):
        """The job goes on, as one that is not run by Taut; the user knows."""
        text = " ".join(("%s: %s" % (type(why).__name__, why)).split())
        try:
            sys.stderr.write(
                "taut: PyTorch's DistributedDataParallel stays as it is: %s\n" % text
            )
            sys.stderr.flush()
        except Exception:
            pass  # there is no stderr

    def load(self, part):
        """Our package, from beside this file and under a name of its own, so
        that neither sys.path nor a module of the user's called taut matters."""
        from importlib import import_module

        if "_taut" not in sys.modules:
            from importlib.util import module_from_spec, spec_from_file_location

            start = os.path.join(self.package, "__init__.py")
            spec = spec_from_file_location(
                "_taut", start, submodule_search_locations=[self.package]
            )
            sys.modules["_taut"] = module_from_spec(spec)
            spec.loader.exec_module(sys.modules["_taut"])
        return import_module("_taut." + part)


def _begin():
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != here or not path]
    if any(os.environ.get(name) for name in PARTS.values()):
        sys.meta_path.insert(0, _Waiter(os.path.dirname(here)))


_begin()
del sys.modules["sitecustomize"]
# The next one on sys.path. With none, the error that it raises is the one that
# the interpreter expects and passes over.
__import__("sitecustomize")
