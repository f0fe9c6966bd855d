/* SPDX-License-Identifier: Apache-2.0 */
/* The other end of spotnik doctor HOST: a runtime without a job, behind the same door as a member.
 * It answers a visitor that has proven the key. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "api/key.h"
#include "doctor.h"
#include "link/address.h"
#include "spotnik/spotnik.h"

#define PATIENCE_S 30

struct guest {
    const struct doctor *doctor;
    int fd;
};

/* Only files of a doctor are shown to a guest. */
static void look(const struct doctor *doctor, struct doctor_message *message)
{
    char path[4400], name[128];

    snprintf(name, sizeof(name), "%.100s", message->text);
    message->bytes = 0;
    message->text[0] = 0;
    if (strncmp(name, DOCTOR_PROBE, strlen(DOCTOR_PROBE)) || strchr(name, '/')
        || !doctor->folder[0])
        return;
    snprintf(path, sizeof(path), "%s/%s", doctor->folder, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t got = fd < 0 ? -1 : read(fd, message->text, sizeof(message->text) - 1);

    if (fd >= 0)
        close(fd);
    if (got > 0) {
        message->text[got] = 0;
        message->bytes = (uint64_t)got;
    }
}

static bool bulk(int fd, struct doctor_message *message, uint8_t *memory)
{
    if (message->bytes > DOCTOR_BULK_MAX)
        return false;
    return doctor_move(fd, memory, message->bytes, false)
           && doctor_move(fd, message, sizeof(*message), true)
           && doctor_move(fd, memory, message->bytes, true);
}

static bool answer(const struct doctor *doctor, int fd, struct doctor_message *message,
                   uint8_t *memory)
{
    struct timespec now;
    char host[64] = "";

    clock_gettime(CLOCK_REALTIME, &now);
    message->wall_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    message->text[sizeof(message->text) - 1] = 0;
    if (message->what == DOCTOR_BULK)
        return bulk(fd, message, memory);
    if (message->what == DOCTOR_LOOK)
        look(doctor, message);
    if (message->what == DOCTOR_SELF) {
        gethostname(host, sizeof(host) - 1);
        snprintf(message->text, sizeof(message->text), "%s %.150s", host,
                 doctor->folder[0] ? doctor->folder : "-");
    }
    return doctor_move(fd, message, sizeof(*message), true);
}

static void *talk(void *context)
{
    struct guest *guest = context;
    struct doctor_message message;
    struct timeval patience = { .tv_sec = PATIENCE_S };
    uint8_t *memory = malloc(DOCTOR_BULK_MAX);

    setsockopt(guest->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    setsockopt(guest->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    while (memory && doctor_move(guest->fd, &message, sizeof(message), false)
           && message.magic == DOCTOR_MAGIC && answer(guest->doctor, guest->fd, &message, memory))
        continue;
    free(memory);
    close(guest->fd);
    free(guest);
    return NULL;
}

/* What the doctor times needs no tags. */
static void take_guest(void *context, struct spotnik_duplex *duplex,
                       const struct spotnik_member *peer)
{
    int fd = spotnik_duplex_release(duplex);
    struct guest *guest = malloc(sizeof(*guest));
    pthread_t thread;

    (void)peer;
    if (guest)
        *guest = (struct guest){ .doctor = context, .fd = fd };
    if (guest && pthread_create(&thread, NULL, talk, guest) == 0) {
        pthread_detach(thread);
        return;
    }
    free(guest);
    close(fd);
}

static size_t tell(void *context, char *text, size_t size)
{
    (void)context;
    return (size_t)snprintf(text, size, "{\"doctor\":true,\"version\":\"" SPOTNIK_VERSION "\"}\n");
}

int doctor_serve(struct doctor *doctor)
{
    struct spotnik_runtime_config config = {
        .credentials = doctor->credentials,
        .members_min = 1,
        .transport = "tcp",
        .hooks = { .context = doctor, .exchange_connection = take_guest, .status_text = tell }
    };
    struct spotnik_runtime *runtime;
    char text[SPOTNIK_ADDRESS_TEXT];
    sigset_t set;
    int number;

    config.credentials.self.port = DOCTOR_PORT;
    if (spotnik_address_parse(doctor->bind, config.credentials.self.address,
                              &config.credentials.self.port)) {
        fprintf(stderr, "spotnik doctor: %s\n", spotnik_last_error());
        return 2;
    }
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    spotnik_limits_init(&config.limits, 2);
    if (spotnik_runtime_new(&config, &runtime)) {
        fprintf(stderr, "spotnik doctor: %s\n", spotnik_last_error());
        return 1;
    }
    const struct spotnik_member *self = &spotnik_runtime_credentials(runtime)->self;
    spotnik_address_format(text, self->address, self->port);
    printf("waiting; on the other host say: spotnik doctor %s --key-file THE-SAME-KEY\n", text);
    fflush(stdout);
    sigwait(&set, &number);
    spotnik_runtime_free(runtime, true);
    return 0;
}
