/* SPDX-License-Identifier: Apache-2.0 */
/* spotnik bench allreduce: how long a step with one bucket takes here, for every way to move it. It
 * also says which algorithm the library takes at each size, and why. Options and tables;
 * bench_allreduce_worker.c measures. */
#include "bench_allreduce.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bench_allreduce_worker.h"
#include "common/options.h"
#include "ring/choice.h"
#include "ring/tree.h"
#include "spotnik/spotnik.h"

#define LIST_MAX ALLREDUCE_SIZES_MAX

struct request {
    uint64_t workers[LIST_MAX];
    uint32_t workers_count;
    uint64_t steps;
    struct allreduce_plan plan;
    bool explain, json;
};

static const char *const way_text[] = { "shm, owned", "shm", "tcp" };
static const char *const algorithm_text[] = { "-",    "flat small", "flat large", "ring",
                                              "ring", "ring",       "direct",     "hub",
                                              "tree", "hierarchy" };

static const char help[] =
    "Usage: spotnik bench allreduce [OPTION]...\n\n"
    "Start workers on this host that all-reduce float32 sums, and measure whole steps: begin, "
    "all-reduce, commit. Every worker is a\n"
    "member of two jobs, one in shared memory and one over TCP, and they take turns.\n\n"
    "      --workers LIST    how many workers                        [2,4,8]\n"
    "      --hosts N         have the workers take themselves for those of N hosts, in turn; they "
    "share memory with their own only [1]\n"
    "      --sizes LIST      of the bucket                           "
    "[4KiB,32KiB,256KiB,4MiB,25MiB,100MiB]\n"
    "      --steps N         per cell                                [20]\n"
    "      --compress FORM   have it travel as f16, bf16 or q8, and print the error\n"
    "      --explain         say which algorithm was taken, and why\n"
    "      --json            one JSON object per line\n\n"
    "  shm, owned   memory of spotnik_alloc(), result read where it lies: nothing is copied\n"
    "  shm          a pointer of the caller's, as PyTorch's are: copied in and out\n"
    "  tcp          the same over sockets, as between hosts (SPOTNIK_TRANSPORT=tcp)\n\n"
    "GB/s is 2(N-1)/N of the bucket by the median time: what a ring would have had to move on each "
    "link, so numbers for different N\n"
    "compare. With --compress the bucket is still counted as float32. Its errors are those against "
    "a sum in float64: the greatest, as a\n"
    "share of the greatest sum, and the root of the mean square, as a share of the sums'. Let "
    "nothing else run meanwhile.\n";

static bool take_list(const char *text, bool is_bytes, uint64_t max, uint64_t *ret,
                      uint32_t *ret_count)
{
    char copy[256], *rest = copy, *word;

    if (strlen(text) >= sizeof(copy))
        return false;
    strcpy(copy, text);
    for (*ret_count = 0; (word = strsep(&rest, ",")); ++*ret_count)
        if (*ret_count == LIST_MAX
            || !(is_bytes ? option_bytes(word, &ret[*ret_count]) && ret[*ret_count] >= sizeof(float)
                          : option_u64(word, 2, max, &ret[*ret_count])))
            return false;
    return true;
}

static bool take_form(const char *text, int *ret)
{
    static const struct {
        const char *name;
        int wire;
    } form[] = { { "f16", SPOTNIK_F16 }, { "bf16", SPOTNIK_BF16 }, { "q8", SPOTNIK_Q8 } };

    for (size_t i = 0; i < sizeof(form) / sizeof(*form); i++)
        if (!strcmp(text, form[i].name)) {
            *ret = form[i].wire;
            return true;
        }
    return false;
}

static bool take_hosts(const char *text, uint32_t *ret)
{
    uint64_t hosts;

    if (!option_u64(text, 1, ALLREDUCE_WORKERS_MAX, &hosts))
        return false;
    *ret = (uint32_t)hosts;
    return true;
}

static bool take_option(struct request *request, int option, const char *value)
{
    switch (option) {
    case 'w':
        return take_list(value, false, ALLREDUCE_WORKERS_MAX, request->workers,
                         &request->workers_count);
    case 'H':
        return take_hosts(value, &request->plan.hosts);
    case 's':
        return take_list(value, true, 0, request->plan.bytes, &request->plan.sizes);
    case 'n':
        return option_u64(value, 1, ALLREDUCE_STEPS_MAX, &request->steps);
    case 'c':
        return take_form(value, &request->plan.wire);
    case 'e':
        request->explain = true;
        return true;
    case 'j':
        request->json = true;
        return true;
    default:
        return false;
    }
}

/* 0: go on; 1: help was wanted; 2: refused. */
static int parse(int argc, char **argv, struct request *request)
{
    static const struct option names[] = { { "workers", required_argument, NULL, 'w' },
                                           { "sizes", required_argument, NULL, 's' },
                                           { "steps", required_argument, NULL, 'n' },
                                           { "compress", required_argument, NULL, 'c' },
                                           { "hosts", required_argument, NULL, 'H' },
                                           { "explain", no_argument, NULL, 'e' },
                                           { "json", no_argument, NULL, 'j' },
                                           { "help", no_argument, NULL, 'h' },
                                           { NULL, 0, NULL, 0 } };
    int option;

    opterr = 0;
    optind = 0;
    while ((option = getopt_long(argc, argv, "h", names, NULL)) != -1) {
        if (option == 'h') {
            fputs(help, stdout);
            return 1;
        }
        if (option == '?')
            return option_refuse("bench", "unknown option, or a value is missing: %s",
                                 argv[optind - 1]);
        if (!take_option(request, option, optarg))
            return option_refuse("bench", "\"%s\" is no value for %s", optarg, argv[optind - 2]);
    }
    return optind == argc
               ? 0
               : option_refuse("bench", "what is \"%s\"? Sizes go behind --sizes", argv[optind]);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void size_text(uint64_t bytes, char text[24])
{
    static const char *const unit[] = { "B", "KiB", "MiB", "GiB" };
    int i = 0;

    for (; i < 3 && bytes >= 1024 && bytes % 1024 == 0; i++)
        bytes /= 1024;
    snprintf(text, 24, "%llu %s", (unsigned long long)bytes, unit[i]);
}

static double gigabytes_per_s(uint32_t workers, uint64_t bytes, double ms)
{
    return 2.0 * (workers - 1) / workers * (double)bytes / ms / 1e6;
}

static void print_error(const struct request *request, const struct allreduce_cell *cell)
{
    if (request->json && request->plan.wire)
        printf(",\"error_most\":%.3g,\"error_mean\":%.3g", cell->error_most, cell->error_mean);
    else if (request->plan.wire)
        printf(" %11.2g %11.2g", cell->error_most, cell->error_mean);
    puts(request->json ? "}" : "");
}

static void print_cell(const struct request *request, const struct allreduce_plan *plan,
                       uint32_t size, enum allreduce_way way, struct allreduce_cell *cell)
{
    char text[24];

    qsort(cell->ms, plan->steps, sizeof(*cell->ms), ascending);
    double median = cell->ms[plan->steps / 2],
           rate = gigabytes_per_s(plan->workers, plan->bytes[size], median);
    size_text(plan->bytes[size], text);
    if (request->json)
        printf("{\"workers\":%u,\"bytes\":%llu,\"way\":\"%s\",\"algorithm\":\"%s\",\"steps\":%u,"
               "\"median_ms\":%.5f,\"min_ms\":%.5f,"
               "\"max_ms\":%.5f,\"gb_per_s\":%.3f",
               plan->workers, (unsigned long long)plan->bytes[size], way_text[way],
               algorithm_text[cell->algorithm], plan->steps, median, cell->ms[0],
               cell->ms[plan->steps - 1], rate);
    else
        printf("%7u %10s  %-11s %-11s %10.3f %10.3f %9.2f", plan->workers, text, way_text[way],
               algorithm_text[cell->algorithm], median, cell->ms[0], rate);
    print_error(request, cell);
}

static void explain_table(void)
{
    char bytes[24], members[32];

    printf("  the table    of buckets that go over TCP, by measurement (first row that fits; else "
           "ring):\n              ");
    for (const struct spotnik_choice *row = spotnik_choice_measured; row->members_max; row++) {
        size_text(row->bytes_max, bytes);
        if (row->members_max == SPOTNIK_CHOICE_ALL)
            snprintf(members, sizeof(members), "any members");
        else
            snprintf(members, sizeof(members), "up to %u members", row->members_max);
        printf("%s %s%s and %s: %s", row == spotnik_choice_measured ? "" : ";", members,
               row->near ? " of one host" : "", bytes, spotnik_schedule_name(row->schedule));
    }
    printf("\n");
}

static void explain_tree(const struct allreduce_plan *plan)
{
    uint32_t levels = 0;

    for (uint64_t last = plan->workers - 1; last > 0; last = (last - 1) / SPOTNIK_TREE_FAN_MAX)
        levels++;
    printf("  tree         small, over TCP, more members than one could wait for at once: sums go "
           "up a tree, %u to one, and the result down.\n"
           "               %u hops and %u messages, where the ring has %u hops and %u messages.\n",
           SPOTNIK_TREE_FAN_MAX, 2 * levels, 2 * (plan->workers - 1), 2 * (plan->workers - 1),
           2 * plan->workers * (plan->workers - 1));
}

static void explain_hosts(const struct allreduce_plan *plan, const char *small)
{
    uint32_t hosts = plan->hosts;

    printf("  hierarchy    %u hosts, some of several members: each adds up in its memory what its "
           "members put in, and one member of each sends\n"
           "               the sum round a ring of the %u hosts. So a host sends 2 * %u/%u of the "
           "bucket over its card, where in a ring of\n"
           "               all each of its members would send 2 * %u/%u of it. Up to %s that "
           "member adds up all of it; more comes in\n"
           "               pieces, the first on the wire while the last are added up. From three "
           "hosts on, what by the table does not go\n"
           "               round a ring goes up a tree of the hosts.\n",
           hosts, hosts, hosts - 1, hosts, plan->workers - 1, plan->workers, small);
}

/* What carries the bytes that go over TCP. */
static void explain_channels(const struct allreduce_board *board)
{
    for (uint32_t i = 0; i < board->lanes; i++) {
        const struct allreduce_channel *channel = &board->channel[i];
        printf("  %-12s from worker 0 to %s: %u connection%s, congestion control %s, round trip "
               "%.3f ms\n",
               i == 0 ? "connections" : "", board->lanes > 1 ? "another" : "the next",
               channel->connections, channel->connections == 1 ? "" : "s", channel->congestion,
               (double)channel->round_trip_ns / 1e6);
    }
}

/* Each reason once, for the ways and sizes it holds for. */
static void explain(const struct allreduce_plan *plan, const struct allreduce_board *board)
{
    bool seen[ALLREDUCE_HOSTS + 1] = { false };
    char small[24], chunk[24];

    for (uint32_t size = 0; size < plan->sizes; size++)
        for (int way = 0; way < ALLREDUCE_WAYS; way++)
            seen[board->cell[size][way].algorithm] = true;
    size_text(board->small_bytes, small);
    size_text(board->chunk_bytes, chunk);
    printf("\nWhy, with %u workers%s:\n", plan->workers,
           plan->hosts > 1 ? ", each of one of several hosts" : "");
    if (seen[ALLREDUCE_FLAT_SMALL])
        printf("  flat small   all members share memory, and the bucket has at most %s: each puts "
               "its input up and adds up all of\n"
               "               them itself. One wait for the others; to divide the work would take "
               "a second one, which costs more.\n",
               small);
    if (seen[ALLREDUCE_FLAT_LARGE])
        printf("  flat large   all members share memory, and the bucket is larger than %s: each "
               "adds up 1/%u of it from all inputs\n"
               "               where they lie, and reads the others' parts. Two waits; a byte is "
               "read where it was written.\n",
               small, plan->workers);
    if (seen[ALLREDUCE_HOSTS])
        explain_hosts(plan, small);
    if (seen[ALLREDUCE_RING])
        printf("  ring         bytes go over TCP, so each link is used evenly: %u hops of 1/%u of "
               "the bucket, in chunks of at most %s\n"
               "               that follow each other. The first step of every view uses it, and "
               "views in which no members share a host.\n",
               2 * (plan->workers - 1), plan->workers, chunk);
    if (seen[ALLREDUCE_DIRECT])
        printf("  direct       small, over TCP: every member sends its input to all others and "
               "adds up all of them. One hop, %u messages.\n",
               plan->workers * (plan->workers - 1));
    if (seen[ALLREDUCE_HUB])
        printf("  hub          small, over TCP on one host: every member sends rank 0 its input "
               "and receives the result. Two hops, %u messages, where\n"
               "               the ring has %u hops and %u messages.\n",
               2 * (plan->workers - 1), 2 * (plan->workers - 1),
               2 * plan->workers * (plan->workers - 1));
    if (seen[ALLREDUCE_TREE])
        explain_tree(plan);
    explain_table();
    explain_channels(board);
    if (seen[ALLREDUCE_RING_NO_MEMORY])
        printf("  ring (shm)   memory cannot be shared here: the system offers none (memfd, "
               "futex_waitv), a limit on address space is in\n"
               "               the way, or SPOTNIK_CPU differs. SPOTNIK_TRANSPORT=shm says what is "
               "missing.\n");
    if (seen[ALLREDUCE_RING_APART])
        printf(
            "  ring (shm)   not every worker has reached the memory of every other one (yet).\n");
}

static bool one_count(const struct request *request, uint32_t workers,
                      struct allreduce_board *board)
{
    struct allreduce_plan plan = request->plan;

    memset(board, 0, sizeof(*board));
    plan.workers = workers;
    plan.steps = (uint32_t)request->steps;
    if (!allreduce_measure(&plan, board)) {
        fprintf(stderr, "spotnik bench: %s\n", board->failure);
        return false;
    }
    for (uint32_t size = 0; size < plan.sizes; size++)
        for (enum allreduce_way way = 0; way < ALLREDUCE_WAYS; way++)
            print_cell(request, &plan, size, way, &board->cell[size][way]);
    if (request->explain && !request->json)
        explain(&plan, board);
    fflush(stdout);
    return true;
}

int spotnik_bench_allreduce(int argc, char **argv)
{
    struct request request = { .workers = { 2, 4, 8 },
                               .workers_count = 3,
                               .steps = 20,
                               .plan = { .sizes = 6,
                                         .bytes = { 4 << 10, 32 << 10, 256 << 10, 4 << 20, 25 << 20,
                                                    100 << 20 } } };
    int refused = parse(argc, argv, &request);

    if (refused)
        return refused == 1 ? 0 : refused;
    struct allreduce_board *board =
        mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (board == MAP_FAILED) {
        perror("spotnik bench");
        return 1;
    }
    if (!request.json)
        printf("%7s %10s  %-11s %-11s %10s %10s %9s%s\n", "workers", "bucket", "way", "algorithm",
               "median ms", "least ms", "GB/s",
               request.plan.wire ? " error: most        mean" : "");
    bool good = true;
    for (uint32_t i = 0; good && i < request.workers_count; i++)
        good = one_count(&request, (uint32_t)request.workers[i], board);
    munmap(board, sizeof(*board));
    return good ? 0 : 1;
}
