/* SPDX-License-Identifier: Apache-2.0 */
/* spotnik checkpoint: what is in a folder or bucket of checkpoints, and whether it can be trusted.
 * A running job is not disturbed. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint_copy.h"
#include "commands.h"
#include "common/options.h"
#include "spotnik/spotnik.h"
#include "checkpoint/resume.h"
#include "checkpoint/checkpoint_store.h"

static const char help[] =
    "Usage: spotnik checkpoint list WHERE\n"
    "       spotnik checkpoint verify WHERE [NAME]...\n"
    "       spotnik checkpoint prune WHERE [KEEP]\n"
    "       spotnik checkpoint copy WHERE TO [NAME]...\n\n"
    "The checkpoints that a job wrote to WHERE (SPOTNIK_CHECKPOINT): a folder, or "
    "s3://BUCKET/NAME. "
    "A new job resumes\n"
    "from the newest one that is complete and undamaged; it reads every byte, as verify does.\n\n"
    "  list      newest first: step, members that wrote it, size, place in the data, name. "
    "\"incomplete\" ones were cut off\n"
    "            by a loss or are being written; no job uses them, and they go when newer ones are "
    "complete.\n"
    "            minority-step-... were written by members that were cut off and stopped "
    "(SPOTNIK_ON_MINORITY);\n"
    "            a job takes one only with spotnik run --from, and they stay until you delete "
    "them\n"
    "  verify    read all of each complete checkpoint, or of those named, and compare lengths, "
    "layout and hashes.\n"
    "            Exit status 1 when one is damaged\n"
    "  prune     delete all but the KEEP newest complete ones [3], whichever life of the job wrote "
    "them, and the\n"
    "            incomplete ones that are older\n"
    "  copy      the newest complete one, or those named, to another folder or bucket\n\n"
    "A checkpoint is a directory of safetensors files and manifest.json, which is written last. In "
    "Python:\n"
    "  from safetensors.numpy import load_file\n"
    "  tensors = load_file(\"WHERE/step-000000000120-.../part-00001-of-00001-....safetensors\")\n"
    "A tensor that is too large for one part goes on in the next one under the same name.\n\n"
    "  spotnik checkpoint list /shared/job/checkpoints\n"
    "  spotnik checkpoint verify s3://my-jobs/first/checkpoints "
    "step-000000000120-9f86d081884c7d65\n"
    "  spotnik checkpoint copy s3://my-jobs/first/checkpoints /disk/kept\n\n"
    "To go back to an older checkpoint, end the job and move the newer directories away. "
    "docs/guide/checkpoint.md has more.\n";

static int complain(void)
{
    fprintf(stderr, "spotnik checkpoint: %s\n", spotnik_last_error());
    return 1;
}

static uint64_t bytes_of(const struct spotnik_manifest *manifest)
{
    uint64_t bytes = manifest->blobs.bytes;

    for (uint32_t i = 0; i < manifest->part_count; i++)
        bytes += manifest->part[i].bytes;
    return bytes;
}

static void print_size(uint64_t bytes)
{
    static const char *const unit[] = { "B", "KiB", "MiB", "GiB", "TiB" };
    double size = (double)bytes;
    int at = 0;

    for (; size >= 1024 && at < 4; at++)
        size /= 1024;
    printf("%8.1f %-3s", size, unit[at]);
}

static void print_place(const struct spotnik_ledger *ledger)
{
    char place[64] = "-";
    uint64_t waiting = 0;

    for (uint32_t i = 0; i < ledger->returned_count; i++)
        waiting += ledger->returned[i].end - ledger->returned[i].begin;
    if (ledger->samples)
        snprintf(place, sizeof place, "epoch %" PRIu64 ", %" PRIu64 " of %" PRIu64,
                 ledger->data_epoch, ledger->cursor - waiting, ledger->samples);
    printf("  %-32s", place);
}

static void print_manifest(const struct spotnik_manifest *manifest)
{
    printf("%12" PRIu64 " %7u ", manifest->step, manifest->size);
    print_size(bytes_of(manifest));
    print_place(&manifest->ledger);
}

static int list_one(const char *dir, const struct spotnik_checkpoint_store_entry *entry)
{
    struct spotnik_manifest *manifest = calloc(1, sizeof *manifest);
    int rc =
        manifest ? spotnik_checkpoint_manifest(dir, entry->name, manifest) : SPOTNIK_ERR_MEMORY;

    if (!rc)
        print_manifest(manifest);
    else
        printf("%12" PRIu64 " %7s %12s  %-32s", entry->step, "", "",
               entry->written_s ? "damaged" : "incomplete");
    printf("  %s\n", entry->name);
    if (rc && entry->written_s)
        printf("%14s%s\n", "", spotnik_last_error());
    if (manifest)
        spotnik_manifest_done(manifest);
    free(manifest);
    return rc && entry->written_s ? 1 : 0;
}

static int list_all(const char *dir, const struct spotnik_checkpoint_store_list *found)
{
    int rc = 0;

    for (uint32_t i = 0; i < found->count; i++)
        rc |= list_one(dir, &found->entry[i]);
    return rc;
}

static int list(const char *dir)
{
    struct spotnik_checkpoint_store_list found, minority;

    if (spotnik_checkpoint_store_list(dir, &found))
        return complain();
    if (spotnik_checkpoint_store_list_minority(dir, &minority)) {
        spotnik_checkpoint_store_list_done(&found);
        return complain();
    }
    if (!found.count && !minority.count)
        fprintf(stderr, "spotnik checkpoint: there is no checkpoint in %s\n", dir);
    else
        printf("%12s %7s %12s  %-32s  %s\n", "step", "members", "size", "samples consumed", "name");
    int rc = list_all(dir, &found) | list_all(dir, &minority);

    spotnik_checkpoint_store_list_done(&found);
    spotnik_checkpoint_store_list_done(&minority);
    return rc;
}

static int verify_one(const char *dir, const char *name)
{
    struct spotnik_manifest *manifest = calloc(1, sizeof *manifest);
    int rc = manifest ? spotnik_checkpoint_verify(dir, name, manifest) : SPOTNIK_ERR_MEMORY;

    if (!rc) {
        print_manifest(manifest);
        spotnik_manifest_done(manifest);
        printf("  %s: good\n", name);
    } else {
        printf("%s: NOT USABLE: %s\n", name, spotnik_last_error());
    }
    free(manifest);
    return rc != 0;
}

static int verify_all(const char *dir)
{
    struct spotnik_checkpoint_store_list found;
    uint32_t complete = 0;
    int rc = spotnik_checkpoint_store_list(dir, &found);

    if (rc)
        return complain();
    for (uint32_t i = 0; i < found.count; i++)
        if (found.entry[i].written_s) {
            complete++;
            rc |= verify_one(dir, found.entry[i].name);
        }
    if (!complete)
        fprintf(stderr, "spotnik checkpoint: there is no complete checkpoint in %s\n", dir);
    spotnik_checkpoint_store_list_done(&found);
    return rc || !complete;
}

static int verify(const char *dir, int count, char **names)
{
    int rc = 0;

    if (!count)
        return verify_all(dir);
    for (int i = 0; i < count; i++)
        rc |= verify_one(dir, names[i]);
    return rc;
}

static int prune(const char *dir, const char *keep)
{
    char *end = NULL;
    unsigned long count = keep ? strtoul(keep, &end, 10) : 3;

    if (count < 1 || count > 1000000 || (end && *end))
        return option_refuse("checkpoint", "prune keeps 1 or more, not \"%s\"", keep);
    printf("%" PRIu32 " removed from %s\n",
           spotnik_checkpoint_store_prune(dir, 0, 0, (uint32_t)count), dir);
    return 0;
}

/* *ret_name: of the newest complete one. */
static int newest(const char *dir, char ret_name[SPOTNIK_CHECKPOINT_STORE_NAME_MAX + 1])
{
    struct spotnik_checkpoint_store_list found;

    if (spotnik_checkpoint_store_list(dir, &found))
        return complain();
    ret_name[0] = '\0';
    for (uint32_t i = 0; i < found.count && !ret_name[0]; i++)
        if (found.entry[i].written_s)
            strcpy(ret_name, found.entry[i].name);
    spotnik_checkpoint_store_list_done(&found);
    if (!ret_name[0])
        fprintf(stderr, "spotnik checkpoint: there is no complete checkpoint in %s\n", dir);
    return !ret_name[0];
}

static int copy(const char *from, const char *to, int count, char **names)
{
    char name[SPOTNIK_CHECKPOINT_STORE_NAME_MAX + 1];

    if (!count && newest(from, name))
        return 1;
    for (int i = 0; i < (count ? count : 1); i++) {
        const char *one = count ? names[i] : name;

        if (checkpoint_copy(from, to, one)) {
            fprintf(stderr, "spotnik checkpoint: %s is not copied: %s\n", one,
                    spotnik_last_error());
            return 1;
        }
        printf("%s/%s\n", to, one);
    }
    return 0;
}

/* "file:" may stand before a folder. */
static const char *where(const char *text)
{
    return strncmp(text, "file:", 5) ? text : text + 5;
}

int spotnik_cmd_checkpoint(int argc, char **argv)
{
    if (argc >= 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
        fputs(help, stdout);
        return 0;
    }
    if (argc < 3 || argv[2][0] == '-')
        return option_refuse("checkpoint",
                             "takes list, verify, prune or copy, and a folder or a bucket");
    const char *dir = where(argv[2]);

    if (!strcmp(argv[1], "list") && argc == 3)
        return list(dir);
    if (!strcmp(argv[1], "verify"))
        return verify(dir, argc - 3, argv + 3);
    if (!strcmp(argv[1], "prune") && argc <= 4)
        return prune(dir, argc == 4 ? argv[3] : NULL);
    if (!strcmp(argv[1], "copy") && argc >= 4)
        return copy(dir, where(argv[3]), argc - 4, argv + 4);
    return option_refuse("checkpoint",
                         "\"%s\": takes list WHERE, verify WHERE [NAME]..., prune WHERE [KEEP], or "
                         "copy WHERE TO [NAME]...",
                         argv[1]);
}
