"""Damage to files, as disks do it."""

import os


def flip_bit(path, place, keep_time=True):
    """Change one bit; by default as a failing disk does it, with no trace."""
    status = path.stat()
    with path.open("rb+") as file:
        file.seek(place)
        (byte,) = file.read(1)
        file.seek(place)
        file.write(bytes([byte ^ 1]))
    if keep_time:
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
