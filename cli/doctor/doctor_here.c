/* SPDX-License-Identifier: Apache-2.0 */
/* This host: key, kernel, limits, memory, clock, names, address. */
#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "api/key.h"
#include "common/sibling.h"
#include "doctor.h"
#include "link/address.h"
#include "discovery/dns.h"
#include "spotnik/spotnik.h"
#include "store/store.h"

#define FILES_WANTED 4096
#define NAME_SLOW_MS 1000

static void look_key(struct doctor *doctor)
{
    if (!doctor->key_file) {
        doctor_say(doctor, doctor->peers ? DOCTOR_BAD : DOCTOR_WARNING, "key",
                   "none was named; make one with: spotnik key job.key, bring it to all "
                   "hosts, and give --key-file");
        return;
    }
    doctor->has_key = spotnik_tls_settings_read(&doctor->credentials.tls) == 0
                      && spotnik_key_read(doctor->key_file, doctor->credentials.key) == 0;
    if (doctor->has_key)
        doctor_say(doctor, DOCTOR_FINE, "key", "%s", doctor->key_file);
    else
        doctor_say(doctor, DOCTOR_BAD, "key", "%s", spotnik_last_error());
}

static void look_kernel(struct doctor *doctor)
{
    if (syscall(SYS_futex_waitv, NULL, 0, 0, NULL, 0) == -1 && errno != ENOSYS && errno != EPERM)
        doctor_say(doctor, DOCTOR_FINE, "kernel", "tells of deaths on this host at once");
    else
        doctor_say(doctor, DOCTOR_WARNING, "kernel",
                   "has no futex_waitv (Linux 5.16, or a sandbox): deaths are seen some "
                   "milliseconds later");
}

static void look_limits(struct doctor *doctor)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < FILES_WANTED)
        doctor_say(
            doctor, DOCTOR_WARNING, "limits",
            "%llu open files at most: enough for some hundred members; raise it with: ulimit -n %d",
            (unsigned long long)files.rlim_cur, FILES_WANTED);
    else
        doctor_say(doctor, DOCTOR_FINE, "limits", "open files");
}

static void look_memory(struct doctor *doctor)
{
    size_t size = 1 << 20;
    int fd = memfd_create("spotnik-doctor", MFD_CLOEXEC);
    void *memory = fd >= 0 && ftruncate(fd, (off_t)size) == 0
                       ? mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                       : MAP_FAILED;

    if (memory == MAP_FAILED)
        doctor_say(doctor, DOCTOR_WARNING, "shared memory",
                   "%s: workers of this host will talk over TCP", strerror(errno));
    else
        doctor_say(doctor, DOCTOR_FINE, "shared memory", "workers of this host can share it");
    if (memory != MAP_FAILED)
        munmap(memory, size);
    if (fd >= 0)
        close(fd);
}

static void look_clock(struct doctor *doctor)
{
    struct timex facts = { .modes = 0 };

    if (adjtimex(&facts) >= 0 && (facts.status & STA_UNSYNC))
        doctor_say(
            doctor, DOCTOR_WARNING, "clock",
            "is not synchronised: training does not mind, deadlines of notices may be wrong");
    else
        doctor_say(doctor, DOCTOR_FINE, "clock", "synchronised, as far as the kernel knows");
}

static void look_bind(struct doctor *doctor)
{
    struct spotnik_member self = { .port = 0 };
    struct sockaddr_storage address;

    if (!doctor->bind)
        return;
    if (spotnik_address_parse(doctor->bind, self.address, &self.port)) {
        doctor_say(doctor, DOCTOR_BAD, "address", "%s", spotnik_last_error());
        return;
    }
    socklen_t size = spotnik_address_to_kernel(&address, self.address, self.port);
    int fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, size) == 0)
        doctor_say(doctor, DOCTOR_FINE, "address", "workers can listen on %s", doctor->bind);
    else
        doctor_say(doctor, DOCTOR_BAD, "address",
                   "nobody can listen on %s: %s; ip addr shows the addresses of this host",
                   doctor->bind, strerror(errno));
    if (fd >= 0)
        close(fd);
}

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void look_names(struct doctor *doctor)
{
    static struct spotnik_discovery_spec spec;
    uint8_t own[16];
    uint16_t port;
    bool bound = doctor->bind && spotnik_address_parse(doctor->bind, own, &port) == 0;
    char said[256] = "";
    uint64_t begun = now_ms();

    if (spotnik_discovery_spec_parse(doctor->peers, NULL, &spec)) {
        doctor_say(doctor, DOCTOR_BAD, "peers", "%s", spotnik_last_error());
        return;
    }
    if (spec.name_count > 0)
        spotnik_dns_resolve(&spec, bound ? own : NULL, said, sizeof(said));
    uint64_t took = now_ms() - begun;
    if (said[0])
        doctor_say(doctor, DOCTOR_WARNING, "names",
                   "%s: a host that is not up yet, or a mistake in the name", said);
    else if (!spec.is_store)
        doctor_say(doctor, took > NAME_SLOW_MS ? DOCTOR_WARNING : DOCTOR_FINE, "names",
                   "%u processes are named; looking them up took %llu ms", spec.count,
                   (unsigned long long)took);
    if (spec.is_store && spotnik_objects_is_bucket(spec.location))
        doctor_look_bucket(doctor, "peers bucket", spec.location);
    else if (spec.is_store)
        snprintf(doctor->folder, sizeof(doctor->folder), "%s", spec.location);
}

/* The first line of spotnik-notice, and its exit status: 3 when a notice stands. */
static int ask_notice(char *said, size_t size)
{
    char path[PATH_MAX], *argv[] = { "spotnik-notice", NULL };
    int pipes[2], status = -1;

    sibling_command(argv[0], path);
    if (pipe(pipes))
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        dup2(pipes[1], STDOUT_FILENO);
        close(pipes[0]);
        execvp(path, argv);
        _exit(127);
    }
    close(pipes[1]);
    FILE *out = fdopen(pipes[0], "r");
    said[0] = '\0';
    if (out && fgets(said, (int)size, out))
        said[strcspn(said, "\n")] = '\0';
    if (pid > 0)
        waitpid(pid, &status, 0);
    if (out)
        fclose(out);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void look_notices(struct doctor *doctor)
{
    char said[256];
    int status = ask_notice(said, sizeof(said));

    if (status == 0 || status == 3)
        doctor_say(doctor, status ? DOCTOR_WARNING : DOCTOR_FINE, "notices", "%s", said);
    else
        doctor_say(doctor, DOCTOR_WARNING, "notices",
                   "spotnik-notice %s: SIGTERM is the only notice that spotnik run hears of",
                   status == 127 ? "is not installed" : "does not run");
}

void doctor_look_here(struct doctor *doctor)
{
    look_key(doctor);
    look_kernel(doctor);
    look_limits(doctor);
    look_memory(doctor);
    look_clock(doctor);
    look_bind(doctor);
    look_notices(doctor);
    if (doctor->peers)
        look_names(doctor);
    if (doctor->folder[0])
        doctor_look_folder(doctor, "peers folder", doctor->folder);
    if (doctor->checkpoint && spotnik_objects_is_bucket(doctor->checkpoint))
        doctor_look_bucket(doctor, "checkpoints", doctor->checkpoint);
    else if (doctor->checkpoint) /* "file:" may stand before a folder */
        doctor_look_folder(doctor, "checkpoints",
                           doctor->checkpoint + (strncmp(doctor->checkpoint, "file:", 5) ? 0 : 5));
}
