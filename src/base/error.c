/* SPDX-License-Identifier: Apache-2.0 */
/* What an error code means and what to do next, in one line each, and the detail of the last error
 * of each thread. Texts speak to the person who runs the job, who may not know our code. */
#include "base/error.h"

#include "spotnik/spotnik.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

static _Thread_local char detail[512];

static const struct {
    int code;
    const char *text;
} texts[] = {
    { SPOTNIK_OK, "success" },
    { SPOTNIK_ERR_ARGUMENT,
      "an argument is out of range or of the wrong kind; correct it and call again" },
    { SPOTNIK_ERR_STATE, "the call does not fit here; the order is join, state_add, then "
                         "step_begin, allreduce, step_commit" },
    { SPOTNIK_ERR_MEMORY, "out of memory; nothing was changed: free some, or use smaller buckets" },
    { SPOTNIK_ERR_LIMIT,
      "more buckets, tensors or members than the limits allow; merge some into larger ones" },
    { SPOTNIK_ERR_AGAIN,
      "not ready within the patience that was set; call again to go on waiting" },
    { SPOTNIK_ERR_PEERS, "no member of the job could be found or reached; check SPOTNIK_PEERS and "
                         "that a member is running" },
    { SPOTNIK_ERR_KEY,
      "the other side has another job key; give every member the same SPOTNIK_KEY_FILE" },
    { SPOTNIK_ERR_JOB,
      "the other side belongs to another job; check SPOTNIK_JOB and SPOTNIK_PEERS" },
    { SPOTNIK_ERR_VERSION,
      "the other side speaks another wire version; run one version of spotnik everywhere" },
    { SPOTNIK_ERR_SYSTEM, "a system call failed; spotnik_last_error() names it" },
    { SPOTNIK_ERR_CHECKPOINT,
      "the checkpoints in the checkpoint directory cannot be used; spotnik_last_error() says why" },
    { SPOTNIK_ERR_MISMATCH,
      "members run different programs: buckets differ in size, type or number; start "
      "all from the same code" },
    { SPOTNIK_ERR_ROOT, "the root of a broadcast was lost in this step; the step is committed "
                        "without that bucket: go on "
                        "with the next step, and broadcast again from a live member" },
    { SPOTNIK_ERR_DIVERGED, "this member's results differ from those of its ring neighbours, so "
                            "its replica cannot be trusted: end "
                            "this process and start it again (it joins with a good copy); check "
                            "the memory of its machine" },
    { SPOTNIK_ERR_LEAVING, "a notice arrived; call spotnik_leave() and exit with status 75" },
    { SPOTNIK_ERR_PARKED,
      "cut off from the majority for too long; check the network, then start this member again" },
    { SPOTNIK_ERR_EXCLUDED, "the others went on without this member; apply nothing and call "
                            "spotnik_step_begin(), which joins again" },
    { SPOTNIK_ERR_LINEAGE,
      "another founding has this job's name or its place; exit with status 76, and do not start "
      "this again before one of the two has another SPOTNIK_JOB, or has ended" },
    { SPOTNIK_ERR_DONE,
      "the job is done: the steps or the samples asked for are used up; call spotnik_leave()" },
};

const char *spotnik_version(void)
{
    return SPOTNIK_VERSION;
}

const char *spotnik_strerror(int error)
{
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (texts[i].code == error)
            return texts[i].text;
    return "not an error code of this version of spotnik; header and library may differ";
}

const char *spotnik_last_error(void)
{
    return detail;
}

static void keep(const char *format, va_list arguments)
{
    /* Formatted beside, because an argument may be the very detail that is replaced ("joining:
     * %s"). */
    char text[sizeof detail];
    int errno_before = errno;

    text[0] = 0;
    vsnprintf(text, sizeof text, format, arguments);
    snprintf(detail, sizeof detail, "%s", text);
    errno = errno_before;
}

void spotnik_error_set(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    keep(format, arguments);
    va_end(arguments);
}
