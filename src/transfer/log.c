/* SPDX-License-Identifier: Apache-2.0 */
/* Committed results kept for joiners. */
#include "transfer/log.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "transfer/registry.h"

static bool is_used(const struct spotnik_bucket_result *result)
{
    return result->data || result->dtype;
}

static uint64_t bytes_of(const struct spotnik_bucket_result *result)
{
    return result->count * spotnik_registry_element_bytes(result->dtype);
}

static void measure(uint32_t bucket_count, const struct spotnik_bucket_result *result,
                    uint32_t *ret_used, uint64_t *ret_bytes)
{
    *ret_used = 0;
    *ret_bytes = 0;
    for (uint32_t i = 0; i < bucket_count; i++)
        if (is_used(&result[i])) {
            *ret_used += 1;
            *ret_bytes += bytes_of(&result[i]);
        }
}

struct spotnik_log_entry *spotnik_log_entry_new(uint64_t step, uint32_t bucket_count,
                                                const struct spotnik_bucket_result *result)
{
    uint32_t used;
    uint64_t bytes;

    measure(bucket_count, result, &used, &bytes);
    struct spotnik_log_entry *entry =
        malloc(sizeof *entry + used * sizeof entry->bucket[0] + bytes);
    if (!entry)
        return NULL;
    *entry = (struct spotnik_log_entry){ .step = step, .bytes = bytes, .references = 1 };
    uint8_t *at = (uint8_t *)&entry->bucket[used];
    for (uint32_t i = 0; i < bucket_count; i++) {
        if (!is_used(&result[i]))
            continue;
        struct spotnik_log_bucket *bucket = &entry->bucket[entry->bucket_count++];

        *bucket = (struct spotnik_log_bucket){
            i, result[i].dtype, result[i].op, result[i].count, bytes_of(&result[i]), at
        };
        if (bucket->bytes)
            memcpy(at, result[i].data, bucket->bytes);
        at += bucket->bytes;
    }
    return entry;
}

void spotnik_log_append(struct spotnik_log *log, struct spotnik_log_entry *entry)
{
    SPOTNIK_ASSERT(!log->last || entry->step == log->last->step + 1);
    if (log->last)
        log->last->next = entry;
    else
        log->first = entry;
    log->last = entry;
    log->bytes += entry->bytes;
}

struct spotnik_log_entry *spotnik_log_hold(struct spotnik_log *log, uint64_t step)
{
    for (struct spotnik_log_entry *entry = log->first; entry; entry = entry->next)
        if (entry->step == step) {
            entry->references++;
            return entry;
        }
    return NULL;
}

void spotnik_log_release(struct spotnik_log_entry *entry)
{
    SPOTNIK_ASSERT(entry->references);
    if (--entry->references == 0)
        free(entry);
}

void spotnik_log_prune(struct spotnik_log *log, uint64_t step)
{
    while (log->first && log->first->step < step) {
        struct spotnik_log_entry *entry = log->first;

        log->first = entry->next;
        if (!log->first)
            log->last = NULL;
        log->bytes -= entry->bytes;
        spotnik_log_release(entry);
    }
}
