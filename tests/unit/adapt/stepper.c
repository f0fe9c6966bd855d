/* SPDX-License-Identifier: Apache-2.0 */
/* The controller of dynamic batching on standard input and output, for models in other languages.
 * Usage: batch_stepper SIZE BATCH DEAD_BAND WINDOW. Writes the batches of all members on one line;
 * then, for every line of SIZE times in seconds, the batches of the next step. Exits with 1 when it
 * cannot go on. */
#include <stdio.h>
#include <stdlib.h>

#include "adapt/controller.h"

static struct spotnik_batch_controller controller;

static void print(void)
{
    for (uint32_t i = 0; i < controller.size; i++)
        printf("%llu%c", (unsigned long long)controller.member[i].samples,
               i + 1 < controller.size ? ' ' : '\n');
    fflush(stdout);
}

static int read_times(double *ret_s)
{
    for (uint32_t i = 0; i < controller.size; i++)
        if (scanf("%lf", &ret_s[i]) != 1)
            return -1;
    return 0;
}

int main(int argc, char **argv)
{
    double time_s[SPOTNIK_BATCH_MEMBERS_MAX];
    struct spotnik_batch_config config;

    if (argc != 5) {
        fprintf(stderr, "usage: batch_stepper SIZE BATCH DEAD_BAND WINDOW\n");
        return 1;
    }
    spotnik_batch_config_init(&config, strtoull(argv[2], NULL, 10));
    config.dead_band = strtod(argv[3], NULL);
    config.window = (uint32_t)strtoul(argv[4], NULL, 10);
    int rc = spotnik_batch_controller_init(&controller, &config,
                                           (uint32_t)strtoul(argv[1], NULL, 10), NULL);
    if (rc) {
        fprintf(stderr, "batch_stepper: cannot be meant: %d\n", rc);
        return 1;
    }
    for (print(); read_times(time_s) == 0; print())
        spotnik_batch_controller_observe(&controller, time_s);
    return 0;
}
