# SPDX-License-Identifier: Apache-2.0
"""Found at the start of every Python of a job that `taut record` runs.

It takes its own folder off sys.path again, waits for a framework to be
imported, and then lets the user's own sitecustomize run as if it had been
found in the first place: whatever that one raises, or that there is none, goes
to the interpreter, which handles it as it always does.

Most processes of a job import no framework. They pay for this file only, so it
imports nothing."""

import os
import sys

FRAMEWORKS = ("torch", "tensorflow", "mxnet")


class _Waiter:
    """Looks at the name of each import; of a framework's, it sees the end."""

    def __init__(self, package):
        self.package = package
        self.waits_for = set(FRAMEWORKS)

    def find_spec(self, name, path=None, target=None):
        if name not in self.waits_for:
            return None
        self.waits_for.discard(name)
        return self.watched(name, path, target)

    def watched(self, name, path, target):
        """The spec that the other finders have, its loader made to tell us."""
        for finder in list(sys.meta_path):
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find else None
            if spec is not None:
                self.watch(name, spec.loader)
                return spec
        self.waits_for.add(name)  # it may be there later
        return None

    def watch(self, name, loader):
        def exec_module(module):
            try:
                del loader.exec_module  # only this once
            except AttributeError:
                pass
            try:
                loader.exec_module(module)
            except BaseException:
                self.waits_for.add(name)
                raise
            self.imported(name, module)

        try:
            loader.exec_module = exec_module
        except (AttributeError, TypeError):
            pass  # no loader of files: nothing of ours

    def imported(self, name, module):
        try:
            recorder = self.load()
        except Exception:
            return
        recorder.framework_imported(name, module)

    def load(self):
        """Our package, from beside this file and under a name of its own, so
        that neither sys.path nor a module of the user's called taut matters."""
        if "_taut" not in sys.modules:
            from importlib.util import module_from_spec, spec_from_file_location

            start = os.path.join(self.package, "__init__.py")
            spec = spec_from_file_location(
                "_taut", start, submodule_search_locations=[self.package]
            )
            sys.modules["_taut"] = module_from_spec(spec)
            spec.loader.exec_module(sys.modules["_taut"])
        from _taut import _recorder

        return _recorder


def _begin():
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != here or not path]
    if os.environ.get("TAUT_RECORD"):
        sys.meta_path.insert(0, _Waiter(os.path.dirname(here)))


_begin()
del sys.modules["sitecustomize"]
# The next one on sys.path. With none, the error that it raises is the one that
# the interpreter expects and passes over.
__import__("sitecustomize")
