/* SPDX-License-Identifier: Apache-2.0 */
/* spotnik checkpoint: what is in a checkpoint directory, and whether it can be trusted. Reads only;
 * a running job is not disturbed. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "common/options.h"
#include "spotnik/spotnik.h"
#include "checkpoint/resume.h"
#include "checkpoint/checkpoint_store.h"

static const char help[] =
    "Usage: spotnik checkpoint ls DIR\n"
    "       spotnik checkpoint verify DIR [NAME]...\n\n"
    "Look at the checkpoints that a job wrote to DIR (SPOTNIK_CHECKPOINT). A new job resumes from "
    "the "
    "newest one\n"
    "that is complete and undamaged; it reads every byte first, as verify does.\n\n"
    "  ls        newest first: step, members that wrote it, size, place in the data, name. "
    "\"incomplete\" "
    "ones were cut off\n"
    "            by a loss or are being written; no job uses them, and they go when newer ones are "
    "complete.\n"
    "            minority-step-... were written by members that were cut off and stopped "
    "(SPOTNIK_ON_MINORITY);\n"
    "            a job takes one only with spotnik run --from, and they stay until you delete "
    "them\n"
    "  verify    read all of each complete checkpoint, or of those named, and compare lengths, "
    "layout and "
    "hashes.\n"
    "            Exit status 1 when one is damaged\n\n"
    "A checkpoint is a directory of safetensors files and manifest.json, which is written last. In "
    "Python:\n"
    "  from safetensors.numpy import load_file\n"
    "  tensors = load_file(\"DIR/step-000000000120-.../part-00001-of-00001-....safetensors\")\n"
    "A tensor that is too large for one part goes on in the next one under the same name.\n\n"
    "  spotnik checkpoint ls /shared/job/checkpoints\n"
    "  spotnik checkpoint verify /shared/job/checkpoints step-000000000120-9f86d081884c7d65\n\n"
    "To go back to an older checkpoint, end the job and move the newer directories away. "
    "docs/guide/checkpoint.md "
    "has more.\n";

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

int spotnik_cmd_checkpoint(int argc, char **argv)
{
    if (argc >= 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
        fputs(help, stdout);
        return 0;
    }
    if (argc < 3 || argv[2][0] == '-')
        return option_refuse("checkpoint", "takes ls or verify, and a directory");
    if (!strcmp(argv[1], "ls") && argc == 3)
        return list(argv[2]);
    if (!strcmp(argv[1], "verify"))
        return verify(argv[2], argc - 3, argv + 3);
    return option_refuse("checkpoint", "\"%s\": takes ls DIR, or verify DIR [NAME]...", argv[1]);
}
