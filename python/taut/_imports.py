# SPDX-License-Identifier: Apache-2.0
"""Something to do at the end of the import of a module, whenever that is."""

import sys
import threading

_waiting = {}  # name -> list of calls
# Taut's loader, as a job imports it and as the package that rides in one does.
LOADERS = tuple(dict.fromkeys(("taut.load", __package__ + ".load")))


class _Finder:
    """Finds nothing itself; makes the loader that others find tell us."""

    def __init__(self):
        self.asked = set()  # threads that ask the other finders, which may ask all

    def find_spec(self, name, path=None, target=None):
        thread = threading.get_ident()
        if name not in _waiting or thread in self.asked:
            return None
        self.asked.add(thread)
        try:
            for finder in list(sys.meta_path):
                find = None if finder is self else getattr(finder, "find_spec", None)
                spec = find(name, path, target) if find else None
                if spec is not None:
                    _watch(name, spec.loader)
                    return spec
        finally:
            self.asked.discard(thread)
        return None


def _watch(name, loader):
    def exec_module(module):
        try:
            del loader.exec_module  # only this once
        except AttributeError:
            pass
        loader.exec_module(module)
        _call(_waiting.pop(name, ()), module)

    try:
        if hasattr(loader, "exec_module"):
            loader.exec_module = exec_module
    except (AttributeError, TypeError):
        pass  # no loader of files: nothing of ours


def _call(calls, module):
    for call in calls:
        try:
            call(module)
        except Exception:
            pass  # the job's import must not fail for us


def when_imported(name, call):
    """Calls call(module) once: now, where the module is there already."""
    module = sys.modules.get(name)
    if module is not None:
        _call([call], module)
        return
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    _waiting.setdefault(name, []).append(call)
