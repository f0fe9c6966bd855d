/* SPDX-License-Identifier: Apache-2.0 */
/* Drawing cells. What cannot be compared bit for bit is left out here: see inputs_choose(). */
#include "cell.h"

#include <stdio.h>
#include <string.h>

#include "base/dtype.h"
#include "reduce/compress.h"

#define BUCKET_NUMBERS 250 /* the caller's that are drawn; 253 is the census of the test */
#define MIB ((uint64_t)1 << 20)
#define MEMBERS_MAX 40
#define LOW_BORDERS 11 /* up to what is small in memory */
#define HIGH_BORDERS 6 /* from a slice a member on */
#define HAUL_MEMBERS 6

static const char *const way_names[] = { "shm",  "tcp",   "far",       "ring",
                                         "tree", "hosts", "hosts-far", "hosts-tree" };
static const char *const call_names[] = { "allreduce",      "from", "broadcast", "allgather",
                                          "reduce-scatter", "f16",  "bf16",      "q8" };
static const char *const memory_names[] = { "plain", "owned", "mixed" };
static const char *const dtype_names[] = { "",     "F32", "F64", "I32", "I64", "U8",  "F16",
                                           "BF16", "I8",  "I16", "U16", "U32", "U64", "Q8" };
static const char *const op_names[] = { "", "sum", "mean", "min", "max", "product" };

const char *cell_way_name(enum cell_way way)
{
    return way_names[way];
}

const char *cell_call_name(enum cell_call call)
{
    return call_names[call];
}

const char *cell_memory_name(enum cell_memory memory)
{
    return memory_names[memory];
}

const char *cell_dtype_name(enum spotnik_dtype dtype)
{
    return dtype_names[dtype];
}

const char *cell_op_name(enum spotnik_op op)
{
    return op_names[op];
}

/* ---- worlds ---- */

bool cell_is_memory(enum cell_way way)
{
    return way == WAY_SHM || way >= WAY_HOSTS;
}

bool cell_is_churned(const struct cell_world *world)
{
    return world->losses > 0 || world->joins > 0;
}

/* Uneven: host 0 has every other member where there are three or more. */
uint32_t cell_host_of(const struct cell_world *world, uint32_t player)
{
    if (world->hosts < 3)
        return player % world->hosts;
    return player % 2 == 0 ? 0 : 1 + player / 2 % (world->hosts - 1);
}

int cell_world_print(const struct cell_world *world, char *text, size_t size)
{
    return snprintf(
        text, size,
        "%s,members=%u,hosts=%u,fan=%u,chunk=%u,lanes=%u,losses=%u,joins=%u,steps=%u,rush=%u,"
        "lowest=%u,borders=%u,buckets=%u,heavy=%llu,ordered=%d,seed=%llu",
        cell_way_name(world->way), world->members, world->hosts, world->fan, world->chunk_bytes,
        world->channels, world->losses, world->joins, world->steps, world->rush, world->lowest,
        world->borders, world->buckets, (unsigned long long)world->heavy_bytes, world->ordered,
        (unsigned long long)world->seed);
}

bool cell_world_parse(const char *text, struct cell_world *ret)
{
    unsigned long long heavy, seed;
    char way[32];
    int ordered;
    if (sscanf(text,
               "%31[^,],members=%u,hosts=%u,fan=%u,chunk=%u,lanes=%u,losses=%u,joins=%u,steps=%u,"
               "rush=%u,"
               "lowest=%u,borders=%u,buckets=%u,heavy=%llu,ordered=%d,seed=%llu",
               way, &ret->members, &ret->hosts, &ret->fan, &ret->chunk_bytes, &ret->channels,
               &ret->losses, &ret->joins, &ret->steps, &ret->rush, &ret->lowest, &ret->borders,
               &ret->buckets, &heavy, &ordered, &seed)
        != 16)
        return false;
    ret->heavy_bytes = heavy;
    ret->ordered = ordered != 0;
    ret->seed = seed;
    for (uint32_t i = 0; i < CELL_WAYS; i++)
        if (strcmp(way, way_names[i]) == 0) {
            ret->way = (enum cell_way)i;
            return ret->members >= 1 && ret->members <= CELL_PLAYERS_MAX && ret->hosts >= 1
                   && ret->hosts <= ret->members && ret->channels <= 8 && ret->borders >= 1
                   && ret->lowest + ret->borders <= limits_count() && ret->rush >= 1
                   && ret->rush <= CELL_RUSH_MAX && ret->buckets <= CELL_BUCKETS_MAX
                   && ret->steps > 0 && ret->fan > 0 && ret->chunk_bytes > 0;
        }
    return false;
}

static uint64_t draw(uint64_t *state)
{
    *state += UINT64_C(0x9e3779b97f4a7c15);
    return numbers_mix(*state);
}

static uint32_t below(uint64_t *state, uint32_t most)
{
    return most > 0 ? (uint32_t)(draw(state) % most) : 0;
}

static uint32_t hosts_of(enum cell_way way, uint32_t members, uint32_t wanted)
{
    uint32_t most = members > 2 ? members - 1 : members, least = way == WAY_HOSTS_TREE ? 3 : 2;
    uint32_t hosts = way < WAY_HOSTS ? 1 : wanted < least ? least : wanted;
    return hosts < most ? hosts : most;
}

/* A joiner is one more member, so there must be room for it. */
static void churn_fit(struct cell_world *world)
{
    uint32_t room = CELL_PLAYERS_MAX - world->members,
             spare = world->members > 1 ? world->members - 1 : 0;
    world->joins = world->joins < room ? world->joins : room;
    world->losses = world->losses < spare ? world->losses : spare;
    world->rush = world->joins > 0 ? 1 : world->rush;
}

/* Many steps of next to nothing: members meet each other in the middle of them. */
static void hurry(struct cell_world *world)
{
    world->rush = CELL_RUSH_MAX;
    world->borders = LOW_BORDERS;
    world->steps *= 6;
    world->buckets = world->buckets < 3 ? world->buckets : 3;
}

/* Large buckets of few members, one after the other: what is committed here may still be on its way
 * to others. */
static void haul(struct cell_world *world)
{
    world->rush = CELL_RUSH_MAX;
    world->lowest = limits_count() - HIGH_BORDERS;
    world->borders = HIGH_BORDERS;
    world->members = world->members < HAUL_MEMBERS ? world->members : HAUL_MEMBERS;
    world->hosts = hosts_of(world->way, world->members, world->hosts);
    world->buckets = 1;
}

/* Every third sampled world is small, every third large; most have no losses and joins, because
 * only those tell one order from another. Memory has the most borders, and most worlds. */
void cell_world_sample(uint64_t seed, uint32_t number, uint32_t members_max, struct cell_world *ret)
{
    static const enum cell_way ways[] = { WAY_SHM,  WAY_TCP,   WAY_HOSTS,      WAY_FAR,
                                          WAY_SHM,  WAY_RING,  WAY_HOSTS_TREE, WAY_SHM,
                                          WAY_TREE, WAY_HOSTS, WAY_HOSTS_FAR };
    static const uint32_t chunks[] = { 256 * 1024, 256 * 1024, 16 * 1024, 4096 };
    uint64_t state = numbers_mix(seed) + number * UINT64_C(0xa0761d6478bd642f);
    uint32_t members = number % 3 == 0   ? 1 + below(&state, 5)
                       : number % 3 == 1 ? 2 + below(&state, 14)
                                         : 1 + below(&state, MEMBERS_MAX);
    members = members < members_max ? members : members_max;
    *ret = (struct cell_world){ .way = ways[number % (sizeof ways / sizeof ways[0])],
                                .members = members,
                                .seed = draw(&state) };
    ret->hosts = hosts_of(ret->way, members, 2 + below(&state, 4));
    ret->fan = (uint32_t[]){ 8, 2, 3 }[below(&state, 3)];
    ret->chunk_bytes = chunks[below(&state, 4)];
    ret->channels = below(&state, 3) == 0 ? 2 + below(&state, 3) : 0;
    bool churned = below(&state, 3) == 0;
    ret->losses = churned ? below(&state, 4) : 0;
    ret->joins = churned ? below(&state, 3) + (ret->losses == 0) : 0;
    ret->steps = 8 + 3 * (ret->losses + ret->joins);
    ret->buckets = 1 + below(&state, 8);
    ret->rush = 1 + below(&state, CELL_RUSH_MAX);
    ret->heavy_bytes = 34 * MIB; /* 32 MiB of all members go past the caches */
    ret->borders = limits_count();
    uint32_t pace = below(&state, 6);
    if (pace == 0 && !churned)
        haul(ret);
    churn_fit(ret);
    if (pace > 3 && ret->rush > 1)
        hurry(ret);
}

/* Members from 1 to 40, in every way, undisturbed and with losses and joins; chunks, fans and hosts
 * change from one to the next. Each has all borders, in as many steps as that takes, with types,
 * operations, calls and memory that are drawn; all of that in `rounds` rounds. */
bool cell_world_of_all(uint64_t seed, uint32_t rounds, uint32_t number, struct cell_world *ret)
{
    static const uint32_t chunks[] = { 256 * 1024, 16 * 1024, 4096 };
    uint32_t round = number / (2 * CELL_WAYS * MEMBERS_MAX), churn = number % 2,
             way = number / 2 % CELL_WAYS;
    uint32_t members = number / 2 / CELL_WAYS % MEMBERS_MAX + 1;
    uint64_t state = numbers_mix(seed) + number * UINT64_C(0xa0761d6478bd642f);
    if (round >= rounds)
        return false;
    *ret = (struct cell_world){ .way = (enum cell_way)way,
                                .members = members,
                                .ordered = true,
                                .seed = draw(&state),
                                .buckets = 9,
                                .borders = limits_count() };
    ret->hosts = hosts_of(ret->way, members, 2 + (members + churn + round) % 4);
    ret->fan = (uint32_t[]){ 8, 2, 3 }[(members + churn + round) % 3];
    ret->chunk_bytes = chunks[(members + churn + round) % 3];
    ret->channels = round == 1 ? 4 : 0;
    ret->rush = 1 + (members + round) % CELL_RUSH_MAX;
    ret->losses = churn ? 3 : 0;
    ret->joins = churn ? 2 : 0;
    ret->steps = 2 + (LIMITS_NEAR * limits_count() + ret->buckets - 1) / ret->buckets + 5 * churn;
    ret->heavy_bytes = 256 * MIB;
    churn_fit(ret);
    return true;
}

/* ---- buckets ---- */

size_t cell_element_bytes(const struct cell_bucket *bucket)
{
    return bucket->call >= CALL_COMPRESSED_F16
               ? sizeof(float)
               : spotnik_dtype_bytes((uint64_t)bucket->numbers.dtype);
}

static bool is_half(enum spotnik_dtype dtype)
{
    return dtype == SPOTNIK_F16 || dtype == SPOTNIK_BF16;
}

/* Where members come and go nobody knows in which order they were added up: then only what rounds
 * nothing can be compared. */
static void inputs_choose(const struct cell_world *world, uint32_t live, bool weighted,
                          uint64_t *state, struct cell_bucket *bucket)
{
    struct numbers *numbers = &bucket->numbers;
    bool floats = numbers->dtype == SPOTNIK_F32 || numbers->dtype == SPOTNIK_F64;
    /* What is merely copied keeps the bits of its NaN: of one member, and of a mean in which others
     * weigh nothing. */
    bool copied = live < 2 || (numbers->op == SPOTNIK_MEAN && weighted);
    if (cell_is_churned(world))
        numbers->kind = numbers->op == SPOTNIK_MEAN && !floats ? NUMBERS_EQUAL : NUMBERS_EXACT;
    else
        numbers->kind = (enum numbers_kind[]){ NUMBERS_EXACT, NUMBERS_ROUNDING, NUMBERS_ROUNDING,
                                               NUMBERS_SPECIAL }[below(state, 4)];
    if (numbers->kind == NUMBERS_SPECIAL && copied)
        numbers->kind = NUMBERS_ROUNDING;
    if (numbers->kind != NUMBERS_EQUAL && !floats && !is_half(numbers->dtype))
        numbers->kind = NUMBERS_EXACT;
    uint32_t most = live + (world->joins > 0); /* one may join in this very step */
    if (numbers->dtype == SPOTNIK_Q8 && numbers->op == SPOTNIK_PRODUCT && most > 3)
        numbers->op = SPOTNIK_SUM; /* the product of more does not fit into a scale */
    if (numbers->dtype == SPOTNIK_Q8)
        numbers->kind = NUMBERS_EXACT;
}

static void call_fit(struct cell_bucket *bucket)
{
    if (bucket->call == CALL_COMPRESSED_F16)
        bucket->numbers.dtype = SPOTNIK_F16;
    if (bucket->call == CALL_COMPRESSED_BF16)
        bucket->numbers.dtype = SPOTNIK_BF16;
    if (bucket->call == CALL_COMPRESSED_Q8)
        bucket->numbers.dtype = SPOTNIK_Q8;
}

/* Half of the buckets are plain all-reduces: most of what can go wrong does in them. */
static enum cell_call call_draw(uint64_t *state)
{
    uint32_t drawn = below(state, 2 * CELL_CALLS);
    return drawn < CELL_CALLS ? CALL_ALLREDUCE : (enum cell_call)(drawn - CELL_CALLS);
}

static uint64_t bytes_moved(const struct cell_bucket *bucket, uint32_t live)
{
    uint64_t rows = bucket->call == CALL_ALLGATHER ? bucket->slots : 1;
    return bucket->count * cell_element_bytes(bucket) * rows * live;
}

/* An all-gather's table, and what travels in a compressed one, are what stands at the border. */
static void count_choose(const struct limits_place *place, struct cell_bucket *bucket)
{
    /* of a whole block */
    static const uint32_t short_of[LIMITS_NEAR] = { 1, 0, SPOTNIK_QUANT_BLOCK - 1 };
    size_t one = spotnik_dtype_bytes((uint64_t)bucket->numbers.dtype);
    bucket->count = limits_elements(place, bucket->border, bucket->near, one);
    if (bucket->call == CALL_ALLGATHER)
        bucket->count = (bucket->count + bucket->slots - 1) / bucket->slots;
    if (bucket->call == CALL_COMPRESSED_Q8)
        bucket->count =
            bucket->count * SPOTNIK_QUANT_BLOCK - (bucket->count > 0 ? short_of[bucket->near] : 0);
}

/* In order: bucket k of step s stands at the border of that number, as long as there are any. */
static void border_choose(const struct cell_world *world, uint64_t step, uint32_t k,
                          uint64_t *state, struct cell_bucket *bucket)
{
    uint32_t all = LIMITS_NEAR * world->borders, drawn = below(state, all);
    uint32_t turn = (uint32_t)(step > 2 ? step - 2 : 0) * world->buckets + k;
    uint32_t at = world->ordered ? turn % all : drawn;
    bucket->border = world->lowest + at / LIMITS_NEAR;
    bucket->near = at % LIMITS_NEAR;
}

static void bucket_make(const struct cell_world *world, const struct limits_place *place,
                        struct cell_step *step, uint32_t k, uint32_t live, uint64_t *state)
{
    struct cell_bucket *bucket = &step->bucket[k];
    *bucket = (struct cell_bucket){ .number = (uint32_t)((k * 37 + world->seed) % BUCKET_NUMBERS) };
    bucket->call = call_draw(state);
    bucket->memory = (enum cell_memory)below(state, CELL_MEMORIES);
    bucket->root = below(state, live);
    bucket->slots = CELL_PLAYERS_MAX;
    bucket->numbers =
        (struct numbers){ .dtype = (enum spotnik_dtype)(1 + below(state, SPOTNIK_DTYPE_LAST)),
                          .op = (enum spotnik_op)(1 + below(state, SPOTNIK_PRODUCT)),
                          .key = draw(state),
                          .members = CELL_PLAYERS_MAX };
    if (below(state, 3) == 0)
        bucket->numbers.dtype = SPOTNIK_F32;
    call_fit(bucket);
    inputs_choose(world, live, step->weighted, state, bucket);
    bucket->offset =
        (uint32_t[]){ 0, 0, 64, (uint32_t)cell_element_bytes(bucket) }[below(state, 4)];
    border_choose(world, step->number, k, state, bucket);
    count_choose(place, bucket);
}

/* Where results get to callers before a commit, a loss has to find some of them there: then the
 * first bucket is large, and goes that way. */
static void loss_meet(const struct cell_world *world, const struct limits_place *place,
                      struct cell_step *step, uint64_t *state)
{
    static const enum cell_way ways[] = { WAY_FAR, WAY_HOSTS, WAY_HOSTS_FAR };
    struct cell_bucket *bucket = &step->bucket[0];
    bool early = false;
    for (uint32_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
        early |= world->way == ways[i];
    if (step->losses == 0 || !early || world->ordered)
        return;
    if (bucket->call >= CALL_COMPRESSED_F16)
        bucket->numbers = (struct numbers){ SPOTNIK_I32, SPOTNIK_SUM, NUMBERS_EXACT,
                                            bucket->numbers.key, CELL_PLAYERS_MAX };
    bucket->call = CALL_ALLREDUCE;
    bucket->near = below(state, LIMITS_NEAR);
    bucket->border = limits_count() - 1 - below(state, 7);
    count_choose(place, bucket);
    for (uint32_t i = 0; i < step->losses; i++)
        step->loss[i].when = below(state, 4) ? DEATH_COMMITTING : step->loss[i].when;
}

/* What is too heavy for this step stands at a lower border instead. */
static void weigh(const struct cell_world *world, const struct limits_place *place,
                  struct cell_step *step, uint32_t live)
{
    uint64_t sum = 0;
    for (uint32_t k = 0; k < step->buckets; k++) {
        struct cell_bucket *bucket = &step->bucket[k];
        while (bucket->border > 0 && sum + bytes_moved(bucket, live) > world->heavy_bytes) {
            bucket->border--;
            count_choose(place, bucket);
        }
        sum += bytes_moved(bucket, live);
    }
}

/* Losses and joins are spread over the steps; the first ones see the world as it was made. */
static void churn_make(const struct cell_world *world, struct cell_step *step, uint32_t live,
                       uint64_t *state)
{
    uint32_t turns = world->losses + world->joins;
    uint64_t every = turns > 0 ? (world->steps - 3) / turns : 0;
    if (turns == 0 || step->number < 4 || every == 0 || (step->number - 4) % every != 0
        || (step->number - 4) / every >= turns)
        return;
    uint64_t turn = (step->number - 4) / every;
    step->join = turn % 2 == 1 ? turn / 2 < world->joins : turn / 2 >= world->losses;
    step->losses = step->join ? 0 : 1 + below(state, 3) / 2;
    /* who dies with input unread resets its links, which proves nothing: most must live on */
    step->losses = step->losses < (live + 1) / 2 ? step->losses : (live - 1) / 2;
    step->patience_ns = UINT64_C(100000) << below(state, 7);
    for (uint32_t i = 0; i < step->losses; i++) {
        step->loss[i].of = (below(state, live) + i) % live;
        step->loss[i].when = (enum cell_death)below(state, CELL_DEATHS);
    }
}

void cell_step_make(const struct cell_world *world, const struct limits_place *place,
                    uint64_t number, uint32_t live, struct cell_step *ret)
{
    uint64_t state = numbers_mix(world->seed ^ number * UINT64_C(0xe7037ed1a0b428db));
    *ret = (struct cell_step){ .number = number };
    ret->key = draw(&state);
    ret->weighted = below(&state, 2);
    ret->buckets = world->ordered ? world->buckets : 1 + below(&state, world->buckets);
    for (uint32_t k = 0; k < ret->buckets; k++)
        bucket_make(world, place, ret, k, live, &state);
    churn_make(world, ret, live, &state);
    loss_meet(world, place, ret, &state);
    weigh(world, place, ret, live);
    for (uint32_t k = 0; k < ret->buckets; k++) /* who dies early is dealt no share */
        ret->bucket[k].root %= live - ret->losses;
}

/* One in sixteen contributes nothing to a mean. */
uint64_t cell_weight(const struct cell_step *step, uint32_t player)
{
    uint64_t hash = numbers_mix(step->key + player);
    return !step->weighted ? 1 : hash % 16 == 0 ? 0 : 1 + hash / 16 % 4;
}
