"""What processes use: processor time, memory, bytes on the disk."""

import os
import subprocess
import time
from pathlib import Path

TICK = os.sysconf("SC_CLK_TCK")


# All processes that were started: none outlives the bench.
STARTED = []


def started(command, **options):
    """A process that ends with the bench."""
    process = subprocess.Popen([str(word) for word in command], **options)
    STARTED.append(process)
    return process


def end_all():
    for process in STARTED:
        if process.returncode is None and process.poll() is None:
            process.kill()
            process.wait()


def children(pid):
    """The processes that `pid` has started."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(text.rsplit(") ", 1)[1].split()[1]) == pid:
            found.append(int(stat.parent.name))
    return found


def cpu_s(pid):
    """User and system time, with that of children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return sum(int(field) for field in fields[11:15]) / TICK


def peak_mb(pid):
    """The most memory that the process has had at a time, MB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024 / 1e6
    return 0.0


def family(pid):
    """A process, and its children of now: (cpu_s, peak_mb) of each of the two groups."""
    of_children = [(cpu_s(child), peak_mb(child)) for child in children(pid)]
    return (cpu_s(pid), peak_mb(pid)), tuple(map(sum, zip((0, 0), *of_children)))


def directory_bytes(path):
    """Bytes of the files below a directory."""
    total = 0
    for root, _, names in os.walk(path):
        for name in names:
            try:
                total += os.stat(os.path.join(root, name)).st_size
            except FileNotFoundError:
                pass
    return total


def forget(path):
    """Removes the files below a directory from the page cache, where the kernel can."""
    for root, _, names in os.walk(path):
        for name in names:
            descriptor = os.open(os.path.join(root, name), os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def wait_until(is_done, what, seconds=600, step=0.05):
    """Waits, and says what it waited for if that does not happen."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if value := is_done():
            return value
        time.sleep(step)
    raise TimeoutError(f"{what}: not after {seconds} s")
