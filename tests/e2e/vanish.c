/* SPDX-License-Identifier: Apache-2.0 */
/* The peers directory vanishes, or its disk is full, while the job runs. Claims:
 *
 *   gone       training goes on and survives a loss; the status of each member warns; a worker that
 *              starts is told what is wrong; once the directory is back the warning goes and a
 *              joiner gets in
 *   joining    it goes while a joiner copies the state: the joiner gets in all the same
 *   full       on a full disk a worker is told so at its start; members that run are not disturbed,
 *              and warn
 *
 * The last needs the right to mount; it says so and is left out without.
 *
 *     e2e-vanish WORKER [mib=64] */
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/time.h"
#include "cluster.h"
#include "probe.h"
#include "spotnik/spotnik.h"

#define PATIENCE_MS 30000
#define WARNING "\"warning\":\"cannot write this member's record to "
#define NO_WARNING "\"warning\":\"\""

static uint64_t step_wanted;
static uint32_t size_wanted, joiner;
static char elsewhere[320];

static bool is_further(struct cluster *cluster)
{
    return cluster_step(cluster) > step_wanted && cluster_is_together(cluster, size_wanted);
}

static void go_on(struct cluster *cluster, uint32_t size, const char *what)
{
    step_wanted = cluster_step(cluster) + 20;
    size_wanted = size;
    cluster_until(cluster, is_further, what, PATIENCE_MS);
}

static void move(struct cluster *cluster, const char *from, const char *to)
{
    if (rename(from, to))
        cluster_fail(cluster, "rename: %m");
}

static void expect_warnings(struct cluster *cluster, const struct spotnik_member *member,
                            uint32_t count, const char *what)
{
    char text[16384];

    for (uint32_t i = 0; i < count; i++)
        if (cluster->worker[i].pid && !cluster->worker[i].killed)
            probe_until(cluster, i, &member[i], what, PATIENCE_MS, text, sizeof text);
}

static void start(struct cluster *cluster, uint32_t places, uint32_t now, const char *worker,
                  const char *bytes)
{
    cluster_new(cluster, places, 1);
    cluster_use(cluster, worker, "-S", bytes, "-D", "-c", "5000", "-n", "10000", "-b", "64", "-u",
                "1000", NULL);
    for (uint32_t i = 0; i < now; i++)
        cluster_start(cluster, i);
}

static void finish(struct cluster *cluster)
{
    for (uint32_t i = 0; i < cluster->places; i++)
        cluster_kill(cluster, i, SIGTERM);
    cluster_until(cluster, cluster_is_over, "everybody to leave", PATIENCE_MS);
    cluster_expect_end(cluster, 75);
    cluster_free(cluster);
}

/* ---- gone ---- */

static void gone(const char *worker)
{
    static struct cluster cluster;
    struct spotnik_member member[4];

    start(&cluster, 4, 4, worker, "0");
    snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere", cluster.dir);
    cluster_until(&cluster, cluster_is_whole, "everybody in one view at the start", PATIENCE_MS);
    for (uint32_t i = 0; i < 4; i++)
        member[i] = probe_member(&cluster, i);
    move(&cluster, cluster.peers, elsewhere);
    go_on(&cluster, 4, "steps without the directory");
    expect_warnings(&cluster, member, 4, WARNING);
    probe_fails(&cluster, cluster.key, "e2e", cluster.spec, SPOTNIK_ERR_SYSTEM,
                "it must exist and be writable");
    cluster_kill(&cluster, 2, SIGKILL);
    go_on(&cluster, 3, "steps after a loss without the directory");
    move(&cluster, elsewhere, cluster.peers);
    expect_warnings(&cluster, member, 4, NO_WARNING);
    cluster_start(&cluster, 2);
    go_on(&cluster, 4, "a joiner to be in once the directory is back");
    printf("gone: steps went on, also after a loss; members warned; a joiner got in when it was "
           "back\n");
    finish(&cluster);
}

/* ---- joining ---- */

static bool joiner_knows(struct cluster *cluster)
{
    return cluster->worker[joiner].joined_ns > 0;
}

static bool founder_steps(struct cluster *cluster)
{
    return cluster->worker[0].step > 5;
}

/* spotnik_join() has returned, the state is not copied: that is when the directory goes. */
static void joining(const char *worker, uint64_t mib)
{
    static struct cluster cluster;
    char bytes[32], go[300];

    snprintf(bytes, sizeof bytes, "%" PRIu64, mib << 20);
    start(&cluster, 3, 2, worker, bytes);
    snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere", cluster.dir);
    go_on(&cluster, 2, "two members in one view");
    joiner = 2;
    snprintf(go, sizeof go, "%s/go", cluster.dir);
    setenv("WORKER_HOLD", go, 1);
    cluster_start(&cluster, joiner);
    unsetenv("WORKER_HOLD");
    cluster_until(&cluster, joiner_knows, "the joiner to know of the job", PATIENCE_MS);
    if (cluster.worker[joiner].entered_ns)
        cluster_fail(&cluster, "the joiner was in before the directory went");
    move(&cluster, cluster.peers, elsewhere);
    close(open(go, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    go_on(&cluster, 3, "a joiner to be in although the directory went");
    printf("joining: with %" PRIu64 " MiB to copy when the directory went, the joiner got in\n",
           mib);
    move(&cluster, elsewhere, cluster.peers);
    finish(&cluster);
}

/* ---- full ---- */

/* A disk of our own over the peers directory, with room for a few records. */
static bool mount_small(const struct cluster *cluster)
{
    return unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0
           && mount("none", cluster->peers, "tmpfs", 0, "size=256k,mode=700") == 0;
}

static void fill(struct cluster *cluster, const char *path)
{
    char page[4096] = "";
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    if (fd < 0)
        cluster_fail(cluster, "open %s: %m", path);
    while (write(fd, page, sizeof page) > 0)
        continue;
    close(fd);
}

static void full(const char *worker)
{
    static struct cluster cluster;
    struct spotnik_member member[2];
    char ballast[320];

    start(&cluster, 3, 0, worker, "0");
    if (!mount_small(&cluster)) {
        printf("full: left out, a small disk cannot be mounted here\n");
        cluster_free(&cluster);
        return;
    }
    snprintf(ballast, sizeof ballast, "%s/ballast", cluster.peers);
    fill(&cluster, ballast);
    probe_fails(&cluster, cluster.key, "e2e", cluster.spec, SPOTNIK_ERR_SYSTEM,
                "No space left on device");
    if (unlink(ballast))
        cluster_fail(&cluster, "unlink: %m");
    cluster_start(&cluster, 0);
    cluster_until(&cluster, founder_steps, "steps on a small disk", PATIENCE_MS);
    cluster_start(&cluster, 1);
    go_on(&cluster, 2, "two members in one view");
    for (uint32_t i = 0; i < 2; i++)
        member[i] = probe_member(&cluster, i);
    fill(&cluster, ballast);
    expect_warnings(&cluster, member, 2, "No space left on device");
    probe_fails(&cluster, cluster.key, "e2e", cluster.spec, SPOTNIK_ERR_SYSTEM,
                "No space left on device");
    go_on(&cluster, 2, "steps with a full disk");
    if (unlink(ballast))
        cluster_fail(&cluster, "unlink: %m");
    expect_warnings(&cluster, member, 2, NO_WARNING);
    cluster_start(&cluster, 2);
    go_on(&cluster, 3, "a joiner to be in when there is room again");
    printf("full: workers were told; members warned and went on; a joiner got in when there was "
           "room\n");
    for (uint32_t i = 0; i < 3; i++)
        cluster_kill(&cluster, i, SIGTERM);
    cluster_until(&cluster, cluster_is_over, "everybody to leave", PATIENCE_MS);
    cluster_expect_end(&cluster, 75);
    if (umount(cluster.peers))
        cluster_fail(&cluster, "umount: %m");
    cluster_free(&cluster);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    gone(argv[1]);
    joining(argv[1], cluster_argument(argc, argv, "mib", 64));
    full(argv[1]);
    return 0;
}
