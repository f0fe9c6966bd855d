/* SPDX-License-Identifier: Apache-2.0 */
/* Data before a step, and what must be there after it: of every call every element, the inputs that
 * stay, and the bytes around. What must come out is computed from the members' numbers (order.h);
 * no member is ever compared with another. */
#include <stdlib.h>
#include <string.h>

#include "reduce/compress.h"
#include "world.h"

#define PAGE 4096
#define GUARD 0xa6   /* around data */
#define GARBAGE 0x5a /* where a result goes that is not in place */
#define LOOK 16384   /* bytes at either end of an input that are looked at while the step runs */

/* ---- buffers ---- */

static size_t check_bytes(const struct cell_bucket *bucket)
{
    return bucket->count * cell_element_bytes(bucket);
}

static size_t out_bytes(const struct cell_bucket *bucket)
{
    return bucket->call == CALL_ALLGATHER ? check_bytes(bucket) * bucket->slots : 0;
}

bool check_is_owned(const struct world_player *player, const struct cell_bucket *bucket)
{
    uint64_t hash = numbers_mix(world_step(player)->key ^ (bucket->number * 64 + player->index));
    return bucket->memory == MEMORY_OWNED || (bucket->memory == MEMORY_MIXED && (hash & 1));
}

static struct world_buffer *buffer_of(struct world_player *player, uint32_t k)
{
    return &player->data[k][check_is_owned(player, &world_step(player)->bucket[k])];
}

uint8_t *check_data(const struct world_player *player, uint32_t k)
{
    const struct cell_bucket *bucket = &world_step(player)->bucket[k];
    return player->data[k][check_is_owned(player, bucket)].memory + PAGE + bucket->offset;
}

uint8_t *check_out(const struct world_player *player, uint32_t k)
{
    return player->out[k].memory + PAGE;
}

/* The same memory in every step, as long as it is enough: runtimes must notice what else changes.
 * */
static void room_get(struct world_player *player, struct world_buffer *buffer, size_t bytes,
                     bool owned)
{
    size_t wanted = (bytes + 2 * PAGE - 1) / PAGE * PAGE;
    if (buffer->memory != NULL && buffer->bytes >= bytes)
        return;
    if (owned)
        spotnik_free(player->job, buffer->memory);
    else
        free(buffer->memory);
    buffer->memory =
        owned ? spotnik_alloc(player->job, PAGE + wanted) : aligned_alloc(PAGE, PAGE + wanted);
    buffer->bytes = wanted;
    if (buffer->memory == NULL) {
        world_fail(player->world, player, NULL, "no memory for %zu bytes", wanted);
        abort();
    }
}

static void guard_set(uint8_t *data, size_t bytes)
{
    memset(data - WORLD_GUARD, GUARD, WORLD_GUARD);
    memset(data + bytes, GUARD, WORLD_GUARD);
}

static bool is_all(const uint8_t *data, size_t bytes, uint8_t byte)
{
    for (size_t i = 0; i < bytes; i++)
        if (data[i] != byte)
            return false;
    return true;
}

static bool guard_stands(const uint8_t *data, size_t bytes)
{
    return is_all(data - WORLD_GUARD, WORLD_GUARD, GUARD)
           && is_all(data + bytes, WORLD_GUARD, GUARD);
}

/* ---- inputs ---- */

static bool is_root(const struct world_player *player, const struct cell_bucket *bucket)
{
    const spotnik_step *step = &player->seen[player->now].step;
    return step->share < step->shares && step->share == bucket->root;
}

/* Is what lies in `data` ours to begin with, or a place for the root's? */
static bool is_input(const struct world_player *player, const struct cell_bucket *bucket)
{
    return bucket->call != CALL_BROADCAST || is_root(player, bucket);
}

static void input_make(const struct world_player *player, const struct cell_bucket *bucket,
                       uint64_t from, size_t count, void *out)
{
    if (!is_input(player, bucket))
        memset(out, GARBAGE, count * cell_element_bytes(bucket));
    else if (bucket->call == CALL_COMPRESSED_F16 || bucket->call == CALL_COMPRESSED_BF16)
        numbers_make_wide(&bucket->numbers, player->index, from, count, out);
    else
        numbers_make(&bucket->numbers, player->index, from, count, out);
}

void check_fill(struct world_player *player, uint32_t k)
{
    const struct cell_bucket *bucket = &world_step(player)->bucket[k];
    size_t bytes = check_bytes(bucket), out = out_bytes(bucket);
    room_get(player, buffer_of(player, k), bucket->offset + bytes + WORLD_GUARD,
             check_is_owned(player, bucket));
    guard_set(check_data(player, k), bytes);
    input_make(player, bucket, 0, bucket->count, check_data(player, k));
    world_seen(player)->part[k] = (spotnik_range){ UINT64_MAX, UINT64_MAX };
    if (bucket->call != CALL_ALLGATHER)
        return;
    room_get(player, &player->out[k], out + WORLD_GUARD, false);
    guard_set(check_out(player, k), out);
    memset(check_out(player, k), GARBAGE, out);
}

/* Elements [from, until) of our data are what we put in. Returns the first that is not, or
 * `until`. */
static uint64_t input_stands(const struct world_player *player, const struct cell_bucket *bucket,
                             const uint8_t *data, uint64_t from, uint64_t until)
{
    uint8_t made[ORDER_BLOCK * 8];
    size_t one = cell_element_bytes(bucket);
    for (; from < until; from += ORDER_BLOCK) {
        size_t some = until - from < ORDER_BLOCK ? until - from : ORDER_BLOCK;
        input_make(player, bucket, from, some, made);
        if (memcmp(made, data + from * one, some * one) == 0)
            continue;
        for (size_t i = 0; i < some; i++)
            if (memcmp(made + i * one, data + (from + i) * one, one) != 0)
                return from + i;
    }
    return until;
}

static void input_check(struct world_player *player, uint32_t k, const uint8_t *data, uint64_t from,
                        uint64_t until, const char *when)
{
    const struct cell_bucket *bucket = &world_step(player)->bucket[k];
    uint64_t at = input_stands(player, bucket, data, from, until);
    if (at < until)
        world_fail(player->world, player, bucket, "element %llu of the input has changed %s",
                   (unsigned long long)at, when);
}

/* Between the start of all buckets and the commit. */
void check_inputs(struct world_player *player)
{
    for (uint32_t k = 0; k < world_step(player)->buckets; k++) {
        const struct cell_bucket *bucket = &world_step(player)->bucket[k];
        uint64_t look = LOOK / cell_element_bytes(bucket),
                 until = bucket->count < look ? bucket->count : look;
        input_check(player, k, check_data(player, k), 0, until, "before the commit");
        input_check(player, k, check_data(player, k), bucket->count - until, bucket->count,
                    "before the commit");
    }
}

/* ---- what is left of a step ---- */

static const uint8_t *copy_keep(struct world_player *player, struct world_buffer *copy,
                                const uint8_t *from, size_t bytes)
{
    if (from == NULL)
        return NULL;
    room_get(player, copy, bytes + 2 * WORLD_GUARD, false);
    memcpy(copy->memory + PAGE - WORLD_GUARD, from - WORLD_GUARD, bytes + 2 * WORLD_GUARD);
    return copy->memory + PAGE;
}

static const uint8_t *result_keep(struct world_player *player, uint32_t k, const uint8_t *result)
{
    size_t bytes = check_bytes(&world_step(player)->bucket[k]);
    struct world_buffer *copy = &world_seen(player)->result_copy[k];
    if (result == NULL)
        return NULL;
    room_get(player, copy, bytes, false);
    memcpy(copy->memory + PAGE, result, bytes);
    return copy->memory + PAGE;
}

static bool has_result(const struct cell_bucket *bucket)
{
    return bucket->call == CALL_FROM || bucket->call == CALL_REDUCE_SCATTER;
}

/* Right after the commit. In a rush the same memory is filled anew at once. */
void check_keep(struct world_player *player)
{
    struct world_seen *seen = world_seen(player);
    bool copies = player->world->rush > 1;
    seen->contributors = spotnik_contributors(player->job, seen->share, CELL_PLAYERS_MAX);
    for (uint32_t k = 0; k < world_step(player)->buckets; k++) {
        const struct cell_bucket *bucket = &world_step(player)->bucket[k];
        const uint8_t *out = bucket->call == CALL_ALLGATHER ? check_out(player, k) : NULL;
        const uint8_t *result =
            has_result(bucket) ? spotnik_result(player->job, bucket->number) : NULL;
        seen->data[k] = copies ? copy_keep(player, &seen->data_copy[k], check_data(player, k),
                                           check_bytes(bucket))
                               : check_data(player, k);
        seen->out[k] = copies ? copy_keep(player, &seen->out_copy[k], out, out_bytes(bucket)) : out;
        seen->result[k] = copies ? result_keep(player, k, result) : result;
    }
}

/* ---- who contributed ---- */

/* A joiner that repeats the step beside the others is not in its meetings. */
static bool takes_part(const struct world_player *player)
{
    bool catches_up = player->late && player->joins_at + 1 >= player->world->step[0].number;
    return player->job != NULL && !catches_up;
}

static uint64_t census_of(struct world *world)
{
    uint64_t census = 0, must = 0;
    for (uint32_t i = 0; i < world->players; i++) {
        struct world_player *player = &world->player[i];
        if (!takes_part(player))
            continue;
        const struct world_seen *seen = &player->seen[world->at];
        census = census == 0 ? seen->census : census;
        must |= seen->step.share < seen->step.shares ? UINT64_C(1) << i : 0;
        if (seen->census != census)
            world_fail(world, player, NULL, "contributors %llx, but %llx on others",
                       (unsigned long long)seen->census, (unsigned long long)census);
    }
    if ((census & must) != must)
        world_fail(world, NULL, NULL, "contributors %llx lack some of %llx",
                   (unsigned long long)census, (unsigned long long)must);
    return census;
}

static void contributors_find(struct world *world, uint64_t census)
{
    world->contributors = 0;
    for (uint32_t share = 0; share < sizeof world->share_of[0] / sizeof world->share_of[0][0];
         share++) {
        uint32_t who = world->share_of[world->at][share];
        if (who == UINT32_MAX || !(census >> who & 1))
            continue;
        world->contributor[world->contributors++] = who;
        census &= ~(UINT64_C(1) << who);
    }
    if (census != 0)
        world_fail(world, NULL, NULL, "contributors without a share: %llx",
                   (unsigned long long)census);
}

static const struct world_player *first_of(const struct world *world)
{
    for (uint32_t i = 0; i < world->players; i++)
        if (takes_part(&world->player[i]) && world->player[i].seen[world->at].step.rank == 0)
            return &world->player[i];
    return NULL;
}

/* Contributors stand in order of share: undisturbed, that is their rank. */
static void order_make(struct world *world)
{
    struct order *order = &world->order;
    order->fan = world->cell->fan;
    order->members = world->contributors;
    for (uint32_t i = 0; i < world->contributors; i++)
        order->member[i] =
            (struct order_member){ .who = world->contributor[i],
                                   .host = cell_host_of(world->cell, world->contributor[i]),
                                   .weight = cell_weight(&world->step[world->at],
                                                         world->contributor[i]) };
    if (order->members == 1) /* the mean of one is what it put in */
        order->member[0].weight = order->member[0].weight > 0;
}

static uint32_t compared_on(const struct world *world)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < world->players; i++)
        count += takes_part(&world->player[i]);
    return count;
}

static void expect_get(struct world *world, uint32_t k)
{
    const struct cell_bucket *bucket = &world->step[world->at].bucket[k];
    size_t bytes = bucket->call == CALL_ALLGATHER ? out_bytes(bucket) : check_bytes(bucket);
    if (world->expect_bytes[k] < bytes || world->expect[k] == NULL) {
        free(world->expect[k]);
        world->expect[k] = malloc(bytes + 1);
        world->expect_bytes[k] = bytes;
    }
    uint32_t on = compared_on(world);
    report_bucket(world->report, bucket, world->way[k], on, on,
                  on * (bytes / cell_element_bytes(bucket)));
}

/* All have committed: under the lock. */
void check_settle(struct world *world)
{
    bool churned = cell_is_churned(world->cell);
    uint64_t all = 0;
    for (uint32_t i = 0; i < world->players; i++)
        all |= takes_part(&world->player[i]) ? UINT64_C(1) << i : 0;
    contributors_find(world, churned ? census_of(world) : all);
    order_make(world);
    const struct world_player *first = first_of(world);
    if (!churned && first == NULL)
        world_fail(world, NULL, NULL, "nobody has rank 0");
    for (uint32_t k = 0; k < world->step[world->at].buckets; k++) {
        world->way[k] = churned || first == NULL ? ORDER_ANY : first->seen[world->at].way[k];
        expect_get(world, k);
    }
}

/* ---- what must come out ---- */

static bool is_contributor(const struct world *world, uint32_t share)
{
    uint32_t who = share < sizeof world->share_of[0] / sizeof world->share_of[0][0]
                       ? world->share_of[world->at][share]
                       : UINT32_MAX;
    for (uint32_t i = 0; i < world->contributors; i++)
        if (world->contributor[i] == who)
            return true;
    return false;
}

static uint64_t weights(const struct order *order)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < order->members; i++)
        sum += order->member[i].weight;
    return sum;
}

static void compute_halves(const struct order *order, const struct cell_bucket *bucket,
                           uint64_t from, uint64_t until, float *out)
{
    uint16_t half[ORDER_BLOCK];
    for (; from < until; from += ORDER_BLOCK) {
        size_t some = until - from < ORDER_BLOCK ? until - from : ORDER_BLOCK;
        order_result(order, &bucket->numbers, true, bucket->count, from, some, half);
        for (size_t i = 0; i < some; i++)
            *out++ = bucket->numbers.dtype == SPOTNIK_F16 ? numbers_from_f16(half[i])
                                                          : numbers_from_bf16(half[i]);
    }
}

static void compute_q8(const struct order *order, const struct cell_bucket *bucket, uint64_t from,
                       uint64_t until, float *out)
{
    uint32_t who[ORDER_MEMBERS_MAX];
    for (uint32_t i = 0; i < order->members; i++)
        who[i] = order->member[i].who;
    numbers_q8_expect(&bucket->numbers, who, order->members, from, until - from, out);
    if (bucket->numbers.op == SPOTNIK_MEAN && weights(order) == 0)
        memset(out, 0, (until - from) * sizeof *out);
}

static void compute_rows(struct world *world, uint32_t k, uint64_t from, uint64_t until)
{
    const struct cell_bucket *bucket = &world->step[world->at].bucket[k];
    size_t one = cell_element_bytes(bucket);
    for (uint32_t i = 0; i < world->contributors; i++)
        numbers_make(&bucket->numbers, world->contributor[i], from, until - from,
                     world->expect[k] + (i * bucket->count + from) * one);
}

/* Elements [from, until) of what a call leaves; of an all-gather those of every row. */
static void compute(struct world *world, uint32_t k, uint64_t from, uint64_t until)
{
    const struct cell_bucket *bucket = &world->step[world->at].bucket[k];
    struct order order = world->order;
    uint8_t *out = world->expect[k] + from * cell_element_bytes(bucket);
    order.way = world->way[k];
    switch (bucket->call) {
    case CALL_BROADCAST:
        if (is_contributor(world, bucket->root))
            numbers_make(&bucket->numbers, world->share_of[world->at][bucket->root], from,
                         until - from, out);
        break;
    case CALL_ALLGATHER:
        compute_rows(world, k, from, until);
        break;
    case CALL_COMPRESSED_F16:
    case CALL_COMPRESSED_BF16:
        compute_halves(&order, bucket, from, until, (float *)(void *)out);
        break;
    case CALL_COMPRESSED_Q8:
        compute_q8(&order, bucket, from, until, (float *)(void *)out);
        break;
    default:
        order_result(&order, &bucket->numbers, false, bucket->count, from, until - from, out);
        break;
    }
}

void check_compute(struct world *world, uint32_t slot, uint32_t slots)
{
    for (uint32_t k = 0; k < world->step[world->at].buckets; k++) {
        uint64_t count = world->step[world->at].bucket[k].count, from = count * slot / slots,
                 until = count * (slot + 1) / slots;
        if (from < until)
            compute(world, k, from, until);
    }
}

/* ---- what has come out ---- */

static void hex(const uint8_t *bytes, size_t size, char *text)
{
    for (size_t i = 0; i < size; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[size - 1 - i]);
}

static void compare(struct world_player *player, uint32_t k, const uint8_t *got,
                    const uint8_t *expect, uint64_t count, const char *what)
{
    const struct cell_bucket *bucket = &world_step(player)->bucket[k];
    size_t one = cell_element_bytes(bucket);
    uint64_t first = 0, wrong = 0;
    char is[20], was[20];
    if (count == 0 || (got != NULL && memcmp(got, expect, count * one) == 0))
        return;
    for (uint64_t i = count; got != NULL && i-- > 0;)
        if (memcmp(got + i * one, expect + i * one, one) != 0) {
            first = i;
            wrong++;
        }
    if (got != NULL)
        hex(got + first * one, one, is);
    hex(expect + first * one, one, was);
    world_fail(
        player->world, player, bucket,
        "%s: %llu of %llu elements are wrong, the first is %llu: %s instead of %s (went by %s)",
        what, (unsigned long long)wrong, (unsigned long long)count, (unsigned long long)first,
        got != NULL ? is : "NULL", was, order_name(world_seen(player)->way[k]));
}

/* The part of the i-th of n, the longer ones first; empty for one without a contribution. */
static spotnik_range part_of(const struct world_player *player, uint64_t count)
{
    const struct world *world = player->world;
    for (uint32_t i = 0; i < world->contributors; i++)
        if (world->contributor[i] == player->index) {
            uint64_t rest = count % world->contributors, each = count / world->contributors;
            uint64_t begin = each * i + (i < rest ? i : rest);
            return (spotnik_range){ begin, begin + each + (i < rest) };
        }
    return (spotnik_range){ 0, 0 };
}

static void scattered(struct world_player *player, uint32_t k)
{
    const struct cell_bucket *bucket = &world_step(player)->bucket[k];
    size_t one = cell_element_bytes(bucket);
    spotnik_range part = part_of(player, bucket->count), got = world_seen(player)->part[k];
    if (part.begin != got.begin || part.end != got.end) {
        world_fail(player->world, player, bucket,
                   "our part is %llu to %llu instead of %llu to %llu",
                   (unsigned long long)got.begin, (unsigned long long)got.end,
                   (unsigned long long)part.begin, (unsigned long long)part.end);
        return;
    }
    compare(player, k, world_seen(player)->result[k], player->world->expect[k], bucket->count,
            "result");
    compare(player, k, world_seen(player)->data[k] + part.begin * one,
            player->world->expect[k] + part.begin * one, part.end - part.begin, "our part");
    input_check(player, k, world_seen(player)->data[k], 0, part.begin, "beside our part");
    input_check(player, k, world_seen(player)->data[k], part.end, bucket->count, "beside our part");
}

static void gathered(struct world_player *player, uint32_t k)
{
    const struct cell_bucket *bucket = &world_step(player)->bucket[k];
    uint64_t there = player->world->contributors * bucket->count;
    const uint8_t *out = world_seen(player)->out[k];
    compare(player, k, out, player->world->expect[k], there, "table");
    size_t used = there * cell_element_bytes(bucket);
    if (!is_all(out + used, out_bytes(bucket) - used, GARBAGE))
        world_fail(player->world, player, bucket, "the table is written behind its %u rows",
                   player->world->contributors);
    if (!guard_stands(out, out_bytes(bucket)))
        world_fail(player->world, player, bucket, "bytes around the table have changed");
    input_check(player, k, world_seen(player)->data[k], 0, bucket->count, "in an all-gather");
}

static void broadcasted(struct world_player *player, uint32_t k)
{
    const struct cell_bucket *bucket = &world_step(player)->bucket[k];
    bool there = is_contributor(player->world, bucket->root);
    if (there)
        compare(player, k, world_seen(player)->data[k], player->world->expect[k], bucket->count,
                "data of the root");
    else
        input_check(player, k, world_seen(player)->data[k], 0, bucket->count,
                    "though the root was lost");
}

static void bucket_check(struct world_player *player, uint32_t k)
{
    const struct cell_bucket *bucket = &world_step(player)->bucket[k];
    const uint8_t *data = world_seen(player)->data[k];
    switch (bucket->call) {
    case CALL_FROM:
        compare(player, k, world_seen(player)->result[k], player->world->expect[k], bucket->count,
                "result");
        input_check(player, k, world_seen(player)->data[k], 0, bucket->count,
                    "though it was to stay");
        break;
    case CALL_BROADCAST:
        broadcasted(player, k);
        break;
    case CALL_ALLGATHER:
        gathered(player, k);
        break;
    case CALL_REDUCE_SCATTER:
        scattered(player, k);
        break;
    default:
        compare(player, k, data, player->world->expect[k], bucket->count, "data");
        break;
    }
    if (!guard_stands(data, check_bytes(bucket)))
        world_fail(player->world, player, bucket, "bytes around the data have changed");
}

static bool has_census(const struct cell_bucket *bucket)
{
    return bucket->call == CALL_BROADCAST || bucket->call == CALL_ALLGATHER
           || bucket->call == CALL_REDUCE_SCATTER;
}

/* Who contributed, as the public call says it, and whether a root was lost. */
static void census_check(struct world_player *player)
{
    struct world *world = player->world;
    bool census = false, rootless = false;
    const struct world_seen *seen = world_seen(player);
    uint32_t count = seen->contributors;
    for (uint32_t k = 0; k < world->step[world->at].buckets; k++) {
        const struct cell_bucket *bucket = &world->step[world->at].bucket[k];
        census |= has_census(bucket);
        rootless |= bucket->call == CALL_BROADCAST && !is_contributor(world, bucket->root);
    }
    if (seen->rc != (rootless ? SPOTNIK_ERR_ROOT : 0))
        world_fail(world, player, NULL, "commit said %d", seen->rc);
    if (count != (census ? world->contributors : 0))
        world_fail(world, player, NULL, "%u contributors instead of %u", count,
                   world->contributors);
    for (uint32_t i = 0; census && i < count && i < world->contributors; i++)
        if (world->share_of[world->at][seen->share[i]] != world->contributor[i])
            world_fail(world, player, NULL, "contributor %u has share %u", i, seen->share[i]);
}

void check_results(struct world_player *player)
{
    if (!player->world->over)
        census_check(player);
    for (uint32_t k = 0; k < world_step(player)->buckets && !player->world->over; k++)
        bucket_check(player, k);
}
