/* SPDX-License-Identifier: Apache-2.0 */
/* SPOTNIK_FROM: the job begins with the checkpoint that its operator names, and not with the newest
 * of its folder. That is how a minority's state becomes the job's, which nothing does by itself. It
 * is for a job that does not live and has got no further: else this process refuses. Members that
 * find the job which another one has just begun from the same checkpoint join it. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/job.h"
#include "base/error.h"
#include "base/time.h"
#include "checkpoint/resume.h"
#include "checkpoint/checkpoint_store.h"
#include "link/address.h"
#include "link/dial.h"

#define ASK_NS (2 * SPOTNIK_S)

void spotnik_job_from_open(struct spotnik_job *job, const char *path)
{
    size_t length = strlen(path);

    while (length > 1 && path[length - 1] == '/')
        length--;
    snprintf(job->from.path, sizeof job->from.path, "%.*s", (int)length, path);
    job->from.due = length > 0;
}

const char *spotnik_job_from_name(const struct spotnik_job *job)
{
    const char *slash = strrchr(job->from.path, '/');

    return slash ? slash + 1 : "";
}

/* ---- a folder that is further ---- */

bool spotnik_job_newer(const struct spotnik_job *job, uint64_t step,
                       struct spotnik_checkpoint_store_entry *ret)
{
    struct spotnik_checkpoint_store_list list;
    bool has = false;

    if (!job->checkpoint || spotnik_checkpoint_store_list(job->checkpoint_dir, &list))
        return false;
    for (uint32_t i = 0; i < list.count && !has && list.entry[i].step > step; i++) {
        struct spotnik_manifest *manifest = calloc(1, sizeof *manifest);

        has = manifest && list.entry[i].written_s
              && !spotnik_checkpoint_verify(job->checkpoint_dir, list.entry[i].name, job->signer,
                                            manifest);
        if (has)
            spotnik_manifest_done(manifest);
        free(manifest);
        *ret = list.entry[i];
    }
    spotnik_checkpoint_store_list_done(&list);
    return has;
}

static int step_read(const struct spotnik_job *job, uint64_t *ret_step)
{
    struct spotnik_manifest *manifest = calloc(1, sizeof *manifest);
    char why[400];

    if (!manifest)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for a manifest");
    int rc = spotnik_checkpoint_manifest_at(job->from.path, job->signer, manifest);

    snprintf(why, sizeof why, "%s", rc ? spotnik_last_error() : "");
    *ret_step = manifest->step;
    if (!rc)
        spotnik_manifest_done(manifest);
    free(manifest);
    return rc ? spotnik_error_return(SPOTNIK_ERR_CHECKPOINT,
                                     "SPOTNIK_FROM (--from) is %s, which cannot be used: %s",
                                     job->from.path, why)
              : 0;
}

int spotnik_job_from_check(const struct spotnik_job *job)
{
    struct spotnik_checkpoint_store_entry newer;
    uint64_t step = 0;
    int rc = job->from.due ? step_read(job, &step) : 0;

    if (rc || !job->from.due || !spotnik_job_newer(job, step, &newer))
        return rc;
    return spotnik_error_return(
        SPOTNIK_ERR_CHECKPOINT,
        "SPOTNIK_FROM (--from) is %s, after step %llu, and the job has gone further, to %s in %s; "
        "start without it to go on from there, or move what is further away",
        spotnik_job_from_name(job), (unsigned long long)step, newer.name, job->checkpoint_dir);
}

/* ---- a job that lives ---- */

/* What a member says of the job; NULL: it does not answer. */
static json_t *status_of(const struct spotnik_job *job, const struct spotnik_member *member)
{
    size_t size;
    char *text;

    if (spotnik_net_question(spotnik_runtime_credentials(job->runtime), member->address,
                             member->port, SPOTNIK_PURPOSE_STATUS, ASK_NS, &text, &size))
        return NULL;
    json_t *answer = json_loadb(text, size, 0, NULL);

    free(text);
    return answer;
}

int spotnik_job_from_compare(const struct spotnik_job *job)
{
    char address[SPOTNIK_ADDRESS_TEXT];
    json_t *answer = job->from.due ? status_of(job, &job->sponsor) : NULL;
    const char *theirs = json_string_value(json_object_get(answer, "from"));
    bool same = !answer || (theirs && !strcmp(theirs, spotnik_job_from_name(job)));
    const char *id = json_string_value(json_object_get(json_object_get(answer, "lineage"), "id"));

    spotnik_address_format(address, job->sponsor.address, job->sponsor.port);
    int rc = same ? 0
                  : spotnik_error_return(
                        SPOTNIK_ERR_LINEAGE,
                        "SPOTNIK_FROM (--from) is %s, and the job lives without it: founding %s, "
                        "%lld members, step %lld, at %s; start without it to join them, or end "
                        "them first",
                        spotnik_job_from_name(job), id ? id : "unknown",
                        (long long)json_integer_value(json_object_get(answer, "size")),
                        (long long)json_integer_value(json_object_get(answer, "step_committed")),
                        address);

    json_decref(answer);
    return rc;
}
