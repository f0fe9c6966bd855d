/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * The state of a replica where spotnik_state_add() does not do: memory that the library cannot
 * address, and memory that changes while a step is begun.
 *
 * Joiners and checkpoints get the state as it is in spotnik_step_begin(). Arrays of 64 KiB and
 * more, and remote ones, are copied by a thread of the library while the program computes.
 * spotnik_step_commit() returns when that is done.
 */
#ifndef SPOTNIK_STATE_H
#define SPOTNIK_STATE_H

#include "spotnik/spotnik.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Say how the library reaches memory that it cannot address, an accelerator's say. Both calls move
 * @p size bytes from @p offset on, which counts the bytes of all remote tensors in order of
 * registration. The library calls @p write inside spotnik_step_begin(). It calls @p read from
 * there, from spotnik_state_digest(), spotnik_leave(), or until spotnik_step_commit() returns.
 * Both come from any thread, several at once. Not 0 means a failure: the copy is void, and the call
 * that needs it returns SYSTEM. Before spotnik_state_add_remote(). Errors: ARGUMENT.
 */
SPOTNIK_API int spotnik_state_reach_set(spotnik_job *job,
                                        int (*read)(void *context, uint64_t offset, void *out,
                                                    size_t size),
                                        int (*write)(void *context, uint64_t offset,
                                                     const void *bytes, size_t size),
                                        void *context);

/** spotnik_state_add() for memory that is reached by the calls of spotnik_state_reach_set(). The
 * library keeps no copy of it. Errors: as spotnik_state_add(); STATE (no such calls). */
SPOTNIK_API int spotnik_state_add_remote(spotnik_job *job, const char *name, size_t count,
                                         enum spotnik_dtype dtype);

/**
 * Registered memory was changed between spotnik_step_begin() and spotnik_step_commit(), or will be
 * in steps to come. Call it before spotnik_step_commit(). Copies for joiners and checkpoints that
 * were begun in this step are void. From now on the library takes them inside spotnik_step_begin(),
 * and the program waits for them. Errors: ARGUMENT.
 */
SPOTNIK_API int spotnik_state_changed(spotnik_job *job);

/**
 * The next step goes on with the batch of the last one, as the generator's step of a GAN does. A
 * program that is started again cannot go on there: the samples are consumed. So no checkpoint is
 * taken between the two, and no notice ends the loop there: what was due comes at the boundary
 * after. Call it before that spotnik_step_begin(), on all members. Errors: STATE (inside a step).
 */
SPOTNIK_API int spotnik_batch_continue(spotnik_job *job);

#ifdef __cplusplus
}
#endif

#endif
