# SPDX-License-Identifier: Apache-2.0
"""Claim: whatever is killed, stopped, sent home or out of reach, each job is done once, and its result is that of an
undisturbed run, bit by bit; so are files that the program appends to, and one that it writes anew.

    killed.py SPOTNIK SIM [seed]
"""

import os
import random
import signal

import lib

JOBS, STEPS, PAUSE_US, EVERY = 24, 150, 5000, 20
HOSTS = 3


def terms(case, *more):
    resume = f"{case.sim} {{x0}} {STEPS} {PAUSE_US} {EVERY} {{restart}}"
    return [
        "--notice",
        "off",
        "--restart",
        "restart.[0-9]*",
        "--expect",
        "result",
        "--resume",
        resume,
        *more,
        "--",
        case.sim,
        "{x0}",
        STEPS,
        PAUSE_US,
        EVERY,
    ]


def undisturbed(case):
    folder = case.dir / "calm.bag"
    done = case.command(case.dir / "jobs.csv", "--folder", folder, "--at-once", 12, *terms(case))
    lib.check(done.returncode == 0, f"the undisturbed run ended with {done.returncode}: {done.stderr}")
    return case.results(folder)


class Storm:
    """Workers on machines that others take for three, and what happens to them."""

    def __init__(self, case, draw):
        self.case, self.draw, self.told = case, draw, []
        self.live = {}
        self.left = set()
        for host in range(HOSTS):
            self.begin(host)

    def begin(self, host):
        # Half of them come with the jobs and the command, as an array of a scheduler does; the others join.
        words = (
            [self.case.dir / "jobs.csv", "--at-once", 2, "--grace", "5s", "--folder", self.case.bag, *terms(self.case)]
            if host % 2 == 0 or not self.case.is_made()
            else ["join", self.case.bag, "--at-once", 2, "--notice", "off"]
        )
        self.live[host] = self.case.start(*words, host=f"machine{host}")

    def refill(self):
        for host, worker in list(self.live.items()):
            if worker.poll() is not None and worker.returncode not in (0, 1):
                self.begin(host)

    def kill(self, host=None):
        host = self.draw.choice(list(self.live)) if host is None else host
        self.live[host].kill()
        self.live[host].wait()
        self.told.append("kill")
        # Now and then the machine itself is gone: nobody of its kernel can say that its worker is dead.
        if self.draw.random() < 0.5:
            del self.live[host]
            self.begin(max(self.live, default=0) + HOSTS)
        else:
            self.begin(host)

    def kill_all(self):
        for worker in self.live.values():
            worker.kill()
        for worker in self.live.values():
            worker.wait()
        self.told.append("kill all")
        self.live = {}
        for host in range(HOSTS):
            self.begin(100 + len(self.told) * HOSTS + host)

    def term(self):
        host = self.draw.choice(list(self.live))
        worker = self.live[host]
        # A process that was started just now is not a worker yet, and dies of the signal.
        lib.wait_for("a worker has begun", lambda: worker.poll() is not None or self.case.records(worker.pid))
        before = len(self.ends("returned"))
        worker.terminate()
        lib.wait_for("a worker leaves at SIGTERM", lambda: self.live[host].poll() is not None)
        lib.check(self.live[host].returncode in (0, 75), f"SIGTERM: exit status {self.live[host].returncode}")
        self.told.append(f"term ({len(self.ends('returned')) - before} given back)")
        self.begin(host)

    def stop(self):
        """Stopped until others have taken its jobs; then it goes on, a zombie that believes in its claims."""
        host = self.draw.choice(list(self.live))
        worker = self.live[host]
        held = lib.wait_for("a worker holds a job", lambda: self.case.held(worker.pid) or self.done())
        worker.send_signal(signal.SIGSTOP)
        heirs = [f"{job}@{int(attempt) + 1}" for job, attempt in (claim.split("@") for claim in held or [])]
        lib.wait_for(
            "others take what a stopped worker held, or the bag is done",
            lambda: self.done() or any(heir in self.case.names("claims") for heir in heirs),
        )
        worker.send_signal(signal.SIGCONT)
        self.told.append("stop")

    def away(self):
        self.case.away()
        self.told.append("folder away")

    def ends(self, kind):
        return [name for name in self.case.names("claims") if name.endswith("." + kind)]

    def done(self):
        return len(self.case.names("results")) == JOBS

    def happened(self):
        return len(self.case.names("claims")) + len(self.case.names("saves"))


def killed(case):
    seed = int(os.environ.get("SEED", "1"))
    draw = random.Random(seed)
    case.more = {"FRAMES": "3"}
    case.jobs([0.1 + i / 100 for i in range(JOBS)])
    calm = undisturbed(case)
    storm = Storm(case, draw)
    lib.wait_for("the bag is there", lambda: case.names("saves"))
    # The stop comes last: others may do all that is left while it lasts.
    actions = [storm.kill, storm.term, storm.kill, storm.away, storm.kill_all, storm.kill, storm.stop, storm.term]
    for action in actions:
        seen = storm.happened()
        lib.wait_for("something goes on", lambda seen=seen: storm.done() or abs(storm.happened() - seen) >= 4)
        if storm.done():
            break
        action()
    lib.wait_for("the bag is done", lambda: storm.refill() or storm.done())
    for worker in storm.live.values():
        lib.wait_for("workers end when all is done", lambda worker=worker: worker.poll() is not None)
        lib.check(worker.returncode == 0, f"a worker ended with {worker.returncode}")
    results, report = case.results(), case.report()
    lib.check(sorted(results) == sorted(calm), "the jobs that are done are not all jobs")
    lib.check(results == calm, "a result differs from that of the undisturbed run")
    lib.check(
        len({tuple(files) for files in calm.values()}) == JOBS and all(len(files) == 3 for files in calm.values()),
        "the simulation does not depend on its input",
    )
    done = [name.split("@")[0] for name in storm.ends("done")]
    lib.check(len(done) == len(set(done)), "a job was counted twice")
    lib.check(storm.ends("failed") == [], f"a restart file was not whole: {storm.ends('failed')}")
    lib.check(case.names("saves") == [] or report["lost"] > 0, "saves of jobs that are done are left")
    lib.check(len(storm.told) >= 4, f"too little happened: {storm.told}")
    lib.check(report["lost"] > 0, "nobody was lost")
    share = 100 * report["recomputed_s"] / report["useful_s"]
    return (
        f"seed {seed}: {', '.join(storm.told)}; {report['attempts']} attempts, {report['lost']} lost, "
        f"{report['returned']} given back, {report['late']} late; {share:.1f} % recomputed"
    )


if __name__ == "__main__":
    lib.run([killed])
