/* SPDX-License-Identifier: Apache-2.0 */
/* Settings: defaults, what SPOTNIK_* says, and which combinations make sense. A number in the environment
 * that cannot be read becomes one that no program would set (NOT_A_NUMBER), so that the error comes from
 * spotnik_join(), where it can be reported. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/job.h"
#include "base/error.h"
#include "base/time.h"

#define NOT_A_NUMBER UINT32_MAX
#define MEMBERS_MAX_MAX 1024
#define NOT_A_MINORITY ((enum spotnik_minority)99)

static const char *const minority_names[] = { "wait", "continue", "stop" };

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
    return errno || *end || *value == '-' || result >= NOT_A_NUMBER ? NOT_A_NUMBER : (uint32_t)result;
}

static enum spotnik_minority minority(void)
{
    const char *value = word("SPOTNIK_ON_MINORITY");

    for (int i = 0; value && i < 3; i++)
        if (!strcmp(value, minority_names[i]))
            return (enum spotnik_minority)i;
    return value ? NOT_A_MINORITY : SPOTNIK_MINORITY_WAIT;
}

void spotnik_config_init(spotnik_config *cfg)
{
    if (!cfg)
        return;
    uint32_t silence_ms = number("SPOTNIK_SILENCE_MS", 250);

    *cfg = (spotnik_config){
        .size = sizeof *cfg,
        .job_name = word("SPOTNIK_JOB") ? word("SPOTNIK_JOB") : "spotnik",
        .key_file = word("SPOTNIK_KEY_FILE"),
        .peers = word("SPOTNIK_PEERS"),
        .bind = word("SPOTNIK_BIND") ? word("SPOTNIK_BIND") : "127.0.0.1",
        .members_min = number("SPOTNIK_MIN", 1),
        .members_max = number("SPOTNIK_MAX", 256),
        .silence_floor_ns = silence_ms == NOT_A_NUMBER ? 0 : silence_ms * SPOTNIK_MS,
        .silence_ceiling_ns = 2 * SPOTNIK_S,
        .on_minority = minority(),
        .minority_wait_ns = 60 * SPOTNIK_S,
    };
    if (cfg->silence_ceiling_ns < cfg->silence_floor_ns)
        cfg->silence_ceiling_ns = cfg->silence_floor_ns;
}

static int wrong(const char *field, const char *variable, const char *what)
{
    const char *value = word(variable);

    if (value)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT, "%s (%s is \"%s\") %s", field, variable, value,
                                    what);
    return spotnik_error_return(SPOTNIK_ERR_ARGUMENT, "%s %s", field, what);
}

int spotnik_config_check(const spotnik_config *config)
{
    if (!config || config->size != sizeof *config)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT, "fill the config with spotnik_config_init() first");
    if (!config->job_name || !*config->job_name || strlen(config->job_name) > 255)
        return wrong("job_name", "SPOTNIK_JOB", "must have 1 to 255 bytes");
    if (config->members_max < 1 || config->members_max > MEMBERS_MAX_MAX)
        return wrong("members_max", "SPOTNIK_MAX", "must be a number from 1 to 1024");
    if (config->members_min < 1 || config->members_min > config->members_max)
        return wrong("members_min", "SPOTNIK_MIN", "must be a number from 1 to members_max");
    if (config->silence_floor_ns < SPOTNIK_MS || config->silence_floor_ns > 3600 * SPOTNIK_S)
        return wrong("silence_floor_ns", "SPOTNIK_SILENCE_MS", "must be from 1 ms to an hour");
    if (config->silence_ceiling_ns < config->silence_floor_ns)
        return wrong("silence_ceiling_ns", "", "must not be below silence_floor_ns");
    if ((unsigned)config->on_minority > SPOTNIK_MINORITY_STOP)
        return wrong("on_minority", "SPOTNIK_ON_MINORITY", "must be wait, continue or stop");
    if (config->samples && !config->batch)
        return wrong("batch", "", "must be 1 or more where samples are given");
    if (config->peers && !config->key_file)
        return wrong("key_file", "SPOTNIK_KEY_FILE",
                     "is needed to meet others; make one with: spotnik key FILE");
    if (!config->peers && config->members_min > 1)
        return wrong("members_min", "SPOTNIK_MIN", "can only be 1 in a job without peers; set SPOTNIK_PEERS");
    return 0;
}
