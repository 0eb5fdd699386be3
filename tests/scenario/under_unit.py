#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a command under the restrictions of a systemd unit, without systemd: the system call filter
(its groups expanded by `systemd-analyze syscall-filter`), address families, memory, namespaces,
personality, capabilities, user and limits. Mounts and devices are bubblewrap's part (see
240_unit.py). A directive that neither knows is an error, so that none goes untried.

    under_unit.py UNIT COMMAND...

As root it becomes nobody first. Ends with 77 where the Python module of libseccomp is missing.
"""
import ctypes
import errno
import os
import platform
import resource
import subprocess
import sys

# What stands for mounts and devices, and what only systemd itself can do or what grants nothing.
MOUNTS = {"ProtectSystem", "ProtectHome", "PrivateTmp", "PrivateMounts", "ProtectProc",
          "ProtectControlGroups", "ProtectKernelTunables", "RuntimeDirectory",
          "RuntimeDirectoryMode", "StateDirectory", "StateDirectoryMode", "DevicePolicy",
          "DeviceAllow"}
MANAGER = {"Type", "NotifyAccess", "ExecStart", "ExecReload", "Restart", "RestartPreventExitStatus",
           "RestartSec", "WatchdogSec", "TimeoutStopSec", "User", "Group", "SupplementaryGroups",
           "UMask", "RemoveIPC", "IPAddressDeny", "IPAddressAllow", "AmbientCapabilities",
           "Nice", "CPUWeight"}

PR_SET_NO_NEW_PRIVS, PR_CAPBSET_DROP = 38, 24
NOBODY = 65534
CLONE_NEW = (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000,
             0x00000080)
FAMILIES = {"AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10, "AF_NETLINK": 16}
N_FAMILIES = 64


def read_service(path):
    """The directives of [Service] as (name, value), in order."""
    rows, section = [], None
    with open(path, encoding="utf-8") as file:
        for line in file.read().replace("\\\n", " ").splitlines():
            line = line.strip()
            if line.startswith("["):
                section = line
            elif line and line[0] not in "#;" and section == "[Service]":
                name, value = line.split("=", 1)
                rows.append((name, value))
    return rows


def expand(name):
    """The system calls of a group, or the one of that name."""
    if not name.startswith("@"):
        return {name}
    text = subprocess.run(["systemd-analyze", "--no-pager", "syscall-filter", name], check=True,
                          capture_output=True, text=True).stdout
    calls = set()
    for line in text.splitlines()[1:]:
        line = line.strip()
        if line and not line.startswith("#"):
            calls |= expand(line)
    return calls


def allowed_calls(values):
    """What systemd makes of the lines SystemCallFilter=: the first says that it is a list of what
    is allowed, the others add to it or (~) take from it. Empty: no filter."""
    allowed = set()
    for i, value in enumerate(values):
        names = set().union(*(expand(name) for name in value.lstrip("~").split()))
        if value.startswith("~"):
            if i == 0:
                raise ValueError("a SystemCallFilter that begins with ~")
            allowed -= names
        else:
            allowed |= names
    return allowed | expand("@default") if values else allowed


class Filters:
    """System call filters, one upon the other as systemd has them."""

    def __init__(self, seccomp):
        self.seccomp = seccomp
        self.filters = []
        self.allowing = None

    def begin(self, default):
        self.filters.append(self.seccomp.SyscallFilter(default))
        return self.filters[-1]

    def add(self, filter_, action, call, *arguments):
        try:
            filter_.add_rule(action, call, *arguments)
        except (RuntimeError, OSError, ValueError):
            pass  # not a system call of this processor

    def deny(self, calls, number, *arguments):
        denying = self.begin(self.seccomp.ALLOW)
        for call in calls:
            self.add(denying, self.seccomp.ERRNO(number), call, *arguments)

    def mask(self, index, mask, value):
        return self.seccomp.Arg(index, self.seccomp.MASKED_EQ, mask, value)


def make_filters(seccomp, rows):
    """All filters of the unit, and its limits; ValueError on a directive that is not known."""
    filters, limits = Filters(seccomp), []
    values = {}
    for name, value in rows:
        values.setdefault(name, []).append(value)
    for name, (value, *_) in values.items():
        if name in MOUNTS or name in MANAGER:
            continue
        if name == "SystemCallFilter":
            number = getattr(errno, values.get("SystemCallErrorNumber", [""])[0], None)
            default = seccomp.ERRNO(number) if number else seccomp.KILL_PROCESS
            filters.allowing = seccomp.SyscallFilter(default)
            for call in sorted(allowed_calls(values[name])):
                filters.add(filters.allowing, seccomp.ALLOW, call)
        elif name in ("SystemCallErrorNumber", "NoNewPrivileges", "CapabilityBoundingSet"):
            pass  # above, and in main()
        elif name == "SystemCallArchitectures" and value == "native":
            filters.begin(seccomp.ALLOW)  # every filter kills calls of another architecture
        elif name == "RestrictAddressFamilies":
            known = {FAMILIES[family] for family in value.split()}
            denying = filters.begin(seccomp.ALLOW)
            for family in set(range(N_FAMILIES)) - known:
                filters.add(denying, seccomp.ERRNO(errno.EAFNOSUPPORT), "socket",
                            seccomp.Arg(0, seccomp.EQ, family))
        elif name == "MemoryDenyWriteExecute":
            filters.deny(["mmap"], errno.EPERM, filters.mask(2, 6, 6))
            filters.deny(["mprotect", "pkey_mprotect"], errno.EPERM, filters.mask(2, 4, 4))
            filters.deny(["shmat"], errno.EPERM, filters.mask(2, 0o100000, 0o100000))
        elif name == "RestrictNamespaces":
            filters.deny(["clone3"], errno.ENOSYS)
            filters.deny(["unshare", "setns"], errno.EPERM)
            for flag in CLONE_NEW:
                filters.deny(["clone"], errno.EPERM, filters.mask(0, flag, flag))
        elif name == "RestrictRealtime":
            denying = filters.begin(seccomp.ALLOW)
            for policy in (1, 2, 4, 6):  # FIFO, RR, ISO, DEADLINE
                filters.add(denying, seccomp.ERRNO(errno.EPERM), "sched_setscheduler",
                            seccomp.Arg(1, seccomp.EQ, policy))
        elif name == "RestrictSUIDSGID":
            for bits in (0o4000, 0o2000):
                filters.deny(["chmod", "fchmod", "mkdir"], errno.EPERM, filters.mask(1, bits, bits))
                filters.deny(["fchmodat", "mkdirat"], errno.EPERM, filters.mask(2, bits, bits))
        elif name == "LockPersonality":
            filters.deny(["personality"], errno.EPERM)
        elif name == "ProtectClock":
            filters.deny(expand("@clock"), errno.EPERM)
        elif name == "ProtectKernelModules":
            filters.deny(expand("@module"), errno.EPERM)
        elif name == "ProtectKernelLogs":
            filters.deny(["syslog"], errno.EPERM)
        elif name == "ProtectHostname":
            filters.deny(["sethostname", "setdomainname"], errno.EPERM)
        elif name.startswith("Limit"):
            soft, _, hard = value.partition(":")
            limits.append((getattr(resource, "RLIMIT_" + name[len("Limit"):]),
                           (int(soft), int(hard or soft))))
        else:
            raise ValueError(f"{name}={value}: this test does not know it")
    # What allows little comes last: the others still need the call that loads them.
    return filters.filters + [f for f in [filters.allowing] if f], limits


def main():
    try:
        import seccomp
    except ImportError:
        print("SKIP: no python3-seccomp")
        sys.exit(77)
    unit, command = sys.argv[1], sys.argv[2:]
    filters, limits = make_filters(seccomp, read_service(unit))
    for kind, values in limits:
        if os.getuid() != 0:
            hard = resource.getrlimit(kind)[1]
            values = tuple(min(v, hard) if hard != resource.RLIM_INFINITY else v for v in values)
        resource.setrlimit(kind, values)
    libc = ctypes.CDLL(None, use_errno=True)
    os.umask(0o077)
    if os.getuid() == 0:
        for capability in range(64):
            libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        sys.exit("no_new_privs refused")
    for filter_ in filters:
        filter_.load()
    os.execv(command[0], command)


if __name__ == "__main__":
    if platform.system() != "Linux":
        sys.exit(77)
    main()
