/* SPDX-License-Identifier: Apache-2.0 */
/* spotnik status --dump: have members write what their flight recorders hold. */
#ifndef SPOTNIK_CLI_DUMP_H
#define SPOTNIK_CLI_DUMP_H

#include "question.h"

/* Ask every member, and print where each writes. Returns the exit status. */
int dump_ask(const struct job_at *at);

#endif
