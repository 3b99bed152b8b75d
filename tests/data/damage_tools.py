"""Helpers that damage files like failing disks."""

import os


def flip_bit(path, place, keep_time=True):
    """Flip one bit, by default without changing the modification time."""
    status = path.stat()
    with path.open("rb+") as file:
        file.seek(place)
        (byte,) = file.read(1)
        file.seek(place)
        file.write(bytes([byte ^ 1]))
    if keep_time:
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
