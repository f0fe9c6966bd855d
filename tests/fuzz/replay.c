/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a fuzz target over every file of a folder, so that any compiler replays what fuzzing has
 * found. Each input also cut at every length up to 4 KiB, which costs nothing. Usage: replay_TARGET
 * FOLDER */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

#define INPUT_MAX (1 << 20)

/* A block of the exact size, so that the address sanitizer sees a step beyond its end. */
static void run(const uint8_t *bytes, size_t size)
{
    uint8_t *block = malloc(size ? size : 1);

    if (!block)
        abort();
    memcpy(block, bytes, size);
    LLVMFuzzerTestOneInput(block, size);
    free(block);
}

static int replay(const char *folder, const char *name)
{
    static uint8_t bytes[INPUT_MAX];
    char path[4096];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        return 1;
    }
    size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    run(bytes, size);
    for (size_t cut = 0; cut < size && cut < 4096; cut++)
        run(bytes, cut);
    return 0;
}

int main(int argc, char **argv)
{
    DIR *folder = argc == 2 ? opendir(argv[1]) : NULL;
    int failed = 0;
    unsigned count = 0;

    if (!folder) {
        fprintf(stderr, "usage: %s FOLDER (of inputs; it must exist)\n", argv[0]);
        return 2;
    }
    for (struct dirent *entry; (entry = readdir(folder));)
        if (entry->d_name[0] != '.') {
            failed |= replay(argv[1], entry->d_name);
            count++;
        }
    closedir(folder);
    printf("%u inputs replayed\n", count);
    return failed || count == 0;
}
