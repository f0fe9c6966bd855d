/* SPDX-License-Identifier: Apache-2.0 */
/* How fast the kernels of src/reduce are beside what memory allows. memcpy and a STREAM triad are
 * measured in the same run, every cell once a round in turn. It prints medians.
 *
 * GB/s counts bytes read and written by the program. The share compares with the triad (two reads,
 * one write) that stores in the same way. The triad runs right before, or in every other round
 * right after, since the speed of memory drifts. Its time is scaled by the traffic that must cross
 * to memory. A plain store reads the line before it writes it, so a written byte counts twice
 * there; a streaming store does not. Where that would have a core read faster than a loop that does
 * nothing but read, the time of that loop counts instead. Reading more than two streams side by
 * side is slower by itself. So kernels with more inputs are also compared with a loop that only
 * adds up as many arrays, two or four lines of each in turn, whichever is faster.
 *
 * All loops work on the same arrays, on pages of 4 KiB, or of 2 MiB where the kernel has them and
 * `huge` is asked for. What is printed is the median over rounds of a round's share, and half the
 * distance between its quartiles.
 *
 * Usage: kernels [ROUNDS [MIB [huge]]]. MIB is the size of each array beyond the caches, 64 by
 * default. Let nothing else run. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "reduce/compress.h"
#include "reduce/tiers.h"

enum { INPUTS_MAX = 8, CELLS_MAX = 400, ROUNDS_MAX = 1000, SMALL = 64 * 1024 };

enum kind { MEMCPY, READ, TRIAD, FOLD, NARROW, WIDEN, QUANTISE, DEQUANTISE };

struct cell {
    enum kind kind;
    const struct spotnik_reduce_tier *tier;
    enum spotnik_dtype dtype;
    enum spotnik_op op;
    size_t inputs, bytes; /* bytes of each input of a fold; of the F32 side of the others */
    bool is_streamed;
    double ms[ROUNDS_MAX], median;
    double shares[ROUNDS_MAX], share, spread; /* of the speed that memory allows */
    /* more than 2 inputs: of a bare loop over as many arrays */
    double bare[ROUNDS_MAX], bare_share, bare_spread;
};

static const char *const dtype_names[] = { "",     "f32", "f64", "i32", "i64", "u8", "f16",
                                           "bf16", "i8",  "i16", "u16", "u32", "u64" };
static const char *const op_names[] = { "", "sum", "mean", "min", "max", "product" };

static uint8_t *input[INPUTS_MAX], *output;
static struct cell cells[CELLS_MAX];
static size_t cell_count, large;
static int rounds = 20;
static volatile double sink;

static double now_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void triad(double *out, const double *a, const double *b,
                                                  size_t count, bool is_streamed)
{
    const __m256d factor = _mm256_set1_pd(3);
    __m256d sum[4];

    for (size_t i = 0; i + 16 <= count; i += 16) {
        for (size_t k = 0; k < 4; k++)
            sum[k] = _mm256_add_pd(_mm256_load_pd(a + i + 4 * k),
                                   _mm256_mul_pd(factor, _mm256_load_pd(b + i + 4 * k)));
        for (size_t k = 0; k < 4; k++)
            if (is_streamed)
                _mm256_stream_pd(out + i + 4 * k, sum[k]);
            else
                _mm256_store_pd(out + i + 4 * k, sum[k]);
    }
    _mm_sfence();
}

/* All inputs added up in doubles, `lines` lines of each in turn, stored past the caches. */
__attribute__((target("avx2"), always_inline)) static inline void add_up(size_t inputs,
                                                                         size_t bytes, size_t lines)
{
    __m256d sum[8];

    for (size_t at = 0; at + 64 * lines <= bytes; at += 64 * lines) {
        for (size_t k = 0; k < 2 * lines; k++)
            sum[k] = _mm256_load_pd((const double *)(const void *)(input[0] + at + 32 * k));
        for (size_t i = 1; i < inputs; i++)
            for (size_t k = 0; k < 2 * lines; k++)
                sum[k] = _mm256_add_pd(sum[k],
                                       _mm256_load_pd((const double *)(const void *)(input[i] + at
                                                                                     + 32 * k)));
        for (size_t k = 0; k < 2 * lines; k++)
            _mm256_stream_pd((double *)(void *)(output + at + 32 * k), sum[k]);
    }
    _mm_sfence();
}

__attribute__((target("avx2"))) static void add_up_by_two(size_t inputs, size_t bytes)
{
    add_up(inputs, bytes, 2);
}

__attribute__((target("avx2"))) static void add_up_by_four(size_t inputs, size_t bytes)
{
    add_up(inputs, bytes, 4);
}

__attribute__((target("avx2"))) static double read_all(const double *a, size_t count)
{
    __m256d sum[8];
    double lanes[4];

    for (size_t k = 0; k < 8; k++)
        sum[k] = _mm256_setzero_pd();
    for (size_t i = 0; i + 32 <= count; i += 32)
        for (size_t k = 0; k < 8; k++)
            sum[k] = _mm256_add_pd(sum[k], _mm256_load_pd(a + i + 4 * k));
    for (size_t k = 1; k < 8; k++)
        sum[0] = _mm256_add_pd(sum[0], sum[k]);
    _mm256_storeu_pd(lanes, sum[0]);
    return lanes[0] + lanes[1] + lanes[2] + lanes[3];
}

static bool triad_is_supported(void)
{
    return __builtin_cpu_supports("avx2");
}
#else
static double read_all(const double *a, size_t count)
{
    double sum[8] = { 0 };

    for (size_t i = 0; i + 8 <= count; i += 8)
        for (size_t k = 0; k < 8; k++)
            sum[k] += a[i + k];
    return sum[0] + sum[1] + sum[2] + sum[3] + sum[4] + sum[5] + sum[6] + sum[7];
}

static void add_up_by_two(size_t inputs, size_t bytes)
{
    for (size_t at = 0; at + 64 <= bytes; at += 64) {
        double sum[8] = { 0 };
        for (size_t i = 0; i < inputs; i++)
            for (size_t k = 0; k < 8; k++)
                sum[k] += ((const double *)(const void *)(input[i] + at))[k];
        memcpy(output + at, sum, sizeof sum);
    }
}
#define add_up_by_four add_up_by_two

static void triad(double *out, const double *a, const double *b, size_t count, bool is_streamed)
{
    (void)is_streamed;
    for (size_t i = 0; i < count; i++)
        out[i] = a[i] + 3 * b[i];
}

static bool triad_is_supported(void)
{
    return true;
}
#endif

static void fold(const struct cell *cell)
{
    struct spotnik_reduce_input from[INPUTS_MAX];
    struct spotnik_reduce_inputs in = { .input = from,
                                        .inputs = cell->inputs,
                                        .bytes = cell->bytes,
                                        .divisor64 = 3 * (double)cell->inputs,
                                        .divisor32 = 3 * (float)cell->inputs,
                                        .is_streamed = cell->is_streamed };

    for (size_t i = 0; i < cell->inputs; i++)
        from[i] = (struct spotnik_reduce_input){ .data = input[i], .weight64 = 3, .weight32 = 3 };
    cell->tier->kernels->fold[cell->dtype][cell->op](output, &in);
}

static void run_once(const struct cell *cell)
{
    const struct spotnik_reduce_kernels *kernels = cell->tier ? cell->tier->kernels : NULL;
    size_t count = cell->bytes / sizeof(float);

    switch (cell->kind) {
    case MEMCPY:
        memcpy(output, input[0], cell->bytes);
        break;
    case READ:
        sink = read_all((double *)input[0], cell->bytes / sizeof(double));
        break;
    case TRIAD:
        triad((double *)output, (double *)input[0], (double *)input[1],
              cell->bytes / sizeof(double), cell->is_streamed);
        break;
    case FOLD:
        fold(cell);
        break;
    case NARROW:
        kernels->narrow[cell->dtype](output, (float *)input[0], count);
        break;
    case WIDEN:
        kernels->widen[cell->dtype]((float *)output, input[0], count);
        break;
    case QUANTISE:
        kernels->quantise(output, (float *)input[0], count);
        break;
    case DEQUANTISE:
        kernels->dequantise((float *)output, input[0], count);
        break;
    }
}

static void sizes(const struct cell *cell, double *ret_read, double *ret_written)
{
    double bytes = (double)cell->bytes;
    double small = cell->kind == NARROW || cell->kind == WIDEN
                       ? bytes / 2
                       : (double)spotnik_quant_bytes(cell->bytes / 4);

    *ret_read =
        cell->kind == NARROW || cell->kind == QUANTISE || cell->kind == MEMCPY || cell->kind == READ
            ? bytes
        : cell->kind == WIDEN || cell->kind == DEQUANTISE ? small
        : cell->kind == TRIAD                             ? 2 * bytes
                                                          : (double)cell->inputs * bytes;
    *ret_written = cell->kind == READ                               ? 0
                   : cell->kind == NARROW || cell->kind == QUANTISE ? small
                                                                    : bytes;
}

static struct cell *add(struct cell cell)
{
    if (cell_count == CELLS_MAX)
        abort();
    cells[cell_count] = cell;
    return &cells[cell_count++];
}

/* Small arrays are gone over until as much has been done as one large array holds: the clock is
 * coarse. */
static double ms_of(const struct cell *cell)
{
    size_t repeats = cell->bytes == large ? 1 : 16 * 1024 * 1024 / cell->bytes;
    double begin = now_ms();

    for (size_t i = 0; i < repeats; i++)
        run_once(cell);
    return (now_ms() - begin) / (double)repeats;
}

/* Bytes that cross from and to memory. */
static void traffic(const struct cell *cell, double *ret_in, double *ret_both)
{
    double read, written;

    sizes(cell, &read, &written);
    *ret_in = read + (cell->is_streamed ? 0 : written);
    *ret_both = *ret_in + written;
}

/* What memory allows right now: measures. */
static double allowed_ms(const struct cell *cell)
{
    const struct cell reading = { .kind = READ, .bytes = cell->bytes };
    const struct cell scaled = { .kind = TRIAD,
                                 .bytes = cell->bytes,
                                 .is_streamed = cell->is_streamed };
    double in, both, scaled_in, scaled_both;

    traffic(cell, &in, &both);
    traffic(&scaled, &scaled_in, &scaled_both);
    double by_triad = ms_of(&scaled) * both / scaled_both,
           by_reading = ms_of(&reading) * in / (double)cell->bytes;
    return by_triad > by_reading ? by_triad : by_reading;
}

static double add_up_ms(const struct cell *cell, void (*loop)(size_t, size_t))
{
    double begin = now_ms();

    loop(cell->inputs, cell->bytes);
    return now_ms() - begin;
}

/* The same for a loop over as many arrays. */
static double bare_ms(const struct cell *cell)
{
    double two, four;

    if (!(cell->is_streamed && cell->inputs > 2))
        return 0;
    two = add_up_ms(cell, add_up_by_two);
    four = add_up_ms(cell, add_up_by_four);
    return two < four ? two : four;
}

static void measure(void)
{
    for (int round = -1; round < rounds; round++)
        for (size_t i = 0; i < cell_count; i++) {
            struct cell *cell = &cells[i];
            double before = round % 2 ? 0 : allowed_ms(cell), ms = ms_of(cell);
            double allowed = round % 2 ? allowed_ms(cell) : before;
            if (round >= 0) {
                cell->ms[round] = ms;
                cell->shares[round] = allowed / ms;
                cell->bare[round] = bare_ms(cell) / ms;
            }
        }
}

static int compare(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static double gigabytes(const struct cell *cell)
{
    double read, written;

    sizes(cell, &read, &written);
    return (read + written) / cell->median / 1e6;
}

static void finish(void)
{
    for (size_t i = 0; i < cell_count; i++) {
        qsort(cells[i].ms, (size_t)rounds, sizeof(double), compare);
        qsort(cells[i].shares, (size_t)rounds, sizeof(double), compare);
        qsort(cells[i].bare, (size_t)rounds, sizeof(double), compare);
        cells[i].bare_share = cells[i].bare[rounds / 2];
        cells[i].bare_spread = (cells[i].bare[rounds * 3 / 4] - cells[i].bare[rounds / 4]) / 2;
        cells[i].median = cells[i].ms[rounds / 2];
        cells[i].share = cells[i].shares[rounds / 2];
        cells[i].spread = (cells[i].shares[rounds * 3 / 4] - cells[i].shares[rounds / 4]) / 2;
    }
}

struct baseline {
    struct cell *copy, *reading, *triad, *triad_streamed, *copy_small, *triad_small;
};

static struct baseline baselines(void)
{
    return (struct baseline){
        .copy = add((struct cell){ .kind = MEMCPY, .bytes = large }),
        .reading = add((struct cell){ .kind = READ, .bytes = large }),
        .triad = add((struct cell){ .kind = TRIAD, .bytes = large }),
        .triad_streamed = add((struct cell){ .kind = TRIAD, .bytes = large, .is_streamed = true }),
        .copy_small = add((struct cell){ .kind = MEMCPY, .bytes = SMALL }),
        .triad_small = add((struct cell){ .kind = TRIAD, .bytes = SMALL }),
    };
}

static void matrix_add(const struct spotnik_reduce_tier *best)
{
    for (enum spotnik_dtype dtype = SPOTNIK_F32; dtype <= SPOTNIK_DTYPE_LAST; dtype++)
        for (enum spotnik_op op = SPOTNIK_SUM; op <= SPOTNIK_OP_LAST; op++)
            add((struct cell) {
                .kind = FOLD
                , .tier = best, .dtype = dtype, .op = op, .inputs = 2, .bytes = large
            });
}

static void matrix_print(const struct cell *first, const char *name)
{
    printf("\n%s, 2 inputs and 1 output of %zu MiB, plain stores: GB/s (share of what memory "
           "allows)\n%-6s",
           name, large >> 20, "");
    for (enum spotnik_op op = SPOTNIK_SUM; op <= SPOTNIK_OP_LAST; op++)
        printf("%19s", op_names[op]);
    printf("\n");
    for (enum spotnik_dtype dtype = SPOTNIK_F32; dtype <= SPOTNIK_DTYPE_LAST; dtype++) {
        printf("%-6s", dtype_names[dtype]);
        for (enum spotnik_op op = SPOTNIK_SUM; op <= SPOTNIK_OP_LAST; op++, first++)
            printf("%7.1f (%.2f ±.%02.0f)", gigabytes(first), first->share, 100 * first->spread);
        printf("\n");
    }
}

struct line {
    const char *name;
    struct cell cell;
};

static const struct line lines[] = {
    { "f32 sum, 2 inputs", { .kind = FOLD, .dtype = SPOTNIK_F32, .op = SPOTNIK_SUM, .inputs = 2 } },
    { "f32 sum, 2 inputs, streamed",
      { .kind = FOLD, .dtype = SPOTNIK_F32, .op = SPOTNIK_SUM, .inputs = 2, .is_streamed = true } },
    { "f32 sum, 4 inputs, streamed",
      { .kind = FOLD, .dtype = SPOTNIK_F32, .op = SPOTNIK_SUM, .inputs = 4, .is_streamed = true } },
    { "f32 mean, 4 inputs, streamed",
      { .kind = FOLD,
        .dtype = SPOTNIK_F32,
        .op = SPOTNIK_MEAN,
        .inputs = 4,
        .is_streamed = true } },
    { "f32 sum, 8 inputs, streamed",
      { .kind = FOLD, .dtype = SPOTNIK_F32, .op = SPOTNIK_SUM, .inputs = 8, .is_streamed = true } },
    { "f16 sum, 2 inputs", { .kind = FOLD, .dtype = SPOTNIK_F16, .op = SPOTNIK_SUM, .inputs = 2 } },
    { "bf16 sum, 2 inputs",
      { .kind = FOLD, .dtype = SPOTNIK_BF16, .op = SPOTNIK_SUM, .inputs = 2 } },
    { "bf16 mean, 8 inputs, streamed",
      { .kind = FOLD,
        .dtype = SPOTNIK_BF16,
        .op = SPOTNIK_MEAN,
        .inputs = 8,
        .is_streamed = true } },
    { "f32 min, 2 inputs", { .kind = FOLD, .dtype = SPOTNIK_F32, .op = SPOTNIK_MIN, .inputs = 2 } },
    { "u8 mean, 2 inputs", { .kind = FOLD, .dtype = SPOTNIK_U8, .op = SPOTNIK_MEAN, .inputs = 2 } },
    { "u8 mean, 3 inputs", { .kind = FOLD, .dtype = SPOTNIK_U8, .op = SPOTNIK_MEAN, .inputs = 3 } },
    { "i8 mean, 2 inputs", { .kind = FOLD, .dtype = SPOTNIK_I8, .op = SPOTNIK_MEAN, .inputs = 2 } },
    { "i16 mean, 2 inputs",
      { .kind = FOLD, .dtype = SPOTNIK_I16, .op = SPOTNIK_MEAN, .inputs = 2 } },
    { "i16 mean, 3 inputs",
      { .kind = FOLD, .dtype = SPOTNIK_I16, .op = SPOTNIK_MEAN, .inputs = 3 } },
    { "u32 mean, 2 inputs",
      { .kind = FOLD, .dtype = SPOTNIK_U32, .op = SPOTNIK_MEAN, .inputs = 2 } },
    { "i64 mean, 2 inputs",
      { .kind = FOLD, .dtype = SPOTNIK_I64, .op = SPOTNIK_MEAN, .inputs = 2 } },
    { "i8 sum, 2 inputs", { .kind = FOLD, .dtype = SPOTNIK_I8, .op = SPOTNIK_SUM, .inputs = 2 } },
    { "f32 to f16", { .kind = NARROW, .dtype = SPOTNIK_F16 } },
    { "f16 to f32", { .kind = WIDEN, .dtype = SPOTNIK_F16 } },
    { "f32 to bf16", { .kind = NARROW, .dtype = SPOTNIK_BF16 } },
    { "bf16 to f32", { .kind = WIDEN, .dtype = SPOTNIK_BF16 } },
    { "quantise", { .kind = QUANTISE } },
    { "dequantise", { .kind = DEQUANTISE } },
};
enum { LINES = sizeof lines / sizeof lines[0] };

static void lines_add(size_t bytes)
{
    for (size_t line = 0; line < LINES; line++)
        for (size_t t = 0; t < spotnik_reduce_tier_count; t++) {
            struct cell cell = lines[line].cell;
            cell.tier = &spotnik_reduce_tiers[t];
            cell.bytes = bytes;
            cell.is_streamed = cell.is_streamed && bytes == large;
            if (cell.tier->is_supported())
                add(cell);
        }
}

static void lines_print(const struct cell *first, bool is_large)
{
    printf("\n%s: GB/s (share of what memory allows)\n%-32s",
           is_large ? "Every tier, beyond the caches"
                    : "Every tier, arrays of 64 KiB in cache, plain stores",
           "");
    for (size_t t = 0; t < spotnik_reduce_tier_count; t++)
        printf("%19s", spotnik_reduce_tiers[t].is_supported() ? spotnik_reduce_tiers[t].name : "");
    printf("\n");
    for (size_t line = 0; line < LINES; line++) {
        printf("%-32s", lines[line].name);
        for (size_t t = 0; t < spotnik_reduce_tier_count; t++)
            if (spotnik_reduce_tiers[t].is_supported()) {
                printf("%7.1f (%.2f ±.%02.0f)", gigabytes(first), first->share,
                       100 * first->spread);
                first++;
            }
        printf("\n");
    }
}

static void bare_print(const struct cell *first)
{
    printf("\nMore than 2 inputs, streamed, beside a bare loop over as many arrays: share of its "
           "speed\n");
    for (size_t line = 0; line < LINES; line++) {
        bool is_shown = lines[line].cell.is_streamed && lines[line].cell.inputs > 2;
        if (is_shown)
            printf("%-32s", lines[line].name);
        for (size_t t = 0; t < spotnik_reduce_tier_count; t++)
            if (spotnik_reduce_tiers[t].is_supported()) {
                if (is_shown)
                    printf("        %.2f ±.%02.0f  ", first->bare_share, 100 * first->bare_spread);
                first++;
            }
        if (is_shown)
            printf("\n");
    }
}

static void *array_make(bool is_huge)
{
    void *array = aligned_alloc(2 << 20, (large + (2 << 20) - 1) & ~(size_t)((2 << 20) - 1));

    if (array == NULL)
        abort();
    /* a kernel without them has the small ones */
    (void)madvise(array, large, is_huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    return array;
}

static void arrays_make(bool is_huge)
{
    for (int i = 0; i < INPUTS_MAX; i++) {
        input[i] = array_make(is_huge);
        for (size_t k = 0; k < large / sizeof(float); k++)
            ((float *)(void *)input[i])[k] = (float)(k % 1000) - 500;
    }
    output = array_make(is_huge);
    memset(output, 0, large);
}

int main(int argc, char **argv)
{
    size_t mib = argc > 2 ? strtoul(argv[2], NULL, 10) : 64;
    bool is_huge = argc > 3 && strcmp(argv[3], "huge") == 0;

    rounds = argc > 1 ? atoi(argv[1]) : rounds;
    if (rounds < 1 || rounds > ROUNDS_MAX || mib < 1 || mib > 4096 || (argc > 3 && !is_huge)
        || !triad_is_supported()) {
        fprintf(stderr,
                "usage: kernels [ROUNDS [MIB [huge]]], on a processor with AVX2 if it is an x86\n");
        return 2;
    }
    large = mib << 20;
    arrays_make(is_huge);
    struct baseline base = baselines();
    const struct cell *matrix = &cells[cell_count];
    matrix_add(spotnik_reduce_tier());
    const struct cell *beyond = &cells[cell_count];
    lines_add(large);
    const struct cell *within = &cells[cell_count];
    lines_add(SMALL);
    measure();
    finish();
    printf("beyond the caches (%zu MiB, %s pages): memcpy %.1f, reading alone %.1f, triad %.1f, "
           "streamed triad %.1f "
           "GB/s\n",
           mib, is_huge ? "2 MiB" : "4 KiB", gigabytes(base.copy), gigabytes(base.reading),
           gigabytes(base.triad), gigabytes(base.triad_streamed));
    printf("in cache (64 KiB): memcpy %.1f, triad %.1f GB/s\n", gigabytes(base.copy_small),
           gigabytes(base.triad_small));
    matrix_print(matrix, spotnik_reduce_tier()->name);
    lines_print(beyond, true);
    bare_print(beyond);
    lines_print(within, false);
    return 0;
}
