/* SPDX-License-Identifier: Apache-2.0 */
/* spotDNN (Duan et al., IWQoS'23): asynchronous training on one parameter server and n unequal
 * workers.
 *
 *   T_i   = 2 S / B_wk + 2 g_i S / B_pcie + compute_i                 one iteration of worker i
 *   B_wk  = P B_ps/n + (1-P) B_req  when B_req > B_ps/n, else B_req
 *   P     = min(alpha1 sqrt(n) + beta1, 1)
 *   T_exp = 1 / sum 1/T_i;  v = sum b_i/T_i;  b_w = v T_exp
 *   w_i   = (b_i/T_i)/v sorted;  R = |w - (1,0,..,0)|
 *   loss(j) = (gamma2 b_w + gamma3) sqrt((R + gamma4) n) / (j + gamma1) + gamma5
 *
 * compute_i comes from a measured speed: b_i / speed_i minus the communication of an unconstrained
 * worker (the paper's sum; the released code subtracts the PCIe part with the wrong sign). The
 * released code's loss has no R: gamma4 below zero means that form. Then the published example
 * comes out to the second. */
#ifndef SPOTNIK_RESEARCH_MODEL_SPOTDNN_H
#define SPOTNIK_RESEARCH_MODEL_SPOTDNN_H

#include "common/fault.h"

#include <stdbool.h>
#include <stddef.h>

#define SPOTNIK_SPOTDNN_TYPES_MAX 4096
#define SPOTNIK_SPOTDNN_WORKERS_MAX 256

struct spotnik_spotdnn_model {
    double alpha1, beta1;
    /* gamma4 < 0: no convergence coefficient in the loss */
    double gamma1, gamma2, gamma3, gamma4, gamma5;
    double parameters_mb, request_mb_per_s, server_mb_per_s, pcie_mb_per_s;
};

/* ResNet-110 on CIFAR, the constants of the released code. */
extern const struct spotnik_spotdnn_model spotnik_spotdnn_resnet110;

struct spotnik_spotdnn_type {
    char name[64];
    double gpus, usd_per_h, images_per_s, batch; /* batch: of the whole machine */
    unsigned quota;
};

struct spotnik_spotdnn_goal {
    double loss, deadline_s;
    double takeover_s; /* added to the time when this is a re-plan after a loss */
};

struct spotnik_spotdnn_result {
    unsigned workers;
    double iteration_s, batch, coefficient, iterations, time_s, cost_usd, usd_per_h;
};

/* Seconds of one iteration of one worker in a cluster of n. */
double spotnik_spotdnn_iteration_s(const struct spotnik_spotdnn_model *model,
                                   const struct spotnik_spotdnn_type *type, double workers);
/* |W - (1,0,...)| of shares that need not be sorted or sum to 1. */
double spotnik_convergence_coefficient(const double *speed, const unsigned *count, size_t types);
/* count[i] machines of type i. */
struct spotnik_spotdnn_result spotnik_spotdnn_evaluate(const struct spotnik_spotdnn_model *model,
                                                       const struct spotnik_spotdnn_type *types,
                                                       const unsigned *count, size_t type_count,
                                                       const struct spotnik_spotdnn_goal *goal);
/* Beyond this many workers P is 1 and there is no more bandwidth to win. */
unsigned spotnik_spotdnn_upper(const struct spotnik_spotdnn_model *model);
unsigned spotnik_spotdnn_lower(const struct spotnik_spotdnn_model *model,
                               const struct spotnik_spotdnn_type *types, size_t type_count,
                               const struct spotnik_spotdnn_goal *goal);

struct spotnik_spotdnn_search {
    bool found;
    bool proved; /* exact search only: nothing cheaper exists */
    unsigned long long candidates;
    struct spotnik_spotdnn_result result;
};

/* Algorithm 1: windows of consecutive entries of the list sorted by iteration time. `count` has
 * room for every type. */
int spotnik_spotdnn_window(const struct spotnik_spotdnn_model *model,
                           const struct spotnik_spotdnn_type *types, size_t type_count,
                           const struct spotnik_spotdnn_goal *goal, unsigned *count,
                           struct spotnik_spotdnn_search *search_out, struct spotnik_fault *fault);
/* Branch and bound over all multisets with n up to the upper bound; starts from the window search's
 * plan, so it is never dearer. */
int spotnik_spotdnn_exact(const struct spotnik_spotdnn_model *model,
                          const struct spotnik_spotdnn_type *types, size_t type_count,
                          const struct spotnik_spotdnn_goal *goal, unsigned *count,
                          struct spotnik_spotdnn_search *search_out, struct spotnik_fault *fault);
/* Why nothing was found, and the nearest goal that can be met. Always returns -1. */
int spotnik_spotdnn_explain(const struct spotnik_spotdnn_model *model,
                            const struct spotnik_spotdnn_type *types, size_t type_count,
                            const struct spotnik_spotdnn_goal *goal, struct spotnik_fault *fault);

#endif
