/* SPDX-License-Identifier: Apache-2.0 */
/* Settings: defaults, what SPOTNIK_* says, and which combinations make sense. A program may have
 * been built with an older header, whose struct ends earlier. Fields that it does not have are
 * never written, and read as their defaults. A number in the environment that cannot be read
 * becomes one that no program would set (NOT_A_NUMBER). So the error comes from spotnik_join(),
 * which can report it. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "api/job.h"
#include "base/error.h"
#include "base/time.h"
#include "store/store.h"

#define NOT_A_NUMBER UINT32_MAX
#define MEMBERS_MAX_MAX SPOTNIK_MEMBERS_LIMIT
#define NOT_A_MINORITY ((enum spotnik_minority)99)

static const char *const batching_names[] = { "even", "dynamic" };
static const char *const noise_names[] = { "off", "scale" };
/* On every machine the names of all: one environment may serve machines of several kinds. */
static const char *const cpu_names[] = { "scalar", "avx2", "avx512", "neon" };
static const char *const minority_names[] = { "wait", "stop" };

static const char *word(const char *name)
{
    const char *value = getenv(name);

    return value && *value ? value : NULL;
}

static uint32_t number(const char *name, uint32_t otherwise)
{
    const char *value = word(name);
    char *end;

    if (!value)
        return otherwise;
    errno = 0;
    unsigned long result = strtoul(value, &end, 10);
    return errno || *end || *value == '-' || result >= NOT_A_NUMBER ? NOT_A_NUMBER
                                                                    : (uint32_t)result;
}

static enum spotnik_minority minority(void)
{
    const char *value = word("SPOTNIK_ON_MINORITY");

    for (int i = 0; value && i < 2; i++)
        if (!strcmp(value, minority_names[i]))
            return (enum spotnik_minority)i;
    return value ? NOT_A_MINORITY : SPOTNIK_MINORITY_WAIT;
}

/* Which of these words; 0 where nothing is said, NOT_A_NUMBER for another one. */
static uint32_t choice(const char *name, const char *const *words, uint32_t count)
{
    const char *value = word(name);

    for (uint32_t i = 0; value && i < count; i++)
        if (!strcmp(value, words[i]))
            return i;
    return value ? NOT_A_NUMBER : 0;
}

/* The struct of the first header ended here. */
#define FIRST_SIZE offsetof(spotnik_config, checkpoint_dir)

static void fill(spotnik_config *cfg)
{
    uint32_t silence_ms = number("SPOTNIK_SILENCE_MS", 250);
    uint32_t checkpoint_s = number("SPOTNIK_CHECKPOINT_S", 600);

    *cfg = (spotnik_config){
        .job_name = word("SPOTNIK_JOB") ? word("SPOTNIK_JOB") : "spotnik",
        .key_file = word("SPOTNIK_KEY_FILE"),
        /* also when it is empty, which is a mistake: a script's variable was not set */
        .peers = getenv("SPOTNIK_PEERS"),
        .bind = word("SPOTNIK_BIND") ? word("SPOTNIK_BIND") : "127.0.0.1",
        .members_min = number("SPOTNIK_MIN", 1),
        .members_max = number("SPOTNIK_MAX", 256),
        .silence_floor_ns = silence_ms == NOT_A_NUMBER ? 0 : silence_ms * SPOTNIK_MS,
        .on_minority = minority(),
        .minority_wait_ns = 60 * SPOTNIK_S,
        .checkpoint_dir = word("SPOTNIK_CHECKPOINT"),
        .checkpoint_steps = number("SPOTNIK_CHECKPOINT_STEPS", 0),
        .checkpoint_interval_ns = checkpoint_s == NOT_A_NUMBER ? 0 : checkpoint_s * SPOTNIK_S,
        .checkpoint_keep = 3,
        .batching = (enum spotnik_batching_mode)choice("SPOTNIK_BATCHING", batching_names, 2),
        .noise = choice("SPOTNIK_NOISE", noise_names, 2),
    };
}

void spotnik_config_init_sized(spotnik_config *cfg, size_t size)
{
    spotnik_config all;

    if (!cfg || size < FIRST_SIZE)
        return;
    fill(&all);
    all.size = size < sizeof all ? size : sizeof all;
    memcpy(cfg, &all, all.size);
}

/* Programs that link to this symbol were built with the first header. */
void(spotnik_config_init)(spotnik_config *cfg)
{
    spotnik_config_init_sized(cfg, FIRST_SIZE);
}

uint64_t spotnik_config_silence_ceiling(const spotnik_config *config)
{
    return config->silence_floor_ns > 2 * SPOTNIK_S ? config->silence_floor_ns : 2 * SPOTNIK_S;
}

int spotnik_config_complete(const spotnik_config *config, spotnik_config *ret)
{
    if (!config || config->size < FIRST_SIZE || config->size > sizeof *ret)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                    "fill the config with spotnik_config_init() first");
    fill(ret);
    memcpy(ret, config, config->size);
    ret->size = sizeof *ret;
    return 0;
}

static int wrong(const char *field, const char *variable, const char *what)
{
    const char *value = getenv(variable);

    if (value)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT, "%s (%s is \"%s\") %s", field, variable,
                                    value, what);
    return spotnik_error_return(SPOTNIK_ERR_ARGUMENT, "%s %s", field, what);
}

static int checkpoint_check(const spotnik_config *config)
{
    if (!config->checkpoint_dir)
        return 0;
    if (!*config->checkpoint_dir || strlen(config->checkpoint_dir) > SPOTNIK_CHECKPOINT_DIR_MAX)
        return wrong("checkpoint_dir", "SPOTNIK_CHECKPOINT",
                     "must name a directory or a bucket, in at most 3000 bytes");
    if (config->checkpoint_steps == NOT_A_NUMBER)
        return wrong("checkpoint_steps", "SPOTNIK_CHECKPOINT_STEPS", "must be a number of steps");
    if (!config->checkpoint_steps && config->checkpoint_interval_ns < SPOTNIK_S)
        return wrong("checkpoint_interval_ns", "SPOTNIK_CHECKPOINT_S", "must be 1 second or more");
    if (config->checkpoint_keep < 1 || config->checkpoint_keep == NOT_A_NUMBER)
        return wrong("checkpoint_keep", "", "must be a number from 1");
    return 0;
}

/* Check the options of shares that follow their members' speeds. */
static int dynamic_check(const spotnik_config *config)
{
    uint64_t batch = config->batch ? config->batch : config->batch_per_member;

    if (batch > UINT32_MAX / config->members_max)
        return wrong("batch", "", "is too large for dynamic shares: below 2^32 over all members");
    return 0;
}

static int batching_check(const spotnik_config *config)
{
    if ((unsigned)config->batching > SPOTNIK_BATCHING_DYNAMIC)
        return wrong("batching", "SPOTNIK_BATCHING", "must be even or dynamic");
    if (config->noise > 1)
        return wrong("noise", "SPOTNIK_NOISE", "must be off or scale");
    return config->batching ? dynamic_check(config) : 0;
}

static int members_check(const spotnik_config *config)
{
    if (config->members_max < 1 || config->members_max > MEMBERS_MAX_MAX)
        return wrong("members_max", "SPOTNIK_MAX", "must be a number from 1 to 10000");
    if (config->members_max > SPOTNIK_LEDGER_DEAL_MAX && config->samples)
        return wrong("members_max", "SPOTNIK_MAX",
                     "must be at most 1024 where samples are shared out");
    if (config->members_min < 1 || config->members_min > config->members_max)
        return wrong("members_min", "SPOTNIK_MIN", "must be a number from 1 to members_max");
    if (!config->peers && config->members_min > 1)
        return wrong("members_min", "SPOTNIK_MIN",
                     "can only be 1 in a job without peers; set SPOTNIK_PEERS");
    return 0;
}

static int silence_check(const spotnik_config *config)
{
    if (config->silence_floor_ns < SPOTNIK_MS || config->silence_floor_ns > 3600 * SPOTNIK_S)
        return wrong("silence_floor_ns", "SPOTNIK_SILENCE_MS", "must be from 1 ms to an hour");
    if ((unsigned)config->on_minority > SPOTNIK_MINORITY_STOP)
        return wrong("on_minority", "SPOTNIK_ON_MINORITY", "must be wait or stop");
    return 0;
}

static int batch_check(const spotnik_config *config)
{
    if (config->samples && !config->batch == !config->batch_per_member)
        return wrong("batch", "",
                     "or batch_per_member, one of both, must be 1 or more where samples are given");
    if (config->batch_per_member > SPOTNIK_LEDGER_PER_MEMBER_MAX)
        return wrong("batch_per_member", "", "is larger than any data set");
    return 0;
}

static int names_check(const spotnik_config *config)
{
    if (!config->job_name || !*config->job_name || strlen(config->job_name) > 255)
        return wrong("job_name", "SPOTNIK_JOB", "must have 1 to 255 bytes");
    if (config->peers && !*config->peers)
        return wrong("peers", "SPOTNIK_PEERS",
                     "is empty; write host:port,..., file:DIR, " SPOTNIK_OBJECTS_URLS
                     ", or unset it for a job of this process alone");
    if (config->checkpoint_dir && spotnik_objects_is_foreign(config->checkpoint_dir))
        return wrong("checkpoint_dir", "SPOTNIK_CHECKPOINT",
                     "is of no kind that is known; write a folder, " SPOTNIK_OBJECTS_URLS);
    if (config->peers && !config->key_file)
        return wrong("key_file", "SPOTNIK_KEY_FILE",
                     "is needed to meet others; make one with: spotnik key FILE");
    return 0;
}

/* Here, because a program that leaves the strategy to the environment asks for it as a member, and
 * one that does not never asks. */
static int sync_check(const spotnik_config *config)
{
    (void)config;
    return word("SPOTNIK_SYNC") ? spotnik_sync_name_check(word("SPOTNIK_SYNC")) : 0;
}

/* Refuse a number that cannot be read even where nothing uses it yet: else it fails on the day that
 * its feature is switched on. */
static int unread_check(const spotnik_config *config)
{
    const struct {
        const char *field, *variable;
        uint64_t value;
    } of[] = {
        { "checkpoint_steps", "SPOTNIK_CHECKPOINT_STEPS", config->checkpoint_steps },
        { "checkpoint_interval_ns", "SPOTNIK_CHECKPOINT_S",
          config->checkpoint_interval_ns ? 0 : number("SPOTNIK_CHECKPOINT_S", 0) },
    };

    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        if (of[i].value == NOT_A_NUMBER && word(of[i].variable))
            return wrong(of[i].field, of[i].variable, "must be a number");
    return 0;
}

static int cpu_check(const spotnik_config *config)
{
    const char *tier = word("SPOTNIK_CPU");

    (void)config;
    for (size_t i = 0; tier && i < sizeof cpu_names / sizeof *cpu_names; i++)
        if (!strcmp(tier, cpu_names[i]))
            return 0;
    return tier ? spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                       "SPOTNIK_CPU is \"%.40s\"; it must be scalar, avx2, avx512 "
                                       "or neon",
                                       tier)
                : 0;
}

/* A member has connections to others. With too few files no step would commit, and no member could
 * tell why. `spotnik run` asks for as many (cli/run_host.c). */
static int files_check(const spotnik_config *config)
{
    uint32_t members = config->members_min < 64 ? config->members_min : 64;
    rlim_t wanted = 64 + 4 * members;
    struct rlimit files;

    if (!config->peers || getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= wanted)
        return 0;
    return spotnik_error_return(SPOTNIK_ERR_SYSTEM,
                                "this process may open %llu files, and a member needs %llu; raise "
                                "the limit with: ulimit -n 4096",
                                (unsigned long long)files.rlim_cur, (unsigned long long)wanted);
}

int spotnik_config_check(const spotnik_config *config)
{
    static int (*const check[])(const spotnik_config *) = {
        members_check,  silence_check,    batch_check,  names_check, sync_check,
        batching_check, checkpoint_check, unread_check, cpu_check,   files_check,
    };
    int rc = 0;

    for (size_t i = 0; !rc && i < sizeof check / sizeof *check; i++)
        rc = check[i](config);
    return rc;
}
