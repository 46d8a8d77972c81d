# SPDX-License-Identifier: Apache-2.0
"""Control groups of this process, of both versions. Nothing here raises."""

import os


def folders(controller, root="/"):
    """Of its groups, and of those that these are in, what may have a limit of that controller:
    pairs of a folder and whether it is of the first version, which has a tree for each
    controller. In a container the root is often the own group, and the path is of a
    host out of sight. root: where /proc and /sys are."""
    for line in text(root + "proc/self/cgroup").splitlines():
        _, controllers, path = (line.split(":", 2) + ["", ""])[:3]
        if controllers and controller not in controllers.split(","):
            continue
        parts = [part for part in path.split("/") if part not in ("", "..")]
        for n in range(len(parts), -1, -1):
            folder = os.path.join(root + "sys/fs/cgroup", controllers, *parts[:n])
            yield folder, bool(controllers)


def text(path):
    """Nothing where it cannot be read."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
