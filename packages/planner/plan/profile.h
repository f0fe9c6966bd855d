/* SPDX-License-Identifier: Apache-2.0 */
/* What the planner knows of a job: a device's time for a batch; the bytes to reduce; the epochs of
 * a target as a function of the global batch; the cost of losing and joining a machine. From a
 * description file. */
#ifndef SPOTNIK_PLAN_PROFILE_H
#define SPOTNIK_PLAN_PROFILE_H

#include "common/fault.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define SPOTNIK_PROFILE_DEVICES_MAX 32
#define SPOTNIK_PROFILE_BATCHES_MAX 32
#define SPOTNIK_PROFILE_MEASURED_MAX 128

/* step compute time of one device = fixed_s + sample_s x its share of the batch, and by
 * `contention` longer for each other device of its machine */
struct spotnik_device {
    char accelerator[28]; /* "cpu": per vCPU */
    double fixed_s, sample_s, batch_most, contention;
};

/* A measured step with N devices of one machine, all-reduce included: it replaces the formula
 * there, and N machines of one device are not faster. */
struct spotnik_measured {
    char accelerator[28];
    double devices, batch, step_s;
};

struct spotnik_profile {
    char name[64];
    struct spotnik_device devices[SPOTNIK_PROFILE_DEVICES_MAX];
    size_t device_count;
    double batches[SPOTNIK_PROFILE_BATCHES_MAX];
    size_t batch_count;
    struct spotnik_measured measured[SPOTNIK_PROFILE_MEASURED_MAX];
    size_t measured_count;
    double samples_per_epoch, gradient_bytes, state_bytes;
    double reference_batch; /* the batch at which the user's number of epochs holds */
    /* epochs(B) grow as 1 + B / critical; infinite: epochs do not depend on B */
    double critical_batch;
    double link_bytes_per_s; /* 0: the instance's own */
    /* memory and PCIe of one machine, for all of its devices together */
    double host_bytes_per_s;
    double skew_s; /* what the slower of two devices keeps the other waiting */
    double hop_s, overlap;
    double startup_s, recover_s, join_s, checkpoint_every_s;
    double error; /* relative standard error of a predicted time */
    /* a step takes this many times as long as predicted: measured in a job that runs; 0: once */
    double pace;
    double paced_devices; /* of the job that `pace` is of; 0: none runs */
    bool example;         /* the built-in one, measured on no job of the user's */
};

/* Defaults, and nothing of a job. */
void spotnik_profile_empty(struct spotnik_profile *profile_out);
void spotnik_profile_builtin(struct spotnik_profile *profile_out);
/* A description file. Unknown keys are faults: a misspelt key would silently be a default. */
int spotnik_profile_read(const char *path, struct spotnik_profile *profile_out,
                         struct spotnik_fault *fault);
int spotnik_profile_parse(const char *path, const json_t *json, struct spotnik_profile *profile_out,
                          struct spotnik_fault *fault);
/* The measured step of N devices of one kind, or NAN. */
double spotnik_profile_measured_s(const struct spotnik_profile *profile, const char *accelerator,
                                  double devices, double batch);
/* The most devices of one kind in a measured step; 1 where only the device itself is known. */
double spotnik_profile_measured_most(const struct spotnik_profile *profile,
                                     const char *accelerator);
json_t *spotnik_profile_json(const struct spotnik_profile *profile);

/* How many times as long as with two devices all wait for the slowest of n: its expectation in
 * draws from one normal distribution, within 8 % up to 64; 0 for one. */
double spotnik_skew_growth(double devices);
/* Epochs at a batch, when `epochs` are needed at the reference batch. */
double spotnik_profile_epochs(const struct spotnik_profile *profile, double epochs, double batch);
/* By name, else one of the same chip (accelerators.h). */
const struct spotnik_device *spotnik_profile_device(const struct spotnik_profile *profile,
                                                    const char *accelerator);

#endif
