/* SPDX-License-Identifier: Apache-2.0 */
/* spotnik slurm submit: an array of one-node jobs that meet in one training job. Slurm preempts
 * whole jobs: only a job for each node loses one node at a time. Decides what the batch script
 * says; what happens when an element comes or goes is the library's business. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/key.h"
#include "base/assert.h"
#include "common/options.h"
#include "common/sibling.h"
#include "spotnik/spotnik.h"

#define SBATCH_OPTIONS 32

static const char help[] =
    "Usage: spotnik slurm submit --nodes MIN:MAX [OPTION]... -- COMMAND [ARGUMENT]...\n\n"
    "Write a batch script and submit it: an array of MAX jobs of one node each, whose workers are "
    "one "
    "training job. Steps wait until\n"
    "there are MIN. When Slurm preempts an element the others go on; Slurm requeues it, and it "
    "joins again. The job "
    "ends when the\n"
    "training is done; squeue, scancel and sacct work as always.\n\n"
    "      --nodes MIN:MAX     elements that the training needs, and elements to ask for           "
    " [1]\n"
    "  -w, --workers N         workers on each node                                                "
    " [1]\n"
    "      --group N           processes of a worker, which are one member: a number, or auto: the "
    "GPUs of its node\n"
    "      --name NAME         of the job                                                          "
    " "
    "[spotnik]\n"
    "      --folder DIR        for its key, peers folder, checkpoints and logs; all nodes must "
    "see it   [./NAME]\n"
    "  -s, --sbatch OPTION     passed to sbatch, e.g. -s --partition=spot -s --gpus-per-node=1; "
    "may be "
    "repeated\n"
    "      --notice TIME       leave this long before the time limit, to go on in another job      "
    " [60s]\n"
    "      --write             write DIR/job.sbatch, print its name, and submit nothing\n\n"
    "An existing folder is used again: the training resumes from its newest checkpoint.\n\n"
    "  spotnik slurm submit --nodes 4:8 -s --partition=spot -- python train.py\n"
    "  tail -f spotnik/element-*.log\n"
    "  spotnik status --peers file:spotnik/peers --key-file spotnik/key\n";

struct request {
    uint32_t min, max, workers;
    uint64_t notice_ns;
    const char *name, *folder, *group;
    const char *sbatch[SBATCH_OPTIONS];
    uint32_t sbatch_count;
    bool write_only;
    char **command;
    char dir[PATH_MAX]; /* absolute */
};

static bool is_name(const char *text)
{
    for (const char *c = text; *c; c++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.", *c))
            return false;
    return *text && strlen(text) < 64 && *text != '.' && *text != '-';
}

static bool take(struct request *request, int option, const char *value)
{
    uint64_t number = 0;

    switch (option) {
    case 'n':
        return option_span(value, &request->min, &request->max);
    case 'w':
        request->workers = option_u64(value, 1, 32, &number) ? (uint32_t)number : 0;
        return number > 0;
    case 'g':
        request->group = value;
        return option_is_group(value);
    case 's':
        if (request->sbatch_count == SBATCH_OPTIONS || value[0] != '-' || strpbrk(value, "\r\n"))
            return false;
        request->sbatch[request->sbatch_count++] = value;
        return true;
    case 'N':
        request->name = value;
        return is_name(value);
    case 'f':
        request->folder = value;
        return *value != 0;
    case 'o':
        return option_duration(value, &request->notice_ns) && request->notice_ns >= 1000000000u;
    case 'W':
        request->write_only = true;
        return true;
    default:
        return false;
    }
}

/* 0: go on; 1: help was wanted; 2: refused. */
static int parse(int argc, char **argv, struct request *request)
{
    static const struct option names[] = {
        { "nodes", required_argument, NULL, 'n' },  { "workers", required_argument, NULL, 'w' },
        { "group", required_argument, NULL, 'g' },  { "sbatch", required_argument, NULL, 's' },
        { "name", required_argument, NULL, 'N' },   { "folder", required_argument, NULL, 'f' },
        { "notice", required_argument, NULL, 'o' }, { "write", no_argument, NULL, 'W' },
        { "help", no_argument, NULL, 'h' },         { NULL, 0, NULL, 0 }
    };
    int option;

    opterr = 0;
    optind = 0;
    while ((option = getopt_long(argc, argv, "+w:s:h", names, NULL)) != -1) {
        if (option == 'h') {
            fputs(help, stdout);
            return 1;
        }
        if (option == '?')
            return option_refuse("slurm submit", "unknown option, or a value is missing: %s",
                                 argv[optind - 1]);
        if (!take(request, option, optarg))
            return option_refuse("slurm submit", "\"%s\" is no value for %s", optarg,
                                 argv[optind - 2]);
    }
    if (optind == argc)
        return option_refuse("slurm submit", "what shall the workers run? Put it after --");
    request->command = argv + optind;
    return 0;
}

/* ---- the folder ---- */

static bool complain(const char *what, const char *path)
{
    fprintf(stderr, "spotnik slurm submit: %s %s: %s\n", what, path, strerror(errno));
    return false;
}

static bool make(const char *path)
{
    return mkdir(path, 0700) == 0 || errno == EEXIST || complain("cannot make", path);
}

/* It goes into lines of #SBATCH, which know no quotes, and into the script as it is. */
static bool is_path(const char *path)
{
    for (const char *c = path; *c; c++)
        if ((unsigned char)*c <= ' ' || *c == 0x7f || strchr("'\"`\\%$!&;|<>()*?#", *c)) {
            fprintf(stderr,
                    "spotnik slurm submit: %s has a character that Slurm or the shell reads in "
                    "another way; name a folder without blanks, quotes and the like with "
                    "--folder\n",
                    path);
            return false;
        }
    return true;
}

static bool make_folder(struct request *request)
{
    char path[PATH_MAX + 32];
    const char *folder = request->folder ? request->folder : request->name;

    if (!make(folder) || !realpath(folder, request->dir))
        return request->dir[0] || complain("cannot use", folder);
    if (!is_path(request->dir))
        return false;
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof(path), "%s/%s", request->dir, i ? "peers" : "checkpoints");
        if (!make(path))
            return false;
    }
    snprintf(path, sizeof(path), "%s/key", request->dir);
    if (access(path, F_OK) == 0 || spotnik_key_create(path) == 0)
        return true;
    fprintf(stderr, "spotnik slurm submit: cannot make a key: %s\n", spotnik_last_error());
    return false;
}

/* ---- the script ---- */

static void write_quoted(FILE *file, const char *word)
{
    fputc('\'', file);
    for (const char *c = word; *c; c++)
        if (*c == '\'')
            fputs("'\\''", file);
        else
            fputc(*c, file);
    fputc('\'', file);
}

static void write_options(FILE *file, const struct request *request)
{
    fprintf(file,
            "#!/bin/bash\n"
            "# Written by spotnik slurm submit. Each element is one node of one training job; they "
            "meet in "
            "%s/peers.\n"
            "#SBATCH --job-name=%s\n"
            "#SBATCH --array=0-%u\n"
            "#SBATCH --nodes=1 --ntasks=1\n"
            "#SBATCH --requeue --open-mode=append\n"
            "#SBATCH --output=%s/element-%%A_%%a.log\n" /* an array that is added has others */
            "#SBATCH --comment=spotnik:%s\n"            /* by which spotnik fleet knows them */
            "#SBATCH --signal=USR1@%llu\n",
            request->dir, request->name, request->max - 1, request->dir, request->dir,
            (unsigned long long)(request->notice_ns / 1000000000u));
    for (uint32_t i = 0; i < request->sbatch_count; i++)
        fprintf(file, "#SBATCH %s\n", request->sbatch[i]);
}

/* Through srun, because Slurm signals steps and not the batch shell. 75 in a job that still runs is
 * a notice that was not Slurm's, or the end of its time: go on in another one. Preempted elements
 * are requeued by Slurm, cancelled ones by nobody. */
static void write_body(FILE *file, const struct request *request, const char *spotnik)
{
    SPOTNIK_ASSERT(request->command);
    fprintf(file,
            "\n[ ! -e '%s/done' ] || exit 0\n"
            "export SPOTNIK_CHECKPOINT=\"${SPOTNIK_CHECKPOINT:-%s/checkpoints}\" "
            "SPOTNIK_JOB=\"${SPOTNIK_JOB:-%s}\"\n"
            "srun --kill-on-bad-exit=0 ",
            request->dir, request->dir, request->name);
    write_quoted(file, spotnik);
    fprintf(
        file,
        " run -n %u%s%s --respawn --min %u --bind auto --peers 'file:%s/peers' --key-file '%s/key' "
        "--done "
        "'%s/done' --",
        request->workers, request->group ? " --group " : "", request->group ? request->group : "",
        request->min * request->workers, request->dir, request->dir, request->dir);
    for (char **word = request->command; *word; word++) {
        fputc(' ', file);
        write_quoted(file, *word);
    }
    fprintf(
        file,
        "\nrc=$?\n"
        "element=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID\n"
        "if [ -e '%s/done' ]; then # elements that still wait for a node need none\n"
        "    scancel --state=PENDING \"$SLURM_ARRAY_JOB_ID\" 2>/dev/null\n"
        "    exit 0\n"
        "fi\n"
        "[ $rc != 0 ] || rc=75 # srun says 0 when its node has failed\n"
        "if [ $rc = 75 ] && scontrol -o show job \"$element\" | grep -q 'JobState=RUNNING '; then\n"
        "    scontrol requeue \"$element\"\n"
        "fi\n"
        "exit $rc\n",
        request->dir);
}

static bool write_script(const struct request *request, const char *path)
{
    char spotnik[PATH_MAX];
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");

    if (!file)
        return complain("cannot write", path);
    sibling_command("spotnik", spotnik);
    write_options(file, request);
    write_body(file, request, spotnik);
    return fclose(file) == 0 || complain("cannot write", path);
}

static int submit(int argc, char **argv)
{
    static struct request request = {
        .min = 1, .max = 1, .workers = 1, .name = "spotnik", .notice_ns = 60000000000u
    };
    char path[PATH_MAX + 32];
    int refused = parse(argc, argv, &request);

    if (refused)
        return refused == 1 ? 0 : refused;
    if (!make_folder(&request))
        return 1;
    snprintf(path, sizeof(path), "%s/job.sbatch", request.dir);
    if (!write_script(&request, path))
        return 1;
    if (request.write_only) {
        puts(path);
        return 0;
    }
    snprintf(path, sizeof(path), "%s/done", request.dir);
    unlink(path); /* of a training before this one */
    snprintf(path, sizeof(path), "%s/discovery/done", request.dir);
    unlink(path);
    snprintf(path, sizeof(path), "%s/job.sbatch", request.dir);
    fflush(NULL);
    execlp("sbatch", "sbatch", path, (char *)NULL);
    fprintf(stderr,
            "spotnik slurm submit: cannot run sbatch: %s. Is this a host of a Slurm cluster? The "
            "script is "
            "in %s\n",
            strerror(errno), path);
    return 1;
}

int main(int argc, char **argv)
{
    if (argc >= 2 && !strcmp(argv[1], "submit"))
        return submit(argc - 1, argv + 1);
    if (argc == 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
        fputs(help, stdout);
        return 0;
    }
    return option_refuse("slurm", "say: spotnik slurm submit");
}
