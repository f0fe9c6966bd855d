/* SPDX-License-Identifier: Apache-2.0 */
/* `spotnik model spotdnn --fit FILE`: spotDNN's constants from measured rows. */
#ifndef SPOTNIK_RESEARCH_SPOTDNN_FIT_H
#define SPOTNIK_RESEARCH_SPOTDNN_FIT_H

#include "model_spotdnn.h"

/* Fits what the columns tell of: the loss (`workers`, `batch`, `iterations`, `loss`, perhaps
 * `coefficient`), or the bandwidth (`workers`, `alone_s`, `iteration_s`). What they do not tell
 * stays as it is in *model. */
int spotnik_spotdnn_fit(const char *path, struct spotnik_spotdnn_model *model,
                        double *error_pct_out, size_t *rows_out, struct spotnik_fault *fault);

#endif
