/* SPDX-License-Identifier: Apache-2.0 */
/* The terminal, by the few control sequences that all of them know. */
#include "screen.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/time.h"

#define TEXT_MAX (256 * 1024)
#define ENTER "\033[?1049h\033[?25l" /* another page, no cursor */
#define LEAVE "\033[?25h\033[?1049l"

static struct termios before;
static bool is_open, colour;
static uint32_t rows, columns, used_rows;
static char text[TEXT_MAX];
static size_t used;
static volatile sig_atomic_t ended;

bool screen_has_colour(int fd)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

    return isatty(fd) && !(no && *no) && !(term && !strcmp(term, "dumb"));
}

uint32_t screen_width(int fd)
{
    struct winsize size;

    return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col >= 20 ? size.ws_col : 80;
}

static void on_signal(int number)
{
    if (number != SIGWINCH) /* that one only ends the wait for a key */
        ended = 1;
}

static void catch_signals(void)
{
    static const int numbers[] = { SIGWINCH, SIGINT, SIGTERM, SIGHUP };
    struct sigaction action = { .sa_handler = on_signal }; /* no SA_RESTART: poll() shall end */

    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
        sigaction(numbers[i], &action, NULL);
}

static void put(const char *bytes, size_t size)
{
    for (ssize_t wrote;
         size && ((wrote = write(STDOUT_FILENO, bytes, size)) > 0 || errno == EINTR);)
        if (wrote > 0) {
            bytes += wrote;
            size -= (size_t)wrote;
        }
}

bool screen_open(void)
{
    struct termios raw;

    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || tcgetattr(STDIN_FILENO, &before))
        return false;
    raw = before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    colour = screen_has_colour(STDOUT_FILENO);
    is_open = true;
    catch_signals();
    put(ENTER, sizeof(ENTER) - 1);
    return true;
}

void screen_close(void)
{
    if (!is_open)
        return;
    put(LEAVE, sizeof(LEAVE) - 1);
    tcsetattr(STDIN_FILENO, TCSANOW, &before);
    is_open = false;
}

void screen_begin(void)
{
    struct winsize size = { 0 };

    rows = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row >= 4 ? size.ws_row : 24;
    columns = screen_width(STDOUT_FILENO);
    used_rows = 0;
    used = (size_t)snprintf(text, sizeof(text), "\033[H");
}

uint32_t screen_room(void)
{
    return rows - used_rows;
}

static void add(const char *bytes, size_t size)
{
    if (used + size < sizeof(text)) {
        memcpy(text + used, bytes, size);
        used += size;
    }
}

static void add_words(const char *words)
{
    add(words, strlen(words));
}

/* Names come from elsewhere: what would move the cursor is not passed on. Of UTF-8 a sequence
 * counts as one column. */
static void add_line(const char *line)
{
    uint32_t column = 0;

    for (const unsigned char *c = (const unsigned char *)line; *c; c++) {
        bool begins = (*c & 0xc0) != 0x80;
        if (begins && column++ == columns)
            return;
        add(*c < 0x20 || *c == 0x7f ? "?" : (const char *)c, 1);
    }
}

void screen_line(enum screen_look look, const char *format, ...)
{
    static const char *const begin[] = { "", "\033[7m", "\033[2m", "\033[1;31m" };
    char line[1024];
    va_list arguments;

    if (used_rows == rows)
        return;
    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    if (used_rows++)
        add_words("\r\n");
    add_words(colour ? begin[look] : "");
    add_line(line);
    add_words(colour && look ? "\033[0m" : "");
    add_words("\033[K");
}

void screen_show(void)
{
    add_words("\033[J");
    put(text, used);
}

int screen_key(uint64_t timeout_ns)
{
    struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
    char key;

    if (ended)
        return 'q';
    int ready = poll(&input, 1, (int)(timeout_ns / SPOTNIK_MS));
    if (ended)
        return 'q';
    if (ready <= 0)
        return 0;
    ssize_t got = read(STDIN_FILENO, &key, 1);
    return got == 1 ? (unsigned char)key : got < 0 && errno == EINTR ? 0 : 'q';
}
