/* SPDX-License-Identifier: Apache-2.0 */
/* A folder in which members meet or save: can files be made there that nobody else made, and
 * replaced at one stroke? Some file systems that look like one cannot. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "doctor.h"

#define SKEW_S 5

bool doctor_probe_write(const char *folder, const char *name, const char *text)
{
    char path[4400], temporary[4400];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    snprintf(temporary, sizeof(temporary), "%s/.%s.new", folder, name);
    unlink(temporary); /* of a doctor that was ended */
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool fine = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && fsync(fd) == 0;

    if (fd >= 0 && close(fd) != 0)
        fine = false;
    if (fine && rename(temporary, path) == 0)
        return true;
    int why = errno;
    unlink(temporary);
    errno = why;
    return false;
}

/* The file system that holds the path, by its longest mount point: "fuse.s3fs", "nfs4", ... */
static void kind_of(const char *path, char *ret, size_t size)
{
    char line[2048], point[1024], kind[64], real[4096];
    size_t longest = 0;
    FILE *mounts = fopen("/proc/self/mountinfo", "re");

    snprintf(ret, size, "?");
    if (!realpath(path, real))
        snprintf(real, sizeof(real), "%s", path);
    while (mounts && fgets(line, sizeof(line), mounts)) {
        char *dash = strstr(line, " - ");
        if (!dash || sscanf(line, "%*s %*s %*s %*s %1023s", point) != 1
            || sscanf(dash, " - %63s", kind) != 1)
            continue;
        size_t length = strlen(point);
        bool holds =
            !strcmp(point, "/")
            || (!strncmp(real, point, length) && (real[length] == '/' || real[length] == 0));
        if (holds && length >= longest) {
            longest = length;
            snprintf(ret, size, "%s", kind);
        }
    }
    if (mounts)
        fclose(mounts);
}

/* Object stores in the clothes of a file system: a rename is a copy and a deletion. */
static bool is_object_store(const char *kind)
{
    static const char *const stores[] = { "s3fs",       "gcsfuse",  "goofys", "rclone",
                                          "mountpoint", "blobfuse", "geesefs" };

    for (size_t i = 0; i < sizeof(stores) / sizeof(*stores); i++)
        if (strstr(kind, stores[i]))
            return true;
    return false;
}

static bool is_local(const char *kind)
{
    static const char *const locals[] = { "tmpfs", "overlay", "ext4", "xfs", "btrfs", "zfs" };

    for (size_t i = 0; i < sizeof(locals) / sizeof(*locals); i++)
        if (!strcmp(kind, locals[i]))
            return true;
    return false;
}

/* Makes a file that must be new, twice. */
static bool is_exclusive(const char *path)
{
    int first = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600),
        second = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool fine = first >= 0 && second < 0 && errno == EEXIST;

    if (first >= 0)
        close(first);
    if (second >= 0)
        close(second);
    unlink(path);
    return fine;
}

static bool is_replaced(const char *folder, const char *name)
{
    char path[4400], text[16] = "";

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    bool fine = doctor_probe_write(folder, name, "one") && doctor_probe_write(folder, name, "two");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    fine = fine && fd >= 0 && read(fd, text, sizeof(text) - 1) == 3 && !strcmp(text, "two");
    if (fd >= 0)
        close(fd);
    return fine;
}

static void look_times(struct doctor *doctor, const char *use, const char *path)
{
    struct stat facts;
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    if (stat(path, &facts) == 0
        && llabs((long long)now.tv_sec - (long long)facts.st_mtim.tv_sec) > SKEW_S)
        doctor_say(doctor, DOCTOR_WARNING, use,
                   "its server's clock is %lld s away from this host's",
                   (long long)facts.st_mtim.tv_sec - (long long)now.tv_sec);
}

static void look_room(struct doctor *doctor, const char *use, const char *folder)
{
    struct statvfs room;

    if (statvfs(folder, &room) == 0
        && (uint64_t)room.f_bavail * room.f_frsize < (UINT64_C(1) << 30))
        doctor_say(doctor, DOCTOR_WARNING, use,
                   "%llu MiB are free: a checkpoint is as large as the model and its optimiser",
                   (unsigned long long)((uint64_t)room.f_bavail * room.f_frsize >> 20));
}

void doctor_look_folder(struct doctor *doctor, const char *use, const char *folder)
{
    char name[64], path[4400], kind[64];
    struct stat facts;

    if (stat(folder, &facts) || !S_ISDIR(facts.st_mode)) {
        doctor_say(doctor, DOCTOR_BAD, use, "%s: %s; make it where all hosts see it", folder,
                   errno == ENOENT ? "there is no such folder" : "is no folder");
        return;
    }
    kind_of(folder, kind, sizeof(kind));
    snprintf(name, sizeof(name), DOCTOR_PROBE "%d-%llx", (int)getpid(),
             (unsigned long long)doctor->credentials.self.id.high);
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    if (is_object_store(kind)) {
        doctor_say(
            doctor, DOCTOR_BAD, use,
            "%s is on %s, which cannot rename at one stroke; take NFS, CephFS, Lustre or a disk",
            folder, kind);
    } else if (!doctor_probe_write(folder, name, "x")) {
        doctor_say(doctor, DOCTOR_BAD, use, "cannot write to %s, or not rename there: %s", folder,
                   strerror(errno));
        return;
    } else if (!is_replaced(folder, name) || unlink(path) || !is_exclusive(path)) {
        doctor_say(doctor, DOCTOR_BAD, use,
                   "%s (%s) does not replace files at one stroke, or makes a file twice: members "
                   "would not "
                   "agree on it",
                   folder, kind);
    } else {
        doctor_say(doctor, DOCTOR_FINE, use, "%s on %s%s", folder, kind,
                   is_local(kind) ? ", which is of this host alone, unless it is exported" : "");
    }
    if (facts.st_mode & S_IWOTH)
        doctor_say(doctor, DOCTOR_WARNING, use,
                   "everybody on this host may write to it: chmod o-w %s", folder);
    if (doctor_probe_write(folder, name, "x"))
        look_times(doctor, use, path);
    unlink(path);
    look_room(doctor, use, folder);
}
