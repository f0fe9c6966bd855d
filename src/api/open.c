/* SPDX-License-Identifier: Apache-2.0 */
/* Opening the acceptor of a new member: its id, its key, its address, and the runtime with the
 * hooks through which it asks for state, status and snapshots. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/job.h"
#include "api/key.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/secret.h"
#include "base/time.h"
#include "link/address.h"
#include "store/store.h"
#include "wire/frame.h"

#define STALL_NS (60 * SPOTNIK_S) /* a step that waits for its commit for longer is dumped */

/* Members of one host find each other by the boot id of its kernel and the network that they live
 * in. Containers of one machine share the first, but not their loopback addresses. */
static uint64_t host_id(void)
{
    char text[64];
    struct stat network = { 0 };
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? 0 : read(fd, text, sizeof text);

    if (fd >= 0)
        close(fd);
    if (size <= 0 && gethostname(text, sizeof text) == 0)
        size = (ssize_t)strnlen(text, sizeof text);
    if (size <= 0)
        return 0;
    return stat("/proc/self/ns/net", &network)
               ? spotnik_hash_bytes(text, (size_t)size)
               : spotnik_hash_bytes(text, (size_t)size) ^ network.st_ino;
}

/* SPOTNIK_HOST: only members that say the same share memory, though they may be of one machine. For
 * tests with several hosts on one machine, and for jobs in parts of a machine that are far apart.
 * It never makes one host of two machines. */
static uint64_t host_part(uint64_t host)
{
    const char *name = getenv("SPOTNIK_HOST");

    return name && *name ? host ^ spotnik_hash_bytes(name, strlen(name)) : host;
}

/* Says of the last error that it is about our own address, and not about those of others. */
static int bind_error(void)
{
    char why[400];

    snprintf(why, sizeof why, "%s", spotnik_last_error());
    return spotnik_error_return(SPOTNIK_ERR_ARGUMENT, "bind (SPOTNIK_BIND): %s", why);
}

static int place(const char *text, struct spotnik_member *self)
{
    self->port = 0;
    int rc = spotnik_address_parse(text ? text : "127.0.0.1", self->address, &self->port);

    if (rc)
        return bind_error();
    if (spotnik_address_is_any(self->address))
        return spotnik_error_return(
            SPOTNIK_ERR_ARGUMENT,
            "bind (SPOTNIK_BIND) must name one address by which the others reach this host, "
            "not all of them: %s",
            text);
    return 0;
}

/* A job of one draws its own key, unless it has a key file. */
static int fill(const spotnik_config *config, uint8_t *key, struct spotnik_credentials *credentials)
{
    if (!key)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for the job key");
    credentials->key = key;
    spotnik_job_hash(config->job_name, credentials->job);
    credentials->self.host = host_part(host_id());
    int rc = spotnik_key_random(&credentials->self.id, sizeof credentials->self.id);

    bool has_old = false;

    if (!rc)
        rc = config->key_file ? spotnik_key_read_pair(config->key_file, key, &has_old)
                              : spotnik_key_random(key, SPOTNIK_KEY_BYTES);
    credentials->old_key = has_old ? key + SPOTNIK_KEY_BYTES : NULL;
    if (!rc)
        rc = spotnik_tls_settings_read(&credentials->tls);
    return rc ? rc : place(config->bind, &credentials->self);
}

static void on_state_connection(void *context, struct spotnik_duplex *duplex,
                                const struct spotnik_member *peer)
{
    struct spotnik_job *job = context;

    (void)peer;
    spotnik_donor_accept(job->donor, duplex);
}

static void on_p2p_connection(void *context, struct spotnik_duplex *duplex,
                              const struct spotnik_member *peer)
{
    struct spotnik_job *job = context;

    spotnik_p2p_accept(job->p2p, duplex, peer);
}

static void on_view(void *context)
{
    struct spotnik_job *job = context;

    spotnik_p2p_view(job->p2p);
    spotnik_watch_wake(__atomic_load_n(&job->watch, __ATOMIC_ACQUIRE));
}

static void on_stable(void *context, uint64_t step)
{
    struct spotnik_job *job = context;

    spotnik_donor_stable(job->donor, step);
}

static void on_boundary(void *context, uint64_t committed, bool waiting)
{
    struct spotnik_job *job = context;

    spotnik_donor_boundary(job->donor, committed, waiting);
    if (job->checkpoint)
        spotnik_checkpoint_boundary(job->checkpoint, committed,
                                    job->continues ? SPOTNIK_BOUNDARY_WITHIN
                                                   : SPOTNIK_BOUNDARY_BETWEEN);
}

static void on_committed(void *context, uint64_t step, uint32_t bucket_count,
                         const struct spotnik_bucket_result *result)
{
    struct spotnik_job *job = context;

    /* first: what follows may write to registered memory, of which copies end here */
    spotnik_donor_committed(job->donor, step, bucket_count, result);
    if (job->checkpoint)
        spotnik_checkpoint_committed(job->checkpoint, step);
    spotnik_collectives_deliver(job->collectives, bucket_count, result);
    spotnik_step_stats_deliver(job, step, bucket_count, result);
    spotnik_batching_committed(job, step, bucket_count, result);
}

static void fill_limits(const spotnik_config *config, struct spotnik_limits *limits)
{
    spotnik_limits_init(limits, config->members_max);
    limits->silence_floor_ns = config->silence_floor_ns;
    limits->silence_ceiling_ns = spotnik_config_silence_ceiling(config);
    limits->hierarchy = true;
}

/* SPOTNIK_DUMP names a folder, or is "off"; else dumps are beside the checkpoints, if they are in a
 * folder. */
static const char *dumps_dir(const spotnik_config *config, char *path, size_t size)
{
    const char *wanted = getenv("SPOTNIK_DUMP");

    if (wanted && *wanted)
        return wanted + (strncmp(wanted, "file:", 5) ? 0 : 5);
    if (!config->checkpoint_dir || spotnik_objects_is_bucket(config->checkpoint_dir))
        return NULL;
    snprintf(path, size, "%s/dumps", config->checkpoint_dir);
    return path;
}

int spotnik_job_open(struct spotnik_job *job, const spotnik_config *config)
{
    char dumps[SPOTNIK_CHECKPOINT_DIR_MAX + 16];
    const char *trace = getenv("SPOTNIK_TRACE");
    struct spotnik_runtime_config runtime = {
        .members_min = config->members_min,
        .samples = config->samples,
        /* What the founder says of the data counts: spotnik_runtime_found(), then the views. */
        .batch = config->batch ? config->batch : config->batch_per_member,
        .on_minority = config->on_minority,
        .minority_wait_ns = config->minority_wait_ns,
        .transport = getenv("SPOTNIK_TRANSPORT"),
        .channels = getenv("SPOTNIK_LANES"),
        .dumps = dumps_dir(config, dumps, sizeof dumps),
        .stall_ns = STALL_NS,
        .trace = trace && *trace ? trace : NULL,
        .trace_epoch_us = (uint64_t)(spotnik_watch_date() * 1e6) - spotnik_clock_ns() / 1000,
        .hooks = { .context = job,
                   .state_connection = on_state_connection,
                   .exchange_connection = on_p2p_connection,
                   .view_installed = on_view,
                   .step_stable = on_stable,
                   .boundary = on_boundary,
                   .committed = on_committed,
                   .deal = job->batching ? spotnik_batching_deal : NULL,
                   .status_text = spotnik_job_status_text },
    };
    struct spotnik_runtime *opened = NULL;
    if (runtime.dumps && strstr(runtime.dumps, "://"))
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                    "SPOTNIK_DUMP (--dump) is %.200s: dumps need a folder; name "
                                    "one, or off",
                                    runtime.dumps);
    job->key = spotnik_secret_new(SPOTNIK_KEY_PAIR_BYTES);
    int rc = fill(config, job->key, &runtime.credentials);

    if (!rc)
        rc = spotnik_key_signer(config->key_file, job->signer);
    fill_limits(config, &runtime.limits);
    runtime.limits.deals = job->batching != NULL;
    if (!rc)
        rc = spotnik_donor_new(&job->registry, runtime.limits.chunk_bytes, &job->donor);
    if (!rc)
        rc = spotnik_p2p_new(spotnik_config_silence_ceiling(config), &job->p2p);
    if (!rc)
        rc = spotnik_runtime_new(&runtime, &opened);
    if (rc)
        return rc;
    /* the progress thread looks at it already */
    __atomic_store_n(&job->runtime, opened, __ATOMIC_RELEASE);
    spotnik_donor_attach(job->donor, opened);
    spotnik_p2p_attach(job->p2p, opened);
    return 0;
}
