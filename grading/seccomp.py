"""The filter of system calls that the kernel holds a sandbox to."""

from __future__ import annotations

import functools
import platform
import struct

# System calls by their numbers on x86_64 and on aarch64. The first ones make namespaces and
# mounts, look into other processes, or hold memory that belongs to no process and so escapes
# being counted.
_FORBIDDEN_CALLS = {
    "unshare": (272, 97),
    "setns": (308, 268),
    "clone3": (435, 435),  # its flags cannot be seen by a filter; the C library then uses clone
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "io_uring_setup": (425, 425),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "syslog": (103, 116),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "msgget": (68, 186),
    "semget": (64, 190),
    "mq_open": (240, 180),
    # Through these two sandboxes could talk: all see the same files, of the same machine.
    "flock": (73, 32),
    "inotify_init": (253, 26),  # aarch64 has only the next one
    "inotify_init1": (294, 26),
    "inotify_add_watch": (254, 27),
    "fanotify_init": (300, 262),
    "preadv2": (327, 286),
    "mincore": (27, 232),
    "cachestat": (451, 451),
    "fadvise64": (221, 223),
    "sysinfo": (99, 179),
    "io_setup": (206, 0),
    # These take time from other sandboxes.
    "sched_setaffinity": (203, 122),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "sched_setattr": (314, 274),
    "sync": (162, 81),
    "syncfs": (306, 267),
}
# The families of sockets that a network namespace holds inside: AF_UNIX, AF_INET, AF_INET6, and
# AF_NETLINK, which Python asks for names. AF_VSOCK, for one, would reach the machine's host.
_SOCKET_CALLS = {"socket": (41, 198), "socketpair": (53, 199)}
_SOCKET_FAMILIES = (1, 2, 10, 16)
# What may be asked of an open file: F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC,
# F_SETPIPE_SZ and F_GETPIPE_SZ. All locks, leases and hints lie on the file itself, for all to see.
_FCNTL = (72, 25)
_FCNTL_COMMANDS = (0, 1, 2, 3, 4, 1030, 1031, 1032)
_CLONE = (56, 220)
# Every CLONE_NEW flag; and CLONE_PARENT, by which a forked run's child would be the warm process's,
# where nobody counts what it computes and holds in memory.
_FORBIDDEN_FLAGS = 0x7E020000 | 0x8000
_ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}


def architecture_is_known() -> bool:
    """Say whether the numbers of this processor's system calls are on the list."""
    return platform.machine() in _ARCHITECTURES


@functools.cache
def call_filter() -> bytes:
    """Give the filter of system calls as the kernel reads it (classic BPF).

    A forbidden call fails as if this kernel did not have it, so that libraries fall back; so does
    a socket of a forbidden family, and a command to an open file that is not on the list.
    """
    name, column = _ARCHITECTURES[platform.machine()]
    load, jump_equal, jump_at_least, jump_any_bit, leave = 0x20, 0x15, 0x35, 0x45, 0x06
    allow, kill = 0x7FFF0000, 0x80000000
    refuse, refuse_family = 0x00050000 | 38, 0x00050000 | 97  # ENOSYS, EAFNOSUPPORT
    steps = [
        (load, 0, 0, 4),  # which processor's calls
        (jump_equal, 1, 0, name),
        (leave, 0, 0, kill),
        (load, 0, 0, 0),  # which call
        (jump_at_least, 0, 1, 0x40000000),  # the same calls under other numbers (x32)
        (leave, 0, 0, refuse),
    ]
    for numbers in _FORBIDDEN_CALLS.values():
        steps += [(jump_equal, 0, 1, numbers[column]), (leave, 0, 0, refuse)]
    chosen: list[tuple[tuple[int, int], int, tuple[int, ...], int]]
    chosen = [(numbers, 0, _SOCKET_FAMILIES, refuse_family) for numbers in _SOCKET_CALLS.values()]
    for numbers, argument, allowed, refusal in [*chosen, (_FCNTL, 1, _FCNTL_COMMANDS, refuse)]:
        steps += [(jump_equal, 0, len(allowed) + 3, numbers[column])]
        steps += [(load, 0, 0, 16 + 8 * argument)]
        steps += [
            (jump_equal, len(allowed) - place, 0, value) for place, value in enumerate(allowed)
        ]
        steps += [(leave, 0, 0, refusal), (leave, 0, 0, allow)]
    steps += [
        (jump_equal, 0, 3, _CLONE[column]),
        (load, 0, 0, 16),  # its flags
        (jump_any_bit, 0, 1, _FORBIDDEN_FLAGS),
        (leave, 0, 0, refuse),
        (leave, 0, 0, allow),
    ]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)
