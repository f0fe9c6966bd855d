/* SPDX-License-Identifier: Apache-2.0 */
/* How long a job takes, how much of it is done, and when it is to be saved next. */
#include <math.h>
#include <stdlib.h>

#include "bag/template.h"
#include "bag_run.h"
#include "base/time.h"

/* a job of unknown length takes as long again as it has, and at least this many saves */
#define UNKNOWN_WRITES 100

uint64_t bag_slot_work_ms(const struct bag_slot *slot, uint64_t now_ns)
{
    return slot->figures.base_ms + bag_slot_ran_ms(slot, now_ns);
}

double bag_length_s(const struct bag_work *work, const struct bag_job *job)
{
    const char *text = work->options->length;
    struct bag_values values = { .job = job, .folder = work->bag.folder, .attempt = "1" };
    char unknown[BAG_NAME_MAX];
    double seconds = 0;
    if (text == NULL)
        return work->length_count > 0
                   ? (double)work->length_sum_ms / 1e3 / (double)work->length_count
                   : 0;
    char *filled = bag_template_fill_word(text, bag_value, &values, unknown);
    if (filled == NULL
        || (!spotnik_duration_parse(filled, &seconds) && !spotnik_number_parse(filled, &seconds)))
        seconds = 0;
    free(filled);
    return seconds > 0 ? seconds : 0;
}

void bag_slot_pace(struct bag_work *work, struct bag_slot *slot, uint64_t now_ns,
                   double *ret_expected_s)
{
    const struct bag_life *life = &work->options->life;
    struct spotnik_fault fault = { "" };
    slot->due_ms = 0;
    if (life->kind == BAG_LIFE_NONE)
        return;
    double done_s = (double)bag_slot_work_ms(slot, now_ns) / 1e3, work_s = 0, expected_s = 0,
           write_s = bag_write_s(work);
    double rest_s = slot->length_s > 0 ? fmax(slot->length_s - done_s, slot->length_s / 20)
                                       : fmax(done_s, UNKNOWN_WRITES * write_s);
    if (bag_pace_next(life, rest_s, bag_machine_age_s(work, now_ns), write_s, write_s, &work_s,
                      &expected_s, &fault)
        != 0) {
        bag_say(work, "job %s: saved whenever it writes a restart file: %s", slot->job->name,
                fault.text);
        return;
    }
    slot->due_ms = (uint64_t)((done_s + work_s) * 1e3);
    if (ret_expected_s != NULL)
        *ret_expected_s = expected_s;
}
