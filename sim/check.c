/* SPDX-License-Identifier: Apache-2.0 */
/* The book of facts behind the checkers: installations, contributions, commits, deaths. Decides
 * only which view reduced a step in the end; check_*.c judges everything that can be wrong. */
#include "sim/check.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "member/brief.h"

const char *spotnik_sim_message_name(enum spotnik_message_kind kind)
{
    static const char *const name[] = { "?",        "heartbeat",   "reconcile", "accept",
                                        "restart",  "fenced",      "view ask",  "enter",
                                        "mismatch", "pause check", "pause ack", "ask",
                                        "promise",  "accepted" };
    return (size_t)kind < sizeof(name) / sizeof(name[0]) ? name[kind] : "?";
}

void spotnik_check_start(struct sim_world *world)
{
    world->facts = spotnik_sim_alloc(sizeof(*world->facts));
    world->facts->process =
        spotnik_sim_alloc(world->options.processes_max * sizeof(*world->facts->process));
}

static void view_free(struct fact_view *fact)
{
    free(fact->member);
    free(fact->share);
    free(fact->flags);
    *fact = (struct fact_view){ 0 };
}

static void inputs_free(struct fact_process *book)
{
    for (size_t i = 0; i < book->input_count; i++) {
        free(book->input[i]->range);
        free(book->input[i]->bytes);
        free(book->input[i]);
    }
    free(book->input);
}

void spotnik_check_free(struct sim_world *world)
{
    struct sim_facts *facts = world->facts;

    for (uint32_t i = 0; i < world->options.processes_max; i++)
        inputs_free(&facts->process[i]);
    for (uint64_t i = 0; i < facts->view_count; i++)
        view_free(&facts->view[i]);
    for (uint32_t i = 0; i < world->options.processes_max; i++)
        view_free(&facts->process[i].proposed);
    free(facts->view);
    free(facts->commit);
    free(facts->result);
    free(facts->process);
    free(facts);
}

/* -- Looking things up -- */

const struct fact_view *spotnik_fact_view_of(const struct sim_world *world, uint64_t epoch)
{
    const struct sim_facts *facts = world->facts;
    return epoch < facts->view_count && facts->view[epoch].known ? &facts->view[epoch] : NULL;
}

/* A member reduces `step` in shared memory, and so do all: steps of a view change over to that
 * once. */
void spotnik_fact_flat(struct sim_world *world, uint64_t epoch, uint64_t step)
{
    struct fact_view *view = &world->facts->view[epoch];
    SPOTNIK_ASSERT(spotnik_fact_view_of(world, epoch) == view);
    if (view->flat_from == 0 || step < view->flat_from)
        view->flat_from = step;
}

/* Is there a later view than its own without it? */
bool spotnik_fact_excluded(const struct sim_world *world, const struct sim_process *process)
{
    for (uint64_t epoch = process->epoch + 1; epoch < world->facts->view_count; epoch++) {
        const struct fact_view *view = spotnik_fact_view_of(world, epoch);
        if (view && spotnik_fact_rank(view, process->index) == SPOTNIK_NO_RANK)
            return true;
    }
    return false;
}

/* From where it stands if nobody was lost: in scale mode that is near, for thousands of them. */
uint32_t spotnik_fact_rank(const struct fact_view *view, uint32_t process)
{
    uint32_t up = process < view->size ? process : 0, down = up;

    for (; up < view->size || down > 0; up += up < view->size, down -= down > 0) {
        if (up < view->size && view->member[up] == process)
            return up;
        if (down > 0 && view->member[down - 1] == process)
            return down - 1;
    }
    return SPOTNIK_NO_RANK;
}

const struct fact_input *spotnik_fact_input_of(const struct sim_world *world, uint32_t process,
                                               uint64_t step)
{
    const struct fact_process *book = &world->facts->process[process];
    size_t first = 0, end = book->input_count;

    while (first < end) {
        size_t middle = first + (end - first) / 2;
        if (book->input[middle]->step < step)
            first = middle + 1;
        else
            end = middle;
    }
    bool found = first < book->input_count && book->input[first]->step == step;
    return found ? book->input[first] : NULL;
}

/* The view in which a step was reduced for good: the last one that did not start after it. */
uint64_t spotnik_fact_reducing_epoch(const struct sim_world *world, uint64_t step)
{
    const struct sim_facts *facts = world->facts;
    for (uint64_t epoch = facts->view_count; epoch-- > 1;)
        if (facts->view[epoch].known && facts->view[epoch].settled < step)
            return epoch;
    return 0;
}

/* Committed before the lineage reduced the step for good, by members cut off or dead before anybody
 * of a later view could learn of it. */
bool spotnik_fact_is_orphan(const struct sim_world *world, const struct fact_commit *commit)
{
    return commit->epoch && commit->epoch < spotnik_fact_reducing_epoch(world, commit->step);
}

/* -- Facts -- */

static struct fact_input *newest(const struct fact_process *book)
{
    return book->input_count ? book->input[book->input_count - 1] : NULL;
}

static struct fact_input *input_new(struct fact_process *book)
{
    if (book->input_count == book->input_capacity) {
        book->input_capacity = book->input_capacity ? 2 * book->input_capacity : 64;
        book->input = realloc(book->input, book->input_capacity * sizeof(*book->input));
        SPOTNIK_ASSERT(book->input != NULL);
    }
    return book->input[book->input_count++] = spotnik_sim_alloc(sizeof(struct fact_input));
}

void spotnik_check_begun(struct sim_world *world, const struct sim_process *process)
{
    struct fact_process *book = &world->facts->process[process->index];
    const struct fact_view *view = spotnik_fact_view_of(world, process->epoch);
    uint32_t rank = view ? spotnik_fact_rank(view, process->index) : SPOTNIK_NO_RANK;

    if (newest(book) && newest(book)->step >= process->app.step)
        spotnik_sim_fail(world, "P5", "%u begins step %llu twice", process->index,
                         (unsigned long long)process->app.step);
    struct fact_input *input = input_new(book);
    input->step = process->app.step;
    input->epoch = process->epoch;
    input->process = process->index;
    input->replay = process->app.replay;
    input->has_share =
        !input->replay && rank != SPOTNIK_NO_RANK
        && (process->app.step != view->settled + 1 || view->share[rank] != SPOTNIK_NO_SHARE);
    input->samples = process->app.samples;
    input->data_epoch = spotnik_core_ledger(process->core)->data_epoch;
    input->range_count = process->app.range_count;
    input->range = spotnik_sim_alloc((input->range_count + 1) * sizeof(*input->range));
    memcpy(input->range, process->app.range, input->range_count * sizeof(*input->range));
    if (!input->has_share && input->samples)
        spotnik_sim_fail(world, "P8", "%u has no share in step %llu and yet samples",
                         process->index, (unsigned long long)input->step);
    if (world->options.per_member && !world->options.limits.deals
        && input->samples > world->options.batch)
        spotnik_sim_fail(world, "P8", "%u gets more than its batch in step %llu", process->index,
                         (unsigned long long)input->step);
}

void spotnik_check_input(struct sim_world *world, const struct sim_process *process)
{
    struct fact_input *input = newest(&world->facts->process[process->index]);
    size_t at = 0;

    input->bytes = spotnik_sim_alloc(spotnik_sim_result_bytes(world) + 1);
    for (uint32_t i = 0; i < world->options.buckets; i++) {
        memcpy(input->bytes + at, process->app.in[i], spotnik_sim_bucket_bytes(&world->bucket[i]));
        at += spotnik_sim_bucket_bytes(&world->bucket[i]);
    }
    input->runs = 1 + process->app.strategy.sw.mode + 2 * (uint32_t)process->app.strategy.sw.act;
    input->filled = true;
    input->samples = process->app.samples;
    input->range_count = process->app.range_count;
    input->weight = !input->has_share                   ? 0
                    : process->app.weight != UINT64_MAX ? process->app.weight
                    : !world->options.samples           ? 1
                    : process->app.declined             ? 1
                                                        : input->samples;
}

static struct fact_commit *commit_new(struct sim_world *world)
{
    struct sim_facts *facts = world->facts;
    if (facts->commit_count == facts->commit_capacity) {
        facts->commit_capacity = facts->commit_capacity ? 2 * facts->commit_capacity : 256;
        facts->commit = realloc(facts->commit, facts->commit_capacity * sizeof(*facts->commit));
        SPOTNIK_ASSERT(facts->commit != NULL);
    }
    struct fact_commit *commit = &facts->commit[facts->commit_count++];
    *commit = (struct fact_commit){ 0 };
    return commit;
}

static void strategy_note(struct fact_commit *commit, const struct sim_process *process)
{
    const struct sim_strategy *strategy = &process->app.strategy;

    commit->ran = commit->copied ? 0 : strategy->ran;
    commit->decided = spotnik_sim_strategy_decided(process);
    commit->own = strategy->equal ? spotnik_hash_bytes(strategy->own, sizeof strategy->own) | 1 : 0;
}

static uint64_t state_digest(const struct sim_world *world, const struct sim_process *process)
{
    return spotnik_hash_bytes(process->app.state_vector, world->state_count * sizeof(float));
}

void spotnik_check_commit(struct sim_world *world, struct sim_process *process, uint64_t step)
{
    struct sim_facts *facts = world->facts;
    const struct fact_view *view = spotnik_fact_view_of(world, process->epoch);
    struct fact_commit *commit = commit_new(world);

    if (facts->process[process->index].passed_over)
        spotnik_sim_fail(world, "P3",
                         "%u commits step %llu, woken after the others went on without it",
                         process->index, (unsigned long long)step);
    commit->step = step;
    commit->process = process->index;
    commit->epoch = process->epoch;
    commit->reduced = view && step > view->settled;
    commit->result = spotnik_sim_memory_digest(world, process, step);
    commit->state = state_digest(world, process);
    strategy_note(commit, process);
    facts->process[process->index].committed = step;
    facts->process[process->index].served |= view && step >= view->settled;
    if (step > facts->steps_max)
        facts->steps_max = step;
    spotnik_sim_mix(world, commit->state);
    spotnik_check_step_commit(world, process, commit);
}

/* P3 for a stopped member: when it wakes up to find a view made without it, it commits nothing
 * more, whatever had come before. Short stops are not noticed. */
void spotnik_check_woken(struct sim_world *world, struct sim_process *process, uint64_t slept_ns)
{
    const struct spotnik_limits *limits = &world->options.limits;
    uint64_t noticed_ns =
        2 * limits->silence_floor_ns + limits->heartbeat_ns + world->options.tick_late_ns;
    struct spotnik_core_status status;

    spotnik_core_status(process->core, &status);
    if (world->scale || status.role != SPOTNIK_ROLE_MEMBER || slept_ns < noticed_ns)
        return;
    world->facts->process[process->index].passed_over |= spotnik_fact_excluded(world, process);
}

void spotnik_check_copied(struct sim_world *world, struct sim_process *process)
{
    struct fact_commit *commit = commit_new(world);
    commit->step = process->copied_step;
    commit->process = process->index;
    commit->copied = true;
    commit->state = state_digest(world, process);
    strategy_note(commit, process);
    world->facts->process[process->index].committed = process->copied_step;
}

static struct fact_view *view_slot(struct sim_world *world, uint64_t epoch)
{
    struct sim_facts *facts = world->facts;
    if (epoch >= facts->view_capacity) {
        uint64_t capacity = 2 * epoch + 64;
        facts->view = realloc(facts->view, capacity * sizeof(*facts->view));
        SPOTNIK_ASSERT(facts->view != NULL);
        memset(facts->view + facts->view_capacity, 0,
               (capacity - facts->view_capacity) * sizeof(*facts->view));
        facts->view_capacity = capacity;
    }
    if (epoch >= facts->view_count)
        facts->view_count = epoch + 1;
    return &facts->view[epoch];
}

static void view_record(struct sim_world *world, struct fact_view *fact,
                        const struct spotnik_view *view)
{
    view_free(fact);
    fact->known = true;
    fact->epoch = view->epoch;
    fact->settled = view->settled_step;
    fact->size = view->size;
    fact->share_count = view->share_count;
    fact->first_ns = world->now_ns;
    fact->member = spotnik_sim_alloc(view->size * sizeof(uint32_t));
    fact->share = spotnik_sim_alloc(view->size * sizeof(uint32_t));
    fact->flags = spotnik_sim_alloc(view->size * sizeof(uint32_t));
    for (uint32_t i = 0; i < view->size; i++) {
        fact->member[i] = sim_process_of(world, &view->entry[i].member)->index;
        fact->share[i] = view->entry[i].share;
        fact->flags[i] = view->entry[i].flags;
    }
}

/* What a process votes for or is told, as it passes: it may install that and the next view in one
 * event. */
void spotnik_check_proposal(struct sim_world *world, const struct sim_process *process,
                            const struct spotnik_message *message)
{
    bool carries =
        message->kind == SPOTNIK_MESSAGE_ACCEPT || message->kind == SPOTNIK_MESSAGE_RESTART;
    struct fact_view *proposed = &world->facts->process[process->index].proposed;

    if (world->scale || !carries || message->proposal->epoch < proposed->epoch)
        return;
    size_t bytes = (message->proposal->entry_count + 1) * sizeof(struct spotnik_entry);
    struct spotnik_proposal whole = *message->proposal;
    struct spotnik_view view = { .entry = spotnik_sim_alloc(bytes) };
    whole.entry = spotnik_sim_alloc(bytes);
    memcpy(whole.entry, message->proposal->entry, bytes - sizeof(struct spotnik_entry));
    if (!whole.packed || spotnik_brief_unpack(&whole, spotnik_core_view(process->core))) {
        spotnik_view_from_proposal(&view, &whole);
        view_record(world, proposed, &view);
    }
    free(whole.entry);
    free(view.entry);
}

static uint32_t *copy_of(const uint32_t *values, uint32_t count)
{
    uint32_t *copy = spotnik_sim_alloc((count + 1) * sizeof(*copy));
    memcpy(copy, values, count * sizeof(*copy));
    return copy;
}

/* Two views in one event: of the first only the epoch is still to be seen. Either it had been voted
 * for, and is known from the messages; or a member alone decided by itself, and its content is
 * plain. */
static void view_passed(struct sim_world *world, struct fact_view *fact,
                        const struct sim_process *process, uint64_t epoch)
{
    const struct fact_view *proposed = &world->facts->process[process->index].proposed;
    struct spotnik_entry self = { .member = process->member, .flags = SPOTNIK_ENTRY_MEMBER };
    struct spotnik_view view = { .epoch = epoch,
                                 .settled_step = process->app.committed,
                                 .size = 1,
                                 .share_count = 1,
                                 .entry = &self };

    if (proposed->epoch != epoch) {
        view_record(world, fact, &view);
        return;
    }
    *fact = *proposed;
    fact->member = copy_of(proposed->member, proposed->size);
    fact->share = copy_of(proposed->share, proposed->size);
    fact->flags = copy_of(proposed->flags, proposed->size);
}

void spotnik_check_view(struct sim_world *world, struct sim_process *process, uint64_t epoch)
{
    const struct spotnik_view *view = spotnik_core_view(process->core);
    struct fact_view *fact = view_slot(world, epoch);
    bool first = !fact->known;

    if (epoch <= process->epoch)
        spotnik_sim_fail(world, "P2", "%u installs view %llu after view %llu", process->index,
                         (unsigned long long)epoch, (unsigned long long)process->epoch);
    process->epoch = epoch;
    if (first && epoch < view->epoch)
        view_passed(world, fact, process, epoch);
    else if (first)
        view_record(world, fact, view);
    world->facts->process[process->index].served |= process->app.committed >= fact->settled;
    spotnik_check_view_install(world, process, fact);
    if (first)
        spotnik_check_lineage_view(world, fact);
    spotnik_check_step_view(world, process, fact);
    spotnik_check_join_view(world, process, fact);
    spotnik_check_recovery_view(world, process, fact);
    spotnik_sim_mix(world, epoch << 16 | fact->size);
}

/* A link has come up, or was lost without proof: nothing has been heard on a link that stands. */
void spotnik_check_unheard(struct sim_world *world, const struct sim_process *process,
                           uint32_t peer)
{
    struct fact_process *book = &world->facts->process[process->index];

    if (world->scale) /* of more members than a word has bits */
        return;
    uint64_t bit = UINT64_C(1) << peer;
    book->heard &= ~bit;
    book->likely &= ~bit;
}

void spotnik_check_message(struct sim_world *world, const struct sim_process *to,
                           const struct sim_process *from, const struct spotnik_message *message)
{
    struct fact_process *book = &world->facts->process[to->index];

    if (world->scale)
        return;
    spotnik_check_proposal(world, to, message);
    if (!(book->heard >> from->index & 1))
        book->first_epoch[from->index] = message->epoch;
    book->heard |= UINT64_C(1) << from->index;
    book->met |= UINT64_C(1) << from->index;
    if (message->kind == SPOTNIK_MESSAGE_FENCED)
        book->fenced_epoch[from->index] = message->epoch;
}

/* Somebody has read the end of a link to it that forged segments made, and no dial has been
 * answered since. That it ends just then is what is assumed not to happen
 * (docs/design/0004-proof-of-death.md): it is not killed, and in such worlds nobody leaves. */
bool spotnik_fact_is_forged(const struct sim_world *world, const struct sim_process *process)
{
    for (uint32_t i = 0; i < world->process_count && !world->scale; i++)
        if (sim_live(process) && sim_live(world->process[i])
            && (world->facts->process[i].likely >> process->index & 1))
            return true;
    return false;
}

/* Proof must be true, always; and on a good link it is a witness's word for the liveness
 * checker. */
void spotnik_check_proof(struct sim_world *world, const struct sim_process *process, uint32_t dead,
                         enum spotnik_event_kind kind, enum spotnik_proof proof)
{
    struct fact_process *book = &world->facts->process[process->index];
    bool sound = proof == SPOTNIK_PROOF_GONE || kind == SPOTNIK_EVENT_DEATH;

    SPOTNIK_ASSERT(!sound || !sim_live(world->process[dead]));
    if (world->scale)
        return;
    uint64_t bit = UINT64_C(1) << process->index, dead_bit = UINT64_C(1) << dead;
    if (kind == SPOTNIK_EVENT_DEATH)
        world->facts->process[dead].certified |= bit;
    else if (sound && ((kind == SPOTNIK_EVENT_LINK_DOWN ? book->heard : book->likely) & dead_bit))
        world->facts->process[dead].witnesses |= bit;
    else if (proof == SPOTNIK_PROOF_LIKELY && (book->heard & dead_bit))
        book->likely |= dead_bit;
}

void spotnik_check_death(struct sim_world *world, const struct sim_process *process)
{
    spotnik_sim_mix(world, process->index + UINT64_C(0xdead0000));
}

void spotnik_check_exit(struct sim_world *world, const struct sim_process *process, bool left)
{
    if (left)
        world->result->leaves++;
    else
        world->result->exclusions++;
    if (left && !process->app.leave)
        spotnik_sim_fail(world, "driver", "%u has left unasked", process->index);
}

void spotnik_check_process(struct sim_world *world, struct sim_process *process)
{
    struct spotnik_core_status status;

    spotnik_core_status(process->core, &status);
    if (status.committed != process->app.committed && status.role != SPOTNIK_ROLE_IDLE)
        spotnik_sim_fail(world, "driver", "%u: the core says %llu steps, its caller has seen %llu",
                         process->index, (unsigned long long)status.committed,
                         (unsigned long long)process->app.committed);
}

void spotnik_check_end(struct sim_world *world)
{
    spotnik_check_lineage_end(world);
    spotnik_check_step_end(world);
    spotnik_check_bits_end(world);
    spotnik_check_strategy_end(world);
    spotnik_check_work_end(world);
    spotnik_check_join_end(world);
    spotnik_check_ledger_end(world);
}
