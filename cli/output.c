/* SPDX-License-Identifier: Apache-2.0 */
#include "output.h"
#include "run_line.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
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
    output->tee = output->tee_path
                      ? open(output->tee_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666)
                      : -1;
    if (output->tee_path && output->tee < 0)
        return false;
    if (!output->log_dir || mkdir(output->log_dir, 0777) == 0)
        return true;
    return errno == EEXIST && access(output->log_dir, W_OK | X_OK) == 0;
}

const char *output_refused(const struct output *output)
{
    return output->tee_path && output->tee < 0 ? output->tee_path : output->log_dir;
}

int output_open(const struct output *output, uint32_t worker)
{
    char path[4096];

    if (!output->log_dir)
        return -1;
    if ((size_t)snprintf(path, sizeof(path), "%s/w%u.log", output->log_dir, worker)
        >= sizeof(path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
}

/* A full disk must not stop the workers, nor be told of for each of their lines: the line is
 * missing in the file. */
static void append(int fd, const char *tag, const struct output_line *line)
{
    struct iovec part[] = { { .iov_base = (void *)tag, .iov_len = strlen(tag) },
                            { .iov_base = (void *)line->text, .iov_len = line->length },
                            { .iov_base = "\n", .iov_len = 1 } };

    if (fd >= 0 && writev(fd, part, 3) < 0)
        return;
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

void output_pass(const struct output *output, int log, const struct output_line *line,
                 struct output_tail *tail)
{
    char tag[16];

    snprintf(tag, sizeof(tag), "[w%u] ", line->worker);
    append(log, "", line);
    append(output->tee, tag, line);
    if (is_shown(output, line))
        show(line->error ? stderr : stdout, line->worker, line->text, line->length);
    else if (line->error)
        tail_add(tail, line->text, line->length);
}

void output_tail_show(const struct output *output, uint32_t worker, const struct output_tail *tail)
{
    const char *at = tail->text, *last = tail->text + tail->used, *end;

    for (; output->whose != OUTPUT_NONE && at < last; at = end + 1) {
        end = memchr(at, '\n', (size_t)(last - at));
        show(stderr, worker, at, (size_t)(end - at));
    }
}
