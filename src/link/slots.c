/* SPDX-License-Identifier: Apache-2.0 */
/* The shared table of death certificates: its memory and the agent's side. See slots.h. */
#include "link/slots.h"

#include <linux/futex.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "spotnik/spotnik.h"

_Static_assert(sizeof(struct spotnik_slot) == 128, "two cache lines per slot");
_Static_assert(sizeof(struct spotnik_slots) == 64, "slots begin on a cache line");

#define SLOTS_MAX 65536u

static size_t table_bytes(uint32_t count)
{
    size_t lines = SPOTNIK_SLOT_LINES * sizeof(struct spotnik_slot_line);

    return sizeof(struct spotnik_slots) + (size_t)count * (sizeof(struct spotnik_slot) + lines);
}

/* The messages of all slots stand behind the last slot. */
static struct spotnik_slot_line *line_at(const struct spotnik_slots *slots, uint32_t index,
                                         uint32_t number)
{
    struct spotnik_slot_line *lines = (struct spotnik_slot_line *)&slots->slot[slots->count];

    return lines + (size_t)index * SPOTNIK_SLOT_LINES + number % SPOTNIK_SLOT_LINES;
}

static int map(int fd, size_t bytes, struct spotnik_slots **ret_slots)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot map the table of slots: %m");
    *ret_slots = memory;
    return 0;
}

int spotnik_slots_new(uint32_t count, int *ret_fd, struct spotnik_slots **ret_slots)
{
    if (count == 0 || count > SLOTS_MAX)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT, "a table of slots has 1 to %u slots",
                                    SLOTS_MAX);
    int fd = memfd_create("spotnik-slots", MFD_CLOEXEC);
    if (fd < 0)
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot make the table of slots: %m");
    if (ftruncate(fd, (off_t)table_bytes(count)) != 0) {
        int rc = spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot size the table of slots: %m");
        close(fd);
        return rc;
    }
    struct spotnik_slots *slots = NULL;
    int rc = map(fd, table_bytes(count), &slots);
    if (rc != 0) {
        close(fd);
        return rc;
    }
    slots->magic = SPOTNIK_SLOTS_MAGIC;
    slots->version = SPOTNIK_SLOTS_VERSION;
    slots->count = count;
    *ret_fd = fd;
    *ret_slots = slots;
    return 0;
}

int spotnik_slots_map(int fd, struct spotnik_slots **ret_slots)
{
    struct stat facts;
    struct spotnik_slots head;
    *ret_slots = NULL;
    if (fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_size < (off_t)sizeof head
        || pread(fd, &head, sizeof head, 0) != (ssize_t)sizeof head
        || head.magic != SPOTNIK_SLOTS_MAGIC)
        return 0;
    if (head.version != SPOTNIK_SLOTS_VERSION || head.count > SLOTS_MAX
        || table_bytes(head.count) != (size_t)facts.st_size)
        return spotnik_error_return(
            SPOTNIK_ERR_ARGUMENT,
            "SPOTNIK_SLOTS_FD %d is a table of another version of spotnik run; use one "
            "version of the command and the library",
            fd);
    return map(fd, (size_t)facts.st_size, ret_slots);
}

void spotnik_slots_unmap(struct spotnik_slots *slots)
{
    if (slots != NULL)
        munmap(slots, table_bytes(slots->count));
}

void spotnik_slots_assign(struct spotnik_slots *slots, uint32_t index)
{
    struct spotnik_slot *slot = &slots->slot[index];
    /* The id goes first: a reader of the dead member's word then sees that the slot is
     * another's. */
    __atomic_store_n(&slot->id_high, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&slot->id_low, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&slot->leave_request, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&slot->told_step, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&slot->committed, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&slot->needed, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&slot->done, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&slot->refused, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&slot->place, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&slot->left, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&slot->minority_step, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&slot->lines, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&slot->checkpoint, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&slot->absent, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&slot->word, 0, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, &slot->word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void spotnik_slots_leave_request(struct spotnik_slots *slots, uint32_t index)
{
    struct spotnik_slot *slot = &slots->slot[index];
    __atomic_store_n(&slot->leave_request, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, &slot->leave_request, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

bool spotnik_slots_wait(const struct spotnik_slots *slots, uint64_t *ret_ms, uint64_t *ret_of_ms)
{
    uint64_t both = __atomic_load_n(&slots->waiting, __ATOMIC_SEQ_CST);

    *ret_ms = both & UINT32_MAX;
    *ret_of_ms = both >> 32;
    return both != 0;
}

/* T is a day at most, so 32 bits hold it. */
void spotnik_slots_wait_set(struct spotnik_slots *slots, uint64_t ms, uint64_t of_ms)
{
    __atomic_store_n(&slots->waiting, of_ms << 32 | (ms & UINT32_MAX), __ATOMIC_SEQ_CST);
}

bool spotnik_slots_member(const struct spotnik_slots *slots, uint32_t index,
                          struct spotnik_id *ret_id)
{
    const struct spotnik_slot *slot = &slots->slot[index];
    struct spotnik_id id = { .high = __atomic_load_n(&slot->id_high, __ATOMIC_SEQ_CST),
                             .low = __atomic_load_n(&slot->id_low, __ATOMIC_SEQ_CST) };
    *ret_id = id;
    return !spotnik_id_is_none(id);
}

void spotnik_slots_line_add(struct spotnik_slots *slots, uint32_t index,
                            const struct spotnik_slot_line *line)
{
    uint32_t number = __atomic_load_n(&slots->slot[index].lines, __ATOMIC_RELAXED);

    *line_at(slots, index, number) = *line;
    __atomic_store_n(&slots->slot[index].lines, number + 1, __ATOMIC_RELEASE);
}

/* The writer may write to the oldest place while we read it: that one counts as gone. */
bool spotnik_slots_line(const struct spotnik_slots *slots, uint32_t index, uint32_t *next,
                        struct spotnik_slot_line *ret)
{
    const uint32_t *lines = &slots->slot[index].lines;
    uint32_t end = __atomic_load_n(lines, __ATOMIC_ACQUIRE);

    while (*next != end) {
        uint32_t number = (*next)++;

        *ret = *line_at(slots, index, number);
        ret->text[sizeof ret->text - 1] = 0;
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (__atomic_load_n(lines, __ATOMIC_RELAXED) - number < SPOTNIK_SLOT_LINES)
            return true;
    }
    return false;
}

uint32_t spotnik_slots_find(const struct spotnik_slots *slots, struct spotnik_id id)
{
    for (uint32_t i = 0; i < slots->count; i++) {
        struct spotnik_id owner;
        if (spotnik_slots_member(slots, i, &owner) && spotnik_id_equal(owner, id))
            return i;
    }
    return UINT32_MAX;
}
