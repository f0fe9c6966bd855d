/* SPDX-License-Identifier: Apache-2.0 */
#include "output.h"
#include "run_line.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

bool output_parse(const char *word, enum output_whose *ret_whose)
{
    static const char *const words[] = {
        [OUTPUT_ALL] = "all", [OUTPUT_SENIOR] = "senior", [OUTPUT_NONE] = "none"
    };

    for (int i = OUTPUT_ALL; i <= OUTPUT_NONE; i++)
        if (strcmp(word, words[i]) == 0) {
            *ret_whose = (enum output_whose)i;
            return true;
        }
    return false;
}

bool output_prepare(struct output *output)
{
    if (output->whose == OUTPUT_BY_TERMINAL)
        output->whose = isatty(STDOUT_FILENO) ? OUTPUT_SENIOR : OUTPUT_ALL;
    output->grows = -1;
    if (!output->log_dir)
        return true;
    if (mkdir(output->log_dir, 0700) && (errno != EEXIST || access(output->log_dir, W_OK | X_OK)))
        return false;
    output->grows = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (output->grows >= 0)
        inotify_add_watch(output->grows, output->log_dir, IN_MODIFY);
    return true;
}

bool output_open(const struct output *output, uint32_t worker, int *ret_write, int *ret_read)
{
    char path[4096];

    if ((size_t)snprintf(path, sizeof(path), "%s/w%u.log", output->log_dir, worker)
        >= sizeof(path)) {
        errno = ENAMETOOLONG;
        return false;
    }
    *ret_write = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    *ret_read = *ret_write < 0 ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (*ret_read >= 0 && lseek(*ret_read, 0, SEEK_END) >= 0)
        return true;
    if (*ret_write >= 0)
        close(*ret_write);
    return false;
}

static bool is_shown(const struct output *output, const struct output_line *line)
{
    return output->whose == OUTPUT_SENIOR ? line->senior : output->whose != OUTPUT_NONE;
}

static void show(FILE *out, uint32_t worker, const char *text, size_t length)
{
    run_line_hide();
    fprintf(out, "[w%u] %.*s\n", worker, (int)length, text);
    fflush(out);
    run_line_show();
}

/* Drop whole lines from the front until `length` more bytes fit. */
static void tail_add(struct output_tail *tail, const char *text, size_t length)
{
    if (length >= sizeof(tail->text))
        length = sizeof(tail->text) - 1;
    while (tail->used + length + 1 > sizeof(tail->text)) {
        const char *end = memchr(tail->text, '\n', tail->used);
        size_t first = (size_t)(end + 1 - tail->text);

        tail->used -= (uint32_t)first;
        memmove(tail->text, end + 1, tail->used);
    }
    memcpy(tail->text + tail->used, text, length);
    tail->used += (uint32_t)length;
    tail->text[tail->used++] = '\n';
}

/* The last line of a traceback names the error. Members of one program often end by the same. */
static bool is_repeated(const struct output *output, const char *text, size_t length)
{
    return length > 0 && length == strlen(output->error)
           && memcmp(text, output->error, length) == 0;
}

static void remember(struct output *output, const char *text, size_t length)
{
    snprintf(output->error, sizeof(output->error), "%.*s", (int)length, text);
}

static void tail_flush(uint32_t worker, const char *at, struct output_tail *tail)
{
    const char *last = tail->text + tail->used, *end;

    for (; at < last; at = end + 1) {
        end = memchr(at, '\n', (size_t)(last - at));
        show(stderr, worker, at, (size_t)(end - at));
    }
    tail->used = 0;
    tail->holds = false;
}

/* Python indents what stands between the first line of a traceback and the one that names the
 * error. */
static void pass_error(struct output *output, const struct output_line *line,
                       struct output_tail *tail)
{
    static const char first[] = "Traceback (most recent call last):";
    bool begins = line->length >= strlen(first) && memcmp(line->text, first, strlen(first)) == 0;

    if (begins && !tail->holds)
        tail->used = 0;
    tail->holds |= begins;
    if (tail->holds && tail->used + line->length >= sizeof(tail->text))
        tail_flush(line->worker, tail->text, tail);
    if (tail->holds) {
        tail_add(tail, line->text, line->length);
        if (!begins && line->length > 0 && line->text[0] != ' ')
            output_tail_show(output, line->worker, tail);
        return;
    }
    if (output->whose == OUTPUT_SENIOR)
        remember(output, line->text, line->length);
    show(stderr, line->worker, line->text, line->length);
}

void output_pass(struct output *output, const struct output_line *line, struct output_tail *tail)
{
    if (!is_shown(output, line) && line->kept)
        tail_add(tail, line->text, line->length);
    else if (is_shown(output, line) && line->error)
        pass_error(output, line, tail);
    else if (is_shown(output, line))
        show(stdout, line->worker, line->text, line->length);
}

void output_tail_show(struct output *output, uint32_t worker, struct output_tail *tail)
{
    if (output->whose == OUTPUT_NONE || !tail->used)
        return;
    const char *last = tail->text + tail->used - 1,
               *before = memrchr(tail->text, '\n', tail->used - 1),
               *final = before ? before + 1 : tail->text;
    bool repeated = is_repeated(output, final, (size_t)(last - final));

    remember(output, final, (size_t)(last - final));
    tail_flush(worker, repeated ? final : tail->text, tail);
}
