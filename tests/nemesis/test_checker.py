#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The judge of the nemesis, judged: a run in which all is well passes, and each lie written into it is found."""

from __future__ import annotations

import unittest
from typing import Any

from checker import SECOND, Process, Verdict, judge, read_process
from plan import draw_storm, draw_world

WORLD = {"samples": 40, "calm_s": 60, "peers": "file"}
SHARES = [
    "0-5,5-10",
    "10-15,15-20",
    "20-25,25-30",
    "30-35,35-40",
]  # of two members in four steps, which are an epoch of data


def whole(share: str) -> str:
    one, two = share.split(",")
    return f"{one.split('-')[0]}-{two.split('-')[1]}"


def lines_of(number: int, steps: int = 12, life: str = "a") -> list[str]:
    lines = ["1 start 1", "2 member 1"]
    for step in range(1, steps + 1):
        share, epoch = SHARES[(step - 1) % 4], (step - 1) // 4
        lines.append(f"{step * SECOND} offer {step} {epoch} {share.split(',')[number]}")
        lines.append(f"{step * SECOND + 5} commit {step} 2 2 0 {life}{step - 1} {life}{step} {epoch} {whole(share)}")
    return [*lines, f"{steps * SECOND + 9} end 0 left ()"]


def fault(second: float, kind: str, **words: object) -> dict[str, Any]:
    return {"ns": int(second * SECOND), "kind": kind, **words}


def faults() -> list[dict[str, Any]]:
    return [
        *(fault(0, "started", member=f"m-{i}") for i in (0, 1)),
        fault(4.5, "kill"),
        fault(5, "calm"),
        fault(10, "together"),
        fault(11, "end"),
        *(fault(13, "exit", member=f"m-{i}", status=75) for i in (0, 1)),
    ]


def ruling(logs: list[list[str]], done: list[dict[str, Any]] | None = None, **world: object) -> Verdict:
    processes: list[Process] = [read_process(f"m-{i}", "\n".join(lines)) for i, lines in enumerate(logs)]
    return judge(processes, done or faults(), {**WORLD, **world})


class Checker(unittest.TestCase):
    def caught(
        self, what: str, logs: list[list[str]], done: list[dict[str, Any]] | None = None, **world: object
    ) -> None:
        failures = ruling(logs, done, **world).failures
        self.assertTrue(any(failure.startswith(what) for failure in failures), failures)

    def fine(self, logs: list[list[str]], done: list[dict[str, Any]] | None = None) -> Verdict:
        verdict = ruling(logs, done)
        self.assertEqual(verdict.failures, [])
        return verdict

    def test_all_is_well(self) -> None:
        verdict = self.fine([lines_of(0), lines_of(1)])
        self.assertEqual((verdict.steps, verdict.recovery_s, dict(verdict.excuses)), (12, [5.0], {}))

    def test_wrong_digest(self) -> None:
        """One member has another result of step 7, and goes on from it."""
        lies = [line.replace("a7", "b7") for line in lines_of(1)]
        self.caught("lineage", [lines_of(0), lies])

    def test_one_digest_from_two_states(self) -> None:
        lies = [line.replace(" a6 a7 ", " a6 a6x ").replace(" a7 a8 ", " a6x a8 ") for line in lines_of(1)]
        self.caught("state", [lines_of(0), lies])

    def test_state_that_nobody_made(self) -> None:
        lies = [line.replace(" a6 a7 ", " b6 a7 ") for line in lines_of(1)]
        self.caught("state", [lines_of(0), lies])

    def test_step_left_out(self) -> None:
        lies = [line for line in lines_of(1) if "commit 7 " not in line]
        self.caught("state", [lines_of(0), lies])

    def test_sample_twice(self) -> None:
        self.caught("samples", [[line.replace(" 1 10-20", " 1 9-20") for line in lines_of(i)] for i in (0, 1)])

    def test_sample_twice_in_one_step(self) -> None:
        self.caught("samples", [[line.replace(" 1 10-20", " 1 10-12x2,12-20") for line in lines_of(i)] for i in (0, 1)])

    def test_sample_lost(self) -> None:
        self.caught("samples", [[line.replace(" 1 10-20", " 1 11-20") for line in lines_of(i)] for i in (0, 1)])

    def test_contribution_lost(self) -> None:
        lies = [line.replace("offer 6 1 10-15", "offer 6 1 10-15,39-40") for line in lines_of(0)]
        self.caught("samples", [lies, lines_of(1)])

    def test_two_lineages(self) -> None:
        self.caught("lineage", [lines_of(0), lines_of(1, life="b")])

    def test_one_lineage_after_the_other(self) -> None:
        """All die, and the job begins again: counted, no failure."""
        later = [
            f"{int(line.split(' ', 1)[0]) + 20 * SECOND} {line.split(' ', 1)[1]}" for line in lines_of(0, life="b")
        ]
        done = [one for one in faults() if one["kind"] not in ("calm", "together")]
        self.assertEqual(dict(self.fine([lines_of(0), lines_of(1), later], done).excuses), {"began again": 1})

    def test_the_same_states_once_more(self) -> None:
        """All die twice, and the third life comes to the states of the first."""
        shifted = [
            [f"{int(one.split(' ', 1)[0]) + by * SECOND} {one.split(' ', 1)[1]}" for one in lines_of(0, life=life)]
            for by, life in ((20, "b"), (40, "a"))
        ]
        done = [one for one in faults() if one["kind"] not in ("calm", "together")]
        self.fine([lines_of(0), lines_of(1), *shifted], done)
        goes_on = ["1 start 1", "2 member 1", *lines_of(0, 30)[40:]]  # while those of the second life are at work
        self.caught("lineage", [lines_of(0), lines_of(1), shifted[0][:-1], goes_on], done)

    def test_last_step_alone(self) -> None:
        """Who is cut off may commit one step alone, and is excluded: counted. Two such steps are a lineage."""
        alone = [
            *lines_of(0, 6)[:-1],
            f"{7 * SECOND} commit 7 2 2 0 a6 x7 1 20-30",
            f"{8 * SECOND} excluded 8",
            f"{8 * SECOND} loaded",
        ]
        back = [line for line in lines_of(0)[-11:] if "offer 7" not in line and "commit 7" not in line]
        self.assertEqual(sum(self.fine([alone + back, lines_of(1)]).excuses.values()), 1)
        two = [*alone[:-2], f"{7 * SECOND + 9} commit 8 2 2 0 x7 x8 1 30-40", f"{8 * SECOND} excluded 9"]
        self.caught("lineage", [two, lines_of(1)])

    def test_going_on_from_memory(self) -> None:
        """A member commits step 7, and is cut off. The other had not heard of that, makes 7 again, and dies. The first
        founds the job again from its memory: counted. Not so while the other is at work."""

        def alone(life: str, first_s: float, steps: range) -> list[str]:
            spans = {1: "0-10", 2: "10-20", 3: "20-30", 0: "30-40"}
            return [
                f"{int((first_s + at) * SECOND)} commit {step} 3 1 0 {'a6' if step == 7 else f'{life}{step - 1}'} "
                f"{life}{step} {(step - 1) // 4} {spans[step % 4]}"
                for at, step in enumerate(steps)
            ]

        cut_off = [*lines_of(0, 6)[:-1], *alone("x", 7, range(7, 8)), f"{26 * SECOND} excluded 8"]
        cut_off = [*cut_off, *alone("x", 27, range(8, 13)), f"{40 * SECOND} end 0 left ()"]
        done = [one for one in faults() if one["kind"] not in ("calm", "together")]
        done.append(fault(12, "killed", member="m-1"))
        other = [*lines_of(1, 6)[:-1], *alone("a", 7.1, range(7, 11))]
        verdict = self.fine([cut_off, other], done)
        self.assertEqual(verdict.excuses["went on from an earlier state, all others over"], 1)
        self.caught("lineage", [cut_off, [*lines_of(1, 6)[:-1], *alone("a", 7.1, range(7, 31))]], done)

    def test_going_back(self) -> None:
        """A member that is excluded comes again into a job that has begun anew."""
        old = lines_of(0)[:-1]
        shift = [f"{int(one.split(' ', 1)[0]) + 20 * SECOND} {one.split(' ', 1)[1]}" for one in lines_of(1, life="b")]
        self.caught("back", [[*old, f"{20 * SECOND} loaded", *shift[2:]]])
        replayed = [one.replace("2 2 0 a9 a10", "2 2 1 a9 a10") for one in lines_of(0) if "commit 10 " in one]
        self.fine([[*old[:22], f"{10 * SECOND} loaded", *replayed, *old[22:], lines_of(0)[-1]], lines_of(1)])

    def test_outliving_the_others(self) -> None:
        """A member is excluded, the others go on and end, and a newcomer has begun anew: counted. With nobody who had
        gone on, or others who still do, it gives up what the job had."""
        shift = [f"{int(one.split(' ', 1)[0]) + 20 * SECOND} {one.split(' ', 1)[1]}" for one in lines_of(1, life="b")]
        alone = [*lines_of(1, 6)[:-1], f"{7 * SECOND} excluded 7", f"{20 * SECOND} loaded", *shift[2:]]
        done = [one for one in faults() if one["kind"] not in ("calm", "together")]
        done.append(fault(13, "killed", member="m-0"))
        self.assertEqual(
            self.fine([lines_of(0)[:-1], alone], done).excuses["excluded, and outlived all that had gone on"], 1
        )
        self.caught("back", [lines_of(0, 6)[:-1], alone], done)
        self.caught("back", [lines_of(0, 40)[:-1], alone], done)

    def test_stuck(self) -> None:
        lines = [line for line in lines_of(1) if int(line.split()[0]) < 5 * SECOND]
        self.caught("stuck", [lines_of(0), lines])
        late = [one if one["kind"] != "together" else fault(70, "together") for one in faults()]
        self.caught("stuck", [lines_of(0), lines_of(1)], late)

    def test_view_without_somebody(self) -> None:
        self.caught("stuck", [[line.replace(" 2 2 0 ", " 2 1 0 ") for line in lines_of(i)] for i in (0, 1)])

    def test_nobody_runs(self) -> None:
        self.caught("stuck", [[], []], [fault(5, "calm"), fault(6, "together")])

    def test_forsaken_needs_a_list_and_somebody_parked(self) -> None:
        done = [one if one["kind"] != "together" else fault(10, "forsaken") for one in faults()]
        parked = [line for line in lines_of(0) if int(line.split()[0]) < 5 * SECOND] + [f"{5 * SECOND} wait 1 0 2 2"]
        done.append(fault(12, "killed", member="m-0"))
        self.caught("stuck", [parked, lines_of(1)], done)
        self.assertEqual(ruling([parked, lines_of(1)], done, peers="list").failures, [])

    def test_end_without_a_cause(self) -> None:
        for code in (-200, -202, -104, -303):
            self.caught("ends", [lines_of(0), [*lines_of(1)[:-1], f"{12 * SECOND + 9} end {code} text ()"]])
        excused = [*lines_of(1)[:-1], f"{12 * SECOND + 9} end -303 text ()"]
        self.assertEqual(sum(self.fine([lines_of(0), excused], [*faults(), fault(4, "partition")]).excuses.values()), 1)

    def test_end_without_a_word(self) -> None:
        self.caught("ends", [lines_of(0), lines_of(1)[:-1]])
        self.fine([lines_of(0), lines_of(1)[:-1]], [*faults(), fault(12.5, "killed", member="m-1")])


class Plan(unittest.TestCase):
    def test_a_seed_is_one_plan(self) -> None:
        for seed in range(50):
            world = draw_world(seed)
            self.assertEqual(world, draw_world(seed))
            self.assertEqual(draw_storm(world, 3), draw_storm(world, 3))
            self.assertNotEqual(draw_storm(world, 3), draw_storm(world, 4))

    def test_every_kind_comes(self) -> None:
        from plan import KINDS

        worlds = [draw_world(seed) for seed in range(60)]
        drawn = {fault.kind for world in worlds for number in range(5) for fault in draw_storm(world, number)}
        self.assertEqual(drawn, set(KINDS))


if __name__ == "__main__":
    unittest.main()
