/* SPDX-License-Identifier: Apache-2.0 */
/* Orders of additions. A part is what some members have come to together; parts are joined two and
 * two (round a ring) or several at once (in memory, in a tree). What travels is rounded to the type
 * of the elements, except that means of F32 and F64 travel as weighted sums. Compiled without fused
 * multiply-add, as src/reduce is. */
#include "order.h"

#include <math.h>
#include <string.h>

/* Elements of one part: `f` of F32 and halves, `d` of F64, `u` of integers (signed ones with their
 * sign spread). */
struct part {
    uint64_t weight; /* 0: nobody is in it */
    union {
        float f[ORDER_BLOCK];
        double d[ORDER_BLOCK];
        uint64_t u[ORDER_BLOCK];
    };
};

struct sum {
    const struct order *order;
    const struct numbers *numbers;
    bool wide, mean, sums_mean; /* a mean travels as a weighted sum */
    uint64_t total;
    uint64_t at; /* the block in work */
    size_t count;
};

const char *order_name(enum order_way way)
{
    static const char *const name[] = { "any",  "alone", "ring",       "direct",    "hub",
                                        "tree", "flat",  "hosts-ring", "hosts-tree" };
    return name[way];
}

static bool is_half(enum spotnik_dtype dtype)
{
    return dtype == SPOTNIK_F16 || dtype == SPOTNIK_BF16;
}

static bool is_float(enum spotnik_dtype dtype)
{
    return dtype == SPOTNIK_F32 || is_half(dtype);
}

static bool is_signed(enum spotnik_dtype dtype)
{
    return dtype == SPOTNIK_I8 || dtype == SPOTNIK_I16 || dtype == SPOTNIK_I32
           || dtype == SPOTNIK_I64;
}

static int bits_of(enum spotnik_dtype dtype)
{
    switch (dtype) {
    case SPOTNIK_I8:
    case SPOTNIK_U8:
        return 8;
    case SPOTNIK_I16:
    case SPOTNIK_U16:
        return 16;
    case SPOTNIK_I32:
    case SPOTNIK_U32:
        return 32;
    default:
        return 64;
    }
}

/* ---- elements ---- */

static float half_round(enum spotnik_dtype dtype, float value)
{
    return dtype == SPOTNIK_F16 ? numbers_from_f16(numbers_to_f16(value))
                                : numbers_from_bf16(numbers_to_bf16(value));
}

static uint64_t whole_of(uint64_t bits, enum spotnik_dtype dtype)
{
    int unused = 64 - bits_of(dtype);
    return is_signed(dtype) ? (uint64_t)((int64_t)(bits << unused) >> unused)
                            : bits << unused >> unused;
}

static void load_halves(const struct sum *sum, uint32_t who, struct part *part)
{
    uint16_t raw[ORDER_BLOCK];
    if (sum->wide) {
        numbers_make_wide(sum->numbers, who, sum->at, sum->count, part->f);
        for (size_t i = 0; i < sum->count; i++)
            part->f[i] = half_round(sum->numbers->dtype, part->f[i]);
        return;
    }
    numbers_make(sum->numbers, who, sum->at, sum->count, raw);
    for (size_t i = 0; i < sum->count; i++)
        part->f[i] = sum->numbers->dtype == SPOTNIK_F16 ? numbers_from_f16(raw[i])
                                                        : numbers_from_bf16(raw[i]);
}

static void load_integers(const struct sum *sum, uint32_t who, struct part *part)
{
    uint8_t raw[ORDER_BLOCK * 8];
    size_t one = (size_t)bits_of(sum->numbers->dtype) / 8;
    numbers_make(sum->numbers, who, sum->at, sum->count, raw);
    for (size_t i = 0; i < sum->count; i++) {
        uint64_t bits = 0;
        memcpy(&bits, raw + i * one, one);
        part->u[i] = whole_of(bits, sum->numbers->dtype);
    }
}

static void load(const struct sum *sum, const struct order_member *member, struct part *part)
{
    part->weight = sum->mean ? member->weight : 1;
    if (is_half(sum->numbers->dtype))
        load_halves(sum, member->who, part);
    else if (sum->numbers->dtype == SPOTNIK_F32)
        numbers_make(sum->numbers, member->who, sum->at, sum->count, part->f);
    else if (sum->numbers->dtype == SPOTNIK_F64)
        numbers_make(sum->numbers, member->who, sum->at, sum->count, part->d);
    else
        load_integers(sum, member->who, part);
}

/* Whatever is computed and is not a number is one and the same. */
static void settle_nan(const struct sum *sum, struct part *part)
{
    for (size_t i = 0; i < sum->count; i++)
        if (sum->numbers->dtype == SPOTNIK_F32 && isnan(part->f[i]))
            part->f[i] = NAN;
        else if (sum->numbers->dtype == SPOTNIK_F64 && isnan(part->d[i]))
            part->d[i] = (double)NAN;
}

static void store(const struct sum *sum, struct part *part, uint8_t *out)
{
    enum spotnik_dtype dtype = sum->numbers->dtype;
    settle_nan(sum, part);
    size_t one = dtype == SPOTNIK_F32 ? 4 : is_half(dtype) ? 2 : (size_t)bits_of(dtype) / 8;
    for (size_t i = 0; i < sum->count; i++) {
        uint16_t half = dtype == SPOTNIK_F16    ? numbers_to_f16(part->f[i])
                        : dtype == SPOTNIK_BF16 ? numbers_to_bf16(part->f[i])
                                                : 0;
        const void *from = is_half(dtype)         ? (const void *)&half
                           : dtype == SPOTNIK_F32 ? (const void *)&part->f[i]
                           : dtype == SPOTNIK_F64 ? (const void *)&part->d[i]
                                                  : (const void *)&part->u[i];
        memcpy(out + i * one, from, one); /* integers: the low bytes */
    }
}

/* ---- operations; parts with nobody in them are left out by the callers ---- */

/* Of -0 and +0 the later one wins, and what is not a number is passed on. */
#define LESS(a, b) ((a) < (b) || (a) != (a) ? (a) : (b))
#define MORE(a, b) ((a) > (b) || (a) != (a) ? (a) : (b))
#define JOIN(a, b)                                                                                 \
    (op == SPOTNIK_MIN       ? LESS(a, b)                                                          \
     : op == SPOTNIK_MAX     ? MORE(a, b)                                                          \
     : op == SPOTNIK_PRODUCT ? (a) * (b)                                                           \
                             : (a) + (b))

static void join(const struct sum *sum, struct part *a, const struct part *b)
{
    enum spotnik_op op = sum->numbers->op;
    enum spotnik_dtype dtype = sum->numbers->dtype;
    bool ordered = op == SPOTNIK_MIN || op == SPOTNIK_MAX;
    for (size_t i = 0; i < sum->count; i++)
        if (is_float(dtype))
            a->f[i] = JOIN(a->f[i], b->f[i]);
        else if (dtype == SPOTNIK_F64)
            a->d[i] = JOIN(a->d[i], b->d[i]);
        else if (ordered && is_signed(dtype))
            a->u[i] = (uint64_t)JOIN((int64_t)a->u[i], (int64_t)b->u[i]);
        else if (sum->mean)
            a->u[i] += b->u[i]; /* weighted sums, which fit */
        else
            a->u[i] = whole_of(JOIN(a->u[i], b->u[i]), dtype);
    a->weight += b->weight;
}

static void scale(const struct sum *sum, struct part *part, uint64_t weight)
{
    for (size_t i = 0; i < sum->count && weight != 1; i++)
        if (is_float(sum->numbers->dtype))
            part->f[i] *= (float)weight;
        else if (sum->numbers->dtype == SPOTNIK_F64)
            part->d[i] *= (double)weight;
        else
            part->u[i] *= weight;
}

/* To nearest, halves to even. */
static int64_t quotient(int64_t sum, int64_t weight)
{
    int64_t below = sum / weight - (sum % weight < 0), rest = sum - below * weight;
    return below + (2 * rest > weight || (2 * rest == weight && (below & 1)));
}

static void divide(const struct sum *sum, struct part *part, uint64_t weight)
{
    for (size_t i = 0; i < sum->count && weight > 1; i++)
        if (is_float(sum->numbers->dtype))
            part->f[i] /= (float)weight;
        else if (sum->numbers->dtype == SPOTNIK_F64)
            part->d[i] /= (double)weight;
        else
            part->u[i] = (uint64_t)quotient((int64_t)part->u[i], (int64_t)weight);
}

static void round_part(const struct sum *sum, struct part *part)
{
    for (size_t i = 0; i < sum->count && is_half(sum->numbers->dtype); i++)
        part->f[i] = half_round(sum->numbers->dtype, part->f[i]);
}

/* The weight a part goes into a mean with: once, where it is a weighted sum already. */
static uint64_t times(const struct sum *sum, const struct part *part, bool input)
{
    return !sum->mean || (sum->sums_mean && !input) ? 1 : part->weight;
}

/* Several at once: `first` is an input, or (`summed`) a part; the others are inputs as long as
 * `inputs` says so. */
struct fold {
    struct part whole;
    bool begun;
};

static void fold_add(const struct sum *sum, struct fold *fold, struct part *next, bool input)
{
    uint64_t weight = next->weight;
    if (weight == 0)
        return;
    if (sum->mean)
        scale(sum, next, times(sum, next, input));
    if (fold->begun)
        join(sum, &fold->whole, next);
    else
        fold->whole = *next;
    fold->begun = true;
}

/* `last`: nothing more is added to it. */
static void fold_end(const struct sum *sum, struct fold *fold, bool last)
{
    if (!fold->begun) {
        memset(&fold->whole, 0, sizeof fold->whole);
        return;
    }
    if (sum->mean && (last || !sum->sums_mean))
        divide(sum, &fold->whole, fold->whole.weight);
    round_part(sum, &fold->whole);
}

/* ---- segments ---- */

static uint64_t segment_begin(uint64_t total, uint32_t size, uint32_t segment)
{
    uint64_t rest = total % size;
    return total / size * segment + (segment < rest ? segment : rest);
}

static uint32_t segment_at(uint64_t total, uint32_t size, uint64_t at)
{
    uint32_t segment = 0;
    while (segment + 1 < size && segment_begin(total, size, segment + 1) <= at)
        segment++;
    return segment;
}

static uint64_t segment_end(uint64_t total, uint32_t size, uint64_t at)
{
    return segment_begin(total, size, segment_at(total, size, at) + 1);
}

/* ---- hosts ---- */

/* The members of host number `number`, by their first members' ranks. Returns how many. */
static uint32_t host_members(const struct order *order, uint32_t number, struct order_member *ret)
{
    uint32_t seen = 0, members = 0;
    for (uint32_t rank = 0; rank < order->members; rank++) {
        uint32_t before = 0;
        while (order->member[before].host != order->member[rank].host)
            before++;
        if (before < rank)
            continue;
        if (seen++ != number)
            continue;
        for (uint32_t mate = rank; mate < order->members; mate++)
            if (order->member[mate].host == order->member[rank].host)
                ret[members++] = order->member[mate];
        break;
    }
    return members;
}

static uint32_t host_count(const struct order *order)
{
    struct order_member unused[ORDER_MEMBERS_MAX];
    uint32_t count = 0;
    while (host_members(order, count, unused) > 0)
        count++;
    return count;
}

/* Members of one memory add up: those of segment j from member j on, rounded once. */
static void in_memory(const struct sum *sum, const struct order_member *member, uint32_t members,
                      bool last, struct part *ret)
{
    struct fold fold = { .begun = false };
    uint32_t first = segment_at(sum->total, members, sum->at);
    for (uint32_t i = 0; i < members; i++) {
        struct part next;
        load(sum, &member[(first + i) % members], &next);
        fold_add(sum, &fold, &next, true);
    }
    fold_end(sum, &fold, last);
    *ret = fold.whole;
}

/* ---- nodes: members, or hosts whose members have added up ---- */

static bool by_hosts(const struct sum *sum)
{
    return sum->order->way == ORDER_HOSTS_RING || sum->order->way == ORDER_HOSTS_TREE;
}

static uint32_t node_count(const struct sum *sum)
{
    return by_hosts(sum) ? host_count(sum->order) : sum->order->members;
}

/* Whether it is an input. */
static bool node(const struct sum *sum, uint32_t number, struct part *ret)
{
    struct order_member member[ORDER_MEMBERS_MAX];
    uint32_t members = by_hosts(sum) ? host_members(sum->order, number, member) : 0;
    if (members > 1)
        in_memory(sum, member, members, false, ret);
    else
        load(sum, by_hosts(sum) ? &member[0] : &sum->order->member[number], ret);
    return members <= 1;
}

/* Two parts become one. */
static void hop(const struct sum *sum, struct part *received, struct part *own, bool input)
{
    struct fold fold = { .whole = *received, .begun = received->weight > 0 };
    if (own->weight == 0)
        return;
    if (fold.begun && sum->mean && !sum->sums_mean)
        scale(sum, &fold.whole, fold.whole.weight);
    fold_add(sum, &fold, own, input);
    if (sum->mean && !sum->sums_mean)
        divide(sum, &fold.whole, fold.whole.weight);
    round_part(sum, &fold.whole);
    *received = fold.whole;
}

static void round_a_ring(const struct sum *sum, struct part *ret)
{
    uint32_t nodes = node_count(sum), first = segment_at(sum->total, nodes, sum->at);
    memset(ret, 0, sizeof *ret);
    for (uint32_t i = 0; i < nodes; i++) {
        struct part own;
        bool input = node(sum, (first + i) % nodes, &own);
        hop(sum, ret, &own, input);
    }
    if (sum->sums_mean)
        divide(sum, ret, ret->weight);
}

static void up_a_tree(const struct sum *sum, uint32_t nodes, uint32_t place, struct part *ret)
{
    struct fold fold = { .begun = false };
    struct part own;
    bool input = node(sum, place, &own);
    fold_add(sum, &fold, &own, input);
    for (uint32_t child = sum->order->fan * place + 1;
         child <= sum->order->fan * (place + 1) && child < nodes; child++) {
        struct part below;
        up_a_tree(sum, nodes, child, &below);
        fold_add(sum, &fold, &below, false);
    }
    fold_end(sum, &fold, place == 0);
    *ret = fold.whole;
}

static void any_order(const struct sum *sum, struct part *ret)
{
    struct fold fold = { .begun = false };
    for (uint32_t i = 0; i < sum->order->members; i++) {
        struct part next;
        load(sum, &sum->order->member[i], &next);
        fold_add(sum, &fold, &next, true);
    }
    fold_end(sum, &fold, true);
    *ret = fold.whole;
}

/* The order is the same for all elements from `at` to there. */
static uint64_t same_until(const struct sum *sum)
{
    struct order_member unused[ORDER_MEMBERS_MAX];
    uint64_t until = segment_end(sum->total, node_count(sum), sum->at);
    for (uint32_t i = 0; by_hosts(sum) && i < node_count(sum); i++) {
        uint64_t end = segment_end(sum->total, host_members(sum->order, i, unused), sum->at);
        until = end < until ? end : until;
    }
    return until;
}

static void block(const struct sum *sum, struct part *ret)
{
    switch (sum->order->way) {
    case ORDER_RING:
    case ORDER_HOSTS_RING:
        round_a_ring(sum, ret);
        break;
    case ORDER_TREE:
    case ORDER_HOSTS_TREE:
        up_a_tree(sum, node_count(sum), 0, ret);
        break;
    case ORDER_DIRECT:
    case ORDER_HUB:
    case ORDER_FLAT:
        in_memory(sum, sum->order->member, sum->order->members, true, ret);
        break;
    default:
        any_order(sum, ret);
        break;
    }
}

void order_result(const struct order *order, const struct numbers *numbers, bool wide,
                  uint64_t total, uint64_t from, size_t count, void *out)
{
    struct sum sum = { .order = order,
                       .numbers = numbers,
                       .wide = wide,
                       .mean = numbers->op == SPOTNIK_MEAN,
                       .total = total };
    sum.sums_mean = sum.mean && (numbers->dtype == SPOTNIK_F32 || numbers->dtype == SPOTNIK_F64);
    size_t one = numbers->dtype == SPOTNIK_F32 ? 4
                 : is_half(numbers->dtype)     ? 2
                                               : (size_t)bits_of(numbers->dtype) / 8;
    struct part part;
    for (uint64_t until = from + count; from < until; from += sum.count) {
        sum.at = from;
        uint64_t left = same_until(&sum) - from;
        left = left < until - from ? left : until - from;
        sum.count = left < ORDER_BLOCK ? left : ORDER_BLOCK;
        block(&sum, &part);
        store(&sum, &part, out);
        out = (uint8_t *)out + sum.count * one;
    }
}
