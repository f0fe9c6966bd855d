/* SPDX-License-Identifier: Apache-2.0 */
/* Looking at a directory again and again. See watcher.h. */
#include "discovery/watcher.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "discovery/inside.h"
#include "base/still.h"

uint64_t spotnik_founding_record_parse(const char *name)
{
    char *end;
    if (strncmp(name, "genesis-", 8) != 0 || name[8] < '1' || name[8] > '9'
        || strlen(name) > 8 + 18)
        return 0;
    uint64_t generation = strtoull(name + 8, &end, 10);
    return *end == '\0' ? generation : 0;
}

void spotnik_founding_record_name(uint64_t generation, char name[64])
{
    snprintf(name, 64, "genesis-%llu", (unsigned long long)generation);
}

/* ---- names ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct spotnik_watcher_entry *)a)->name,
                  ((const struct spotnik_watcher_entry *)b)->name);
}

static struct spotnik_watcher_entry *find(const struct spotnik_watcher *watch, uint32_t count,
                                          const char *name)
{
    struct spotnik_watcher_entry key;
    snprintf(key.name, sizeof key.name, "%s", name);
    return count > 0 ? bsearch(&key, watch->entry, count, sizeof key, by_name) : NULL;
}

const struct spotnik_watcher_entry *spotnik_watcher_find(const struct spotnik_watcher *watch,
                                                         struct spotnik_id id)
{
    char name[64];
    spotnik_record_name(id, name);
    return find(watch, watch->count, name);
}

static int add(struct spotnik_watcher *watch, const char *name)
{
    if (watch->count == watch->capacity) {
        uint32_t capacity = watch->capacity > 0 ? 2 * watch->capacity : 16;
        struct spotnik_watcher_entry *grown = realloc(watch->entry, capacity * sizeof *grown);
        if (grown == NULL)
            return -ENOMEM;
        watch->entry = grown;
        watch->capacity = capacity;
    }
    struct spotnik_watcher_entry *entry = &watch->entry[watch->count++];
    memset(entry, 0, sizeof *entry);
    entry->reading = SPOTNIK_READING_ABSENT; /* not read yet */
    snprintf(entry->name, sizeof entry->name, "%s", name);
    return 0;
}

/* A directory that is written to may name a file twice. */
static void sort(struct spotnik_watcher *watch)
{
    uint32_t kept = 0;
    if (watch->count > 0)
        qsort(watch->entry, watch->count, sizeof *watch->entry, by_name);
    for (uint32_t i = 0; i < watch->count; i++)
        if (kept == 0 || strcmp(watch->entry[kept - 1].name, watch->entry[i].name) != 0)
            watch->entry[kept++] = watch->entry[i];
    watch->count = kept;
}

struct names {
    struct spotnik_watcher *watch; /* the names of records go there; NULL: nowhere */
    uint32_t known;
    uint64_t highest;
};

static int name_note(void *context, const char *name)
{
    struct names *names = context;
    uint64_t generation = spotnik_founding_record_parse(name);
    names->highest = generation > names->highest ? generation : names->highest;
    if (names->watch != NULL && strncmp(name, "member-", 7) == 0
        && find(names->watch, names->known, name) == NULL)
        return add(names->watch, name);
    return 0;
}

int spotnik_founding_record_highest(struct spotnik_objects *store, uint64_t *ret_generation)
{
    struct names names = { .watch = NULL };
    int rc = spotnik_objects_list(store, name_note, &names);
    *ret_generation = names.highest;
    return rc;
}

/* Files that it misses while they are replaced stay as they are: each is looked at by its name. */
static int names_read(struct spotnik_watcher *watch, struct spotnik_objects *store)
{
    struct names names = { .watch = watch, .known = watch->count };
    int rc = spotnik_objects_list(store, name_note, &names);
    if (watch->count > names.known)
        sort(watch);
    if (rc == 0 && watch->generation != names.highest) {
        memset(&watch->founding_record, 0, sizeof watch->founding_record);
        watch->generation = names.highest;
    }
    return rc;
}

/* ---- contents ---- */

/* A process that looks for the job stands for none. Nor does one that is about to found: it has
 * entered, and names no founding. */
static uint64_t stands_for(const struct spotnik_watcher_entry *entry)
{
    return entry->reading == SPOTNIK_READING_RECORD
                   && entry->record.standing != SPOTNIK_STANDING_SEEKING
               ? entry->record.founding
               : 0;
}

static void read_again(struct spotnik_watcher_entry *entry, const struct spotnik_credentials *self,
                       struct spotnik_objects *store, uint64_t spent_ns)
{
    uint64_t before = entry->print;
    bool known = entry->reading != SPOTNIK_READING_ABSENT;
    entry->stood_for = stands_for(entry);
    entry->before_ns = entry->unchanged_ns;
    entry->reading =
        spotnik_record_read(self, store, entry->name, &entry->record, &entry->print, &entry->error);
    entry->unchanged_ns =
        spotnik_still_unchanged_ns(entry->unchanged_ns, known, before, entry->print, spent_ns);
}

static void contents_read(struct spotnik_watcher *watch, const struct spotnik_credentials *self,
                          struct spotnik_objects *store, uint64_t spent_ns)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < watch->count; i++) {
        read_again(&watch->entry[i], self, store, spent_ns);
        if (watch->entry[i].reading != SPOTNIK_READING_ABSENT)
            watch->entry[kept++] = watch->entry[i];
    }
    watch->count = kept;
    if (watch->generation == 0)
        return;
    if (watch->founding_record.name[0] == '\0')
        watch->founding_record.reading = SPOTNIK_READING_ABSENT;
    spotnik_founding_record_name(watch->generation, watch->founding_record.name);
    read_again(&watch->founding_record, self, store, spent_ns);
}

int spotnik_watcher_look(struct spotnik_watcher *watch, const struct spotnik_credentials *self,
                         struct spotnik_objects *store, uint64_t gap_max_ns)
{
    uint64_t now_ns = spotnik_discovery_clock_ns();
    int rc = names_read(watch, store);
    if (rc != 0) {
        watch->looked_ns = 0;
        return rc;
    }
    watch->spent_ns = spotnik_still_spent_ns(watch->looked_ns, now_ns, gap_max_ns);
    contents_read(watch, self, store, watch->spent_ns);
    watch->watched_ns = spotnik_time_add(watch->watched_ns, watch->spent_ns);
    watch->looked_ns = now_ns;
    return 0;
}

static bool is_news(const struct spotnik_watcher_entry *entry, uint64_t stale_ns)
{
    uint64_t founding = stands_for(entry);
    return (founding != 0 && founding != entry->stood_for)
           || (entry->before_ns >= stale_ns && entry->unchanged_ns == 0);
}

bool spotnik_watcher_has_woken(struct spotnik_watcher *watch,
                               const struct spotnik_credentials *self,
                               struct spotnik_objects *store, uint64_t stale_ns, uint64_t own)
{
    bool woken = spotnik_watcher_look(watch, self, store, 0) != 0 || watch->generation != own;
    for (uint32_t i = 0; i < watch->count && !woken; i++)
        woken = !spotnik_id_equal(watch->entry[i].record.member.id, self->self.id)
                && is_news(&watch->entry[i], stale_ns);
    return woken;
}

void spotnik_watcher_done(struct spotnik_watcher *watch)
{
    free(watch->entry);
    memset(watch, 0, sizeof *watch);
}
