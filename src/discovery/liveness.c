/* SPDX-License-Identifier: Apache-2.0 */
/* May this record belong to a live process? No process founds while one may (P1). A kernel proves
 * the death of its own processes, and another process that has the address on the same host does. A
 * refusal, silence, or an unauthenticated peer at the address prove nothing: firewalls refuse, and
 * private addresses exist more than once. What is left is time: silent, and not written to for T.
 * That is enough for founding and never for the lineage rule. */
#include <stdio.h>
#include <string.h>

#include "link/address.h"
#include "discovery/inside.h"

struct wording {
    char *text;
    size_t size;
};

static const char *reading_text(const struct spotnik_watcher_entry *entry)
{
    switch (entry->reading) {
    case SPOTNIK_READING_TORN:
        return "is no whole record, or the copy of another";
    case SPOTNIK_READING_KEY:
        return "is signed with another job key";
    case SPOTNIK_READING_JOB:
        return "belongs to another job: give each job its own directory";
    case SPOTNIK_READING_UNREADABLE:
        return strerror(entry->error);
    case SPOTNIK_READING_RECORD:
    case SPOTNIK_READING_ABSENT:
        break;
    }
    return "is not there";
}

static double seconds(uint64_t ns)
{
    return (double)ns / 1e9;
}

/* No process answers in its name: does it still write? */
static enum spotnik_discovery_liveness by_time(const struct spotnik_watcher_entry *entry,
                                               const char *what, uint64_t stale_ns,
                                               struct wording why, uint64_t *ret_time_left_ns)
{
    if (entry->unchanged_ns >= stale_ns)
        return SPOTNIK_DISCOVERY_LIVENESS_STALE;
    *ret_time_left_ns = stale_ns - entry->unchanged_ns;
    snprintf(why.text, why.size,
             "%.48s: %s; waiting until it stays the same for %.0f s, now %.0f s", entry->name, what,
             seconds(stale_ns), seconds(entry->unchanged_ns));
    return SPOTNIK_DISCOVERY_LIVENESS_WAIT;
}

static const char *silence_text(const struct spotnik_watcher_entry *entry,
                                const struct spotnik_question *question, char text[300])
{
    char address[SPOTNIK_ADDRESS_TEXT];
    const struct spotnik_member *member = &entry->record.member;
    spotnik_address_format(address, member->address, member->port);
    switch (question->reply) {
    case SPOTNIK_DISCOVERY_REPLY_ECHO:
        snprintf(text, 300, "its address %s leads back to this process", address);
        break;
    case SPOTNIK_DISCOVERY_REPLY_OTHER:
        snprintf(text, 300, "%s at its address %s",
                 question->text[0] != '\0' ? question->text : "another host answers", address);
        break;
    default:
        snprintf(text, 300, "%s%s", question->text[0] != '\0' ? question->text : "it was not asked",
                 spotnik_address_is_loopback(member->address)
                     ? " (a loopback address: on another host set SPOTNIK_BIND)"
                     : "");
    }
    return text;
}

static enum spotnik_discovery_liveness
liveness_check_silent(const struct spotnik_watcher_entry *entry,
                      const struct spotnik_question *question, enum spotnik_liveness life,
                      uint64_t stale_ns, struct wording why, uint64_t *ret_time_left_ns)
{
    char text[300];
    /* A process that leaves takes its record away, but for a founding record. */
    if (life != SPOTNIK_LIFE_ALIVE || spotnik_founding_record_parse(entry->name) != 0)
        return by_time(entry, silence_text(entry, question, text), stale_ns, why, ret_time_left_ns);
    snprintf(why.text, why.size,
             "%.48s: process %llu of this host lives, and does not answer: continue it, or end it",
             entry->name, (unsigned long long)entry->record.process.pid);
    return SPOTNIK_DISCOVERY_LIVENESS_WAIT;
}

/* The kernel's word on its own process. Machines that were resumed from one snapshot of memory have
 * one boot id, and each has processes of the other's numbers: so who answers under the key lives,
 * whatever our kernel says. */
static bool has_ended(const struct spotnik_record *record, const struct spotnik_question *question)
{
    bool answers = question->reply == SPOTNIK_DISCOVERY_REPLY_IDLE
                   || question->reply == SPOTNIK_DISCOVERY_REPLY_PARKED
                   || question->reply == SPOTNIK_DISCOVERY_REPLY_IN_VIEW;
    if (answers && spotnik_id_equal(question->answer.self.id, record->member.id))
        return false;
    return spotnik_process_life(&record->process) == SPOTNIK_LIFE_ENDED
           || spotnik_discovery_was_here(record);
}

enum spotnik_discovery_liveness
spotnik_discovery_liveness_check(const struct spotnik_watcher_entry *entry,
                                 const struct spotnik_question *question,
                                 const struct spotnik_discovery_times *times, char *why,
                                 size_t size, uint64_t *ret_time_left_ns)
{
    char unused[8];
    uint64_t stale_ns = spotnik_record_stale_ns(&entry->record, times->stale_ns);
    struct wording wording = { why != NULL ? why : unused, why != NULL ? size : sizeof unused };
    *ret_time_left_ns = 0;
    wording.text[0] = '\0';
    if (entry->reading != SPOTNIK_READING_RECORD)
        return by_time(entry, reading_text(entry), stale_ns, wording, ret_time_left_ns);
    if (has_ended(&entry->record, question))
        return SPOTNIK_DISCOVERY_LIVENESS_ENDED;
    if (entry->record.standing == SPOTNIK_STANDING_SEEKING)
        return SPOTNIK_DISCOVERY_LIVENESS_FREE;
    switch (question->reply) {
    case SPOTNIK_DISCOVERY_REPLY_IDLE:
        return SPOTNIK_DISCOVERY_LIVENESS_FREE;
    case SPOTNIK_DISCOVERY_REPLY_GONE:
        return SPOTNIK_DISCOVERY_LIVENESS_ENDED;
    case SPOTNIK_DISCOVERY_REPLY_PARKED:
        snprintf(wording.text, wording.size, "%.48s is itself cut off from the majority",
                 entry->name);
        return SPOTNIK_DISCOVERY_LIVENESS_PARKED;
    case SPOTNIK_DISCOVERY_REPLY_IN_VIEW:
        return SPOTNIK_DISCOVERY_LIVENESS_WAIT;
    case SPOTNIK_DISCOVERY_REPLY_NONE:
    case SPOTNIK_DISCOVERY_REPLY_OTHER:
    case SPOTNIK_DISCOVERY_REPLY_ECHO:
    case SPOTNIK_DISCOVERY_REPLY_SILENT:
    case SPOTNIK_DISCOVERY_REPLY_REFUSES:
        break;
    }
    return liveness_check_silent(entry, question, spotnik_process_life(&entry->record.process),
                                 stale_ns, wording, ret_time_left_ns);
}
