/* SPDX-License-Identifier: Apache-2.0 */
/* Records of the processes of a job: text, and its signature. */
#include "discovery/record.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/time.h"
#include "link/address.h"
#include "link/auth.h"

#define LABEL "spotnik record 1\n" /* no other MAC under the job key begins so (link/auth.h) */
#define MAC_LINE_BYTES (4 + 2 * SPOTNIK_AUTH_BYTES + 1) /* "mac ", hex, newline */

static const char *const standing_names[] = { "seeking", "entered", "parked" };

static void hex_write(char *to, const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        sprintf(to + 2 * i, "%02x", bytes[i]);
}

void spotnik_record_name(struct spotnik_id id, char name[64])
{
    snprintf(name, 64, "member-%016llx%016llx", (unsigned long long)id.high,
             (unsigned long long)id.low);
}

/* ---- text ---- */

typedef unsigned long long number;

static int who_format(const struct spotnik_credentials *self, const char *name,
                      const struct spotnik_member *member, char *text, size_t size)
{
    char job[33], address[SPOTNIK_ADDRESS_TEXT];
    hex_write(job, self->job, 16);
    return snprintf(text, size,
                    LABEL "file %s\njob %s\nid %016llx %016llx\nhost %016llx\naddress %s\n", name,
                    job, (number)member->id.high, (number)member->id.low, (number)member->host,
                    spotnik_address_format(address, member->address, member->port));
}

static int how_format(const struct spotnik_record *record, char *text, size_t size)
{
    const struct spotnik_process *process = &record->process;
    return snprintf(text, size,
                    "process %016llx %llu %llu %016llx\nlineage %llu %016llx\nview %llu "
                    "%llu\nstate %s\ncounter %llu %llu\nroot %016llx %llu\n",
                    (number)process->boot, (number)process->pid, (number)process->start,
                    (number)process->space, (number)record->generation, (number)record->founding,
                    (number)record->epoch, (number)record->step, standing_names[record->standing],
                    (number)record->counter, (number)record->every_ms, (number)record->root,
                    (number)record->founded_at_ms);
}

size_t spotnik_record_format(const struct spotnik_credentials *self, const char *name,
                             const struct spotnik_record *record, char text[SPOTNIK_RECORD_BYTES])
{
    char hex[2 * SPOTNIK_AUTH_BYTES + 1];
    uint8_t mac[SPOTNIK_AUTH_BYTES];
    size_t size = (size_t)who_format(self, name, &record->member, text, SPOTNIK_RECORD_BYTES);
    size += (size_t)how_format(record, text + size, SPOTNIK_RECORD_BYTES - size);
    if (size + MAC_LINE_BYTES >= SPOTNIK_RECORD_BYTES
        || !spotnik_auth_once(self->key, text, size, mac))
        return 0;
    hex_write(hex, mac, sizeof mac);
    return size + (size_t)snprintf(text + size, SPOTNIK_RECORD_BYTES - size, "mac %s\n", hex);
}

/* Returns where the next line begins, NULL: this is no record, or that of another file. */
static const char *name_parse(const char *text, const char *name)
{
    static const char head[] = LABEL "file ";
    size_t length = strlen(name);
    if (strncmp(text, head, sizeof head - 1) != 0)
        return NULL;
    text += sizeof head - 1;
    return strncmp(text, name, length) == 0 && text[length] == '\n' ? text + length + 1 : NULL;
}

/* As name_parse() */
static const char *who_parse(const char *text, char job[33], struct spotnik_member *member)
{
    number high, low, host;
    char address[SPOTNIK_ADDRESS_TEXT];
    int length = 0;
    if (sscanf(text, "job %32s\nid %16llx %16llx\nhost %16llx\naddress %63s%n", job, &high, &low,
               &host, address, &length)
            != 5
        || text[length] != '\n')
        return NULL;
    memset(member, 0, sizeof *member);
    member->id = (struct spotnik_id){ .high = high, .low = low };
    member->host = host;
    /* Numbers only, as we write them: a damaged file must not make us ask a name server. */
    if (strspn(address, "0123456789abcdefABCDEF.:[]") != strlen(address)
        || spotnik_id_is_none(member->id)
        || spotnik_address_parse(address, member->address, &member->port) != 0 || member->port == 0)
        return NULL;
    return text + length + 1;
}

static bool standing_parse(const char *word, enum spotnik_standing *ret)
{
    for (unsigned i = 0; i < sizeof standing_names / sizeof *standing_names; i++)
        if (strcmp(word, standing_names[i]) == 0) {
            *ret = (enum spotnik_standing)i;
            return true;
        }
    return false;
}

static bool how_parse(const char *text, struct spotnik_record *record)
{
    number boot, pid, start, space, generation, founding, epoch, step, counter, every, root,
        founded_at_ms;
    char word[16];
    if (sscanf(text,
               "process %16llx %llu %llu %16llx\nlineage %llu %16llx\nview %llu %llu\nstate "
               "%15s\ncounter %llu %llu\nroot %16llx %llu\n",
               &boot, &pid, &start, &space, &generation, &founding, &epoch, &step, word, &counter,
               &every, &root, &founded_at_ms)
        != 13)
        return false;
    record->root = root;
    record->founded_at_ms = founded_at_ms;
    record->process =
        (struct spotnik_process){ .boot = boot, .pid = pid, .start = start, .space = space };
    record->generation = generation;
    record->founding = founding;
    record->epoch = epoch;
    record->step = step;
    record->counter = counter;
    record->every_ms = every;
    return standing_parse(word, &record->standing);
}

static bool is_signed(const uint8_t *key, const char *text, const char *mac_line)
{
    char hex[2 * SPOTNIK_AUTH_BYTES + 1];
    uint8_t mac[SPOTNIK_AUTH_BYTES];
    if (!spotnik_auth_once(key, text, (size_t)(mac_line - text), mac))
        return false;
    hex_write(hex, mac, sizeof mac);
    return spotnik_auth_equal((const uint8_t *)hex, (const uint8_t *)mac_line + 4,
                              2 * SPOTNIK_AUTH_BYTES);
}

enum spotnik_reading spotnik_record_parse(const struct spotnik_credentials *self, const char *name,
                                          const char *text, size_t size, struct spotnik_record *ret)
{
    char copy[SPOTNIK_RECORD_BYTES + 1], job[33], own_job[33];
    struct spotnik_record record = { 0 };
    if (size > SPOTNIK_RECORD_BYTES || size <= MAC_LINE_BYTES)
        return SPOTNIK_READING_TORN;
    memcpy(copy, text, size);
    copy[size] = '\0';
    const char *mac_line = copy + size - MAC_LINE_BYTES, *rest = name_parse(copy, name);
    rest = rest != NULL ? who_parse(rest, job, &record.member) : NULL;
    if (rest == NULL || strncmp(mac_line, "mac ", 4) != 0 || copy[size - 1] != '\n'
        || !how_parse(rest, &record))
        return SPOTNIK_READING_TORN;
    hex_write(own_job, self->job, 16);
    if (strcmp(job, own_job) != 0)
        return SPOTNIK_READING_JOB;
    if (self->observes) { /* it asks at that address, and believes what the answer proves */
        *ret = record;
        return SPOTNIK_READING_RECORD;
    }
    if (!is_signed(self->key, copy, mac_line)
        && (self->old_key == NULL || !is_signed(self->old_key, copy, mac_line)))
        return SPOTNIK_READING_KEY;
    *ret = record;
    return SPOTNIK_READING_RECORD;
}

/* A process that writes every E has done so thrice in 3 E. */
uint64_t spotnik_record_stale_ns(const struct spotnik_record *record, uint64_t stale_ns)
{
    uint64_t thrice_ns = record->every_ms < UINT64_MAX / (3 * SPOTNIK_MS)
                             ? 3 * record->every_ms * SPOTNIK_MS
                             : UINT64_MAX;
    return thrice_ns > stale_ns ? thrice_ns : stale_ns;
}

/* ---- in a store ---- */

int spotnik_record_write(const struct spotnik_credentials *self,
                         const struct spotnik_record *record, struct spotnik_objects *store,
                         const char *name, bool exclusive)
{
    char text[SPOTNIK_RECORD_BYTES];
    size_t size = spotnik_record_format(self, name, record, text);
    if (size == 0)
        return -EIO;
    return exclusive ? spotnik_objects_put_if_absent(store, name, self->self.id.low, text, size)
                     : spotnik_objects_put(store, name, self->self.id.low, text, size);
}

/* A record holds a counter, so its bytes alone count. Anything else counts as written anew when it
 * is replaced. */
static uint64_t print_make(const char *text, size_t size, uint64_t version, bool counted)
{
    uint64_t print = size > 0 ? spotnik_hash_bytes(text, size) : 0;
    return counted ? print : version != 0 ? print ^ version : 0;
}

enum spotnik_reading spotnik_record_read(const struct spotnik_credentials *self,
                                         struct spotnik_objects *store, const char *name,
                                         struct spotnik_record *ret, uint64_t *ret_print,
                                         int *ret_error)
{
    char text[SPOTNIK_RECORD_BYTES + 1];
    enum spotnik_reading reading = SPOTNIK_READING_UNREADABLE;
    uint64_t version;
    size_t size;
    memset(ret, 0, sizeof *ret);
    int rc = spotnik_objects_get(store, name, text, sizeof text, &size, &version);
    if (rc == 0)
        reading = spotnik_record_parse(self, name, text, size, ret);
    else if (rc == -ENOENT)
        reading = SPOTNIK_READING_ABSENT;
    *ret_print = print_make(text, size, version, reading == SPOTNIK_READING_RECORD);
    if (ret_error != NULL)
        *ret_error = -rc;
    return reading;
}
