/* SPDX-License-Identifier: Apache-2.0 */
/* One run of the job in a folder of its own: start, wait until all are in, look, wait, look again,
 * end. */
#include "profile_probe.h"
#include "hostload.h"
#include "common/sibling.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WORDS_MAX 256
#define WARM_STEPS 5
#define ENDED "the job ended before it could be measured; give it more steps"
#define NEVER_JOINED                                                                               \
    "the job ended, and no worker was seen to join; does the command call spotnik_join()? If so, " \
    "give it more steps"
#define START_LIMIT_S 120.0
#define LOSS_LIMIT_S 60.0
#define LOOK_AGAIN_MS 50
#define TRIES 3
#define LOST 1 /* nothing was measured, and there is no fault */
#define LOST_MOST 10

struct bench {
    char folder[256], peers[300], key[300];
    char log[300], asked[300]; /* what the job printed; what our own questions did */
    pid_t run;
};

/* What one member says. */
struct look {
    double now_s, steps, begin_s, compute_s, commit_s, apply_s, bytes, size;
    long pid;
};

static double now_s(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void doze(double seconds)
{
    poll(NULL, 0, (int)(seconds * 1000));
}

/* Runs spotnik with these words; its output goes to `to`, its complaints to the file, or both
 * there. */
static pid_t start(const char *complaints, char *const *words, int to)
{
    pid_t pid = fork();
    char path[PATH_MAX];

    if (pid)
        return pid;
    int log = open(complaints, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    dup2(to < 0 ? log : to, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    sibling_command("spotnik", path);
    execvp(path, words);
    _exit(127);
}

static int finish(pid_t pid)
{
    int status;

    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

/* The last line that the job printed, for the fault. */
static int complain(const struct bench *bench, const char *what, struct spotnik_fault *fault)
{
    char line[200] = "", last[200] = "nothing";
    FILE *log = fopen(bench->log, "r");

    while (log && fgets(line, sizeof(line), log)) {
        line[strcspn(line, "\n")] = '\0';
        if (*line)
            memcpy(last, line, sizeof(last));
    }
    if (log)
        fclose(log);
    const char *cannot = strstr(last, "cannot run ");
    if (cannot)
        return spotnik_fault_set(fault, "%s; what follows -- must be your own program", cannot);
    return spotnik_fault_set(fault, "%s; it printed last: %s", what, last);
}

/* Nobody was here before: the first member need not look whether a job is. */
static bool mark_fresh(const char *directory)
{
    char path[320];
    snprintf(path, sizeof(path), "%s/fresh", directory);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return fd >= 0 && close(fd) == 0;
}

static int bench_make(struct bench *bench, struct spotnik_fault *fault)
{
    const char *base = getenv("TMPDIR");
    char directory[300];

    snprintf(bench->folder, sizeof(bench->folder), "%.200s/spotnik-profile-XXXXXX",
             base && *base ? base : "/tmp");
    if (!mkdtemp(bench->folder))
        return spotnik_fault_set(fault, "%s: %s; set TMPDIR to a folder that can be written",
                                 bench->folder, strerror(errno));
    snprintf(bench->peers, sizeof(bench->peers), "file:%s/peers", bench->folder);
    snprintf(bench->key, sizeof(bench->key), "%s/key", bench->folder);
    snprintf(bench->log, sizeof(bench->log), "%s/log", bench->folder);
    snprintf(bench->asked, sizeof(bench->asked), "%s/asked", bench->folder);
    snprintf(directory, sizeof(directory), "%s/peers", bench->folder);
    char *const words[] = { (char *)"spotnik", (char *)"key", bench->key, NULL };
    if (mkdir(directory, 0700) || !mark_fresh(directory) || finish(start(bench->log, words, -1)))
        return complain(bench, "cannot make a key for the job", fault);
    return 0;
}

static void bench_remove(const struct bench *bench)
{
    char *const words[] = { (char *)"rm", (char *)"-rf", (char *)"--", (char *)bench->folder,
                            NULL };
    pid_t pid = fork();

    if (pid == 0) {
        execvp(words[0], words);
        _exit(127);
    }
    if (pid > 0)
        finish(pid);
}

/* A copy of `word` with every "{batch}" replaced; freed with the process that execs, or by the
 * caller. */
static char *word_fill(const char *word, const char *batch)
{
    char *filled = malloc(strlen(word) * (strlen(batch) + 1) + 1), *to = filled;

    for (; filled && *word;) {
        if (strncmp(word, "{batch}", 7)) {
            *to++ = *word++;
            continue;
        }
        to = stpcpy(to, batch);
        word += 7;
    }
    if (filled)
        *to = '\0';
    return filled;
}

static int job_start(struct bench *bench, const struct spotnik_probe_order *order,
                     struct spotnik_fault *fault)
{
    char *words[WORDS_MAX + 16], span[32], batch[32];
    size_t used = 0, first;

    snprintf(span, sizeof(span), "%u:%u", order->lose_one ? 1 : order->workers, order->workers);
    snprintf(batch, sizeof(batch), "%.0f", order->batch);
    const char *const head[] = { "spotnik", "run",        "-q",         "-n",      span,
                                 "--peers", bench->peers, "--key-file", bench->key };
    for (; used < sizeof(head) / sizeof(*head); used++)
        words[used] = (char *)head[used];
    if (order->lose_one)
        words[used++] = (char *)"--respawn";
    words[used++] = (char *)"--";
    first = used;
    for (size_t i = 0; order->command[i]; i++) {
        if (used == WORDS_MAX)
            return spotnik_fault_set(fault, "the command has more than %d words", WORDS_MAX);
        words[used++] = word_fill(order->command[i], batch);
    }
    words[used] = NULL;
    setenv("SPOTNIK_BATCH", batch, 1);
    if (order->one_thread)
        setenv("OMP_NUM_THREADS", "1", 1);
    bench->run = start(bench->log, words, -1);
    while (used-- > first)
        free(words[used]);
    return bench->run > 0 ? 0
                          : spotnik_fault_set(fault, "cannot start the job: %s", strerror(errno));
}

static void job_end(struct bench *bench)
{
    if (bench->run <= 0)
        return;
    kill(bench->run, SIGTERM);
    finish(bench->run);
    bench->run = 0;
}

static bool job_runs(struct bench *bench)
{
    int status;

    if (bench->run > 0 && waitpid(bench->run, &status, WNOHANG) == bench->run)
        bench->run = 0;
    return bench->run > 0;
}

/* The status of some member at `peers`; NULL when nobody answers (yet). */
static json_t *ask(const struct bench *bench, const char *peers)
{
    char *const words[] = { (char *)"spotnik",  (char *)"status",
                            (char *)"--json",   (char *)"--peers",
                            (char *)peers,      (char *)"--key-file",
                            (char *)bench->key, NULL };
    int ends[2];

    if (pipe2(ends, O_CLOEXEC))
        return NULL;
    pid_t pid = start(bench->asked, words, ends[1]);
    close(ends[1]);
    FILE *answer = fdopen(ends[0], "r");
    json_t *json = answer ? json_loadf(answer, 0, NULL) : NULL;
    if (answer)
        fclose(answer);
    if (pid > 0)
        finish(pid);
    return json;
}

static double number(const json_t *json, const char *name)
{
    return json_number_value(json_object_get(json, name));
}

static bool look(const struct bench *bench, struct look *look_out)
{
    json_t *json = ask(bench, bench->peers), *pace = json_object_get(json, "pace");

    if (!json)
        return false;
    *look_out = (struct look){
        .now_s = number(json, "now_ns") / 1e9,
        .steps = number(pace, "steps"),
        .begin_s = number(pace, "begin_ns") / 1e9,
        .compute_s = number(pace, "compute_ns") / 1e9,
        .commit_s = number(pace, "commit_ns") / 1e9,
        .apply_s = number(pace, "apply_ns") / 1e9,
        .bytes = number(pace, "reduce_bytes"),
        .size = number(json, "size"),
        .pid = (long)number(json, "pid"),
    };
    json_decref(json);
    return true;
}

/* Until all workers are members and have warmed up. */
static int job_wait(struct bench *bench, const struct spotnik_probe_order *order,
                    struct look *look_out, struct spotnik_fault *fault)
{
    bool answered = false;

    for (double until_s = now_s() + START_LIMIT_S; now_s() < until_s;
         doze(LOOK_AGAIN_MS / 1000.0)) {
        if (!job_runs(bench))
            return complain(bench, answered ? ENDED : NEVER_JOINED, fault);
        bool answers = look(bench, look_out);
        answered = answered || answers;
        if (answers && look_out->size == order->workers && look_out->steps >= WARM_STEPS)
            return 0;
    }
    return complain(bench,
                    "the workers do not step together; does the command call spotnik_join()?",
                    fault);
}

/* What the same member says after `seconds`, or a little later: it is not always the one that
 * answers. LOST: a worker is no member for now, or that one does not answer any more. */
static int look_later(struct bench *bench, const struct spotnik_probe_order *order,
                      const struct look *from, struct look *to, struct spotnik_fault *fault)
{
    doze(order->seconds);
    for (double until_s = now_s() + LOSS_LIMIT_S; job_runs(bench) && now_s() < until_s;
         doze(LOOK_AGAIN_MS / 1000.0))
        if (look(bench, to) && (to->pid == from->pid || to->size != order->workers))
            break;
    if (!job_runs(bench))
        return complain(bench, "the job ended while it was measured; give it more steps", fault);
    if (to->pid != from->pid || to->size != order->workers)
        return LOST;
    if (to->steps - from->steps < 2)
        return spotnik_fault_set(fault,
                                 "%.0f steps in %.1f s are too few to measure; give more --seconds",
                                 to->steps - from->steps, to->now_s - from->now_s);
    return 0;
}

/* The difference of two looks at the same member, per step. */
static struct spotnik_probe between(const struct look *from, const struct look *to, double others)
{
    double steps = to->steps - from->steps, begin_s = to->begin_s - from->begin_s;
    double commit_s = to->commit_s - from->commit_s;
    double compute_s = to->compute_s - from->compute_s + to->apply_s - from->apply_s;

    return (struct spotnik_probe){
        .step_s = (to->now_s - from->now_s) / steps,
        .compute_s = compute_s / steps,
        .exposed_s = (begin_s + commit_s) / steps,
        .reduce_bytes = to->bytes,
        .steps = steps,
        .others = others,
    };
}

/* From `start` on; `end` is where the next try begins. LOST: all workers are members again, and
 * nothing was measured. */
static int measure_once(struct bench *bench, const struct spotnik_probe_order *order,
                        const struct look *start, struct look *end, struct spotnik_probe *probe,
                        struct spotnik_fault *fault)
{
    struct spotnik_host_look before, after;
    bool told = spotnik_host_look(&before);
    int rc = look_later(bench, order, start, end, fault);
    if (rc == LOST && job_wait(bench, order, end, fault))
        return -1;
    if (rc)
        return rc;
    told = told && spotnik_host_look(&after);
    *probe = between(start, end, told ? spotnik_host_others(&before, &after) : NAN);
    return 0;
}

/* Again while the host is busy with something else; the quietest time counts. And again where a
 * worker was not heard of for a moment, as on a busy host, and the others went on without it. */
static int measure(struct bench *bench, const struct spotnik_probe_order *order,
                   const struct look *from, struct spotnik_probe *probe,
                   struct spotnik_fault *fault)
{
    double most = SPOTNIK_PROBE_OTHERS_MOST * spotnik_host_processors();
    struct look start = *from, end;
    struct spotnik_probe found;
    bool is_quiet = false;

    for (int tried = 0, lost = 0; tried < TRIES && !is_quiet; start = end) {
        int rc = measure_once(bench, order, &start, &end, &found, fault);
        if (rc == LOST && ++lost < LOST_MOST)
            continue;
        if (rc)
            return rc < 0 ? -1
                          : complain(bench, "workers come and go while they are measured", fault);
        if (!tried++ || found.others < probe->others)
            *probe = found;
        is_quiet = isnan(found.others) || probe->others <= most;
    }
    return 0;
}

/* The newest change of the view that lost (or joined) somebody after `since_s`; false when there is
 * none. */
static bool change_find(const json_t *json, const char *kind, double since_s, double *seen_s,
                        double *took_s)
{
    json_t *list = json_object_get(json, "recoveries"), *item;
    bool found = false;
    size_t i;

    json_array_foreach(list, i, item)
    {
        double detected = number(item, "detected_ns") / 1e9,
               committed = number(item, "committed_ns") / 1e9;
        if (!(number(item, kind) > 0) || detected < since_s || !(committed > detected))
            continue;
        *seen_s = detected;
        *took_s = committed - detected;
        found = true;
    }
    return found;
}

/* Somebody to kill, and where somebody else is to be asked. */
static bool victim_find(const json_t *json, long *pid_out, char *survivor, size_t size)
{
    const char *self = json_string_value(json_object_get(json, "member"));
    json_t *item;
    size_t i;

    json_array_foreach(json_object_get(json, "members"), i, item)
    {
        const char *id = json_string_value(json_object_get(item, "member"));
        const char *address = json_string_value(json_object_get(item, "address"));
        if (!self || !id || !address || !strcmp(id, self))
            continue;
        *pid_out = (long)number(json, "pid");
        snprintf(survivor, size, strchr(address, ':') ? "[%s]:%.0f" : "%s:%.0f", address,
                 number(item, "port"));
        return true;
    }
    return false;
}

static int lose(struct bench *bench, struct spotnik_probe *probe, struct spotnik_fault *fault)
{
    char survivor[128];
    double lost_s, joined_s;
    long pid;
    json_t *before = ask(bench, bench->peers);
    bool found = victim_find(before, &pid, survivor, sizeof(survivor));

    json_decref(before);
    if (!found)
        return complain(bench, "no worker could be found to be killed", fault);
    double killed_s = now_s();
    kill((pid_t)pid, SIGKILL);
    for (double until_s = killed_s + LOSS_LIMIT_S; job_runs(bench) && now_s() < until_s;
         doze(LOOK_AGAIN_MS / 1000.0)) {
        json_t *json = ask(bench, survivor);
        bool over = change_find(json, "lost", killed_s, &lost_s, &probe->recover_s)
                    && change_find(json, "joined", killed_s, &joined_s, &probe->join_s);
        json_decref(json);
        if (!over)
            continue;
        probe->startup_s = joined_s - killed_s;
        probe->join_s = fmax(0, probe->join_s - probe->step_s);
        return 0;
    }
    return complain(bench, "the job did not get over the loss of a worker", fault);
}

int spotnik_probe_run(const struct spotnik_probe_order *order, struct spotnik_probe *probe_out,
                      struct spotnik_fault *fault)
{
    struct spotnik_probe probe = { 0 };
    struct bench bench = { 0 };
    struct look from;
    int rc = bench_make(&bench, fault);

    if (!rc)
        rc = job_start(&bench, order, fault);
    if (!rc)
        rc = job_wait(&bench, order, &from, fault);
    if (!rc)
        rc = measure(&bench, order, &from, &probe, fault);
    if (!rc && order->lose_one)
        rc = lose(&bench, &probe, fault);
    job_end(&bench);
    bench_remove(&bench);
    if (!rc)
        *probe_out = probe;
    return rc;
}
