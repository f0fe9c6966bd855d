/* SPDX-License-Identifier: Apache-2.0 */
/* The way from outside into the job: the first join, and again after the others went on without us
 * (we were stopped, or cut off) or our donors were lost. Each time as a new member with a new id,
 * over the same door. */
#include <stdio.h>
#include <time.h>

#include "api/job.h"
#include "api/key.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/time.h"
#include "checkpoint/resume.h"
#include "checkpoint/checkpoint_store.h"

#define REJOIN_TIMEOUT_NS (60 * SPOTNIK_S)
#define LAST_STATE_TIMEOUT_NS (10 * SPOTNIK_S)
#define PAUSE_NS (20 * SPOTNIK_MS)
#define COMING_IN_SHARE 4 /* of the longest silence: one that is near is let in at once, or not */

static bool stop(void *context)
{
    return spotnik_job_is_noticed(context);
}

/* Thread of the joiner: no donor is left. The caller's thread is in step_begin or step_commit; it
 * comes back with PEERS. */
static void lost(void *context)
{
    struct spotnik_job *job = context;

    spotnik_runtime_interrupt(job->runtime);
}

/* A donor that fails at once must not be asked in a tight loop. */
static void pause_a_little(void)
{
    struct timespec pause = { .tv_nsec = PAUSE_NS };

    nanosleep(&pause, NULL);
}

/* After the last step a checkpoint is written, if checkpoints are at all; rank 0 of the last view
 * may be at it now. */
static bool has_last_state(const struct spotnik_job *job)
{
    struct spotnik_checkpoint_store_list list;
    bool has = false;

    if (!job->checkpoint || !job->config.steps_max
        || spotnik_checkpoint_store_list(job->checkpoint_dir, &list))
        return false;
    for (uint32_t i = 0; i < list.count; i++)
        has |= list.entry[i].written_s && list.entry[i].founding == job->registry.founding
               && list.entry[i].step >= job->config.steps_max;
    spotnik_checkpoint_store_list_done(&list);
    return has;
}

/* All others have left in good order. With the last checkpoint this member is where they were;
 * without, it must not look as if it were. */
static int ended(struct spotnik_job *job)
{
    uint64_t until_ns =
        spotnik_time_add(spotnik_clock_ns(), job->checkpoint ? LAST_STATE_TIMEOUT_NS : 0);
    struct spotnik_resume found = { .step = 0 };
    int rc = 0;

    while (!has_last_state(job) && !stop(job) && spotnik_clock_ns() < until_ns)
        pause_a_little();
    if (has_last_state(job))
        rc = spotnik_checkpoint_load(job->checkpoint_dir, job->name, job->signer, &job->registry,
                                     &found);
    if (rc || !found.step || found.step < job->config.steps_max)
        return rc ? rc
                  : spotnik_error_return(SPOTNIK_ERR_PEERS,
                                         "the job is over: all its other members have left in good "
                                         "order, after step "
                                         "%llu or later, and this one was cut off from them; the "
                                         "state here is not the "
                                         "last one",
                                         (unsigned long long)job->committed);
    job->state_loads++;
    job->committed = found.step;
    return spotnik_error_return(SPOTNIK_ERR_DONE,
                                "the job is over; its last state was loaded from checkpoint %s",
                                found.name);
}

static int follow(struct spotnik_job *job, uint64_t step)
{
    struct spotnik_id id;
    int rc = spotnik_key_random(&id, sizeof id);

    if (!rc)
        rc = spotnik_runtime_join(job->runtime, id, step);
    if (rc)
        return rc;
    job->committed = step;
    spotnik_discovery_founding_set(job->peers, job->registry.founding);
    rc = spotnik_discovery_renew(job->peers);
    return rc ? rc : spotnik_joiner_follow(job->joiner);
}

/* A later founder has the job. */
static int enter_folder(struct spotnik_job *job)
{
    int rc = spotnik_discovery_renew(job->peers);

    if (rc != SPOTNIK_ERR_PEERS || spotnik_discovery_is_youngest(job->peers))
        return rc;
    return spotnik_error_return(
        SPOTNIK_ERR_LINEAGE,
        "the job was founded again by another member while this one did so; this member stops");
}

/* No other member can be alive: this one begins the next life of the job, with its own state
 * (src/discovery/partition_scan.c). It takes a new id, since the view that cannot go on knows the
 * old one. */
static int refound(struct spotnik_job *job)
{
    struct spotnik_id id;
    bool resumed = false;
    int rc = spotnik_key_random(&id, sizeof id);

    if (rc)
        return rc;
    struct spotnik_founding founding = spotnik_discovery_lineage(job->peers);
    job->registry.founding = founding.id;
    /* Enter the view before writing to the folder, which may take long. Else others would find a
     * process of another id at this address, in no view, and take it for a proof that the founder
     * has died. Until then the old record leads here. */
    spotnik_runtime_rename(job->runtime, id);
    rc = spotnik_runtime_found(job->runtime, &job->kept_ledger, &founding);
    if (!rc)
        rc = enter_folder(job);
    if (!rc)
        rc = spotnik_job_resume_newer(job, &resumed);
    if (rc)
        return rc;
    if (!resumed)
        spotnik_runtime_resume(job->runtime, job->committed, &job->kept_ledger);
    spotnik_discovery_refounded(job->peers);
    job->outside = false;
    return 0;
}

/* As after a notice: a program that has no state must end without the words and files of one that
 * has. The agent counts it as done. */
int spotnik_job_late(struct spotnik_job *job)
{
    char why[400];

    snprintf(why, sizeof why, "%s", spotnik_last_error());
    spotnik_runtime_tell_over(job->runtime, true);
    return spotnik_error_return(SPOTNIK_ERR_LEAVING, "%s", why);
}

/* The next member to ask: one of the last view we heard of, each once; then those that the peers
 * name. *ret_found: no member that this process knew of at its start lives, and it may begin the
 * job. */
static int find(struct spotnik_job *job, uint64_t timeout_ns, bool *ret_found)
{
    *ret_found = false;
    if (job->has_sponsor)
        return 0;
    if (job->known_at < job->known_count) {
        job->sponsor = job->known[job->known_at++];
        return 0;
    }
    return spotnik_discovery_find(job->peers, !job->was_in && !job->has_copied, timeout_ns, stop,
                                  job, ret_found, &job->sponsor);
}

/* The member that we wanted to join died before it gave us anything. */
static int found(struct spotnik_job *job)
{
    bool resumed;
    int rc = spotnik_job_found(job);

    if (!rc)
        rc = spotnik_job_resume_newer(job, &resumed);
    job->founder = false;
    return rc;
}

static int copy(struct spotnik_job *job)
{
    uint64_t step;
    int rc = spotnik_joiner_copy(job->joiner, &job->sponsor, &step);

    job->has_copied |= spotnik_joiner_has_written(job->joiner);
    if (rc)
        return rc;
    job->from.due = false;
    job->state_loads++;
    return follow(job, step);
}

static int try_once(struct spotnik_job *job, uint64_t timeout_ns)
{
    struct spotnik_joiner_config config = {
        .registry = &job->registry,
        .runtime = job->runtime,
        .patience_ns = spotnik_config_silence_ceiling(&job->config) / COMING_IN_SHARE,
        .stop = stop,
        .lost = lost,
        .context = job
    };
    bool founds;
    int rc = find(job, timeout_ns, &founds);

    if (rc == SPOTNIK_ERR_DONE)
        return spotnik_job_late(job);
    if (!rc && founds)
        return found(job);
    if (!rc)
        rc = spotnik_joiner_new(&config, &job->joiner);
    if (rc)
        return rc;
    job->has_sponsor = false;
    rc = copy(job);
    if (rc) {
        spotnik_joiner_free(job->joiner);
        job->joiner = NULL;
    }
    return rc;
}

/* ---- excluded again and again ---- */

#define FLAP_NS (60 * SPOTNIK_S) /* a member that stays in the view for this long begins anew */
#define STRIKES_MAX 6

static void pausing_set(struct spotnik_job *job, uint64_t ns)
{
    char text[sizeof job->pausing] = "";

    if (ns)
        snprintf(text, sizeof text,
                 "excluded %u times, each time soon after it had come back: it waits %.0f s before "
                 "it joins again; look at its "
                 "processors and its network",
                 job->strikes + 1, (double)ns / 1e9);
    spotnik_job_pausing_set(job, text);
}

uint64_t spotnik_rejoin_pause_ns(uint32_t strikes)
{
    if (!strikes)
        return 0;
    return SPOTNIK_S << ((strikes < STRIKES_MAX ? strikes : STRIKES_MAX) - 1);
}

/* Each time it comes in and goes, all others pay for two view changes. */
static void pause_growing(struct spotnik_job *job)
{
    uint64_t pause_ns = spotnik_rejoin_pause_ns(job->strikes),
             until_ns = spotnik_time_add(spotnik_clock_ns(), pause_ns);

    pausing_set(job, pause_ns);
    while (spotnik_clock_ns() < until_ns && !stop(job))
        pause_a_little();
    pausing_set(job, 0);
}

/* A joiner that was never let in (its donors were lost, say) has cost no view: its pause does not
 * grow. */
static void strike(struct spotnik_job *job)
{
    spotnik_job_status status;
    bool soon =
        job->returned_ns && spotnik_time_since(spotnik_clock_ns(), job->returned_ns) < FLAP_NS;

    spotnik_runtime_status(job->runtime, &status);
    if (!soon)
        job->strikes = 0;
    else if (!status.joining)
        job->strikes++;
}

/* All others are gone, or out of reach. What it holds may be the newest state, or miss steps that
 * they made: only its user can tell. */
static int left_alone(const struct spotnik_job *job)
{
    char last[200];

    snprintf(last, sizeof last, "%s", spotnik_last_error());
    return spotnik_error_return(
        SPOTNIK_ERR_PEERS,
        "the others went on without this member after its step %llu, and none of them was found in "
        "%llu s (%s); start this program again, to go on from the newest checkpoint; if its state "
        "is newer, save it first",
        (unsigned long long)job->committed, (unsigned long long)(REJOIN_TIMEOUT_NS / SPOTNIK_S),
        last);
}

int spotnik_job_rejoin(struct spotnik_job *job)
{

    if (!job->peers)
        return spotnik_error_return(SPOTNIK_ERR_PEERS,
                                    "a job of one has no other member to join again");
    if (spotnik_discovery_refounds(job->peers) && !job->has_ledger)
        return spotnik_error_return(
            SPOTNIK_ERR_PEERS,
            "no other member is left, and the last result was lost with them: start this "
            "member again, to go on from the newest checkpoint");
    if (spotnik_discovery_refounds(job->peers))
        return refound(job);
    pause_growing(job);
    uint64_t begun_ns = spotnik_clock_ns();

    while (!spotnik_discovery_is_over(job->peers)) {
        uint64_t spent_ns = spotnik_time_since(spotnik_clock_ns(), begun_ns);

        if (spotnik_job_is_noticed(job))
            return spotnik_error_return(SPOTNIK_ERR_LEAVING,
                                        "a notice came before this member was in the job");
        if (spent_ns >= REJOIN_TIMEOUT_NS) /* the detail of the last attempt stands */
            return job->was_in ? left_alone(job) : SPOTNIK_ERR_PEERS;
        int rc = try_once(job, REJOIN_TIMEOUT_NS - spent_ns);

        if (!rc) {
            job->outside = false;
            job->returned_ns = job->was_in ? spotnik_clock_ns() : 0;
            job->was_in = true;
            (void)spotnik_job_hold(job, false); /* the founder has it, or could not have it */
        }
        if (rc != SPOTNIK_ERR_PEERS)
            return rc;
        pause_a_little();
    }
    return spotnik_job_is_noticed(job) ? SPOTNIK_ERR_LEAVING : ended(job);
}

void spotnik_job_exclude(struct spotnik_job *job)
{
    uint64_t epoch;

    strike(job);
    job->was_in = true;
    spotnik_counters_excluded(&job->shown.counters, job->begun ? job->pace.computed_ns : 0);
    spotnik_runtime_interrupt(job->runtime);
    spotnik_joiner_free(job->joiner);
    job->joiner = NULL;
    spotnik_donor_reset(job->donor);
    spotnik_p2p_reset(job->p2p);
    if (job->checkpoint)
        spotnik_checkpoint_reset(job->checkpoint);
    job->outside = true;
    job->has_sponsor = false;
    job->known_count =
        spotnik_runtime_members(job->runtime, job->known, SPOTNIK_MEMBERS_KNOWN, &epoch);
    /* where a younger founding has taken the place of our lineage, most of them are dead, and each
     * costs a dial in vain; the search finds the founder by its record, and asks all at once */
    job->known_at =
        job->peers && spotnik_discovery_is_superseded(job->peers) ? job->known_count : 0;
    job->begun = job->excluded = false;
    job->has_ledger = spotnik_runtime_ledger(job->runtime, job->committed, &job->kept_ledger);
    spotnik_runtime_forget(job->runtime);
}
