/* SPDX-License-Identifier: Apache-2.0 */
/* A simulation for tests: a chaotic map whose end depends on every bit of its state, and whose
 * restart is exact.
 *
 *     bag-sim X0 STEPS MICROSECONDS EVERY [RESTART]
 *
 * After every EVERY steps (0: only at SIGUSR1) it writes restart.<step>, in two pieces with a pause
 * between them: whoever takes one that is being written gets half of it, and this program ends with
 * 9 when it is to go on from such a one. At the end it writes `result`.
 *
 * With FRAMES=N in the environment it appends 2 kB to `trajectory` after every N steps, and writes
 * `sum` anew, of all x so far, which is in no restart file: to go on it needs both as they were.
 *
 * With TALLY in the environment it says a dot for every step and an exclamation mark for every
 * restart file, at once: what all attempts together have computed can be counted, however loaded
 * the machine was. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static volatile sig_atomic_t asked;

static void on_ask(int number)
{
    (void)number;
    asked = 1;
}

struct state {
    double x, head;
    long step;
    double copy[512]; /* some bulk, all of it checked */
};

static void rest(long microseconds)
{
    struct timespec span = { .tv_sec = microseconds / 1000000,
                             .tv_nsec = microseconds % 1000000 * 1000 };
    while (nanosleep(&span, &span) != 0)
        continue;
}

static void tally(char what)
{
    if (getenv("TALLY") == NULL)
        return;
    putchar(what);
    fflush(stdout);
}

static void state_write(struct state *state, long pause)
{
    char name[64];
    snprintf(name, sizeof name, "restart.%ld", state->step);
    for (int i = 0; i < 512; i++)
        state->copy[i] = state->x;
    FILE *file = fopen(name, "wb");
    if (file == NULL || fwrite(state, sizeof *state / 2, 1, file) != 1 || fflush(file) != 0)
        exit(8);
    rest(4 * pause);
    if (fwrite((char *)state + sizeof *state / 2, sizeof *state / 2, 1, file) != 1
        || fclose(file) != 0)
        exit(8);
}

static void frame_write(const struct state *state, double sum)
{
    FILE *trajectory = fopen("trajectory", "a"), *file = fopen("sum", "w");
    if (trajectory == NULL
        || fprintf(trajectory, "%ld %a%*s\n", state->step, state->x, 2000, ".") < 0
        || fclose(trajectory) != 0)
        exit(8);
    if (file == NULL || fprintf(file, "%a\n", sum) < 0 || fclose(file) != 0)
        exit(8);
}

static double sum_read(void)
{
    double sum = 0;
    FILE *file = fopen("sum", "r");
    if (file == NULL || fscanf(file, "%lf", &sum) != 1)
        exit(9);
    fclose(file);
    return sum;
}

static void state_read(struct state *state, const char *name)
{
    FILE *file = fopen(name, "rb");
    if (file == NULL || fread(state, sizeof *state, 1, file) != 1)
        exit(9);
    for (int i = 0; i < 512; i++)
        if (memcmp(&state->copy[i], &state->x, sizeof state->x) != 0)
            exit(9);
    fclose(file);
}

int main(int argc, char **argv)
{
    struct state state = { 0 };
    if (argc < 5)
        return 2;
    const char *frames = getenv("FRAMES");
    double sum = 0;
    long frame = frames != NULL ? atol(frames) : 0;
    long steps = atol(argv[2]), pause = atol(argv[3]), every = atol(argv[4]);
    state.x = atof(argv[1]);
    signal(SIGUSR1, on_ask);
    puts("hears");
    fflush(stdout);
    if (argc > 5)
        state_read(&state, argv[5]);
    if (argc > 5 && frame > 0 && state.step >= frame)
        sum = sum_read();
    while (state.step < steps) {
        state.x = 3.9999 * state.x * (1 - state.x);
        state.step++;
        rest(pause);
        tally('.');
        if (frame > 0 && state.step % frame == 0)
            frame_write(&state, sum += state.x);
        if ((every > 0 && state.step % every == 0) || asked) {
            asked = 0;
            state_write(&state, pause);
            tally('!');
        }
    }
    FILE *file = fopen("result", "w");
    return file != NULL && fprintf(file, "%ld %a\n", state.step, state.x) > 0 && fclose(file) == 0
               ? 0
               : 8;
}
