/* SPDX-License-Identifier: Apache-2.0 */
/* charlm: a character-level language model (charlm_model.h) trained by however many members there
 * are at the moment.
 *
 * What is special about training on machines that may vanish is all in train(): read that function
 * first. With --sync the members keep their replicas together in another way than averaging
 * gradients: train_sync(). This file decides nothing about membership, recovery or who gets which
 * sample; the library does. */
#include "charlm_model.h"
#include "charlm_text.h"
#include "training_log.h"
#include "spotnik/sync.h"
#include "spotnik/watch.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tgmath.h>

/* Each bucket is all-reduced as soon as the backward pass has produced it, while the pass goes on
 * with the next. */
enum { BUCKET_OUTPUT, BUCKET_HIDDEN, BUCKET_EMBEDDING, BUCKET_LOSS };

static void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

static void fail(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    fputs("charlm: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

/* The samples of this member's share, gathered into a mini-batch. */
static void batch_fill(struct batch *b, const struct text *text, const spotnik_step *step,
                       uint64_t seed)
{
    uint64_t samples = text->length - T, order = mix(seed) + 16 * step->data_epoch;

    if (step->sample_count > b->capacity)
        fail("a share is larger than two batches; give every member the same --batch");
    b->n = 0;
    for (uint32_t r = 0; r < step->range_count; r++)
        for (uint64_t i = step->samples[r].begin; i < step->samples[r].end; i++, b->n++) {
            const uint8_t *at = text->bytes + shuffled(i, samples, order);

            memcpy(b->context[b->n], at, T);
            b->target[b->n] = at[T];
        }
}

/* ---- training ---- */

struct trainer {
    /* options */
    uint64_t steps, batch_size, seed, write_bytes;
    int quiet;
    const char *strategy; /* NULL: the members average their gradients */
    /* the replica */
    struct weights w;
    struct adam adam;
    int64_t text_hash;
    /* the rest is scratch */
    struct weights g;
    double loss[2]; /* sum of losses, number of samples: summed over the members */
    struct batch batch;
    struct text text;
    spotnik_job *job;
    spotnik_sync *sync; /* NULL: no strategy */
    struct training_log log;
};

static spotnik_job *volatile noticed_job;

/* SIGTERM is the usual revocation notice. The step under way is finished, then step_begin says
 * LEAVING. */
static void on_signal(int number)
{
    (void)number;
    if (noticed_job)
        spotnik_notice(noticed_job);
}

/* Only once we are in the job: before that a signal may end us like any process, nobody counts on
 * us yet. */
static void take_notices_for(spotnik_job *job)
{
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };

    noticed_job = job;
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
}

/* Of what all members hold in the same bits: the replica, or what the strategy agrees on. */
static uint64_t digest(const struct trainer *t, const spotnik_step *step)
{
    if (t->log.fd < 0 || !t->log.digest_every || step->number % t->log.digest_every)
        return 0;
    return t->sync ? spotnik_sync_digest(t->sync) : spotnik_state_digest(t->job);
}

static void report(struct trainer *t, const spotnik_step *step)
{
    double loss = t->loss[0] / t->loss[1];

    /* for the page, the metrics and the report; no training hangs on it */
    (void)spotnik_observe(t->job, "loss", loss);

    if (training_log_step(&t->log, t->job, step, loss, t->loss[1], digest(t, step)) < 0)
        fail("cannot write the log: %s; free some space or give another --log", strerror(errno));
    if (!t->quiet && step->number % 50 == 0)
        printf("step %" PRIu64 "  loss %.3f  member %u of %u  share %" PRIu64 "%s\n", step->number,
               loss, step->rank + 1, step->size, step->sample_count,
               step->replay ? "  (catching up)" : "");
}

/* Forward and backward on this member's share, starting to reduce each bucket once it is complete.
 * MEAN weighs each member by its samples, so the result is the mean over the global batch, and a
 * share of nothing counts for nothing. */
static int compute(struct trainer *t)
{
    struct batch *b = &t->batch;
    struct weights *w = &t->w, *g = &t->g;
    int rc;

    t->loss[0] = forward(w, b);
    t->loss[1] = (double)b->n;
    rc = spotnik_allreduce(t->job, BUCKET_LOSS, t->loss, 2, SPOTNIK_F64, SPOTNIK_SUM);
    backward_output(g, b);
    if (!rc)
        rc = spotnik_allreduce(t->job, BUCKET_OUTPUT, g->w2, H * V + V, REAL_DTYPE, SPOTNIK_MEAN);
    backward_hidden(w, g, b);
    if (!rc)
        rc = spotnik_allreduce(t->job, BUCKET_HIDDEN, g->w1, X * H + H, REAL_DTYPE, SPOTNIK_MEAN);
    backward_embedding(w, g, b);
    if (!rc)
        rc = spotnik_allreduce(t->job, BUCKET_EMBEDDING, g->wte, V * E, REAL_DTYPE, SPOTNIK_MEAN);
    return rc;
}

/* The loop. Losing members, finishing the step without them, taking in new ones: all of it happens
 * inside step_begin and step_commit. Three rules make it work: everything that makes up the replica
 * is registered; it changes only after a commit; and the samples to use are those of
 * step.samples. */
static int train(struct trainer *t)
{
    int64_t own_text = t->text_hash;
    spotnik_step step;
    int rc;

    while ((rc = spotnik_step_begin(t->job, &step)) == 0) {
        /* a joiner's registered memory now holds what the members' holds */
        if (t->text_hash != own_text)
            fail("this member reads another text than the job; give every member the same --text");
        batch_fill(&t->batch, &t->text, &step, t->seed);
        rc = compute(t);
        if (!rc)
            rc = spotnik_step_commit(t->job);
        if (rc == SPOTNIK_ERR_EXCLUDED)
            /* the others went on without us: nothing to apply, and step_begin joins again */
            continue;
        if (rc)
            break;
        adam_apply(&t->adam, &t->w, &t->g);
        report(t, &step);
    }
    return rc;
}

/* What a strategy calls when it wants a step of the optimiser: on the model, or on a copy of it. */
static void optimise(void *context, float *w, const float *g, size_t count)
{
    struct trainer *t = context;

    (void)count;
    adam_apply(&t->adam, (struct weights *)(void *)w, (const struct weights *)(const void *)g);
}

/* The same under a strategy of the library: it averages what it averages, commits, and updates the
 * model. What all members agree on at the end is what training is for, so the text is written with
 * that. */
static int train_sync(struct trainer *t)
{
    int64_t own_text = t->text_hash;
    spotnik_step step;
    int rc;

    while ((rc = spotnik_sync_begin(t->sync, &step)) == 0) {
        if (t->text_hash != own_text)
            fail("this member reads another text than the job; give every member the same --text");
        batch_fill(&t->batch, &t->text, &step, t->seed);
        spotnik_sync_tell(t->sync, 0, forward(&t->w, &t->batch));
        spotnik_sync_tell(t->sync, 1, (double)t->batch.n);
        backward_output(&t->g, &t->batch);
        backward_hidden(&t->w, &t->g, &t->batch);
        backward_embedding(&t->w, &t->g, &t->batch);
        rc = spotnik_sync_step(t->sync, (float *)(void *)&t->g);
        if (rc == SPOTNIK_ERR_EXCLUDED)
            continue;
        if (rc)
            break;
        t->loss[0] = spotnik_sync_told(t->sync, 0);
        t->loss[1] = spotnik_sync_told(t->sync, 1);
        report(t, &step);
    }
    memcpy(&t->w, spotnik_sync_agreed(t->sync), sizeof t->w);
    return rc;
}

/* The model is the strategy's to register. */
static int register_model(struct trainer *t)
{
    spotnik_sync_config config;

    if (!t->strategy)
        return spotnik_state_add(t->job, "weights", &t->w, WEIGHT_COUNT, REAL_DTYPE);
    if (sizeof(real) != sizeof(float))
        fail("--sync is for models of single precision");
    spotnik_sync_config_init(&config);
    config.strategy = t->strategy;
    return spotnik_sync_open(t->job, &config, (float *)(void *)&t->w, WEIGHT_COUNT, optimise, t,
                             &t->sync);
}

static int register_state(struct trainer *t)
{
    int rc = register_model(t);

    if (!rc)
        rc = spotnik_state_add(t->job, "adam.m", &t->adam.m, WEIGHT_COUNT, REAL_DTYPE);
    if (!rc)
        rc = spotnik_state_add(t->job, "adam.v", &t->adam.v, WEIGHT_COUNT, REAL_DTYPE);
    if (!rc)
        rc = spotnik_state_add(t->job, "adam.powers", t->adam.powers, 2, SPOTNIK_F64);
    if (!rc)
        rc = spotnik_state_add(t->job, "text", &t->text_hash, 1, SPOTNIK_I64);
    return rc;
}

static int job_join(struct trainer *t)
{
    spotnik_config cfg;

    spotnik_config_init(&cfg); /* SPOTNIK_* in the environment, as `spotnik run` sets them */
    cfg.samples = t->text.length - T;
    cfg.batch = t->batch_size;
    cfg.steps_max = t->steps;
    int rc = spotnik_join(&cfg, &t->job);

    if (rc)
        return rc;
    take_notices_for(t->job);
    return register_state(t);
}

/* Let the model write: greedy would repeat itself, so bytes are drawn by their probability. */
static void write_text(struct trainer *t)
{
    struct batch *b = &t->batch;

    b->n = 1;
    memcpy(b->context[0], t->text.bytes, T);
    for (uint64_t i = 0; i < t->write_bytes; i++) {
        double at = (double)(mix(t->seed + i) >> 11) / (double)(1ull << 53);
        unsigned v = 0;

        forward(&t->w, b);
        while (v < V - 1 && (at -= (double)b->p[0][v]) > 0)
            v++;
        memmove(b->context[0], b->context[0] + 1, T - 1);
        b->context[0][T - 1] = (uint8_t)v;
        putchar((int)v);
    }
    putchar('\n');
}

/* Exit status: 0 done, 75 left after a notice or cut off from the majority (start me again), 76
 * another founding has the job's name or place, 1 anything else. */
static int finish(struct trainer *t, int rc)
{
    int status = rc == SPOTNIK_ERR_DONE                                  ? 0
                 : rc == SPOTNIK_ERR_LEAVING || rc == SPOTNIK_ERR_PARKED ? 75
                 : rc == SPOTNIK_ERR_LINEAGE                             ? 76
                                                                         : 1;

    if (status == 1 || rc == SPOTNIK_ERR_PARKED)
        fprintf(stderr, "charlm: %s (%s)\n", spotnik_strerror(rc), spotnik_last_error());
    if (t->job)
        training_log_end(&t->log, t->job, status);
    noticed_job = NULL;
    if (t->job && status == 1)
        spotnik_abandon(t->job);
    else if (t->job && spotnik_leave(t->job))
        fputs("charlm: left without the agreement of the others\n", stderr);
    if (status == 0 && t->write_bytes)
        write_text(t);
    return status;
}

/* ---- checking the backward pass ---- */

/* Compare up to 200 entries of one tensor's gradient with central differences. Returns how many are
 * off. */
static int check_tensor(const char *name, struct trainer *t, real *w, const real *g, size_t count)
{
    const double eps = sizeof(real) == 8 ? 1e-5 : 1e-2, tolerance = sizeof(real) == 8 ? 1e-6 : 3e-2;
    double n = (double)t->batch.n, worst = 0, scale = 0;
    int off = 0;

    for (size_t i = 0; i < count; i++)
        scale = fmax(scale, fabs((double)g[i]));
    for (uint64_t k = 0; k < 200; k++) {
        size_t i = count <= 200 ? k % count : mix(t->seed + k) % count;
        real kept = w[i];

        w[i] = kept + (real)eps;
        double above = forward(&t->w, &t->batch), step = (double)w[i];
        w[i] = kept - (real)eps;
        double slope = (above - forward(&t->w, &t->batch)) / n / (step - (double)w[i]);
        w[i] = kept;
        double error = fabs(slope - (double)g[i]) / scale;

        worst = fmax(worst, error);
        off += !(error <= tolerance);
    }
    printf("%-4s largest gradient %9.2e, largest error %.1e of it, %s\n", name, scale, worst,
           off ? "WRONG" : "ok");
    return off;
}

static int check(struct trainer *t)
{
    spotnik_step step = { .sample_count = 6, .range_count = 1, .samples = { { 0, 6 } } };
    struct weights *w = &t->w, *g = &t->g;
    int off = 0;

    batch_fill(&t->batch, &t->text, &step, t->seed);
    forward(w, &t->batch);
    backward_output(g, &t->batch);
    backward_hidden(w, g, &t->batch);
    backward_embedding(w, g, &t->batch);
    off += check_tensor("wte", t, w->wte[0], g->wte[0], V * E);
    off += check_tensor("w1", t, w->w1[0], g->w1[0], X * H);
    off += check_tensor("b1", t, w->b1, g->b1, H);
    off += check_tensor("w2", t, w->w2[0], g->w2[0], H * V);
    off += check_tensor("b2", t, w->b2, g->b2, V);
    return off != 0;
}

/* ---- options ---- */

static const char help[] =
    "usage: charlm [OPTION]...\n"
    "Train a small character-level language model, alone or with others that may vanish at any "
    "moment.\n"
    "\n"
    "  charlm --steps 500                              a job of one\n"
    "  spotnik run -n 2:4 --respawn -- charlm          up to four members; kill any of them and "
    "watch\n"
    "\n"
    "      --text FILE        train on FILE; may be given several times. Default: the sources of "
    "Python's\n"
    "                         standard library on this machine, else its C headers (at most 2 MiB "
    "are read)\n"
    "      --steps N          stop after N committed steps (default 2000; 0: go on until told to "
    "leave)\n"
    "      --batch N          samples in one step, over all members together (default 512)\n"
    "      --sync NAME        how replicas are kept together: ssgd, sma, easgd, adpsgd, asp, "
    "hogwild, auto, ...; by default\n"
    "                         what `spotnik run --sync` says, else gradients are averaged as they "
    "are computed\n"
    "      --seed N           first weights and order of the samples; the same on every member "
    "(default 1)\n"
    "      --log FILE|FD      append one JSON line per committed step; members may share a file\n"
    "      --digest-every K   with the digest of the replica in every K-th line (default 1; 0: "
    "never)\n"
    "      --write N          when done, let the model write N bytes\n"
    "      --check            compare the backward pass with central differences and exit\n"
    "      --quiet            print nothing but errors\n"
    "      --help             this text\n"
    "\n"
    "SIGTERM and SIGINT are taken as a revocation notice: finish the step, hand over, exit with "
    "75.\n"
    "Exit status: 0 done, 75 left after a notice, or cut off from the majority (start it again to "
    "rejoin), 76 another founding has the job's name or place, 1 error.\n";

static uint64_t number(const char *option, const char *text)
{
    char *end;

    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno || end == text || *end || *text == '-')
        fail("--%s takes a number, not \"%s\"; see charlm --help", option, text);
    return value;
}

static void open_or_fail(const char *what, const char *path, int error)
{
    if (error)
        fail("cannot %s %s: %s", what, path, strerror(error));
}

/* Sets `*ret_check` for --check. */
static void parse(struct trainer *t, int argc, char **argv, int *ret_check)
{
    uint64_t *const numbers[] = { &t->steps, &t->batch_size, &t->seed, &t->write_bytes,
                                  &t->log.digest_every };
    const struct option options[] = {
        { "steps", 1, NULL, 1 },      { "batch", 1, NULL, 2 },        { "seed", 1, NULL, 3 },
        { "write", 1, NULL, 4 },      { "digest-every", 1, NULL, 5 }, { "text", 1, NULL, 't' },
        { "log", 1, NULL, 'l' },      { "help", 0, NULL, 'h' },       { "check", 0, ret_check, 1 },
        { "quiet", 0, &t->quiet, 1 }, { "sync", 1, NULL, 's' },       { NULL, 0, NULL, 0 },
    };
    int c, which = 0;

    while ((c = getopt_long(argc, argv, "h", options, &which)) != -1) {
        if (c >= 1 && c <= 5)
            *numbers[c - 1] = number(options[which].name, optarg);
        else if (c == 's')
            t->strategy = optarg;
        else if (c == 't')
            open_or_fail("read", optarg, text_append(&t->text, optarg));
        else if (c == 'l')
            open_or_fail("open the log", optarg,
                         training_log_open(&t->log, optarg) < 0 ? errno : 0);
        else if (c == 'h')
            exit(fputs(help, stdout) < 0);
        else if (c)
            fail("see charlm --help");
    }
    if (optind < argc)
        fail("\"%s\" is not an option; see charlm --help", argv[optind]);
    if (t->strategy && !*t->strategy)
        t->strategy = NULL;
    if (!t->batch_size || t->batch_size > 1 << 20)
        fail("--batch takes 1 to 1048576; see charlm --help");
}

static void prepare(struct trainer *t)
{
    if (!t->text.bytes)
        text_find(&t->text);
    if (t->text.length < T + 8)
        fail("no text to train on; give one with --text FILE (at least %d bytes)", T + 8);
    t->text_hash = text_hash(&t->text);
    t->adam.powers[0] = t->adam.powers[1] = 1;
    weights_init(&t->w, t->seed);
    /* one member may get the whole step: a batch, and as much again that lost members have left */
    if (!batch_new(&t->batch, 2 * (t->batch_size > 8 ? t->batch_size : 8)))
        fail("out of memory; use a smaller --batch");
}

int main(int argc, char **argv)
{
    static struct trainer t = {
        .steps = 2000, .batch_size = 512, .seed = 1, .log = { .fd = -1, .digest_every = 1 }
    };
    int checking = 0;

    setvbuf(stdout, NULL, _IOLBF, 0);
    t.strategy = getenv("SPOTNIK_SYNC");
    parse(&t, argc, argv, &checking);
    prepare(&t);
    if (checking)
        return check(&t);
    int rc = job_join(&t);

    return finish(&t, rc ? rc : t.sync ? train_sync(&t) : train(&t));
}
