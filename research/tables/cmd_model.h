/* SPDX-License-Identifier: Apache-2.0 */
/* The subcommands of `spotnik model`. */
#ifndef SPOTNIK_RESEARCH_CMD_MODEL_H
#define SPOTNIK_RESEARCH_CMD_MODEL_H

#include "cli/plan_args.h"
#include "csv_write.h"

/* What every `--fit FILE [--predict FILE]` model takes. `rest` is for options of one model. */
struct spotnik_model_call {
    struct spotnik_table *fit, *predict;
    const char *target, *by;
    double sharpness, usd_per_h, cap_s;
    double at_h[64];
    size_t at_count;
    bool leave_one_out;
};

int spotnik_model_speed(const struct spotnik_model_call *call, struct spotnik_fault *fault);
int spotnik_model_noise(const struct spotnik_model_call *call, struct spotnik_fault *fault);
int spotnik_model_lifetime(const struct spotnik_model_call *call, struct spotnik_fault *fault);
int spotnik_model_checkpoint_time(const struct spotnik_model_call *call,
                                  struct spotnik_fault *fault);
int spotnik_model_remaining(const struct spotnik_model_call *call, struct spotnik_fault *fault);
int spotnik_model_startup(const struct spotnik_model_call *call, struct spotnik_fault *fault);

int spotnik_model_spotdnn(int argc, char **argv);
int spotnik_model_interval(int argc, char **argv);
int spotnik_model_coefficient(int argc, char **argv);

/* Running mean of |error|, printed to stderr by _report. */
struct spotnik_model_errors {
    double sum, worst, values[100000];
    size_t count;
};
/* Prints the predicted value and, when there is an observed one, the error in per cent; ends the
 * line. */
void spotnik_model_print(struct spotnik_model_errors *errors, double predicted, double observed);
void spotnik_model_report(const char *what, struct spotnik_model_errors *errors);

#endif
