/* SPDX-License-Identifier: Apache-2.0 */
/* Questions to members. */
#include "question.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/key.h"
#include "base/secret.h"
#include "base/time.h"
#include "link/address.h"
#include "discovery/discovery.h"
#include "printable.h"

static const char *said(const char *option, const char *variable, const char *otherwise)
{
    const char *value = option ? option : getenv(variable);

    return value && *value ? value : otherwise;
}

bool job_at_fill(const char *peers, const char *key_file, const char *job, struct job_at *ret)
{
    snprintf(ret->peers, sizeof(ret->peers), "%s", said(peers, "SPOTNIK_PEERS", ""));
    snprintf(ret->key_file, sizeof(ret->key_file), "%s", said(key_file, "SPOTNIK_KEY_FILE", ""));
    snprintf(ret->job, sizeof(ret->job), "%s", said(job, "SPOTNIK_JOB", "spotnik"));
    return ret->peers[0] && ret->key_file[0];
}

/* A command asks one job, whose key stands here until the command ends. */
static uint8_t *key_memory(void)
{
    static uint8_t *memory;

    if (!memory)
        memory = spotnik_secret_new(SPOTNIK_KEY_BYTES);
    return memory;
}

bool question_credentials(const struct job_at *at, struct spotnik_credentials *ret)
{
    *ret = (struct spotnik_credentials){ .key = key_memory(), .self = { .port = 1 } };
    spotnik_job_hash(at->job, ret->job);
    return ret->key && spotnik_tls_settings_read(&ret->tls) == 0
           && spotnik_key_read_to_ask(at->key_file, ret->key, &ret->observes) == 0
           && spotnik_key_random(&ret->self.id, sizeof(ret->self.id)) == 0;
}

bool question_members(const struct job_at *at, const struct spotnik_credentials *credentials,
                      struct spotnik_member *ret, uint32_t *ret_count)
{
    *ret_count = 0;
    return spotnik_discovery_list(at->peers, credentials, ret, QUESTION_MEMBERS_MAX, ret_count)
           == 0;
}

json_t *question_ask(const struct spotnik_credentials *credentials,
                     const struct spotnik_member *member, uint64_t timeout_ns)
{
    char *text;
    size_t size;

    if (spotnik_net_question(credentials, member->address, member->port, SPOTNIK_PURPOSE_STATUS,
                             timeout_ns, &text, &size))
        return NULL;
    json_t *answer = json_loadb(text, size, 0, NULL);
    free(text);
    json_make_printable(answer);
    return answer;
}

json_t *question_first(const struct spotnik_credentials *credentials,
                       const struct spotnik_member *member, uint32_t count)
{
    json_t *kept = NULL;

    for (uint32_t i = 0; i < count; i++) {
        json_t *answer = question_ask(credentials, &member[i], 2 * SPOTNIK_S);

        if (answer && json_whole(answer, "size") > 0
            && !json_is_true(json_object_get(answer, "joining"))) {
            json_decref(kept);
            return answer;
        }
        if (kept)
            json_decref(answer);
        else
            kept = answer;
    }
    return kept;
}

/* ---- paths ---- */

/* One member that is asked by a thread of its own: those behind a broken path are silent, and take
 * as long as we wait. */
struct path_asked {
    const struct spotnik_credentials *credentials;
    struct spotnik_member member;
    pthread_t thread;
    json_t *answer;
};

static void *path_ask(void *context)
{
    struct path_asked *asked = context;

    asked->answer = question_ask(asked->credentials, &asked->member, SPOTNIK_S);
    return NULL;
}

static void path_add(json_t *paths, const json_t *answer, const struct spotnik_member *member)
{
    char address[SPOTNIK_ADDRESS_TEXT];

    if (!*json_words(answer, "path"))
        return;
    spotnik_address_format(address, member->address, member->port);
    json_array_append_new(paths, json_pack("{s:s, s:s, s:I}", "address", address, "path",
                                           json_words(answer, "path"), "path_age_ns",
                                           (json_int_t)json_whole(answer, "path_age_ns")));
}

json_t *question_paths(const struct spotnik_credentials *credentials, const json_t *answer)
{
    struct path_asked asked[QUESTION_PATHS_MAX] = { { .credentials = NULL } };
    struct spotnik_member member[QUESTION_PATHS_MAX];
    uint32_t count = question_named(answer, member, QUESTION_PATHS_MAX);
    json_t *paths = json_array();

    for (uint32_t i = 0; i < count; i++) {
        asked[i] = (struct path_asked){ .credentials = credentials, .member = member[i] };
        if (i != (uint32_t)json_whole(answer, "rank")
            && pthread_create(&asked[i].thread, NULL, path_ask, &asked[i]))
            asked[i].credentials = NULL; /* no thread for it */
    }
    for (uint32_t i = 0; i < count; i++) {
        bool answers = i == (uint32_t)json_whole(answer, "rank");
        if (!answers && asked[i].credentials)
            pthread_join(asked[i].thread, NULL);
        path_add(paths, answers ? answer : asked[i].answer, &member[i]);
        json_decref(asked[i].answer);
    }
    return paths;
}

uint32_t question_named(const json_t *answer, struct spotnik_member *ret, uint32_t max)
{
    const json_t *list = json_object_get(answer, "members"), *entry;
    uint32_t count = 0;
    size_t index;

    json_array_foreach(list, index, entry)
    {
        if (count == max)
            break;
        ret[count] = (struct spotnik_member){ .port = 0 };
        sscanf(json_words(entry, "member"), "%16lx%16lx", &ret[count].id.high, &ret[count].id.low);
        if (spotnik_address_parse(json_words(entry, "address"), ret[count].address,
                                  &ret[count].port)
            == 0) {
            ret[count].port = (uint16_t)json_whole(entry, "port");
            count++;
        }
    }
    return count;
}

long long json_whole(const json_t *object, const char *name)
{
    return (long long)json_integer_value(json_object_get(object, name));
}

double json_part(const json_t *object, const char *name)
{
    return json_number_value(json_object_get(object, name));
}

const char *json_words(const json_t *object, const char *name)
{
    const char *value = json_string_value(json_object_get(object, name));

    return value ? value : "";
}
