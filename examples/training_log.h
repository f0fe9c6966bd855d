/* SPDX-License-Identifier: Apache-2.0 */
/* The log of one member's training: a line of JSON for each committed step and each recovery, and
 * one at the end. Each line leaves in one write() to a file opened for appending, so the lines of
 * many members in one file never mix. Decides what is written down, nothing else; demo_report.c is
 * the reader. */
#ifndef TRAINING_LOG_H
#define TRAINING_LOG_H

#include "spotnik/spotnik.h"

struct training_log {
    int fd; /* -1: no log */
    uint64_t digest_every;
    uint64_t recovery_logged; /* epoch of the last recovery in the log */
};

/* `where` is a file to append to, or the number of an open descriptor. Returns 0, or -1 with
 * errno. */
int training_log_open(struct training_log *log, const char *where);

/* Call after commit and apply. `loss` is the mean over the `count` samples of all members; `digest`
 * is that of what all hold alike, looked at in every digest_every-th step. 0, or -1 with errno. */
int training_log_step(struct training_log *log, spotnik_job *job, const spotnik_step *step,
                      double loss, double count, uint64_t digest);

/* Call before leaving; a member whose log has no such line was lost. 0, or -1 with errno. */
int training_log_end(struct training_log *log, spotnik_job *job, int exit_status);

#endif
