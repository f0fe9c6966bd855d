/* SPDX-License-Identifier: Apache-2.0 */
/* spotnik top: a job in the terminal, once a second: figures of the whole, a row for each member,
 * what happened last. All members are asked by the status question, so it works without HTTP, over
 * ssh, and whichever of them is gone. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/time.h"
#include "commands.h"
#include "jobs.h"
#include "common/options.h"
#include "question.h"
#include "screen.h"
#include "spotnik/spotnik.h"

#define ASKED_MAX 256
#define ASK_NS (500 * SPOTNIK_MS)
#define KEY_NS (50 * SPOTNIK_MS)

static const char help[] =
    "Usage: spotnik top [--peers SPEC] [--key-file FILE] [--job NAME] [--interval TIME] [--count "
    "N] "
    "[--json]\n\n"
    "Watch a running job. Without --peers and SPOTNIK_PEERS it is the one that runs on this host. "
    "On a "
    "terminal: q ends, s sorts by\n"
    "the next column, r reverses the order. Elsewhere: a line each time. It respects NO_COLOR.\n\n"
    "      --peers SPEC      host:port,..., file:DIR, s3://..., gs://..., az://...  "
    "[SPOTNIK_PEERS]\n"
    "      --key-file FILE   the job key                        [SPOTNIK_KEY_FILE]\n"
    "      --job NAME        name of the job                    [SPOTNIK_JOB, or spotnik]\n"
    "      --interval TIME   between two looks                  [1s]\n"
    "      --count N         end after N looks                  [never]\n"
    "      --json            a JSON object a look: {\"job\": ..., \"members\": [...]}, as members "
    "report "
    "it\n\n"
    "Exit status: 0; 1 when no member answers.\n\n"
    "  spotnik top\n"
    "  ssh node7 spotnik top --interval 5s\n"
    "  spotnik top --json --count 1 | jq .job.step_committed\n";

enum column { BY_RANK, BY_STEP, BY_COMPUTE, BY_WAIT, BY_SAMPLES, BY_GOODPUT, COLUMNS };

static const char *const column_name[COLUMNS] = { "RANK", "STEP",    "COMPUTE",
                                                  "WAIT", "SAMPLES", "GOODPUT" };

struct row {
    char id[9], address[80];
    bool answered, joining, parked, noticed;
    double value[COLUMNS];
    double dollars;
};

struct top {
    const char *peers, *key_file, *job;
    uint64_t interval_ns, count;
    bool json, on_screen, reversed;
    enum column by;
    struct job_at at;
    struct spotnik_credentials credentials;
    struct spotnik_member member[QUESTION_MEMBERS_MAX];
    uint32_t member_count;
    json_t *job_status;        /* of the member asked first; NULL: none answered */
    json_t *status[ASKED_MAX]; /* of each member it names; NULL: did not answer */
    struct row row[ASKED_MAX];
    uint32_t row_count;
};

/* ---- asking ---- */

static void forget(struct top *top)
{
    json_decref(top->job_status);
    top->job_status = NULL;
    for (uint32_t i = 0; i < top->row_count; i++)
        json_decref(top->status[i]);
    top->row_count = 0;
}

static double per_step_ms(const json_t *status, const char *part)
{
    const json_t *pace = json_object_get(status, "pace");
    double steps = (double)json_whole(pace, "steps");

    return steps > 0 ? (double)json_whole(pace, part) / 1e6 / steps : 0;
}

static struct row row_of(const json_t *entry, const json_t *status, uint32_t rank)
{
    struct row row = { .answered = status != NULL };
    double hours = (double)json_whole(status, "uptime_ns") / 3.6e12;

    snprintf(row.id, sizeof(row.id), "%s", json_words(entry, "member"));
    snprintf(row.address, sizeof(row.address), "%s:%lld", json_words(entry, "address"),
             json_whole(entry, "port"));
    row.joining = json_is_true(json_object_get(status, "joining"));
    row.parked = json_is_true(json_object_get(status, "parked"));
    row.noticed = json_is_true(json_object_get(status, "noticed"));
    row.value[BY_RANK] = rank;
    row.value[BY_STEP] = (double)json_whole(status, "step_committed");
    row.value[BY_COMPUTE] = per_step_ms(status, "compute_ns");
    row.value[BY_WAIT] = per_step_ms(status, "commit_ns");
    row.value[BY_SAMPLES] = (double)json_whole(status, "samples");
    row.value[BY_GOODPUT] =
        /* nobody watches there */
        json_object_get(status, "goodput") ? json_part(status, "goodput") : -1;
    row.dollars = json_part(status, "dollars_per_hour") * hours;
    return row;
}

/* The one that answered first is most likely alive still, and so are those it named. */
static json_t *ask_first(struct top *top)
{
    json_t *answer = question_first(&top->credentials, top->member, top->member_count);

    if (answer || !question_members(&top->at, &top->credentials, top->member, &top->member_count))
        return answer;
    return question_first(&top->credentials, top->member, top->member_count);
}

static bool look(struct top *top)
{
    const json_t *list, *entry;
    size_t index;

    forget(top);
    top->job_status = ask_first(top);
    if (!top->job_status)
        return false;
    uint32_t count = question_named(top->job_status, top->member, QUESTION_MEMBERS_MAX);
    if (count)
        top->member_count = count;
    list = json_object_get(top->job_status, "members");
    json_array_foreach(list, index, entry)
    {
        bool self = !strcmp(json_words(entry, "member"), json_words(top->job_status, "member"));
        if (index >= ASKED_MAX || index >= count)
            break;
        top->status[index] = self ? json_incref(top->job_status)
                                  : question_ask(&top->credentials, &top->member[index], ASK_NS);
        top->row[index] = row_of(entry, top->status[index], (uint32_t)index);
        top->row_count = (uint32_t)index + 1;
    }
    return true;
}

/* ---- words ---- */

static const char *span(double seconds, char text[32])
{
    if (!(seconds >= 0) || seconds > 1e9)
        snprintf(text, 32, "-");
    else if (seconds < 120)
        snprintf(text, 32, "%.0f s", seconds);
    else if (seconds < 7200)
        snprintf(text, 32, "%.0f min", seconds / 60);
    else
        snprintf(text, 32, "%.1f h", seconds / 3600);
    return text;
}

static double dollars(const struct top *top)
{
    double sum = 0;
    for (uint32_t i = 0; i < top->row_count; i++)
        sum += top->row[i].dollars;
    return sum;
}

static void figures(const struct top *top, char *line, size_t size)
{
    const json_t *job = top->job_status,
                 *loss = json_object_get(json_object_get(job, "observed"), "loss");
    double rate = json_part(job, "steps_per_s"), batch = (double)json_whole(job, "batch");
    long long step = json_whole(job, "step_committed"), steps = json_whole(job, "steps_max");
    size_t used = 0;
    char text[32];

#define ADD(...) used += (size_t)snprintf(line + used, used < size ? size - used : 0, __VA_ARGS__)
    ADD("step %lld", step);
    if (steps)
        ADD("/%lld", steps);
    if (loss)
        ADD("  loss %.4g", json_number_value(loss));
    ADD("  %lld members", json_whole(job, "size"));
    if (batch > 0)
        ADD("  %.0f samples/s", rate * batch);
    else
        ADD("  %.1f steps/s", rate);
    if (steps && rate > 0)
        ADD("  left %s", span((double)(steps - step) / rate, text));
    if (dollars(top) > 0)
        ADD("  $%.2f", dollars(top));
#undef ADD
}

static const char *state_of(const json_t *job)
{
    return json_is_true(json_object_get(job, "parked"))    ? "  PARKED: cut off from the majority"
           : json_is_true(json_object_get(job, "joining")) ? "  joining"
                                                           : "";
}

/* ---- the screen ---- */

static const struct top *sorted; /* of qsort's order */

static int by_column(const void *a, const void *b)
{
    double left = ((const struct row *)a)->value[sorted->by],
           right = ((const struct row *)b)->value[sorted->by];
    int order = left < right ? -1 : left > right;

    return sorted->reversed ? -order : order;
}

static void draw_recovery(const json_t *job)
{
    const json_t *list = json_object_get(job, "recoveries"), *entry, *last = NULL;
    size_t index;

    json_array_foreach(list, index, entry) if (json_whole(entry, "lost")) last = entry;
    if (!last) {
        screen_line(SCREEN_SOFT, "no member was lost while the answering one was in");
        return;
    }
    double ms = (double)(json_whole(last, "committed_ns") - json_whole(last, "detected_ns")) / 1e6;
    screen_line(SCREEN_PLAIN,
                "last recovery: %lld lost, view %lld, %.1f ms to the next commit, %.0f s ago",
                json_whole(last, "lost"), json_whole(last, "epoch"), ms > 0 ? ms : 0,
                (double)(json_whole(job, "now_ns") - json_whole(last, "detected_ns")) / 1e9);
}

static void draw_row(const struct row *row)
{
    enum screen_look look = row->answered && !row->parked ? SCREEN_PLAIN : SCREEN_BAD;
    char goodput[16] = "-";

    if (row->value[BY_GOODPUT] >= 0)
        snprintf(goodput, sizeof(goodput), "%.1f%%", 100 * row->value[BY_GOODPUT]);
    if (!row->answered)
        screen_line(look, "%4.0f %-8s %-21.21s %9s", row->value[BY_RANK], row->id, row->address,
                    "silent");
    else
        screen_line(look, "%4.0f %-8s %-21.21s %9.0f %8.2f %7.2f %9.0f %7s%s", row->value[BY_RANK],
                    row->id, row->address, row->value[BY_STEP], row->value[BY_COMPUTE],
                    row->value[BY_WAIT], row->value[BY_SAMPLES], goodput,
                    row->parked    ? " parked"
                    : row->noticed ? " leaving"
                    : row->joining ? " joining"
                                   : "");
}

static void draw_events(const json_t *job)
{
    const json_t *list = json_object_get(job, "events");
    size_t count = json_array_size(list), room = screen_room();

    if (room < 4 || !count)
        return;
    screen_line(SCREEN_PLAIN, "%s", "");
    for (size_t i = count > room - 3 ? count - (room - 3) : 0; i < count; i++) {
        const json_t *event = json_array_get(list, i);
        time_t at = (time_t)json_part(event, "t");
        struct tm local;

        localtime_r(&at, &local);
        screen_line(SCREEN_SOFT, "%02d:%02d:%02d %s %s", local.tm_hour, local.tm_min, local.tm_sec,
                    json_words(event, "id"), json_words(event, "text"));
    }
}

static void draw_silence(const struct top *top)
{
    screen_begin();
    screen_line(SCREEN_BAD, "spotnik top: no member of the job answers");
    screen_line(SCREEN_PLAIN, "%s", spotnik_last_error());
    screen_line(SCREEN_SOFT, "asking again; q ends (%s)", top->at.peers);
    screen_show();
}

static void draw(struct top *top)
{
    const json_t *job = top->job_status;
    char line[512];

    sorted = top;
    qsort(top->row, top->row_count, sizeof(*top->row), by_column);
    screen_begin();
    figures(top, line, sizeof(line));
    screen_line(SCREEN_PLAIN, "job %s, view %lld%s", json_words(job, "job"),
                json_whole(job, "view_epoch"), state_of(job));
    screen_line(SCREEN_PLAIN, "%s", line);
    screen_line(SCREEN_PLAIN, "%lld lost, %lld joined, %lld left since %.8s came",
                json_whole(job, "losses"), json_whole(job, "joins"), json_whole(job, "leaves"),
                json_words(job, "member"));
    draw_recovery(job);
    screen_line(SCREEN_PLAIN, "%s", "");
    screen_line(SCREEN_HEAD, "%-80s",
                "RANK MEMBER   ADDRESS                    STEP  COMPUTE    WAIT   SAMPLES GOODPUT");
    for (uint32_t i = 0; i < top->row_count && screen_room() > 1; i++)
        draw_row(&top->row[i]);
    draw_events(job);
    while (screen_room() > 1)
        screen_line(SCREEN_PLAIN, "%s", "");
    screen_line(SCREEN_SOFT, "by %s%s; q ends, s sorts, r reverses; compute and wait in ms a step",
                column_name[top->by], top->reversed ? " down" : "");
    screen_show();
}

/* Keys until the next look is due. False: the user has had enough. */
static bool keys(struct top *top, uint64_t until_ns)
{
    for (uint64_t now = spotnik_clock_ns(); now < until_ns; now = spotnik_clock_ns()) {
        int key = screen_key(until_ns - now + SPOTNIK_MS);
        if (key == 'q' || key == 'Q' || key == 3)
            return false;
        if (key == 's')
            top->by = (enum column)((top->by + 1) % COLUMNS);
        if (key == 'r')
            top->reversed = !top->reversed;
        if (top->job_status)
            draw(top); /* also when the window has changed its size */
    }
    return true;
}

/* ---- elsewhere ---- */

static void print_json(const struct top *top)
{
    json_t *all = json_array(), *object;

    for (uint32_t i = 0; i < top->row_count; i++)
        json_array_append(all, top->status[i] ? top->status[i] : json_null());
    object = json_pack("{s:O,s:o}", "job", top->job_status, "members", all);
    json_dumpf(object, stdout, JSON_COMPACT);
    json_decref(object);
    putchar('\n');
    fflush(stdout);
}

static void print_line(const struct top *top)
{
    char line[512];

    figures(top, line, sizeof(line));
    printf("%s: %s%s\n", json_words(top->job_status, "job"), line, state_of(top->job_status));
    fflush(stdout);
}

static void pause_until(uint64_t at_ns)
{
    struct timespec at = { .tv_sec = (time_t)(at_ns / SPOTNIK_S),
                           .tv_nsec = (long)(at_ns % SPOTNIK_S) };

    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

/* ---- options ---- */

static int parse(int argc, char **argv, struct top *top)
{
    static const struct option names[] = {
        { "peers", required_argument, NULL, 'p' }, { "key-file", required_argument, NULL, 'k' },
        { "job", required_argument, NULL, 'j' },   { "interval", required_argument, NULL, 'i' },
        { "count", required_argument, NULL, 'c' }, { "json", no_argument, NULL, 'J' },
        { "help", no_argument, NULL, 'h' },        { NULL, 0, NULL, 0 }
    };
    int option;
    bool good = true;

    opterr = 0;
    optind = 0;
    while ((option = getopt_long(argc, argv, "h", names, NULL)) != -1) {
        switch (option) {
        case 'p':
            top->peers = optarg;
            break;
        case 'k':
            top->key_file = optarg;
            break;
        case 'j':
            top->job = optarg;
            break;
        case 'i':
            good =
                option_duration(optarg, &top->interval_ns) && top->interval_ns >= 10 * SPOTNIK_MS;
            break;
        case 'c':
            good = option_u64(optarg, 1, UINT64_MAX, &top->count);
            break;
        case 'J':
            top->json = true;
            break;
        case 'h':
            fputs(help, stdout);
            return 1;
        default:
            return option_refuse("top", "unknown option, or a value is missing: %s",
                                 argv[optind - 1]);
        }
        if (!good)
            return option_refuse("top", "\"%s\" is no value for %s", optarg, argv[optind - 2]);
    }
    return optind == argc
               ? 0
               : option_refuse("top", "what is \"%s\"? Name the job with --peers", argv[optind]);
}

static int watch(struct top *top)
{
    bool answered = true;

    for (uint64_t looks = 0; !top->count || looks < top->count; looks++) {
        uint64_t due_ns = spotnik_clock_ns() + top->interval_ns;

        answered = look(top);
        if (!top->on_screen && !answered) {
            fprintf(stderr, "spotnik top: no member of the job answers: %s\n",
                    spotnik_last_error());
            return 1;
        }
        if (top->json)
            print_json(top);
        else if (!top->on_screen)
            print_line(top);
        else if (answered)
            draw(top);
        else
            draw_silence(top);
        if (top->count && looks + 1 == top->count)
            break;
        if (!top->on_screen)
            pause_until(due_ns);
        else if (!keys(top,
                       spotnik_time_add(spotnik_clock_ns(), due_ns > spotnik_clock_ns() + KEY_NS
                                                                ? due_ns - spotnik_clock_ns()
                                                                : KEY_NS)))
            return 0; /* keys are looked at even when asking takes longer than the interval */
    }
    return answered ? 0 : 1;
}

int spotnik_cmd_top(int argc, char **argv)
{
    static struct top top = { .interval_ns = SPOTNIK_S };
    int status = parse(argc, argv, &top);

    if (status)
        return status == 1 ? 0 : status;
    if (!jobs_choose("top", top.peers, top.key_file, top.job, &top.at, &status))
        return status;
    if (!question_credentials(&top.at, &top.credentials)) {
        fprintf(stderr, "spotnik top: %s\n", spotnik_last_error());
        return 1;
    }
    top.on_screen = !top.json && screen_open();
    status = watch(&top);
    screen_close();
    forget(&top);
    return status;
}
