/* SPDX-License-Identifier: Apache-2.0 */
/* The files genesis-<n>: which process founded the job for the n-th time. link() lets one process
 * succeed, on network file systems too. Members keep theirs there: a cleaner may take it away, and
 * a newcomer would then take the directory for a fresh one. A lineage that finds a younger genesis
 * has lost the job to it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "link/auth.h"
#include "peers/inside.h"

#define BACK_MAX 8 /* generations that are looked through for our own */

void spotnik_peers_founding_make(const struct spotnik_founding *before, uint64_t generation,
                                 struct spotnik_founding *ret)
{
    *ret = (struct spotnik_founding){ .generation = generation };
    while (ret->id == 0) {
        spotnik_auth_random((uint8_t *)&ret->id, sizeof ret->id);
        ret->id &= ~UINT64_C(1); /* no witness, unless it gets one */
    }
    bool first = before == NULL || before->id == 0;
    ret->root = first ? ret->id : before->root;
    ret->born_ms = first ? spotnik_peers_born_ms() : before->born_ms;
}

struct spotnik_founding spotnik_genesis_lineage(const struct spotnik_sighting *genesis,
                                                uint64_t generation)
{
    const struct spotnik_record *record = &genesis->record;
    if (generation == 0 || genesis->reading != SPOTNIK_READING_RECORD || record->founding == 0)
        return (struct spotnik_founding){ .id = 0 };
    return (struct spotnik_founding){ .id = record->founding,
                                      .root = record->root != 0 ? record->root : record->founding,
                                      .born_ms = record->root != 0 ? record->born_ms
                                                                   : spotnik_peers_born_ms(),
                                      .generation = generation };
}

void spotnik_genesis_adopt(struct spotnik_peers *peers, uint64_t generation, uint64_t founding)
{
    pthread_mutex_lock(&peers->lock);
    peers->generation = generation;
    peers->founding = founding;
    pthread_mutex_unlock(&peers->lock);
}

static int put(struct spotnik_peers *peers, const struct spotnik_founding *founding, uint64_t step,
               bool exclusive)
{
    struct spotnik_credentials credentials = spotnik_peers_credentials(peers);
    struct spotnik_record record = { .member = credentials.self,
                                     .process = peers->process,
                                     .counter = 1,
                                     .generation = founding->generation,
                                     .founding = founding->id,
                                     .root = founding->root,
                                     .born_ms = founding->born_ms,
                                     .step = step,
                                     .standing = SPOTNIK_STANDING_ENTERED };
    char name[64];
    spotnik_genesis_name(founding->generation, name);
    int rc = spotnik_record_write(&credentials, &record, peers->spec.directory, name, exclusive);
    explicit_bzero(&credentials, sizeof credentials);
    return rc;
}

/* A file of a number that no founding made, a copy say, may leave none that others would read. */
int spotnik_genesis_make(struct spotnik_peers *peers, const struct spotnik_founding *founding,
                         uint64_t step)
{
    char name[64];
    spotnik_genesis_name(founding->generation, name);
    int rc = spotnik_genesis_parse(name) == founding->generation ? put(peers, founding, step, true)
                                                                 : -ERANGE;
    if (rc != 0)
        return rc;
    spotnik_genesis_adopt(peers, founding->generation, founding->id);
    pthread_mutex_lock(&peers->lock);
    peers->made = *founding;
    pthread_mutex_unlock(&peers->lock);
    return 0;
}

static enum spotnik_reading genesis_read(struct spotnik_peers *peers, uint64_t generation,
                                         struct spotnik_record *ret)
{
    struct spotnik_credentials credentials = spotnik_peers_credentials(peers);
    char name[64];
    uint64_t print;
    spotnik_genesis_name(generation, name);
    enum spotnik_reading reading =
        spotnik_record_read(&credentials, peers->spec.directory, name, ret, &print, NULL);
    explicit_bzero(&credentials, sizeof credentials);
    return reading;
}

void spotnik_genesis_take_back(struct spotnik_peers *peers, uint64_t generation, uint64_t founding)
{
    struct spotnik_record record;
    char path[PATH_MAX], name[64];
    spotnik_genesis_name(generation, name);
    snprintf(path, sizeof path, "%s/%s", peers->spec.directory, name);
    if (genesis_read(peers, generation, &record) == SPOTNIK_READING_RECORD
        && record.founding == founding)
        unlink(path);
    spotnik_witness_remove(peers->spec.directory, founding);
    spotnik_genesis_adopt(peers, 0, 0);
}

/* Which generation is ours? A joiner knows only the founding. */
static uint64_t generation_learn(struct spotnik_peers *peers, uint64_t highest, uint64_t founding)
{
    struct spotnik_record record;
    for (uint64_t n = highest; n > 0 && n + BACK_MAX > highest; n--)
        if (genesis_read(peers, n, &record) == SPOTNIK_READING_RECORD
            && record.founding == founding) {
            spotnik_genesis_adopt(peers, n, founding);
            return n;
        }
    return 0;
}

/* As the view has it: a cleaner may have taken the file away before we joined. 0: we are in no view
 * of it. */
static uint64_t generation_told(struct spotnik_peers *peers, uint64_t founding)
{
    struct spotnik_presence ours;
    spotnik_engine_presence(peers->engine, &ours);
    if (ours.founding.id != founding)
        return 0;
    spotnik_genesis_adopt(peers, ours.founding.generation, founding);
    return ours.founding.generation;
}

/* We are parked, and the genesis is of another root, younger than ours and founded behind us: a
 * cleaner had taken away ours. Whichever of its members lives yields when we meet
 * (docs/design/0028-lineages.md), so we must not end for it, or both would. */
static bool outlasts(struct spotnik_peers *peers, const spotnik_job_status *status,
                     const struct spotnik_record *genesis)
{
    struct spotnik_presence ours;
    struct spotnik_founding theirs = { .id = genesis->founding,
                                       .root = genesis->root,
                                       .born_ms = genesis->born_ms,
                                       .generation = genesis->generation };
    spotnik_engine_presence(peers->engine, &ours);
    return status->parked && theirs.root != 0 && theirs.root != ours.founding.root
           && status->step_committed > genesis->step
           && spotnik_founding_outranks(&ours.founding, &theirs);
}

/* Another member may be first. What is torn is written over: it told nobody anything. */
static void put_back(struct spotnik_peers *peers, uint64_t generation, uint64_t founding,
                     uint64_t step, bool torn)
{
    struct spotnik_presence ours;
    spotnik_engine_presence(peers->engine, &ours);
    bool known = ours.founding.id == founding;
    struct spotnik_founding lineage = { .id = founding,
                                        .root = known ? ours.founding.root : founding,
                                        .born_ms =
                                            known ? ours.founding.born_ms : spotnik_peers_born_ms(),
                                        .generation = generation };
    (void)put(peers, &lineage, step, !torn);
}

static bool keeps_it(const spotnik_job_status *status)
{
    return !status->parked && status->view_epoch > 0 && !status->joining;
}

/* A file of that name that is no founding: it ends nobody, and of a higher number it lets nobody
 * renew a lease. Ours, when it is damaged, is written anew; one that the server does not let us
 * read may be another's. */
static int no_founding(struct spotnik_peers *peers, const spotnik_job_status *status,
                       uint64_t highest, uint64_t founding, enum spotnik_reading reading)
{
    pthread_mutex_lock(&peers->lock);
    bool ours = peers->generation == highest;
    pthread_mutex_unlock(&peers->lock);
    if (ours && reading == SPOTNIK_READING_TORN && keeps_it(status))
        put_back(peers, highest, founding, status->step_committed, true);
    if (ours && reading != SPOTNIK_READING_UNREADABLE)
        return 0;
    return spotnik_error_return(SPOTNIK_ERR_SYSTEM,
                                "%s/genesis-%llu cannot be read; remove it if it stays so and no "
                                "member of that generation lives",
                                peers->spec.directory, (unsigned long long)highest);
}

/* The youngest genesis, which is not older than ours. */
static int youngest_judge(struct spotnik_peers *peers, const spotnik_job_status *status,
                          uint64_t highest, uint64_t founding, struct spotnik_record *ret)
{
    enum spotnik_reading reading = genesis_read(peers, highest, ret);
    if (reading != SPOTNIK_READING_RECORD)
        return no_founding(peers, status, highest, founding, reading);
    ret->generation = highest;
    if (ret->founding != founding && outlasts(peers, status, ret))
        return 0;
    if (ret->founding != founding)
        return spotnik_error_return(
            SPOTNIK_ERR_LINEAGE,
            "%s/genesis-%llu: the job was founded again without this lineage; this member stops",
            peers->spec.directory, (unsigned long long)highest);
    pthread_mutex_lock(&peers->lock);
    /* an operator may have chosen our lineage again (docs/design/0028-lineages.md) */
    peers->generation = highest;
    pthread_mutex_unlock(&peers->lock);
    return 0;
}

int spotnik_genesis_guard(struct spotnik_peers *peers, const spotnik_job_status *status,
                          struct spotnik_record *ret)
{
    pthread_mutex_lock(&peers->lock);
    uint64_t generation = peers->generation, founding = peers->founding, highest;
    pthread_mutex_unlock(&peers->lock);
    if (founding == 0)
        return 0;
    int rc = spotnik_genesis_highest(peers->spec.directory, &highest);
    if (rc != 0)
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM, "%s cannot be listed",
                                    peers->spec.directory);
    if (generation == 0)
        generation = generation_learn(peers, highest, founding);
    if (generation == 0)
        generation = generation_told(peers, founding);
    if (generation == 0)
        return 0; /* members that know it keep it there */
    if (highest >= generation)
        return youngest_judge(peers, status, highest, founding, ret);
    if (keeps_it(status))
        put_back(peers, generation, founding, status->step_committed, false);
    return 0;
}
