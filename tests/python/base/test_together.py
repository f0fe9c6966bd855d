# SPDX-License-Identifier: Apache-2.0
"""Members as processes: collectives, churn, ends of all kinds, and what a member is told that does not fit."""

from __future__ import annotations

import contextlib
import json
import random
import re
import signal
import socket
import struct
import subprocess
import threading
from pathlib import Path

import pytest
from workers import LIMIT_S, Cluster, command

TRACE = [
    *((0, "add", name) for name in "abcd"),
    (1500, "remove", "b"),
    (1500, "add", "e"),  # into the place of b, whose worker has not ended yet
    (2400, "remove", "a"),
    (2400, "remove", "c"),
    (2600, "add", "f"),
    (3000, "add", "g"),
    (3500, "remove", "d"),
    (3800, "add", "h"),
    (4200, "remove", "e"),
]


def run(arguments: list[str], program: str, **settings: object) -> tuple[int, str, str]:
    done = subprocess.run(
        ["spotnik", "run", *arguments, "--", *command(program, **settings)],
        capture_output=True,
        text=True,
        timeout=2 * LIMIT_S,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("wire", ["auto", "q8"])
def test_churn_keeps_replicas_equal_and_uses_every_sample_once(tmp_path: Path, wire: str) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("".join(f"{ms},{what},{node}\n" for ms, what, node in TRACE))
    status, out, error = run(["-n", "1:4", "--churn", str(trace)], "train", epochs=12, pause_s=0.025, wire=wire)
    assert status == 0, out + error
    killed = re.search(r"(\d+) killed by us", error)
    assert killed, error
    assert int(killed.group(1)) == 5, error
    ends = re.findall(r'"digest": (\d+), "fewest": (\d+), "most": (\d+)', out)
    assert ends, out + error
    assert {end[0] for end in ends} == {ends[0][0]}, out
    assert {end[1:] for end in ends} == {("12", "12")}, out


def test_a_newcomer_to_the_middle_of_a_turn_takes_the_rest_of_it() -> None:
    options = ["-n", "2:3", "--respawn", "--kill-every", "1s", "--seed", "4"]
    for pause_s in (0.02, 0.1, 0.5):  # a slow machine starts replacements slowly
        status, out, error = run(options, "iterations", pause_s=pause_s)
        if error.count("killing w") >= 2:
            break
    assert status == 0 and "Mismatch" not in error and error.count("killing w") >= 2, out + error
    ends = [json.loads(line[line.index("{") :]) for line in out.splitlines() if "{" in line]
    assert len(ends) >= 2 and len({end["digest"] for end in ends}) == 1, ends
    assert ends[0]["w"] < 400 and not any(end["wrong"] for end in ends), "a loss was taken for a gradient"


PARTED = {
    "data": ("members were given other data", 2),
    "statistics": ("statistics of the replica differ among members", 2),
    "key": ("key of the replica differ among members", 2),
    "rounding": ("", 32),
}


@pytest.mark.parametrize("what", PARTED)
def test_members_whose_replicas_part_are_told(cluster: Cluster, what: str) -> None:
    workers = [cluster.start("alike", what=what) for _ in range(3)]
    told = [worker.hear() for worker in workers]
    said, step = PARTED[what]
    assert told[0][0].startswith(said) and bool(told[0][0]) == bool(said), told
    assert told == [[told[0][0], step]] * 3, "they end at different steps"


def test_whole_numbers_in_an_average_become_the_greatest(cluster: Cluster) -> None:
    workers = [cluster.start("wholes") for _ in range(3)]
    told = [worker.hear() for worker in workers]
    assert told[0] == told[1] == told[2] and told[0][1:] == [True, True], told
    assert len(told[0][0]) == 4
    for number, (mean, most, flags, small, further, ones) in enumerate(told[0][0]):
        assert mean == [2 * number + 0.5] * 2 and ones == [1.0, 1.0]
        assert most[0] in (1, 2) and most == [most[0]] * 3, "of the two that have samples"
        assert flags == [most[0] == 2, True] and small == 200 + most[0]
        assert further[0] <= 1002 - 2000 and further == [further[0]] * 3, "each counts where nobody has samples"


@pytest.mark.parametrize("wire", ["bf16", "q8"])
def test_shorter_gradients_beside_exact_statistics(cluster: Cluster, wire: str) -> None:
    workers = [cluster.start("shorter", wire=wire) for _ in range(3)]
    told = [worker.hear() for worker in workers]
    assert told[0] == told[1] == told[2] and told[0][1], "statistics are exact, and all have the same"
    # 40 steps: bf16 loses the same in each. What q8 loses comes with the next step, so one rounding is left.
    assert 0 < told[0][0] <= {"bf16": 40 / 512, "q8": 2 / 249}[wire]


def test_a_newcomer_to_a_later_training_is_told_what_to_do(cluster: Cluster) -> None:
    gate = cluster.folder / "gate"
    first = cluster.start("second", gate=str(gate))
    assert [first.hear(), first.hear()] == [2, 300]
    newcomer = cluster.start("second", gate=str(gate))
    assert newcomer.hear() == 2
    said = newcomer.hear()
    assert isinstance(said, str) and "pass over a training whose result is saved" in said, said
    gate.touch()
    assert first.hear() == "done", "the newcomer has ended the others"


def test_collectives(cluster: Cluster) -> None:
    workers = [cluster.start("collectives", members=3) for _ in range(3)]
    results = sorted((worker.hear() for worker in workers), key=lambda result: result["rank"])
    for rank, result in enumerate(results):
        assert result == {**results[0], "rank": rank, "changes": result["changes"]}
    assert {worker.ended()[0] for worker in workers} == {0}
    result = results[0]
    assert len(set(result["members"])) == 3
    assert result["sum"] == result["inplace"] == [3.0, 6.0, 9.0]
    assert result["mean"] == [1.0, 2.0, 3.0]
    assert (result["product"], result["half"]) == (6, 2.0)
    assert result["all"] and not result["none"]
    assert result["gathered"] == [[0, -1], [1, -1], [2, -1]]
    assert result["strings"] == ["r0", "r1", "r2"]
    assert result["empty"] == [3, 0, 2]
    assert result["from_one"] == [[1.5]]


def test_point_to_point(cluster: Cluster) -> None:
    workers = [cluster.start("apart") for _ in range(3)]
    told = {worker: worker.hear() for worker in workers}
    workers.sort(key=lambda worker: int(told[worker]["rank"]))
    for rank, worker in enumerate(workers):
        following = (rank + 1) % 3
        assert told[worker] == {
            "rank": rank,
            "came": [True, 1, following, [[following + 1.0] * 3] * 2],
            "counts": [True, [following, 7]],
            "nothing": False,
        }
        assert worker.hear() == [7.0, 7.0]
        assert worker.hear() == "waiting"
    workers[1].send(signal.SIGKILL)
    assert workers[0].hear() == {"came": True, "value": 3.0}
    assert workers[2].hear() == {"came": True, "value": 1.0}
    for worker in (workers[0], workers[2]):
        assert worker.hear() == "<spotnik.Job: this member has abandoned the job>"
        assert worker.ended() == (0, "")


def test_buckets_0_to_255_are_the_callers(cluster: Cluster) -> None:
    workers = [cluster.start("edges", members=2) for _ in range(2)]
    sums = [[3.0] * 3] * 3
    for worker in workers:
        assert worker.hear()["told"] == [
            [sums, None, [0, 0]],
            [sums, 1, [0, 0]],
            [sums, None, [0, 0]],
            [sums, 1, [10, 11]],
        ]
        assert worker.ended() == (0, "")


def test_refusals_leave_no_step_begun(cluster: Cluster) -> None:
    """Types that cannot travel, and names that C would cut at a zero character: clear errors, and the job goes on."""
    worker = cluster.start("refused")
    heard = worker.hear()
    errors, running = heard["said"][::2], heard["said"][1::2]
    assert running == [""] * 8
    assert all("cannot travel" in text for text in errors[:2])
    assert all("zero character" in text for text in errors[3:]), errors
    assert heard["sum"] == 4.0
    assert worker.ended() == (0, "")


def test_forms_of_travel(cluster: Cluster) -> None:
    workers = [cluster.start("wired", env={"PYTHONHASHSEED": "1"}) for _ in range(2)]
    first, second = (worker.hear() for worker in workers)
    assert first == second
    assert {worker.ended()[0] for worker in workers} == {0}
    assert first["refused"] == 2
    assert 0 < first["error"]["f16"] < 3 / 512 and first["error"]["f16"] < first["error"]["bf16"] < 3 / 64
    assert 0 < first["error"]["q8"] < 8 / 249  # 1 + 2 put in, up to 3 rounded on


@pytest.mark.parametrize("strategy", ["adpsgd", "asp", "sma"])
def test_shares_follow_speed_under_a_strategy(strategy: str) -> None:
    """The first worker takes six times as long for a sample as the others: its share follows."""
    code, out, err = run(
        ["-n", "3", "--sync", strategy, "--batching", "dynamic"], "follow_speed", steps=60
    )
    assert code == 0, err
    told = {entry["slot"]: entry for entry in map(json.loads, re.findall(r"{.*}", out))}
    assert len(told) == 3 and {entry["strategy"] for entry in told.values()} == {strategy}
    assert all(entry["first"] == 120 for entry in told.values())
    assert told[0]["share"] < 60 < 100 < min(told[1]["share"], told[2]["share"]), out


def test_broadcast_from_a_rank_that_is_not(cluster: Cluster) -> None:
    for worker in [cluster.start("no_such_root") for _ in range(2)]:
        assert worker.hear() == "root 7: the job has members of rank 0 to 1"


def test_a_forked_child_does_not_keep_a_dead_parent_alive(cluster: Cluster) -> None:
    """One of three goes on only when the deaths of the others are proven, which open connections would prevent."""
    killed = [cluster.start("steps", fork=True) for _ in range(2)]
    rest = cluster.start("steps")
    for worker in (*killed, rest):
        assert worker.hear() == "ready"
    for worker in killed:  # that neither goes on with the third between the two deaths
        worker.send(signal.SIGSTOP)
    for worker in killed:
        worker.send(signal.SIGKILL)
    while rest.hear()["losses"] < 2:
        pass


def test_a_joiner_that_repeats_steps_has_no_place_yet(cluster: Cluster) -> None:
    first = cluster.start("places")
    told = [first.hear() for _ in range(50)]
    second = cluster.start("places")
    assert second.ended()[0] == first.ended()[0] == 0
    told += first.left()
    late = second.left()
    places = {(line["rank"], line["at"]) for line in late if line["replay"]}
    assert (-1, -1) in places and places <= {(-1, -1), (1, 1)}  # the last one may be in the view
    assert {line["rank"] for line in late if not line["replay"]} == {1}
    assert {(line["rank"], line["at"]) for line in told} == {(0, 0)}


def test_the_end_of_a_script_is_a_leave(cluster: Cluster) -> None:
    follower = cluster.start("follow")
    assert cluster.start("end", middle=False, members=2).ended() == (0, "")
    assert follower.hear() == {"losses": 0, "leaves": 1}


def test_the_end_of_a_script_within_a_step_is_a_loss(cluster: Cluster) -> None:
    follower = cluster.start("follow")
    assert cluster.start("end", middle=True, members=2).ended() == (0, "")
    assert follower.hear() == {"losses": 1, "leaves": 0}


@pytest.mark.parametrize("way", ["leave", "end", "notice"])
def test_the_last_checkpoint_has_the_state_of_the_end(cluster: Cluster, way: str) -> None:
    """What a program brings up to date only where somebody wants a copy."""
    kept = str(cluster.folder / "kept")
    assert cluster.start_alone("kept", folder=kept, way=way).ended() == (0, "")
    second = cluster.start_alone("kept", folder=kept, way=way)
    assert second.hear() == {"memory": 3, "blob": "3"}
    assert second.ended() == (0, "")


@pytest.mark.parametrize(("way", "status"), [("leave", 0), ("notice", 75)])
def test_the_last_checkpoint_has_a_framework_s_state_of_the_end(cluster: Cluster, way: str, status: int) -> None:
    kept = str(cluster.folder / "kept")
    assert cluster.start_alone("hosted", folder=kept, way=way).ended()[0] == status
    second = cluster.start_alone("hosted", folder=kept, way="leave")
    assert second.hear() == {"memory": 3.0, "blob": "3.0"}
    assert second.ended() == (0, "")


def test_a_refresh_that_fails_in_leave_is_told(cluster: Cluster) -> None:
    worker = cluster.start_alone("kept", folder=str(cluster.folder / "kept"), way="fails")
    assert worker.hear() == "as told"
    assert worker.ended() == (0, "")
    assert list((cluster.folder / "kept").glob("step-*")) == []  # it would have had older numbers


def test_interrupt_while_waiting_for_others(cluster: Cluster) -> None:
    worker = cluster.start("alone", members_min=2)
    assert worker.hear() == "waiting"
    worker.send(signal.SIGINT)
    assert worker.hear() == "interrupted"
    assert worker.ended() == (0, "")


def test_sigterm_as_a_notice_ends_with_75(cluster: Cluster) -> None:
    worker = cluster.start("alone", members_min=2, sigterm=True)
    assert worker.hear() == "waiting"
    worker.send(signal.SIGTERM)
    assert worker.ended() == (75, "")


def test_sigterm_of_a_batch_system_is_a_notice_to_a_worker_of_spotnik_run(cluster: Cluster) -> None:
    """Slurm and systemd signal every process of a job; the program has no handler."""
    worker = cluster.start("alone", {"SPOTNIK_SLOT": "0"}, members_min=2)
    assert worker.hear() == "waiting"
    worker.send(signal.SIGTERM)
    assert worker.ended() == (75, "")


def test_sigterm_still_ends_a_child_of_a_worker_of_spotnik_run(cluster: Cluster) -> None:
    """As the pools and data loaders of Python do it."""
    worker = cluster.start("terminate_child", {"SPOTNIK_SLOT": "0"})
    assert worker.hear() == -signal.SIGTERM
    assert worker.ended() == (0, "")


def test_spotnik_run_ends_with_75_when_interrupted() -> None:
    arguments = ["spotnik", "run", "-n", "3", "--", *command("steps")]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as agent:
        assert agent.stdout is not None
        for line in agent.stdout:
            if '"step": 20' in line:
                break
        agent.send_signal(signal.SIGTERM)
        agent.stdout.read()
    assert agent.returncode == 75


def free_addresses(count: int) -> list[str]:
    """Of this host; where some are left, at ports that the kernel gives to no connection meanwhile."""
    first, last = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    ports = [port for port in range(10_000, 65_536) if not first <= port <= last] or list(range(10_000, 65_536))
    random.SystemRandom().shuffle(ports)
    doors: list[str] = []
    while len(doors) < count:
        port = ports.pop()
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            doors.append(f"127.0.0.1:{port}")
    return doors


@pytest.mark.parametrize("transport", ["tcp", "shm"])
def test_a_member_that_was_stopped_is_told_and_joins_again(cluster: Cluster, transport: str) -> None:
    """At its commit, even when the others' data had come before they went on without it."""
    programs = ("stop_and_go_on", "steps", "steps")
    stopped, other, third = (cluster.start(program, {"SPOTNIK_TRANSPORT": transport}) for program in programs)
    for worker in (stopped, other, third):
        assert worker.hear() == "ready"
    stopped.send(signal.SIGUSR1)
    while not other.hear()["losses"]:
        pass
    stopped.send(signal.SIGCONT)
    heard = stopped.hear()
    assert heard["alone"] == 0
    assert heard["later"]
    assert stopped.ended() == (0, "")


# ---- what does not fit ----


def test_wrong_key(cluster: Cluster) -> None:
    assert cluster.start("join").hear() == "in"
    stranger = cluster.start("join", {"SPOTNIK_KEY_FILE": str(cluster.key_new("other"))})
    said = stranger.hear()
    assert said["error"] == "KeyFileError"
    assert "same SPOTNIK_KEY_FILE" in said["text"]


def test_wrong_job(cluster: Cluster) -> None:
    assert cluster.start("join").hear() == "in"
    said = cluster.start("join", job_name="another").hear()
    assert said["error"] == "JobNameError"
    assert "SPOTNIK_JOB" in said["text"]


def test_missing_key_file(cluster: Cluster) -> None:
    said = cluster.start("join", {"SPOTNIK_KEY_FILE": str(cluster.folder / "none")}).hear()
    assert "none" in said["text"]
    said = cluster.start("join", {"SPOTNIK_KEY_FILE": ""}).hear()
    assert said["error"] == "ArgumentError"
    assert "spotnik key FILE" in said["text"]


def test_other_wire_version(cluster: Cluster) -> None:
    """A peer of a later version, as far as every version must speak: it refuses, with its version."""
    refusal = struct.pack("<8sHBBIH6s", b"SPOTNIK1", 999, 4, 1, 24, 1, b"")
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(176)
                    connection.sendall(refusal)

        threading.Thread(target=serve, daemon=True).start()
        (here,), there = free_addresses(1), f"127.0.0.1:{server.getsockname()[1]}"
        said = cluster.start("join", {"SPOTNIK_PEERS": f"{here},{there}", "SPOTNIK_BIND": here}).hear()
        server.shutdown(socket.SHUT_RDWR)
    assert said["error"] == "VersionError"
    assert "speaks wire version 999, and we speak 1; install the same Spotnik on all hosts" in said["text"]
    assert "one version of spotnik everywhere" in said["text"]


def test_different_programs(cluster: Cluster) -> None:
    """Both end, and each is told what both have."""
    workers = [cluster.start("differ", length=length) for length in (4, 5)]
    said = [worker.hear() for worker in workers]
    for text, (own, other) in zip(said, ((4, 5), (5, 4))):
        assert text.startswith("the members run different programs: in step ")
        assert re.search(rf", bucket 255, .*this member has {own} elements, F64, MEAN[;,]", text)
        assert re.search(rf"member [01] at [0-9.:]* has {other} elements, F64, MEAN[;,]", text)
        assert text.endswith("; start all from the same code")
