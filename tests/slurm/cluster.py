"""A throw-away SLURM cluster on this machine: one node, no accounting, nothing enforced.

`python tests/slurm/cluster.py COMMAND ...` (as root) starts it, runs the command, and stops it.
Packages, on Debian: `apt-get install slurmctld slurmd slurm-client munge`.

All files are in a temporary folder, except two links that SLURM's clients look for:
/etc/slurm/slurm.conf and /etc/slurm/cgroup.conf. A machine that has a SLURM is refused.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil

PACKAGES = "slurmctld slurmd slurm-client munge"
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol", "setpriv")
PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
LINKS = (Path("/etc/slurm/slurm.conf"), Path("/etc/slurm/cgroup.conf"))
CPUS = max(4, os.cpu_count() or 1)

# Containers may have no cgroups: slurmd must not need them, and `pgid` finds every process of a job
# (`linuxproc` loses orphans). Each job has one core or more and the memory that it requests; memory
# is not enforced. A job that is larger than the node is refused. Finished jobs stay visible.
CONFIGURATION = """\
# Written by tests/slurm/cluster.py; may be deleted.
ClusterName={name}
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=500
SlurmdParameters=config_overrides
EnforcePartLimits=ALL
MinJobAge=3600
ReturnToService=2
KillWait=30
MpiDefault=none
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=64000 State=UNKNOWN
PartitionName=test Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def unavailable() -> str | None:
    """Return why no cluster can be started on this machine; None if one can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "a SLURM cluster is only started on Linux, by root"
    missing = [program for program in PROGRAMS if shutil.which(program, path=PATH) is None]
    if missing:
        return f"{', '.join(missing)}: not installed; apt-get install {PACKAGES}"
    for link in LINKS:
        if os.path.lexists(link) and not _is_left_over(link):
            return f"{link} exists; a machine without a SLURM is expected"
    return None


def _is_left_over(link: Path) -> bool:
    """Return whether a link belongs to a cluster of this script that was killed."""
    if not link.is_symlink():
        return False
    try:
        pid = int((link.readlink().parent / "slurmctld.pid").read_text())
    except (OSError, ValueError):
        return True
    return not psutil.pid_exists(pid)


class Cluster:
    """A cluster in a folder; a context manager that starts and stops it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = f"batchscope-test-{os.getpid()}"
        self._daemons: list[subprocess.Popen] = []
        self._memory_group: Path | None = None

    def __enter__(self) -> Cluster:
        # The first start sometimes refuses its own credentials; a new one does not.
        for _ in range(3):
            try:
                if self._start():
                    return self
            except BaseException:
                self.stop()
                raise
            logs = "\n".join(path.read_text()[-2000:] for path in self.folder.glob("*.log"))
            self.stop()
        raise RuntimeError(f"The cluster did not start.\n{logs}")

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _start(self) -> bool:
        shutil.rmtree(self.folder, ignore_errors=True)
        for name in ("state", "spool"):
            (self.folder / name).mkdir(parents=True)
        # Named outright, for slurmd's own search fails without cgroups, and with both versions.
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        (self.folder / "slurm.conf").write_text(self._configuration())
        for link in LINKS:
            link.unlink(missing_ok=True)
            link.symlink_to(self.folder / link.name)
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        files = {"socket": "socket", "key-file": "key", "pid-file": "pid", "seed-file": "seed"}
        options = [f"--{option}={self.folder}/munge.{name}" for option, name in files.items()]
        # By force: temporary folders are not as closed as it wants.
        log = f"--log-file={self.folder}/munged.log"
        self._start_daemon("munged", "--foreground", "--force", log, *options)
        _wait((self.folder / "munge.socket").exists, 10)
        self._start_daemon("slurmctld", "-D")
        self._start_daemon("slurmd", "-D")
        return _wait(lambda: "idle" in ask("sinfo", "-h", "-o", "%T"), 20) and any(
            subprocess.run(["srun", "--time=1", "true"], capture_output=True).returncode == 0
            for _ in range(3)
        )

    def _configuration(self) -> str:
        with contextlib.ExitStack() as stack:
            sockets = [stack.enter_context(socket.socket()) for _ in range(2)]
            for free_socket in sockets:
                free_socket.bind(("127.0.0.1", 0))
            ports = [free_socket.getsockname()[1] for free_socket in sockets]
        return CONFIGURATION.format(
            name=self.name,
            host=socket.gethostname().partition(".")[0],
            folder=self.folder,
            controller_port=ports[0],
            node_port=ports[1],
            cpus=CPUS,
        )

    def _start_daemon(self, *command: str) -> None:
        with open(self.folder / f"{command[0]}.out", "w") as output:
            process = subprocess.Popen(
                # Ends with this process, however that ends.
                ["setpriv", "--pdeathsig", "TERM", *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self.folder,
                env={**os.environ, "PATH": PATH},
                start_new_session=True,
            )
        self._daemons.append(process)

    def stop(self) -> None:
        """Cancel all jobs and stop every process of the cluster, by its id."""
        ask("scancel", "--quiet", "--user=root")
        _wait(lambda: not ask("squeue", "-h", "-t", "R,CG,PD", "-o", "%A"), 50)
        for process in reversed(self._daemons):
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._daemons.clear()
        for process in self.processes():
            with contextlib.suppress(psutil.Error):
                process.kill()
        if self._memory_group:
            with contextlib.suppress(OSError):
                self._memory_group.rmdir()
        for link in LINKS:
            if link.is_symlink() and link.readlink().parent == self.folder:
                link.unlink()

    def limit_memory(self, megabytes: int) -> bool:
        """Limit the memory of this cluster and its later jobs; return whether that is possible."""
        for top, file in (
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            ("/sys/fs/cgroup", "memory.max"),
        ):
            self._memory_group = Path(top, self.name)
            with contextlib.suppress(OSError):
                self._memory_group.mkdir(exist_ok=True)
                (self._memory_group / file).write_text(f"{megabytes}000000")
                for process in self._daemons:
                    (self._memory_group / "cgroup.procs").write_text(str(process.pid))
                return True
        return False

    def processes(self) -> list[psutil.Process]:
        """Return the running processes of jobs."""
        processes = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get("SLURM_CLUSTER_NAME") == self.name:
                    processes.append(process)
        return processes


def ask(*command: str) -> str:
    """Return what a SLURM command prints, without the last newline; nothing where it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _wait(condition: Callable[[], object], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.2)
    return True


def main(command: list[str]) -> int:
    """Run a command while a cluster runs; return its exit status."""
    if reason := unavailable():
        print(reason, file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # through the clean-up
    with tempfile.TemporaryDirectory(prefix="slurm-") as folder, Cluster(Path(folder)):
        return subprocess.run(command).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
