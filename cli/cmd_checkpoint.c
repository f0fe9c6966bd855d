/* SPDX-License-Identifier: Apache-2.0 */
/* spotnik checkpoint: what is in a folder or bucket of checkpoints, and whether it can be trusted.
 * A running job is not disturbed. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/key.h"
#include "checkpoint_adopt.h"
#include "checkpoint_copy.h"
#include "commands.h"
#include "common/options.h"
#include "spotnik/spotnik.h"
#include "checkpoint/resume.h"
#include "checkpoint/checkpoint_store.h"
#include "store/store.h"

static const char help[] =
    "Usage: spotnik checkpoint list WHERE\n"
    "       spotnik checkpoint verify WHERE [NAME]...\n"
    "       spotnik checkpoint prune WHERE [KEEP]\n"
    "       spotnik checkpoint copy WHERE TO [NAME]...\n"
    "       spotnik checkpoint adopt WHERE [NAME]...\n\n"
    "The checkpoints that a job wrote to WHERE (SPOTNIK_CHECKPOINT): a folder, "
    "s3://BUCKET/NAME,\n"
    "gs://BUCKET/NAME or az://CONTAINER/NAME. "
    "A new job resumes\n"
    "from the newest one that is complete and undamaged; it reads every byte, as verify does.\n\n"
    "  list      newest first: step, members that wrote it, size, place in the data, signature, "
    "name. "
    "\"incomplete\" ones were cut off\n"
    "            by a loss or are being written; no job uses them, and they go when newer ones are "
    "complete.\n"
    "            minority-step-... were written by members that were cut off and stopped "
    "(SPOTNIK_ON_MINORITY);\n"
    "            a job takes one only with spotnik run --from, and they stay until you delete "
    "them\n"
    "  verify    read all of each complete checkpoint, or of those named, and compare lengths, "
    "layout and hashes.\n"
    "            Exit status 1 when one is damaged, or could not be read\n"
    "  prune     delete all but the KEEP newest complete ones [3], whichever life of the job wrote "
    "them, and the\n"
    "            incomplete ones that are older\n"
    "  copy      the newest complete one, or those named, to another folder or bucket, with its "
    "signature\n"
    "  adopt     sign the newest complete one, or those named, by the key of --key-file, when all "
    "of it is verified.\n"
    "            One without a signature is taken as it is: any writer of the folder may have made "
    "it\n\n"
    "      --key-file FILE      the job's key, which signs its checkpoints        "
    "[SPOTNIK_KEY_FILE]\n"
    "      --old-key-file FILE  adopt: the key that has signed it\n\n"
    "A checkpoint is a directory of safetensors files and manifest.json, which is written last. In "
    "Python:\n"
    "  from safetensors.numpy import load_file\n"
    "  tensors = load_file(\"WHERE/step-000000000120-.../part-00001-of-00001-....safetensors\")\n"
    "A tensor that is too large for one part goes on in the next one under the same name.\n\n"
    "  spotnik checkpoint list /shared/job/checkpoints\n"
    "  spotnik checkpoint verify s3://my-jobs/first/checkpoints "
    "step-000000000120-9f86d081884c7d65\n"
    "  spotnik checkpoint copy s3://my-jobs/first/checkpoints /disk/kept\n"
    "  spotnik checkpoint adopt /shared/job/checkpoints --key-file new.key --old-key-file "
    "old.key\n\n"
    "To go back to an older checkpoint, end the job and move the newer directories away. "
    "docs/guide/checkpoint.md has more.\n";

struct command {
    const char *verb, *dir, *key_file, *old_key_file;
    int count; /* words behind them */
    char **words;
    struct spotnik_signer signer[2], old[2]; /* of a key file: its key, and the one before */
};

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

/* As `list` shows it. */
static const char *signature_of(const struct command *command,
                                const struct spotnik_manifest *manifest)
{
    if (manifest->state == SPOTNIK_MANIFEST_ANOTHERS)
        return command->signer[0].has_key ? "another key" : "unchecked";
    return manifest->state == SPOTNIK_MANIFEST_SIGNED ? "signed" : "unsigned";
}

/* The disk or the server did not give it: that says nothing of the checkpoint. */
static bool is_unread(int rc)
{
    return rc == SPOTNIK_ERR_SYSTEM;
}

static const char *state_of(int rc, const struct spotnik_checkpoint_store_entry *entry)
{
    if (!entry->written_s)
        return "incomplete";
    return is_unread(rc) ? "not read" : "damaged";
}

static int list_one(const struct command *command,
                    const struct spotnik_checkpoint_store_entry *entry)
{
    struct spotnik_manifest *manifest = calloc(1, sizeof *manifest);
    int rc = manifest
                 ? spotnik_checkpoint_look_at(command->dir, entry->name, command->signer, manifest)
                 : SPOTNIK_ERR_MEMORY;

    if (!rc)
        print_manifest(manifest);
    else
        printf("%12" PRIu64 " %7s %12s  %-32s", entry->step, "", "", state_of(rc, entry));
    printf("  %-11s  %s\n", rc ? "" : signature_of(command, manifest), entry->name);
    if (rc && entry->written_s)
        printf("%14s%s%s\n", "", spotnik_last_error(),
               is_unread(rc) ? "; try again once it can be read" : "");
    if (manifest)
        spotnik_manifest_done(manifest);
    free(manifest);
    return rc && entry->written_s ? 1 : 0;
}

static int list_all(const struct command *command,
                    const struct spotnik_checkpoint_store_list *found)
{
    int rc = 0;

    for (uint32_t i = 0; i < found->count; i++)
        rc |= list_one(command, &found->entry[i]);
    return rc;
}

static int list(const struct command *command)
{
    struct spotnik_checkpoint_store_list found, minority;

    if (spotnik_checkpoint_store_list(command->dir, &found))
        return complain();
    if (spotnik_checkpoint_store_list_minority(command->dir, &minority)) {
        spotnik_checkpoint_store_list_done(&found);
        return complain();
    }
    if (!found.count && !minority.count)
        fprintf(stderr, "spotnik checkpoint: there is no checkpoint in %s\n", command->dir);
    else
        printf("%12s %7s %12s  %-32s  %-11s  %s\n", "step", "members", "size", "samples consumed",
               "signature", "name");
    int rc = list_all(command, &found) | list_all(command, &minority);

    spotnik_checkpoint_store_list_done(&found);
    spotnik_checkpoint_store_list_done(&minority);
    return rc;
}

static int verify_one(const struct command *command, const char *name)
{
    struct spotnik_manifest *manifest = calloc(1, sizeof *manifest);
    int rc = manifest ? spotnik_checkpoint_verify(command->dir, name, command->signer, manifest)
                      : SPOTNIK_ERR_MEMORY;

    if (!rc) {
        print_manifest(manifest);
        printf("  %s: good, %s\n", name, signature_of(command, manifest));
        spotnik_manifest_done(manifest);
    } else {
        printf("%s: %s: %s\n", name, is_unread(rc) ? "NOT READ, try again" : "NOT USABLE",
               spotnik_last_error());
    }
    free(manifest);
    return rc != 0;
}

static int verify_all(const struct command *command)
{
    struct spotnik_checkpoint_store_list found;
    uint32_t complete = 0;
    int rc = spotnik_checkpoint_store_list(command->dir, &found);

    if (rc)
        return complain();
    for (uint32_t i = 0; i < found.count; i++)
        if (found.entry[i].written_s) {
            complete++;
            rc |= verify_one(command, found.entry[i].name);
        }
    if (!complete)
        fprintf(stderr, "spotnik checkpoint: there is no complete checkpoint in %s\n",
                command->dir);
    spotnik_checkpoint_store_list_done(&found);
    return rc || !complete;
}

static int verify(const struct command *command)
{
    int rc = 0;

    if (!command->count)
        return verify_all(command);
    for (int i = 0; i < command->count; i++)
        rc |= verify_one(command, command->words[i]);
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

/* Call `one` for the checkpoints that are named, or for the newest. */
static int each(const struct command *command, int from,
                int (*one)(const struct command *command, const char *name))
{
    char name[SPOTNIK_CHECKPOINT_STORE_NAME_MAX + 1];
    int rc = 0;

    if (command->count == from)
        return newest(command->dir, name) || one(command, name);
    for (int i = from; i < command->count && !rc; i++)
        rc = one(command, command->words[i]);
    return rc;
}

/* "file:" may stand before a folder. */
static const char *where(const char *text)
{
    return strncmp(text, "file:", 5) ? text : text + 5;
}

static int copy_one(const struct command *command, const char *name)
{
    const char *to = where(command->words[0]);
    bool verified = false;

    if (checkpoint_copy(command->dir, to, name, command->signer, &verified)) {
        fprintf(stderr, "spotnik checkpoint: %s is not copied: %s\n", name, spotnik_last_error());
        return 1;
    }
    if (!verified)
        fprintf(stderr,
                "spotnik checkpoint: %s is copied, but not verified: a key that is not here has "
                "signed it\n",
                name);
    printf("%s/%s\n", to, name);
    return 0;
}

static int adopt_one(const struct command *command, const char *name)
{
    if (checkpoint_adopt(command->dir, name, command->signer, command->old)) {
        fprintf(stderr, "spotnik checkpoint: %s is not adopted: %s\n", name, spotnik_last_error());
        return 1;
    }
    printf("%s/%s is signed by key %s\n", command->dir, name, command->signer[0].name);
    return 0;
}

static int adopt(const struct command *command)
{
    if (!command->signer[0].has_key)
        return option_refuse("checkpoint",
                             "adopt signs by a key that lasts: give --key-file FILE; spotnik key "
                             "FILE makes one");
    return each(command, 0, adopt_one);
}

/* 0: go on; 1: help was wanted; 2: refused. */
static int parse(int argc, char **argv, struct command *command)
{
    static const struct option names[] = { { "key-file", required_argument, NULL, 'k' },
                                           { "old-key-file", required_argument, NULL, 'o' },
                                           { "help", no_argument, NULL, 'h' },
                                           { NULL, 0, NULL, 0 } };
    int option;

    opterr = 0;
    optind = 0;
    while ((option = getopt_long(argc, argv, "h", names, NULL)) != -1)
        switch (option) {
        case 'k':
            command->key_file = optarg;
            break;
        case 'o':
            command->old_key_file = optarg;
            break;
        case 'h':
            fputs(help, stdout);
            return 1;
        default:
            return option_refuse("checkpoint", "unknown option, or a value is missing: %s",
                                 argv[optind - 1]);
        }
    if (argc - optind < 2)
        return option_refuse("checkpoint",
                             "takes list, verify, prune, copy or adopt, and a folder or a bucket");
    command->verb = argv[optind];
    command->dir = where(argv[optind + 1]);
    command->count = argc - optind - 2;
    command->words = argv + optind + 2;
    return 0;
}

static int carry_out(const struct command *command)
{
    const char *to = command->count ? where(command->words[0]) : "",
               *foreign = spotnik_objects_is_foreign(to) ? to : command->dir;

    if (spotnik_objects_is_foreign(foreign))
        return option_refuse(
            "checkpoint",
            "\"%s\" is of no kind that is known; write a folder, " SPOTNIK_OBJECTS_URLS, foreign);
    if (!strcmp(command->verb, "list") && !command->count)
        return list(command);
    if (!strcmp(command->verb, "verify"))
        return verify(command);
    if (!strcmp(command->verb, "prune") && command->count <= 1)
        return prune(command->dir, command->count ? command->words[0] : NULL);
    if (!strcmp(command->verb, "copy") && command->count)
        return each(command, 1, copy_one);
    if (!strcmp(command->verb, "adopt"))
        return adopt(command);
    return option_refuse("checkpoint",
                         "\"%s\": takes list WHERE, verify WHERE [NAME]..., prune WHERE [KEEP], "
                         "copy WHERE TO [NAME]... or adopt WHERE [NAME]...",
                         command->verb);
}

int spotnik_cmd_checkpoint(int argc, char **argv)
{
    struct command command = { .key_file = getenv("SPOTNIK_KEY_FILE") };
    int rc = parse(argc, argv, &command);

    if (rc)
        return rc == 1 ? 0 : rc;
    if (spotnik_key_signer(command.key_file, command.signer)
        || spotnik_key_signer(command.old_key_file, command.old))
        return complain();
    rc = carry_out(&command);
    for (int i = 0; i < 2; i++) {
        spotnik_signer_done(&command.signer[i]);
        spotnik_signer_done(&command.old[i]);
    }
    return rc;
}
