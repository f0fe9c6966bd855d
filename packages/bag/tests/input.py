# SPDX-License-Identifier: Apache-2.0
"""Claim: bad input, full disks, missing files and programs that fail get a clear word, and lose nothing.

input.py SPOTNIK SIM [NAME...]
"""

import os
import pathlib
import re
import signal
import subprocess

import lib


def refused(case, *words, says, status=2):
    done = case.command(*words)
    lib.check(
        done.returncode == status and says in done.stderr,
        f"{words}: status {done.returncode}, said {done.stderr!r}, not {says!r}",
    )


def wrong_words(case):
    jobs = case.jobs([0.1, 0.2])
    refused(case, jobs, "--", case.sim, "{temperature}", says="the command names {temperature}", status=1)
    refused(case, jobs, "--", case.sim, "{restart}", says="belongs into --resume", status=1)
    refused(case, jobs, "--resume", "x", "--", case.sim, says="--restart")
    refused(case, jobs, "--resume", "x 'y", "--restart", "r", "--", case.sim, says="no value")
    refused(case, jobs, "--", "./not-there", says="cannot run ./not-there")
    refused(case, jobs, says="what shall the jobs run")
    refused(case, "join", case.dir, says="no bag", status=1)
    refused(case, case.dir / "none.csv", "--", case.sim, says="none.csv", status=1)
    refused(case, jobs, "--lifetime", "tub", "--", case.sim, says="tub")
    refused(case, jobs, "--cap", "24h", "--", case.sim, says="--lifetime")
    refused(case, "join", case.bag, "--tries", "2", says="leave these options out")
    lib.check(not case.bag.exists(), "a folder was made for a command that is refused")
    (case.dir / "mine").mkdir()
    (case.dir / "mine/thesis").write_text("all of it")
    refused(case, jobs, "--folder", "mine", "--", case.sim, says="holds other things (thesis)", status=1)


def two_bags(case):
    """Two bags in one folder: the second is refused, the first goes on as it was."""
    words = ["--notice", "off", "--", case.sim, "{x0}", 3, 0, 0]
    lib.check(case.command(case.jobs([0.1]), *words).returncode == 0, "the first bag")
    before = case.results()
    refused(
        case,
        case.jobs([0.1]),
        "--notice",
        "off",
        "--",
        case.sim,
        "{x0}",
        4,
        0,
        0,
        says='its "command" is not the same',
        status=1,
    )
    refused(case, case.jobs([0.1, 0.3]), *words, says="holds another bag", status=1)
    lib.check(case.results() == before, "the first bag was changed")


def columns(case):
    """What scientists write: T beside t, commas, quotes, letters of all kinds, lines that end as on Windows."""
    rows = '\ufeffjob,T,t,note\r\na+b=1,2,3,"x, ""y"" | ünï"\r\nlast,4,5,$(id)\r\n'
    (case.dir / "jobs.csv").write_text(rows, newline="")
    words = ["--notice", "off", "--", "sh", "-c", 'printf "%s;" "$@" >result', "sh", "{T}", "{t}", "{note}", "{NOTE}"]
    done = case.command("jobs.csv", *words)
    lib.check(done.returncode == 0, done.stderr)
    told = [(case.bag / "results" / job / "result").read_text() for job in ("a+b=1", "last")]
    lib.check(told == ['2;3;x, "y" | ünï;x, "y" | ünï;', "4;5;$(id);$(id);"], f"{told}")
    refused(case, case.jobs(["1,2"], header="T,T"), "--", "true", says="two columns are called T", status=1)
    refused(case, case.jobs([1], header="restart"), "--", "true", says="a word of the bag", status=1)
    refused(case, case.jobs(["ü,1"], header="job,T"), "--", "true", says="a name has letters, digits", status=1)


def edited(case):
    """A table that was edited while its bag lay half done is refused, and its new rows can be added."""
    words = ["--notice", "off", "--tries", 1, "--", "sh", "-c", "test {x0} != 2 && echo {x0} >result"]
    lib.check(case.command(case.jobs([1, 2]), *words).returncode == 1, "the second fails")
    refused(case, case.jobs([1, 3, 4]), *words, says="more jobs are added by spotnik bag add", status=1)
    case.jobs([3, 4], name="more.csv")
    lib.check(case.command("add", case.bag, "more.csv").returncode == 0, "add")
    lib.check(case.command("join", case.bag, "--notice", "off").returncode == 1, "one is still set aside")
    lib.check([case.results()[job] for job in "134"] == [[b"1\n"], [b"3\n"], [b"4\n"]], f"{case.results()}")


def beside(case):
    """A file that lies beside the table and not beside the job, and words that only a shell understands, are told."""
    (case.dir / "sim.sh").write_text("echo fine >result")
    says = "jobs run in directories of their own, where sim.sh is not"
    done = case.command(case.jobs([1]), "--tries", 1, "--notice", "off", "--", "sh", "sim.sh")
    lib.check(done.returncode == 1 and says in done.stderr, done.stderr)
    inputs = ["--folder", "two.bag", "--input", "sim.sh", "--notice", "off", "--", "sh", "sim.sh"]
    done = case.command(case.dir / "jobs.csv", *inputs)
    lib.check(done.returncode == 0 and says not in done.stderr, done.stderr)
    restart = ["--restart", "r.*", "--resume"]
    refused(case, case.dir / "jobs.csv", *restart, "sim {restart} | tee log", "--", "sim", says="no shell reads it")
    refused(case, case.dir / "jobs.csv", *restart, "./none {restart}", "--", "true", says="cannot run ./none")


def out_of_memory(case):
    """A program that the kernel kills, as where memory is short, has failed, and the log of each try is there."""
    script = "echo before; test {x0} = fine && echo >result || kill -KILL $$"
    done = case.command(case.jobs(["big", "fine"]), "--notice", "off", "--tries", 2, "--", "sh", "-c", script)
    lib.check("ended by signal 9 (Killed), perhaps for want of memory" in done.stderr, done.stderr)
    lib.check(case.names("aside") == ["1"] and case.names("results") == ["2"], f"{case.names('aside')}")
    lib.check(case.names("logs") == ["1@1", "1@2", "2@1"], f"{case.names('logs')}")


def finished_elsewhere(case):
    """Another worker finishes the job and sweeps this directory just when the program ends well: no try is counted."""
    script = "mkdir ../../results/1 && echo theirs >../../results/1/result && rm -r $PWD"
    done = case.command(case.jobs([1]), "--notice", "off", "--expect", "result", "--", "sh", "-c", script)
    lib.check(done.returncode == 0 and "failed" not in done.stderr, done.stderr)
    claims = case.names("claims")
    lib.check(claims == ["1@1", "1@1.late"] and case.results() == {"1": [b"theirs\n"]}, f"{claims}")


def no_restart_file(case):
    """A worker dies before its program has written any restart file: it is said, and the job begins anew."""
    (case.dir / "mark").touch()
    script = f"echo step >>result; test $SPOTNIK_BAG_ATTEMPT = 2 || exec tail -f {case.dir / 'mark'}"
    job = ["--notice", "off", "--restart", "restart.*", "--resume", "false {restart}", "--", "sh", "-c", script]
    worker = case.start(case.jobs([1]), *job)
    lib.wait_for("the program runs", lambda: (case.bag / "work/1@1/result").exists())
    worker.kill()
    worker.wait()
    done = case.command("join", case.bag, "--notice", "off")
    says = "no restart file was saved; it starts from the beginning"
    lib.check(done.returncode == 0 and says in done.stderr, done.stderr)
    lib.check(case.results() == {"1": [b"step\n"]}, f"{case.results()}")


def always_fails(case):
    """Set aside after three tries with its log; the bag goes on; retry tries again."""
    script = "echo this is $SPOTNIK_BAG_JOB; test {x0} != bad || test -e ../../mended && echo fine >result"
    done = case.command(
        case.jobs(["ok1", "bad", "ok2"]), "--notice", "off", "--expect", "result", "--", "sh", "-c", script
    )
    lib.check(done.returncode == 1, f"status {done.returncode}")
    lib.check(case.names("results") == ["1", "3"] and case.names("aside") == ["2"], "the others are not done")
    lib.check((case.bag / "aside/2/log").read_text() == "this is 2\n", "the log is not there")
    lib.check(case.names("claims").count("2@3.failed") == 1 and "2@4" not in case.names("claims"), "not three tries")
    lib.check("job 2 is set aside after 3 tries" in done.stderr, done.stderr)
    lib.check("2 is set aside" in case.command("status", case.bag).stdout, "status does not say so")
    (case.bag / "mended").touch()
    lib.check(case.command("retry", case.bag, "2").returncode == 0, "retry")
    lib.check(case.command("join", case.bag, "--notice", "off").returncode == 0, "after retry")
    lib.check(case.names("results") == ["1", "2", "3"] and case.names("aside") == [], "after retry")


def expected_file(case):
    done = case.command(case.jobs([1]), "--notice", "off", "--expect", "out.*", "--tries", 1, "--", "true")
    lib.check(done.returncode == 1 and "there is no file out.*" in done.stderr, done.stderr)


def no_such_program(case):
    """A machine without the program burns nobody's tries: its worker ends, the jobs stay open."""
    done = case.command(case.jobs([1, 2]), "--notice", "off", "--", "no-such-simulator", "{x0}")
    lib.check(done.returncode == 1 and "cannot be run on this machine" in done.stderr, done.stderr)
    lib.check(
        case.names("aside") == [] and not any(".failed" in name for name in case.names("claims")), "a try was counted"
    )


def interrupted(case):
    """A program that ends with 75 wants to go on later: no failure."""
    script = "test $SPOTNIK_BAG_ATTEMPT -ge 5 && echo done >result || exit 75"
    done = case.command(case.jobs([1]), "--notice", "off", "--", "sh", "-c", script)
    lib.check(done.returncode == 0 and case.names("results") == ["1"], done.stderr)


def damaged_save(case):
    """Saves that are damaged or empty are passed over; without any the job begins anew. The result is the same."""
    job = [
        "--notice",
        "off",
        "--restart",
        "restart.*",
        "--resume",
        f"{case.sim} {{x0}} 200 4000 20 {{restart}}",
        "--",
        case.sim,
        "{x0}",
        200,
        4000,
        20,
    ]
    calm = case.dir / "calm.bag"
    lib.check(case.command(case.jobs([0.3]), "--folder", calm, *job).returncode == 0, "the undisturbed run")
    worker = case.start(case.dir / "jobs.csv", *job)
    lib.wait_for("two saves", lambda: len([n for n in case.names("saves") if n.count(".") == 3]) >= 2)
    worker.kill()
    worker.wait()
    saves = sorted(case.names("saves"), key=lambda name: int(name.split(".")[1]))
    newest = next((case.bag / "saves" / saves[-1]).iterdir())
    newest.write_bytes(newest.read_bytes()[:-1])
    for save in saves[:-1]:  # two are kept, and three are there while the oldest is about to go
        next((case.bag / "saves" / save).iterdir()).unlink()
    done = case.command("join", case.bag, "--notice", "off")
    lib.check(
        done.returncode == 0 and "it is damaged" in done.stderr and "starts from the beginning" in done.stderr,
        done.stderr,
    )
    lib.check(case.results() == case.results(calm), "the result differs")


def appended(case):
    """A long trajectory, and a short file that is written anew, go on as they were when the restart file was written."""
    case.more = {"FRAMES": "1"}
    job = ["--notice", "off", "--restart", "restart.*"]
    job += ["--resume", f"{case.sim} {{x0}} 300 4000 20 {{restart}}", "--", case.sim, "{x0}", 300, 4000, 20]
    calm = case.dir / "calm.bag"
    lib.check(case.command(case.jobs([0.3]), "--folder", calm, *job).returncode == 0, "the undisturbed run")
    worker = case.start(case.dir / "jobs.csv", *job)
    lib.wait_for("a save of a long trajectory", lambda: any(int(n.split(".")[2]) > 400 for n in case.names("saves")))
    worker.kill()
    worker.wait()
    done = case.command("join", case.bag, "--notice", "off")
    lib.check(done.returncode == 0 and "goes on from restart." in done.stderr, done.stderr)
    lib.check(case.results() == case.results(calm), "trajectory or sum differ")
    lib.check(len(case.results()["1"][1]) > 300 * 2000, "there is no long trajectory")


def loose(case):
    """An output that is written all the time keeps restart files from being saved, if it is not said to be loose."""
    script = (
        "while echo >>noise; do :; done & test -n '{restart}' || { for i in 1 2 3; do echo $i >restart.$i; sleep 0.3; done; "
        "sleep 1000; }; kill $!; echo fine >result"
    )
    first = script.replace("{restart}", "")
    resume = "sh -c '" + script.replace("'", "").replace("{restart}", "go") + "'"
    words = [
        "--notice",
        "off",
        "--restart",
        "restart.*",
        "--resume",
        resume,
        "--loose",
        "nois*",
        "--",
        "sh",
        "-c",
        first,
    ]
    worker = case.start(case.jobs([1]), *words)
    lib.wait_for("a save", lambda: case.names("saves"))
    worker.kill()
    worker.wait()
    done = case.command("join", case.bag, "--notice", "off")
    lib.check(done.returncode == 0 and case.results() == {"1": [b"fine\n"]}, done.stderr)


def page(case):
    """The batch script of docs/guide/bag.md, without Slurm: two elements of its array make one bag and share its jobs;
    one that has to leave asks to be requeued. What Slurm itself does is tests/slurm/bag.py's."""
    guide = pathlib.Path(__file__).parents[3] / "docs/guide/bag.md"
    script = re.search(r"```sh\n(#!/bin/bash\n.*?)```", guide.read_text(), re.S)[1]
    tools = {
        "srun": 'exec "$@"',
        "scontrol": f'echo "$@" >>{case.dir}/requeued',
        "lmp": f"""while [ $# -gt 0 ]; do case $1 in -var) eval "$2=$3"; shift 3;; *) shift;; esac; done
until [ -e {case.dir}/go ]; do sleep 0.01; done
exec {case.sim} "$T" 100 10000 20 $file""",
    }
    (case.dir / "bin").mkdir()
    (case.dir / "bin/spotnik").symlink_to(case.spotnik)
    for name, text in tools.items():
        (case.dir / "bin" / name).write_text("#!/bin/sh\n" + text + "\n")
        (case.dir / "bin" / name).chmod(0o700)
    (case.dir / "script").write_text(script)
    for name in ("in.lj", "in.again"):
        (case.dir / name).write_text("# what this program does not read\n")
    case.jobs([f"j{i},0.{101 + i},{i}" for i in range(12)], header="job,T,seed")
    case.bag = case.dir / "lj.bag"
    path = f"{case.dir / 'bin'}:{os.environ['PATH']}"

    def element(number):
        env = case.environment() | {"HOME": str(case.dir), "PATH": path}
        env |= {"SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": str(number)}
        worker = subprocess.Popen(["bash", "script"], cwd=case.dir, env=env, start_new_session=True)
        case.workers.append(worker)
        return worker

    def held(worker):
        """By what the script has started."""
        pid = subprocess.run(["pgrep", "-x", "-P", str(worker.pid), "spotnik-bag"], capture_output=True, text=True).stdout.strip()
        return pid and case.held(pid)

    first, second = element(1), element(2)
    lib.wait_for("jobs of both", lambda: held(first) and held(second))
    (case.dir / "go").touch()
    subprocess.run(["pkill", "-USR1", "-x", "-P", str(first.pid), "spotnik-bag"], check=True)
    lib.wait_for("the first one leaves", lambda: first.poll() is not None)
    lib.check((case.dir / "requeued").read_text() == "requeue 7_1\n", "it was not requeued")
    again = element(1)
    for worker in (second, again):
        lib.wait_for("the bag is done", lambda worker=worker: worker.poll() is not None)
    lib.check(len(case.results()) == 12, f"{case.names('results')}")
    lib.check(any(name.endswith(".returned") for name in case.names("claims")), "nothing was given back")


def asked(case):
    """At SIGTERM the program is asked for a restart file, which is saved; the next worker goes on from it at once."""
    job = [
        "--notice",
        "off",
        "--ask",
        "USR1",
        "--restart",
        "restart.*",
        "--resume",
        f"{case.sim} {{x0}} 600 4000 0 {{restart}}",
        "--",
        case.sim,
        "{x0}",
        600,
        4000,
        0,
    ]
    calm = case.dir / "calm.bag"
    lib.check(case.command(case.jobs([0.3]), "--folder", calm, *job).returncode == 0, "the undisturbed run")
    worker = case.start(case.dir / "jobs.csv", *job, host="one", stale_ms=4000)
    lib.wait_for("the program hears SIGUSR1", lambda: any(log.read_text() for log in (case.bag / "logs").glob("*")))
    worker.terminate()
    lib.check(worker.wait(lib.PATIENCE_S) == 75, "SIGTERM: not 75")
    lib.check(
        "1@1.returned" in case.names("claims") and len(case.names("saves")) == 1,
        f"{case.names('claims')} {case.names('saves')}",
    )
    done = case.command("join", case.bag, "--notice", "off")
    lib.check(done.returncode == 0 and "goes on from restart." in done.stderr, done.stderr)
    lib.check(case.results() == case.results(calm), "the result differs")


def asked_too_early(case):
    """A program that is no more than a shell yet, which the signal of --ask would kill, is not asked until it listens."""
    os.mkfifo(case.dir / "go")
    own = [case.sim, "{x0}", 600, 4000, 0]
    job = ["--notice", "off", "--ask", "USR1", "--restart", "restart.*", "--lifetime", "mttf:1s"]
    job += ["--resume", " ".join(map(str, [*own, "{restart}"]))]
    script = f"read word <{case.dir / 'go'}; exec {' '.join(map(str, own))}"
    case.start(case.jobs([0.3]), *job, "--", "sh", "-c", script)
    lib.wait_for(
        "the worker finds that nobody listens, or the shell dies of being asked",
        lambda: "no process of it waits for signal" in case.logs() or "1@1.failed" in case.names("claims"),
    )
    lib.check(case.names("claims") == ["1@1"], f"{case.names('claims')}")
    (case.dir / "go").write_text("go\n")
    lib.wait_for("the job is done", lambda: case.names("results"))
    end = lib.wait_for(
        "its end", lambda: "1@1.done" in case.names("claims") and (case.bag / "claims/1@1.done").read_text()
    )
    lib.check(int(re.search(r"saved_ms (\d+)", end)[1]) > 0, f"it was never asked: {end}")


def asked_in_time(case):
    """Saves come at their times, not at the looks at the folder, which are a second apart."""
    own = f"{case.sim} {{x0}} 100000 4000 0"
    job = ["--notice", "off", "--ask", "USR1", "--restart", "restart.*", "--resume", own + " {restart}"]
    job += ["--lifetime", "mttf:0.5s", "--length", "400s", "--", *own.split()]
    case.start(case.jobs([0.3]), *job, stale_ms=60000)

    def times_ms():
        return sorted(int(name.split(".")[2]) for name in case.names("saves") if name.count(".") == 3)

    def close():
        times = times_ms()
        return [later - sooner for sooner, later in zip(times, times[1:], strict=False) if later - sooner < 900]

    lib.wait_for("two saves that are less than a look apart", close)


def cost_is_known(case):
    """What a save costs is known to a worker that has not made one: the first save of a new machine is timed by it."""
    own = f"{case.sim} {{x0}} 100000 4000 0"
    job = ["--notice", "off", "--ask", "USR1", "--restart", "restart.*", "--resume", own + " {restart}"]
    worker = case.start(case.jobs([0.3, 0.4]), *job, "--lifetime", "mttf:1s", "--", *own.split())
    lib.wait_for("a save", lambda: case.names("saves"))

    def costs():
        """By worker; 0: it does not know."""
        records = {name: (case.bag / "workers" / name).read_text() for name in case.names("workers")}
        return {name: int(re.search(r"write_ms (\d+)", text)[1]) for name, text in records.items()}

    lib.wait_for("its cost", lambda: any(costs().values()))
    worker.kill()
    worker.wait()
    first = set(costs())
    case.start("join", case.bag, "--notice", "off", "--lifetime", "mttf:100000h")  # it never makes one
    lib.wait_for("a worker knows it", lambda: any(cost for name, cost in costs().items() if name not in first))
    lib.check(not any("@2." in name for name in case.names("saves")), f"it has made one itself: {case.names('saves')}")


def noticed(case):
    """At a notice jobs are given back, and none is taken; when the machine stays after all, the worker goes on."""
    flag = case.dir / "going"
    worker = case.start(
        case.jobs([0.3]), "--notice", f"file:{flag}", "--grace", "2s", "--", case.sim, "{x0}", 400, 4000, 0
    )
    lib.wait_for("the job runs", lambda: case.names("logs"))
    flag.write_text("+120 for maintenance")
    lib.wait_for("the job is given back", lambda: "1@1.returned" in case.names("claims"))
    flag.unlink()
    lib.check(worker.wait(lib.PATIENCE_S) == 0, "it does not go on")
    lib.check("1@2.done" in case.names("claims"), f"{case.names('claims')}")


def inputs_and_words(case):
    """Inputs are linked where the job runs, and no part of the result; values reach the program as they are."""
    (case.dir / "in.txt").write_text("hello")
    (case.dir / "jobs.csv").write_text('job,word\nfirst,"$(touch x); it\'s {{a}} ""b"""\n')
    done = case.command(
        "jobs.csv",
        "--input",
        "in.txt",
        "--notice",
        "off",
        "--",
        "sh",
        "-c",
        'cat in.txt >result; printf %s "$1" >>result',
        "sh",
        "{word}",
    )
    lib.check(done.returncode == 0, done.stderr)
    lib.check((case.bag / "results/first/result").read_text() == 'hello$(touch x); it\'s {{a}} "b"', "the word")
    lib.check(sorted(os.listdir(case.bag / "results/first")) == ["result", "spotnik.json"], "what is in the result")


def added_and_dropped(case):
    """Jobs are added to a bag that runs; those that are dropped end wherever they run."""
    script = "test {x0} = slow && sleep 1000; echo {x0} >result"
    worker = case.start(case.jobs(["slow", "a"]), "--at-once", 2, "--notice", "off", "--", "sh", "-c", script)
    lib.wait_for("one is done", lambda: "2" in case.names("results"))
    case.jobs(["b", "c"], name="more.csv")
    lib.check(case.command("add", case.bag, "more.csv").returncode == 0, "add")
    lib.wait_for("added jobs are done", lambda: len(case.names("results")) == 3)
    lib.check(case.command("drop", case.bag, "1").returncode == 0, "drop")
    lib.check(worker.wait(lib.PATIENCE_S) == 0, "the worker ends")
    lib.check(case.names("results") == ["2", "3", "4"], f"{case.names('results')}")
    lib.check("1 dropped" in case.command("report", case.bag).stdout, "the report")


def placed(case):
    """The machine's age decides which job it takes: the shortest as an infant and near its cap, the longest in between."""
    jobs = case.jobs([2, 5, 1], header="hours")
    life = ["--notice", "off", "--lifetime", "bathtub", "--cap", "24h", "--length", "{hours}h"]
    for age, order in (("1s", "1 2 5"), ("8h", "5 2 1"), ("23h", "1 2 5")):
        folder = case.dir / f"at-{age}.bag"
        script = f"echo {{hours}} >>{folder}/order; echo fine >result"
        done = case.command(jobs, "--folder", folder, *life, "--age", age, "--", "sh", "-c", script)
        lib.check(done.returncode == 0, done.stderr)
        lib.check((folder / "order").read_text().split() == order.split(), f"{age}: {(folder / 'order').read_text()}")


def reported(case):
    """The report: what a useful core hour has cost, what was computed twice, and the makespan beside the model's."""
    job = ["--notice", "off", "--lifetime", "bathtub", "--cap", "24h", "--length", "1s", "--age", "8h", "--cores", 3]
    script = f"test -e {case.dir}/again || sleep 1000; exec {case.sim} {{x0}} 100 10000 0"
    words = [case.jobs([0.1, 0.2, 0.3, 0.4]), "--at-once", 2, "--price", "7.2", *job, "--", "sh", "-c", script]
    worker = case.start(*words)
    lib.wait_for("jobs run", lambda: len(case.names("logs")) >= 2)
    worker.kill()
    worker.wait()
    (case.dir / "again").touch()
    lib.check(case.command(*words).returncode == 0, case.logs())
    facts, text = case.report(), case.command("report", case.bag).stdout
    cost = float(re.search(r"cost .*: \$([0-9.]+) for each of [0-9.]+ useful core hours", text)[1])
    wanted = facts["usd"] / (facts["useful_s"] * 3 / 3600)
    lib.check(facts["usd"] > 0 and abs(cost - wanted) < 1e-3 + wanted / 100, f"{cost}, not {wanted}: {text}")
    lib.check(
        facts["lost"] == 2 and facts["useful_s"] >= 4 and f"{facts['recomputed_s']:.1f} s lost and done again" in text,
        text,
    )
    lib.check(0 < facts["useful_s"] / 2 <= facts["makespan_s"], f"{facts}")
    lib.check("it expected" in text and "on these machines a makespan of" in text, text)


def nobody_left(case):
    """What a worker has started dies with it, also what the program has started itself."""
    worker = case.start(case.jobs([1]), "--notice", "off", "--", "sh", "-c", "sleep 1000 & echo $! >pid; wait")
    pid = int(
        lib.wait_for(
            "the program runs",
            lambda: (
                next((text for path in (case.bag / "work").glob("*/pid") if (text := path.read_text())), None)
                if case.bag.exists()
                else None
            ),
        )
    )
    worker.send_signal(signal.SIGKILL)
    worker.wait()

    def gone():
        try:
            return open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] == "Z"
        except FileNotFoundError:
            return True

    lib.wait_for("the program's child is gone", gone)


def full_disk(case):
    """A disk that is full: it is said, no try is counted, and with room again the bag ends well."""
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode != 0:
        return "left out: no mount namespace here"
    script = """
mount -t tmpfs -o size=700k none "$1" && cd "$1" || exit 77
head -c 450000 /dev/zero >ballast
"$2" bag ../jobs.csv --folder bag --tries 1 --notice off -- sh -c 'head -c 200000 /dev/zero >result' 2>../said &
worker=$!
until grep -q 'No space left on device: free some space' ../said || ! kill -0 $worker; do sleep 0.01; done
rm ballast
wait $worker
echo $? $(ls bag/results) $(ls bag/claims | grep -c failed)
"""
    case.jobs([1, 2])
    (case.dir / "disk").mkdir()
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script, "sh", case.dir / "disk", case.spotnik],
        text=True,
        check=False,
        capture_output=True,
        env=case.environment(),
        timeout=lib.PATIENCE_S,
    )
    if done.returncode == 77:
        return "left out: nothing can be mounted here"
    lib.check(done.stdout == "0 1 2 0\n", f"{done.stdout} {done.stderr} {(case.dir / 'said').read_text()}")
    return None


lib.run(
    [
        wrong_words,
        two_bags,
        columns,
        edited,
        beside,
        out_of_memory,
        finished_elsewhere,
        no_restart_file,
        always_fails,
        expected_file,
        no_such_program,
        interrupted,
        damaged_save,
        appended,
        loose,
        page,
        asked,
        asked_too_early,
        asked_in_time,
        cost_is_known,
        noticed,
        inputs_and_words,
        added_and_dropped,
        placed,
        reported,
        nobody_left,
        full_disk,
    ]
)
