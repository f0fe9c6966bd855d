#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A folder by FUSE that is like another one, but for one fault. Test code only; needs Debian's python3-fusepy.

copies: a rename fails, as on a bucket that was mounted with Mountpoint for Amazon S3.
forgets: a file that must be new is made though it is there.
stale: what was read is believed for five seconds, as by an NFS client with long caches.

    folder.py copies|forgets|stale FOLDER MOUNT_POINT"""

import errno
import os
import sys
import time

import fusepy

STALE_S = 5


class Folder(fusepy.Operations):
    def __init__(self, fault, root):
        self.fault, self.root, self.seen = fault, root, {}

    def real(self, path):
        return self.root + path

    def getattr(self, path, fh=None):
        facts = os.lstat(self.real(path))
        return {name: getattr(facts, name) for name in dir(facts) if name.startswith("st_") and not name.endswith("_ns")}

    def readdir(self, path, fh):
        return [".", "..", *os.listdir(self.real(path))]

    def create(self, path, mode, fi=None):
        return os.open(self.real(path), os.O_RDWR | os.O_CREAT, mode)

    def open(self, path, flags):
        return os.open(self.real(path), flags)

    def read(self, path, size, offset, fh):
        return os.pread(fh, size, offset)

    def write(self, path, data, offset, fh):
        return os.pwrite(fh, data, offset)

    def truncate(self, path, length, fh=None):
        os.truncate(self.real(path), length)

    def fsync(self, path, datasync, fh):
        os.fsync(fh)

    def release(self, path, fh):
        os.close(fh)

    def unlink(self, path):
        os.unlink(self.real(path))

    def rename(self, old, new):
        if self.fault == "copies":
            raise fusepy.FuseOSError(errno.ENOSYS)
        os.rename(self.real(old), self.real(new))

    def statfs(self, path):
        room = os.statvfs(self.root)
        return {name: getattr(room, name) for name in ("f_bavail", "f_bfree", "f_blocks", "f_bsize", "f_frsize", "f_namemax")}


class Forgetful(Folder):
    """It remembers that a file is not there, and asks nobody whether it still is not."""

    def unlink(self, path):
        super().unlink(path)
        self.seen[path] = None

    def getattr(self, path, fh=None):
        if fh is None and path in self.seen:
            raise fusepy.FuseOSError(errno.ENOENT)
        return super().getattr(path, fh)


class Stale(Folder):
    """Whole small files, as they were when somebody asked last."""

    def looked(self, path):
        at, facts, text = self.seen.get(path, (0, None, b""))
        if time.monotonic() - at < STALE_S:
            return facts, text
        facts = super().getattr(path)
        text = b""
        if os.path.isfile(self.real(path)):
            with open(self.real(path), "rb") as file:
                text = file.read()
        self.seen[path] = (time.monotonic(), facts, text)
        return facts, text

    def getattr(self, path, fh=None):
        return self.looked(path)[0]

    def open(self, path, flags):
        self.looked(path)
        return 0

    def read(self, path, size, offset, fh):
        return self.looked(path)[1][offset : offset + size]

    def release(self, path, fh):
        pass


kind = {"stale": Stale, "forgets": Forgetful}.get(sys.argv[1], Folder)
fusepy.FUSE(
    kind(sys.argv[1], sys.argv[2]),
    sys.argv[3],
    foreground=True,
    nothreads=True,
    direct_io=True,
    attr_timeout=0,
    entry_timeout=0,
)
