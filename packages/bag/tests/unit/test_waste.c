/* SPDX-License-Identifier: Apache-2.0 */
/* What the pace is worth: jobs on machines that live as the published curve says, saved at the
 * times of the programme, at any fixed interval, and at Young and Daly's for the initial rate of
 * losses. All meet the same machines. */
#include <math.h>
#include <stdio.h>

#include "bag/bag_pace.h"
#include "base/prng.h"
#include "common/model_interval.h"
#include "tests.h"

#define HOUR 3600.0
#define JOB_S (5 * HOUR)
#define WRITE_S 60.0
#define RESTART_S 60.0
#define JOBS 2000
#define STATES 4096

static struct bag_life life;

/* The age at which a machine is lost. */
static double draw_life(struct spotnik_prng *prng)
{
    double share = (double)(spotnik_prng_next(prng) >> 11) / 9007199254740992.0, low = 0,
           high = life.cap_s;
    for (int i = 0; i < 40; i++) {
        double middle = (low + high) / 2;
        if (bag_life_lost_by(&life, middle) > share)
            high = middle;
        else
            low = middle;
    }
    return high;
}

static double young_s(double write_s, double mttf_s)
{
    return sqrt(2 * write_s * mttf_s);
}

typedef double pace(double rest_s, double age_s, double fixed_s);

static double pace_fixed(double rest_s, double age_s, double fixed_s)
{
    (void)age_s;
    return fmin(rest_s, fixed_s);
}

/* The same states come again and again. */
static double pace_programme(double rest_s, double age_s, double fixed_s)
{
    static struct {
        double rest_s, age_s, work_s;
    } known[STATES];
    static size_t count;
    double expected_s;
    (void)fixed_s;
    for (size_t i = 0; i < count; i++)
        if (known[i].rest_s == rest_s && known[i].age_s == age_s)
            return known[i].work_s;
    assert_true(count < STATES);
    known[count].rest_s = rest_s;
    known[count].age_s = age_s;
    assert_int_equal(bag_pace_next(&life, rest_s, age_s, WRITE_S, RESTART_S, &known[count].work_s,
                                   &expected_s, NULL),
                     0);
    return known[count++].work_s;
}

/* The same, of states near this one: a bag meets every age. */
static double pace_programme_near(double rest_s, double age_s, double fixed_s)
{
    double grain_s = age_s < 3 * HOUR || age_s > 21 * HOUR ? HOUR / 6 : HOUR;
    double near_s = fmax(round(rest_s / (HOUR / 2)), 1) * HOUR / 2;
    return fmin(rest_s, pace_programme(near_s, round(age_s / grain_s) * grain_s, fixed_s));
}

struct machine {
    struct spotnik_prng prng;
    double age_s, end_s;
};

static void machine_begin(struct machine *machine, uint64_t seed)
{
    spotnik_prng_seed(&machine->prng, seed);
    machine->age_s = 0;
    machine->end_s = draw_life(&machine->prng);
}

/* Seconds that a job takes on this machine, and on those that come in its place. */
static double job_spent_s(struct machine *machine, pace *next, double fixed_s)
{
    double spent_s = 0;
    for (double rest_s = JOB_S; rest_s > 1;) {
        double work_s = next(rest_s, machine->age_s, fixed_s), window_s = work_s + WRITE_S;
        if (machine->age_s + window_s <= machine->end_s) {
            machine->age_s += window_s;
            spent_s += window_s;
            rest_s -= work_s;
            continue;
        }
        spent_s += machine->end_s - machine->age_s + RESTART_S;
        machine->age_s = 0;
        machine->end_s = draw_life(&machine->prng);
    }
    return spent_s;
}

/* Share of the work that goes into saves, restarts and work done again. Each job begins on a new
 * machine. */
static double waste(pace *next, double fixed_s)
{
    struct machine machine;
    double spent_s = 0;
    for (uint64_t job = 0; job < JOBS; job++) {
        machine_begin(&machine, job);
        spent_s += job_spent_s(&machine, next, fixed_s);
    }
    return spent_s / (JOBS * JOB_S) - 1;
}

/* The same of a bag: a machine takes one job after the other as long as it lives. */
static double waste_of_bag(pace *next, double fixed_s)
{
    struct machine machine;
    double spent_s = 0;
    machine_begin(&machine, 1);
    for (uint64_t job = 0; job < JOBS; job++)
        spent_s += job_spent_s(&machine, next, fixed_s);
    return spent_s / (JOBS * JOB_S) - 1;
}

/* Claim: the programme wastes no more than the best fixed interval found afterwards, and little
 * more than half of what Young and Daly's wastes. */
TEST(the_programme_is_worth_it)
{
    double best = INFINITY, best_s = 0, work_s, expected_s;
    life = (struct bag_life){ .kind = BAG_LIFE_BATHTUB,
                              .bathtub = spotnik_bathtub_published,
                              .cap_s = 24 * HOUR };
    for (double fixed_s = 300; fixed_s <= JOB_S; fixed_s *= 1.1) {
        double share = waste(pace_fixed, fixed_s);
        best_s = share < best ? fixed_s : best_s;
        best = share < best ? share : best;
    }
    double programme = waste(pace_programme, 0), young = waste(pace_fixed, young_s(WRITE_S, HOUR));
    assert_int_equal(bag_pace_next(&life, JOB_S, 0, WRITE_S, RESTART_S, &work_s, &expected_s, NULL),
                     0);
    print_message(
        "wasted: programme %.2f %% (it said %.2f), best fixed %.2f (%.0f min), Young-Daly %.2f\n",
        100 * programme, 100 * (expected_s / JOB_S - 1), 100 * best, best_s / 60, 100 * young);
    assert_true(programme <= best);
    assert_true(programme <= 0.55 * young);
}

/* Claim: where machines take one job after the other, the programme wastes less than the best fixed
 * interval found afterwards, and less than half of what Young and Daly's wastes at the rate of
 * losses of new machines. */
TEST(it_is_worth_more_in_a_bag)
{
    double best = INFINITY, best_s = 0,
           initial_s = spotnik_bathtub_published.early_s / spotnik_bathtub_published.scale;
    life = (struct bag_life){ .kind = BAG_LIFE_BATHTUB,
                              .bathtub = spotnik_bathtub_published,
                              .cap_s = 24 * HOUR };
    for (double fixed_s = 300; fixed_s <= JOB_S; fixed_s *= 1.1) {
        double share = waste_of_bag(pace_fixed, fixed_s);
        best_s = share < best ? fixed_s : best_s;
        best = share < best ? share : best;
    }
    double programme = waste_of_bag(pace_programme_near, 0);
    double young = waste_of_bag(pace_fixed, young_s(WRITE_S, initial_s));
    print_message(
        "wasted in a bag: programme %.2f %%, best fixed %.2f (%.0f min), Young-Daly %.2f\n",
        100 * programme, 100 * best, best_s / 60, 100 * young);
    assert_true(programme <= best);
    assert_true(programme <= 0.5 * young);
}
