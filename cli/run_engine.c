/* SPDX-License-Identifier: Apache-2.0 */
/* Slurm, SkyPilot and names of the DNS as lists of peers. See run_engine.h. */
#include "run_engine.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <netdb.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "discovery/dns.h"
#include "discovery/host_list.h"
#include "run_hosts.h"
#include "spotnik/spotnik.h"

/* Below the range from which kernels take ports of their own accord. */
#define PORT_FIRST 21300
#define PORT_SPREAD 9000
#define NODES_LISTED 64

static bool complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

static bool complain(const char *format, ...)
{
    va_list arguments;

    fprintf(stderr, "spotnik run: ");
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, "\n");
    return false;
}

static const char *word_of(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

/* Jobs on the same hosts keep apart. */
static uint16_t port_of(const char *job)
{
    uint32_t hash = 2166136261u;

    for (; *job; job++)
        hash = (hash ^ (unsigned char)*job) * 16777619u;
    return (uint16_t)(PORT_FIRST + hash % PORT_SPREAD);
}

/* ---- addresses ---- */

static bool address_of(const char *name, char *ret, size_t size)
{
    struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM }, *list;

    if (getaddrinfo(name, NULL, &hints, &list))
        return false;
    int rc =
        getnameinfo(list->ai_addr, list->ai_addrlen, ret, (socklen_t)size, NULL, 0, NI_NUMERICHOST);
    freeaddrinfo(list);
    return rc == 0;
}

static bool is_loopback(const char *address)
{
    return !strncmp(address, "127.", 4) || !strcmp(address, "::1");
}

/* The one from which packets to the outside leave; nothing is sent. */
static bool address_outward(char *ret, size_t size)
{
    struct sockaddr_in far = { .sin_family = AF_INET, .sin_port = htons(9) }, near;
    socklen_t length = sizeof(near);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    inet_pton(AF_INET, "192.0.2.1", &far.sin_addr);
    bool found = fd >= 0 && !connect(fd, (struct sockaddr *)&far, sizeof(far))
                 && !getsockname(fd, (struct sockaddr *)&near, &length)
                 && inet_ntop(AF_INET, &near.sin_addr, ret, (socklen_t)size);
    if (fd >= 0)
        close(fd);
    return found;
}

/* A name may have an address that no interface of this host has. */
static bool is_here(const char *address)
{
    struct addrinfo hints = { .ai_family = AF_UNSPEC,
                              .ai_socktype = SOCK_DGRAM,
                              .ai_flags = AI_NUMERICHOST },
                    *found;

    if (getaddrinfo(address, NULL, &hints, &found))
        return false;
    int fd = socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool here = fd >= 0 && bind(fd, found->ai_addr, found->ai_addrlen) == 0;

    if (fd >= 0)
        close(fd);
    freeaddrinfo(found);
    return here;
}

/* Without a route to the outside: that of the first interface, an IPv4 one where there is one, but
 * for those that a host gives itself (169.254). */
static bool address_of_interface(struct run_engine *ret)
{
    static const int families[] = { AF_INET, AF_INET6, AF_INET };
    struct ifaddrs *list = NULL;
    bool found = false;

    if (getifaddrs(&list))
        return false;
    for (int i = 0; i < 3; i++)
        for (const struct ifaddrs *at = list; at && !found; at = at->ifa_next) {
            if (!at->ifa_addr || at->ifa_addr->sa_family != families[i] || !(at->ifa_flags & IFF_UP)
                || at->ifa_flags & IFF_LOOPBACK)
                continue;
            socklen_t size =
                i == 1 ? sizeof(struct sockaddr_in6) : (socklen_t)sizeof(struct sockaddr_in);
            found = getnameinfo(at->ifa_addr, size, ret->bind, sizeof(ret->bind), NULL, 0,
                                NI_NUMERICHOST)
                        == 0
                    && !strchr(ret->bind, '%') && (i == 2 || strncmp(ret->bind, "169.254.", 8));
            if (found && !ret->said[0])
                snprintf(ret->said, sizeof(ret->said),
                         "no default route: workers listen on %s of %s; --bind names another",
                         ret->bind, at->ifa_name);
        }
    freeifaddrs(list);
    return found;
}

/* One line of what a command of Slurm prints. */
static bool ask(const char *command, char *ret, size_t size)
{
    FILE *pipe = popen(command, "re");
    bool got = pipe && fgets(ret, (int)size, pipe);

    if (pipe && pclose(pipe) != 0)
        got = false;
    if (got)
        ret[strcspn(ret, "\r\n")] = 0;
    return got && *ret;
}

static bool is_word(const char *text)
{
    for (const char *c = text; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("_-.+", *c))
            return false;
    return *text != 0;
}

/* Nodes need not be in the DNS: Slurm has addresses of its own for them. */
static bool node_address(const char *node, char *ret, size_t size)
{
    char command[400], line[4096], *at;

    if (!is_word(node))
        return complain("\"%s\" is no name of a node", node);
    snprintf(command, sizeof(command), "scontrol -o show node %s 2>/dev/null", node);
    if (ask(command, line, sizeof(line)) && (at = strstr(line, " NodeAddr="))) {
        at += strlen(" NodeAddr=");
        at[strcspn(at, " ")] = 0;
        if (address_of(at, ret, size))
            return true;
    }
    return address_of(node, ret, size)
           || complain("node %s has no address that this host can look up", node);
}

static bool own_address(const char *bind, struct run_engine *ret)
{
    char name[256] = "";
    const char *node = word_of("SLURMD_NODENAME");

    if (!bind && node)
        return node_address(node, ret->bind, sizeof(ret->bind));
    if (bind || (bind = word_of("POD_IP"))) {
        snprintf(ret->bind, sizeof(ret->bind), "%s", bind);
        return true;
    }
    gethostname(name, sizeof(name) - 1);
    if (address_of(name, ret->bind, sizeof(ret->bind)) && !is_loopback(ret->bind)
        && is_here(ret->bind))
        return true;
    return address_outward(ret->bind, sizeof(ret->bind)) || address_of_interface(ret)
           || complain("this host's address is not known; name it with --bind");
}

static void add_peer(struct run_engine *ret, const char *address, uint16_t port)
{
    size_t used = strlen(ret->peers);

    snprintf(ret->peers + used, sizeof(ret->peers) - used,
             strchr(address, ':') ? "%s[%s]:%u" : "%s%s:%u", used ? "," : "", address, port);
}

/* ---- Slurm ---- */

/* JOB, or JOB.STEP as squeue and scancel write it: a step may have some of its job's nodes only. */
struct slurm {
    char job[64];
    bool is_step, is_own; /* is_own: this process is one of its tasks */
    char list[4096];      /* nodes, as Slurm writes them */
};

static bool slurm_name(const char *word, struct slurm *ret)
{
    const char *job = word_of("SLURM_JOB_ID"), *step = word_of("SLURM_STEP_ID");
    char own_step[64] = "";

    if (job && step)
        snprintf(own_step, sizeof(own_step), "%.30s.%.30s", job, step);
    if (!strcmp(word, "step"))
        word = own_step;
    else if (!*word && job)
        word = job;
    if (!*word)
        return complain(
            "--peers slurm: SLURM_JOB_ID%s is not set: start it with srun, or name a job: "
            "--peers slurm:JOB",
            job ? " is, but SLURM_STEP_ID" : "");
    if (!is_word(word) || strlen(word) >= sizeof(ret->job))
        return complain("\"%s\" is no number of a job", word);
    snprintf(ret->job, sizeof(ret->job), "%s", word);
    ret->is_step = strchr(word, '.') != NULL;
    ret->is_own = !strcmp(word, own_step) || (job && !strcmp(word, job));
    return true;
}

/* A list that did not fit ends within a name, or within a bracket, as [1,3,5 does. The names before
 * it will do: NODES_LISTED of them are asked, and all nodes have the same list. */
static void cut_to_whole(char *list, size_t size)
{
    char *end = strrchr(list, ',');

    if (strlen(list) < size - 1 || !end)
        return;
    *end = 0;
    char *open = strrchr(list, '['), *closed = strrchr(list, ']');
    if (open && (!closed || closed < open))
        memcpy(end, "]", 2);
}

static bool slurm_nodes(struct slurm *slurm)
{
    char command[200];
    const char *list = slurm->is_step                  ? word_of("SLURM_STEP_NODELIST")
                       : word_of("SLURM_JOB_NODELIST") ? word_of("SLURM_JOB_NODELIST")
                                                       : word_of("SLURM_NODELIST");

    if (slurm->is_own && list) {
        snprintf(slurm->list, sizeof(slurm->list), "%s", list);
        return true;
    }
    snprintf(command, sizeof(command), "squeue -h -%c %s -o %%N 2>/dev/null",
             slurm->is_step ? 's' : 'j', slurm->job);
    return ask(command, slurm->list, sizeof(slurm->list))
           || complain("Slurm knows no running %s %s", slurm->is_step ? "step" : "job", slurm->job);
}

/* The node's name; where a container or a wrapper has cleared it, the host's without its domain. */
static void slurm_self(char *ret, size_t size)
{
    const char *node = word_of("SLURMD_NODENAME");

    if (node)
        snprintf(ret, size, "%s", node);
    else if (gethostname(ret, size) != 0)
        ret[0] = 0;
    ret[size - 1] = 0;
    if (!node)
        ret[strcspn(ret, ".")] = 0;
}

/* Debian gives a host's own name the address 127.0.1.1, on that host alone: other nodes know it by
 * another one. A Slurm of one machine has loopbacks for all its nodes, and means them. */
static void outward_instead(char (*address)[64], uint32_t count, uint32_t own)
{
    for (uint32_t i = 0; i < count; i++)
        if (is_loopback(address[own]) && !is_loopback(address[i])
            && address_outward(address[own], sizeof(address[own])))
            return;
}

/* Addresses and ports of the nodes. False: one of them has no address. */
static bool slurm_list(const struct slurm *slurm, char (*node)[SPOTNIK_HOST_NAME], uint32_t count,
                       const char *bind, struct run_engine *ret)
{
    char address[NODES_LISTED][64], self[SPOTNIK_HOST_NAME];
    uint32_t own = count;

    slurm_self(self, sizeof(self));
    for (uint32_t i = 0; i < count; i++) {
        if (!node_address(node[i], address[i], sizeof(address[i])))
            return false;
        if (slurm->is_own && !strcmp(node[i], self))
            own = i;
    }
    if (own < count) {
        outward_instead(address, count, own);
        ret->port = (uint16_t)(port_of(slurm->job) + own * RUN_ENGINE_PLACES);
        snprintf(ret->bind, sizeof(ret->bind), "%s", bind ? bind : address[own]);
    }
    for (uint32_t i = 0; i < count; i++)
        add_peer(ret, address[i], (uint16_t)(port_of(slurm->job) + i * RUN_ENGINE_PLACES));
    return true;
}

static void slurm_say(const struct slurm *slurm, uint32_t count, struct run_engine *ret)
{
    const char *step = word_of("SLURM_STEP_NODELIST");
    bool is_part = slurm->is_own && !slurm->is_step && step && strcmp(step, slurm->list) != 0;

    snprintf(ret->said, sizeof(ret->said), "peers: Slurm %s %s, %u nodes (%.100s), %s",
             slurm->is_step ? "step" : "job", slurm->job, count, slurm->list,
             ret->port ? "this one among them" : "joining from outside of it");
    if (is_part) { /* without the others nobody begins */
        size_t used = strlen(ret->said);
        snprintf(ret->said + used, sizeof(ret->said) - used,
                 "; this step has only %.60s: slurm:step means those alone", step);
    }
}

static bool find_slurm(const char *word, const char *bind, struct run_engine *ret)
{
    static char node[NODES_LISTED][SPOTNIK_HOST_NAME];
    static struct slurm slurm;
    uint32_t count = 0;

    if (!slurm_name(word, &slurm))
        return false;
    if (word_of("SLURM_ARRAY_JOB_ID") && slurm.is_own && !slurm.is_step)
        return complain(
            "the elements of an array do not know each other's nodes; let them meet in a folder: "
            "--peers file:DIR, "
            "or start them with: spotnik slurm submit");
    if (!slurm_nodes(&slurm))
        return false;
    cut_to_whole(slurm.list, sizeof(slurm.list));
    if (spotnik_host_list_expand(slurm.list, node, NODES_LISTED, &count) || count == 0)
        return complain("cannot read Slurm's list of nodes \"%s\": %s", slurm.list,
                        spotnik_last_error());
    if (!slurm_list(&slurm, node, count < NODES_LISTED ? count : NODES_LISTED, bind, ret)
        || (!ret->port && !own_address(bind, ret)))
        return false;
    slurm_say(&slurm, count, ret);
    return true;
}

/* ---- others ---- */

static bool find_skypilot(const char *bind, struct run_engine *ret)
{
    const char *ips = word_of("SKYPILOT_NODE_IPS"), *rank = word_of("SKYPILOT_NODE_RANK"),
               *task = word_of("SKYPILOT_TASK_ID");
    char copy[4096], *save = NULL;
    uint32_t count = 0;

    if (!ips || !rank)
        return complain(
            "--peers skypilot: SKYPILOT_NODE_IPS and SKYPILOT_NODE_RANK are not set: this is no "
            "task of SkyPilot");
    ret->port = port_of(task ? task : "skypilot");
    snprintf(copy, sizeof(copy), "%s", ips);
    for (char *ip = strtok_r(copy, " \n", &save); ip && count < NODES_LISTED;
         ip = strtok_r(NULL, " \n", &save)) {
        add_peer(ret, ip, ret->port);
        if (count++ == (uint32_t)atoi(rank))
            snprintf(ret->bind, sizeof(ret->bind), "%s", bind ? bind : ip);
    }
    snprintf(ret->said, sizeof(ret->said), "peers: SkyPilot, %u nodes, this one has rank %.20s",
             count, rank);
    return (ret->bind[0] && count > 0)
           || complain("SKYPILOT_NODE_RANK is %s, but there are %u SKYPILOT_NODE_IPS", rank, count);
}

static bool find_dns(const char *word, const char *bind, struct run_engine *ret)
{
    static struct spotnik_discovery_spec spec;

    if (spotnik_discovery_spec_parse(word, NULL, &spec))
        return complain("%s", spotnik_last_error());
    if (!own_address(bind, ret))
        return false;
    ret->port = spec.port;
    snprintf(ret->peers, sizeof(ret->peers), "%s", word);
    snprintf(ret->said, sizeof(ret->said),
             "peers: %.150s, %u processes; workers here listen on %s from port %u on", word,
             spec.count, ret->bind, ret->port);
    return true;
}

/* A file of hosts that a child of ours keeps up to date. */
static bool find_exec(const char *command, const char *bind, struct run_engine *ret)
{
    char path[200], word[256];
    const char *base = word_of("TMPDIR");

    snprintf(path, sizeof(path), "%.150s/spotnik-hosts-XXXXXX", base ? base : "/tmp");
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0)
        return complain("cannot make %s: %s", path, strerror(errno));
    close(fd);
    snprintf(word, sizeof(word), "hosts:%s", path);
    return run_hosts_begin(command, path) && find_dns(word, bind, ret);
}

/* Only where there is no doubt: a step of several tasks, or several nodes. */
static bool find_auto(const char *bind, struct run_engine *ret)
{
    const char *tasks = word_of("SLURM_STEP_NUM_TASKS"), *nodes = word_of("SKYPILOT_NUM_NODES");

    if (word_of("SLURM_STEP_ID") && tasks && atoi(tasks) > 1 && !word_of("SLURM_ARRAY_JOB_ID"))
        return find_slurm("step", bind, ret);
    if (nodes && atoi(nodes) > 1 && word_of("SKYPILOT_NODE_IPS"))
        return find_skypilot(bind, ret);
    return true;
}

static bool find(const char *word, const char *bind, struct run_engine *ret)
{
    bool wants_own = bind && !strcmp(bind, "auto");

    *ret = (struct run_engine){ .port = 0 };
    bind = wants_own ? NULL : bind;
    if (bind && strchr(bind, ':') && bind[0] != '[' && strchr(bind, ':') == strrchr(bind, ':'))
        bind = NULL; /* with a port: the user knows better; it stays in SPOTNIK_BIND */
    if (!word || !*word || !strcmp(word, "auto"))
        return find_auto(bind, ret) && (!wants_own || ret->bind[0] || own_address(NULL, ret));
    if (!strncmp(word, "slurm", 5) && (word[5] == 0 || word[5] == ':'))
        return find_slurm(word + 5 + (word[5] == ':'), bind, ret);
    if (!strcmp(word, "skypilot"))
        return find_skypilot(bind, ret);
    if (!strncmp(word, "exec:", 5))
        return find_exec(word + 5, bind, ret);
    if (!strncmp(word, "dns://", 6) || !strncmp(word, "hosts:", 6))
        return find_dns(word, bind, ret);
    snprintf(ret->peers, sizeof(ret->peers), "%s", word);
    if (strlen(word) >= sizeof(ret->peers))
        return complain("--peers is too long");
    return !wants_own || own_address(NULL, ret);
}

/* Slurm, or mpirun, may start several agents on a host: all but the first listen behind it. */
static uint32_t agents_before(void)
{
    const char *slurm = word_of("SLURM_STEP_ID") ? word_of("SLURM_LOCALID") : NULL;
    const char *number = slurm ? slurm : word_of("OMPI_COMM_WORLD_LOCAL_RANK");

    return number ? (uint32_t)strtoul(number, NULL, 10) : 0;
}

bool run_engine_find(const char *word, const char *bind, uint32_t workers, struct run_engine *ret)
{
    if (!find(word, bind, ret))
        return false;
    uint32_t port = ret->port + agents_before() * workers;
    if (ret->port && port + workers > UINT16_MAX)
        return complain("%u agents of %u workers on this host: there are not enough ports",
                        agents_before() + 1, workers);
    if (ret->port && agents_before()) {
        size_t said = strlen(ret->said);
        snprintf(ret->said + said, sizeof(ret->said) - said,
                 "; agent %u of this host, from port %u on", agents_before() + 1, port);
    }
    ret->port = ret->port ? (uint16_t)port : 0;
    return true;
}
