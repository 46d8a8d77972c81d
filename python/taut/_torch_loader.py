# SPDX-License-Identifier: Apache-2.0
"""Times of a DataLoader."""


class Loader:
    def watch_workers(self):
        pass

    def begin(self, job, discard):
        pass

    def end(self, folder):
        pass
