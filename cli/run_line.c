/* SPDX-License-Identifier: Apache-2.0 */
/* The status line of spotnik run. */
#include "run_line.h"

#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/flag.h"
#include "base/time.h"
#include "common/options.h"
#include "question.h"
#include "screen.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the terminal and of `line` */
static char line[512];
static bool running, on_terminal, as_json;
static pthread_t thread;
static struct spotnik_flag stop;

static void draw(const char *text)
{
    fprintf(stderr, "\r\033[K%s", text);
    fflush(stderr);
}

void run_line_hide(void)
{
    pthread_mutex_lock(&lock);
    if (on_terminal && line[0])
        draw("");
}

void run_line_show(void)
{
    if (on_terminal && line[0])
        draw(line);
    pthread_mutex_unlock(&lock);
}

/* `t`: seconds since 1970, as in the event log. */
static void say_json(const struct spotnik_said_info *info, const char *text)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    json_t *object =
        json_pack("{s:s,s:f,s:s}", "kind", "run", "t",
                  (double)now.tv_sec + (double)(now.tv_nsec / 1000000) / 1e3, "text", text);
    if (info) {
        json_object_set_new(object, "id", json_string(info->id));
        json_object_set_new(object, "event", json_string(info->name));
        json_object_set_new(object, "level",
                            json_string(info->level == SPOTNIK_INFO ? "info" : "warning"));
    }
    char *dumped = json_dumps(object, JSON_COMPACT | JSON_ENSURE_ASCII);

    fprintf(stderr, "%s\n", dumped ? dumped : "{}");
    free(dumped);
    json_decref(object);
}

void run_line_say(const struct spotnik_said_info *info, const char *text)
{
    run_line_hide();
    if (as_json)
        say_json(info, text);
    else
        fprintf(stderr, "spotnik: %s%s%s\n", info ? info->id : "", info ? ": " : "", text);
    run_line_show();
}

/* Of the job's last recovery from a loss; 0: there was none. */
static double recovery_ms(const json_t *answer)
{
    const json_t *list = json_object_get(answer, "recoveries"), *entry;
    double ms = 0;
    size_t index;

    json_array_foreach(list, index,
                       entry) if (json_whole(entry, "lost") && json_whole(entry, "committed_ns"))
        ms = (double)(json_whole(entry, "committed_ns") - json_whole(entry, "detected_ns")) / 1e6;
    return ms;
}

static void write_line(const json_t *answer, double dollars, char *text, size_t size)
{
    const json_t *loss = json_object_get(json_object_get(answer, "observed"), "loss");
    long long step = json_whole(answer, "step_committed"), steps = json_whole(answer, "steps_max"),
              batch = json_whole(answer, "batch");
    double rate = json_part(answer, "steps_per_s"),
           left_s = rate > 0 ? (double)(steps - step) / rate : 0;
    size_t used = 0;

#define ADD(...) used += (size_t)snprintf(text + used, used < size ? size - used : 0, __VA_ARGS__)
    ADD("step %lld", step);
    if (steps)
        ADD("/%lld", steps);
    if (loss)
        ADD("  loss %.4g", json_number_value(loss));
    ADD("  %lld members", json_whole(answer, "size"));
    ADD(batch ? "  %.0f samples/s" : "  %.1f steps/s", batch ? rate * (double)batch : rate);
    if (recovery_ms(answer) > 0)
        ADD("  recovered in %.1f ms", recovery_ms(answer));
    if (steps && rate > 0)
        ADD(left_s < 120 ? "  left %.0f s" : "  left %.0f min",
            left_s < 120 ? left_s : left_s / 60);
    if (dollars > 0)
        ADD("  $%.3f", dollars);
    if (json_is_true(json_object_get(answer, "parked")))
        ADD("  PARKED");
#undef ADD
}

static void tell(const json_t *answer, double dollars)
{
    uint32_t width = screen_width(STDERR_FILENO);
    char text[512] = "";

    write_line(answer, dollars, text, sizeof(text));
    text[width < sizeof(text) ? width - 1 : sizeof(text) - 1] = 0;
    pthread_mutex_lock(&lock);
    if (on_terminal) {
        snprintf(line, sizeof(line), "%s", text);
        draw(line);
    } else {
        json_t *object = json_pack("{s:s,s:O}", "kind", "status", "status", answer);
        char *dumped = json_dumps(object, JSON_COMPACT);

        fprintf(stderr, "%s\n", dumped ? dumped : "{}");
        free(dumped);
        json_decref(object);
    }
    pthread_mutex_unlock(&lock);
}

/* The cost is that of the whole job since this agent started, at the price of the member that
 * answers. */
static void *run(void *context)
{
    static struct spotnik_member member[QUESTION_MEMBERS_MAX];
    struct spotnik_credentials credentials;
    struct job_at at;
    uint32_t count;
    double dollars = 0;

    (void)context;
    if (!job_at_fill(NULL, NULL, NULL, &at) || !question_credentials(&at, &credentials))
        return NULL;
    while (!spotnik_flag_wait(&stop, SPOTNIK_S)) {
        json_t *answer = question_members(&at, &credentials, member, &count)
                             ? question_first(&credentials, member, count)
                             : NULL;

        dollars +=
            json_part(answer, "dollars_per_hour") * (double)json_whole(answer, "size") / 3600;
        if (answer)
            tell(answer, dollars);
        json_decref(answer);
    }
    return NULL;
}

void run_line_json(void)
{
    as_json = true;
}

void run_line_start(bool quiet)
{
    sigset_t all, before;

    on_terminal = !quiet && !as_json && isatty(STDERR_FILENO);
    if (!on_terminal && !as_json)
        return;
    spotnik_flag_init(&stop);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    running = pthread_create(&thread, NULL, run, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void run_line_stop(void)
{
    if (!running)
        return;
    spotnik_flag_raise(&stop);
    pthread_join(thread, NULL);
    pthread_mutex_lock(&lock);
    if (on_terminal && line[0])
        draw("");
    line[0] = 0;
    pthread_mutex_unlock(&lock);
    running = false;
}

void run_line_say_how_to_ask(void)
{
    static const char *const words[][2] = { { " --peers ", "SPOTNIK_PEERS" },
                                            { " --key-file ", "SPOTNIK_KEY_FILE" },
                                            { " --job ", "SPOTNIK_JOB" } };
    char text[9000] = "ask with: spotnik status";
    size_t used = strlen(text);

    for (size_t i = 0; i < 3; i++) {
        const char *value = getenv(words[i][1]);
        if (!value || strlen(words[i][0]) + 4 * strlen(value) + 3 > sizeof(text) - used)
            continue;
        used += (size_t)sprintf(text + used, "%s", words[i][0]);
        used += option_quote(value, text + used, sizeof(text) - used);
    }
    run_line_say(NULL, text);
}
