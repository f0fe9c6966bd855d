/* SPDX-License-Identifier: Apache-2.0 */
/* spotnik key: make a job key. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "api/key.h"
#include "commands.h"
#include "common/options.h"
#include "spotnik/spotnik.h"

static const char help[] =
    "Usage: spotnik key [FILE]\n"
    "       spotnik key --rotate FILE\n"
    "       spotnik key --observer JOB-KEY FILE\n\n"
    "Make a job key: 256 random bits in hexadecimal. Every member of a job needs the same key. "
    "Members\n"
    "refuse a process without it before they read anything else it sends.\n\n"
    "With FILE, write it there with mode 0600 (an existing file is never overwritten); without, "
    "print it.\n\n"
    "--rotate puts a new key first into FILE, and keeps the one that it had as the second: that "
    "one "
    "opens nothing\n"
    "any more, and a job that starts with FILE goes on from what it has signed. Copy FILE to all "
    "hosts, end the\n"
    "job, start it again.\n\n"
    "--observer makes the observer key of a job key: with it \"spotnik status\" and \"spotnik "
    "top\" "
    "ask members for\n"
    "their status, and nothing else can be asked or joined.\n\n"
    "  spotnik key job.key            make a key\n"
    "  export SPOTNIK_KEY_FILE=job.key\n"
    "  scp -p job.key host2:          copy it to the other machines over a safe channel\n"
    "  spotnik key --observer job.key watch.key\n";

static int complain(void)
{
    fprintf(stderr, "spotnik key: %s\n", spotnik_last_error());
    return 1;
}

static int print_key(void)
{
    uint8_t key[SPOTNIK_KEY_BYTES];

    if (spotnik_key_random(key, sizeof(key)))
        return complain();
    for (size_t i = 0; i < sizeof(key); i++)
        printf("%02x", key[i]);
    putchar('\n');
    return 0;
}

int spotnik_cmd_key(int argc, char **argv)
{
    if (argc == 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
        fputs(help, stdout);
        return 0;
    }
    if (argc == 4 && !strcmp(argv[1], "--observer"))
        return spotnik_key_create_observer(argv[3], argv[2]) ? complain() : 0;
    if (argc == 3 && !strcmp(argv[1], "--rotate"))
        return spotnik_key_rotate(argv[2]) ? complain() : 0;
    if (argc > 2 || (argc == 2 && argv[1][0] == '-'))
        return option_refuse("key", "takes a file name, --rotate FILE, or --observer JOB-KEY FILE");
    if (argc == 1)
        return print_key();
    return spotnik_key_create(argv[1]) ? complain() : 0;
}
