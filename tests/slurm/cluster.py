"""A throw-away SLURM cluster on this machine: one node, no accounting, nothing enforced.

`python tests/slurm/cluster.py COMMAND ...` (as root) starts it, runs the command, and stops it;
without a command it waits for Ctrl-C. Packages, on Debian:
`apt-get install slurmctld slurmd slurm-client munge`.

All files lie in a folder of its own, but for two links that SLURM's clients look for:
/etc/slurm/slurm.conf and /etc/slurm/cgroup.conf. A machine with a SLURM of its own is refused.
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
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

PACKAGES = "slurmctld slurmd slurm-client munge"
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol", "setpriv")
SYSTEM = Path("/etc/slurm")
LINKS = ("slurm.conf", "cgroup.conf")
CPUS = max(4, os.cpu_count() or 1)
MEMORY_MB = 64_000  # declared only: memory is not enforced
KILL_WAIT = 30  # seconds between SIGTERM and SIGKILL; SLURM's default

# Some of it only matters in containers, where cgroups are read-only or missing: slurmd must not
# need them, and `pgid` still finds every process of a job (`linuxproc` loses orphans).
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
# One job per core, each with the memory that it asks for; the default gives it the whole node.
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=500
# The node may claim more than it has.
SlurmdParameters=config_overrides
# A job that is larger than the node is refused, instead of waiting for ever.
EnforcePartLimits=ALL
# Finished jobs stay visible to squeue.
MinJobAge=3600
ReturnToService=2
KillWait={kill_wait}
MpiDefault=none
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory={memory_mb} State=UNKNOWN
PartitionName=test Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""

# Named outright, for slurmd's own search fails without cgroups, and where both versions are.
CGROUP_CONFIGURATION = "CgroupPlugin=cgroup/v1\n"


def unavailable() -> str | None:
    """Returns why no cluster can be started here, and what would help; None if one can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "a SLURM cluster is only started on Linux, by root"
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
    missing = [program for program in PROGRAMS if shutil.which(program, path=path) is None]
    if missing:
        return f"{', '.join(missing)}: not installed; apt-get install {PACKAGES}"
    for link in (SYSTEM / name for name in LINKS):
        if os.path.lexists(link) and not _is_left_over(link):
            return f"{link} exists; a machine without a SLURM, or a test's, is expected"
    return None


def _is_left_over(link: Path) -> bool:
    """Whether a link belongs to a cluster of this script that was killed."""
    if not link.is_symlink():
        return False
    folder = link.readlink().parent
    if not (folder / "slurm.conf").exists():
        return True
    ours = (folder / "slurm.conf").read_text().startswith(CONFIGURATION.partition("\n")[0])
    with contextlib.suppress(OSError, ValueError):
        return ours and not psutil.pid_exists(int((folder / "slurmctld.pid").read_text()))
    return ours


class Cluster:
    """A cluster in a folder; a context manager that starts and stops it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = f"batchscope-test-{os.getpid()}"
        self._daemons: list[tuple[str, subprocess.Popen]] = []
        self._memory_group: Path | None = None

    def __enter__(self) -> Cluster:
        try:
            # Now and then the first start-up refuses its own credentials; a new one does not.
            for attempt in range(3):
                if self._start():
                    return self
                if attempt < 2:
                    self.stop()
            raise RuntimeError(f"The cluster did not start.\n{self._logs()}")
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _start(self) -> bool:
        shutil.rmtree(self.folder, ignore_errors=True)
        for name in ("state", "spool"):
            (self.folder / name).mkdir(parents=True)
        (self.folder / "cgroup.conf").write_text(CGROUP_CONFIGURATION)
        (self.folder / "slurm.conf").write_text(self._configuration())
        for name in LINKS:
            (SYSTEM / name).unlink(missing_ok=True)
            (SYSTEM / name).symlink_to(self.folder / name)
        self._start_munge()
        self._daemon("slurmctld", "slurmctld", "-D")
        self._daemon("slurmd", "slurmd", "-D")
        return _wait(self._is_idle, 20) and self._runs_a_job()

    def _configuration(self) -> str:
        with contextlib.ExitStack() as stack:
            sockets = [stack.enter_context(socket.socket()) for _ in range(2)]
            for found in sockets:
                found.bind(("127.0.0.1", 0))
            ports = [found.getsockname()[1] for found in sockets]
        return CONFIGURATION.format(
            name=self.name,
            host=socket.gethostname().partition(".")[0],
            folder=self.folder,
            controller_port=ports[0],
            node_port=ports[1],
            kill_wait=KILL_WAIT,
            cpus=CPUS,
            memory_mb=MEMORY_MB,
        )

    def _start_munge(self) -> None:
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        files = {
            "socket": "munge.socket",
            "key-file": "munge.key",
            "pid-file": "munged.pid",
            "log-file": "munged.log",
            "seed-file": "munged.seed",
        }
        options = [f"--{option}={self.folder / name}" for option, name in files.items()]
        # By force: temporary folders are not as closed as it wants.
        self._daemon("munged", "munged", "--foreground", "--force", *options)
        _wait((self.folder / "munge.socket").exists, 10)

    def _daemon(self, name: str, *command: str) -> None:
        environment = {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"}
        with open(self.folder / f"{name}.out", "w") as output:
            process = subprocess.Popen(
                # Ends with this process, however that ends.
                ["setpriv", "--pdeathsig", "TERM", *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self.folder,
                env=environment,
                start_new_session=True,
            )
        self._daemons.append((name, process))

    def _is_idle(self) -> bool:
        return "idle" in ask("sinfo", "-h", "-o", "%T")

    def _runs_a_job(self) -> bool:
        command = ["srun", "--time=1", "true"]
        return any(
            subprocess.run(command, capture_output=True, timeout=60).returncode == 0
            for _ in range(3)
        )

    def _logs(self) -> str:
        paths = [*sorted(self.folder.glob("*.out")), *sorted(self.folder.glob("*.log"))]
        return "\n".join(f"{path.name}:\n{path.read_text()[-2000:]}" for path in paths)

    def stop(self) -> None:
        """Cancels all jobs and stops every process of the cluster, by its id."""
        ask("scancel", "--quiet", "--user=root")
        _wait(lambda: not ask("squeue", "-h", "-t", "R,CG,PD", "-o", "%A"), KILL_WAIT + 20)
        for _, process in reversed(self._daemons):
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
        for name in LINKS:
            link = SYSTEM / name
            if link.is_symlink() and link.readlink() == self.folder / name:
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
                for _, process in self._daemons:
                    (self._memory_group / "cgroup.procs").write_text(str(process.pid))
                return True
        return False

    def processes(self) -> list[psutil.Process]:
        """Returns the processes of jobs that are still there."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get("SLURM_CLUSTER_NAME") == self.name:
                    found.append(process)
        return found


def ask(*command: str) -> str:
    """Returns what a SLURM command prints, without the last newline; nothing where it fails."""
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


@contextlib.contextmanager
def temporary() -> Iterator[Cluster]:
    """Starts a cluster in a temporary folder, and takes both away again."""
    with tempfile.TemporaryDirectory(prefix="slurm-") as folder, Cluster(Path(folder)) as cluster:
        yield cluster


def main(command: list[str]) -> int:
    """Runs a command beside a cluster; returns its exit status."""
    reason = unavailable()
    if reason:
        print(reason, file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # through the clean-up
    with temporary():
        if command:
            return subprocess.run(command).returncode
        print("The cluster is up; Ctrl-C stops it.", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            while True:
                time.sleep(3600)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
