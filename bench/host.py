"""What a fair measurement needs from the machine: cold and warm caches, memory that the host has not taken back."""

import contextlib
import ctypes
import datetime
import mmap
import os
import platform
import shutil
import time

GIB = 1 << 30
HUGE_PAGE = 2 << 20
RESERVE = 3 * GIB  # free memory that is never touched: other programs need it
careful = True  # False: faster, but figures of a run are not comparable


# ---- memory ----
def meminfo(key):
    with open("/proc/meminfo") as file:
        return next((int(line.split()[1]) * 1024 for line in file if line.startswith(key + ":")), 0)


def touch_memory(size):
    """Touches and frees `size` bytes of free memory, so that the next program gets pages that the host backs.

    A virtual machine that reports free pages to its host gets them back far slower than by an ordinary page fault
    (0.45 GB/s against 20 here). Without this, a measurement would show the host.
    """
    size = min(size, meminfo("MemFree") - RESERVE) // HUGE_PAGE * HUGE_PAGE
    if size <= 0 or not careful:
        return
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):  # a kernel without huge pages
        memory.madvise(mmap.MADV_HUGEPAGE)
    buffer = (ctypes.c_char * size).from_buffer(memory)
    ctypes.memset(ctypes.addressof(buffer), 1, size)
    del buffer
    memory.close()


# ---- caches ----
def drop_caches():
    """Drops the page cache, which needs root; False if that failed. All measured files are fsynced before."""
    try:
        with open("/proc/sys/vm/drop_caches", "w") as file:
            file.write("3")
        return True
    except OSError:
        return False


def files_below(folder):
    return [os.path.join(where, name) for where, _, names in os.walk(folder) for name in names]


def warm(folder):
    """Reads all files of a folder, so that the page cache holds them."""
    buffer = bytearray(8 << 20)
    for path in files_below(folder):
        with open(path, "rb", buffering=0) as file:
            while file.readinto(buffer):
                pass


# ---- the disk ----
def sync():
    """Writes out dirty pages of other programs, so that this does not happen during a measurement."""
    if careful:
        os.sync()


def remove(folder):
    if os.path.isdir(folder):
        shutil.rmtree(folder)
        if careful:  # let the disk discard the deleted blocks before the next measurement
            os.sync()
            time.sleep(0.3)


def fresh(folder):
    remove(folder)
    os.makedirs(folder)
    return folder


def free_bytes(folder):
    state = os.statvfs(folder)
    return state.f_bavail * state.f_frsize


# ---- description ----
def first(path, key):
    with open(path) as file:
        return next((line.split(":", 1)[1].strip() for line in file if line.startswith(key)), "unknown")


def filesystem_of(folder):
    """The mount that holds the folder: the one with the longest path."""
    folder, best, found = os.path.realpath(folder), "", "unknown"
    with open("/proc/mounts") as file:
        for line in file:
            device, point, kind, options = line.split()[:4]
            holds = folder == point or folder.startswith(point.rstrip("/") + "/")
            if holds and len(point) >= len(best):
                best, found = point, f"{kind} on {device} ({options})"
    return found


def describe(folder):
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M"),
        "cpu": first("/proc/cpuinfo", "model name"),
        "cores": os.cpu_count(),
        "memory_gib": round(meminfo("MemTotal") / GIB, 1),
        "kernel": platform.release(),
        "filesystem": filesystem_of(folder),
        "load_average": round(os.getloadavg()[0], 2),
    }
