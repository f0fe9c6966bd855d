/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of hosts and names. Claims: a list as Slurm writes it is every name once, in order, with
 * its leading zeros; what cannot be read is refused and not guessed; dns:// takes names, or one
 * name with a number, and nothing else; names without an address stand in the list all the same,
 * where nobody answers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "link/address.h"
#include "discovery/dns.h"
#include "discovery/host_list.h"
#include "spotnik/spotnik.h"
#include "tests.h"

static char name[64][SPOTNIK_HOST_NAME];
static struct spotnik_discovery_spec spec;

TEST(lists)
{
    static const char *const wanted[] = { "n01",    "n02",     "n03",     "n7",
                                          "gpu0-a", "gpu0-b1", "gpu0-b2", "m" };
    uint32_t count = 0;

    assert_int_equal(spotnik_host_list_expand("n[01-03,7],gpu0-a,gpu0-b[1-2],m", name, 64, &count),
                     0);
    assert_int_equal(count, 8);
    for (int i = 0; i < 8; i++)
        assert_string_equal(name[i], wanted[i]);
    assert_int_equal(spotnik_host_list_expand("r[0-1]n[08-10].x", name, 64, &count), 0);
    assert_int_equal(count, 6);
    assert_string_equal(name[0], "r0n08.x");
    assert_string_equal(name[5], "r1n10.x");
    assert_int_equal(spotnik_host_list_expand("a[1-2]b[03-04],c", name, 64, &count), 0);
    assert_int_equal(count, 5);
    assert_string_equal(name[1], "a1b04");
    assert_string_equal(name[2], "a2b03");
    assert_string_equal(name[4], "c");
    assert_int_equal(spotnik_host_list_expand("n[1-5000]", name, 64, &count), 0);
    assert_int_equal(count, 5000); /* 64 of them were written */
    assert_string_equal(name[63], "n64");
}

TEST(refused)
{
    static const char *const wrong[] = { "n[1-3", "n1]", "n[3-1]",  "n[]",    "n[a]",
                                         "n[1-]", ",",   "n[1,,2]", "n[1-2]]" };
    uint32_t count;

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(spotnik_host_list_expand(wrong[i], name, 64, &count),
                         SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_host_list_expand("n[0-99999999]", name, 64, &count),
                     SPOTNIK_ERR_LIMIT);
}

TEST(names)
{
    static const char *const wrong[] = { "train",   "train:0/3",           "train/0",   "train/65",
                                         "train/x", "train-[0-3].train/4", "a,b:70000", "" };

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        memset(&spec, 0, sizeof spec);
        assert_int_not_equal(spotnik_dns_parse(wrong[i], &spec), 0);
    }
    memset(&spec, 0, sizeof spec);
    assert_int_equal(spotnik_dns_parse("train-[0-3].train:7000", &spec), 0);
    assert_int_equal(spec.count, 4);
    assert_int_equal(spec.port, 7000);
    assert_string_equal(spec.name[3], "train-3.train");
    memset(&spec, 0, sizeof spec);
    assert_int_equal(spotnik_dns_parse("train/8", &spec), 0);
    assert_int_equal(spec.count, 8);
    assert_int_equal(spec.begin_with, 8);
    assert_int_equal(spec.port, SPOTNIK_DNS_PORT);
}

/* .invalid never has an address, by the rules of the DNS; localhost has, by those of hosts
 * files. */
TEST(missing)
{
    static const uint8_t none[16];
    char said[256];

    memset(&spec, 0, sizeof spec);
    assert_int_equal(spotnik_dns_parse("localhost,nobody.invalid:7000", &spec), 0);
    spotnik_dns_resolve(&spec, NULL, said, sizeof said);
    assert_int_equal(spec.count, 2);
    assert_int_equal(spec.listed[0].port, 7000);
    assert_memory_equal(spec.listed[1].address, none, 16);
    assert_int_equal(spec.listed[1].port, 0);
    assert_non_null(strstr(said, "nobody.invalid has no address now"));
    memset(&spec, 0, sizeof spec);
    assert_int_equal(spotnik_dns_parse("localhost:7000/5", &spec), 0);
    spotnik_dns_resolve(&spec, NULL, said, sizeof said);
    assert_int_equal(spec.count, 5);
    assert_int_equal(spec.listed[4].port, 0);
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

TEST(files)
{
    char path[] = "/tmp/spotnik-hosts-XXXXXX", said[256];
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    close(fd);
    memset(&spec, 0, sizeof spec);
    assert_int_equal(spotnik_hosts_file_parse("/nowhere/hosts", &spec), SPOTNIK_ERR_ARGUMENT);
    write_file(path, "# nobody\n\n");
    assert_int_equal(spotnik_hosts_file_parse(path, &spec), SPOTNIK_ERR_ARGUMENT);
    write_file(path, "# a comment\nlocalhost slots=4\n  b[1-2].invalid\n");
    assert_int_equal(spotnik_hosts_file_parse(path, &spec), 0);
    assert_int_equal(spec.count, 3);
    assert_string_equal(spec.name[2], "b2.invalid");
    write_file(path, "localhost\n127.0.0.9\nc.invalid\nd.invalid\n");
    spotnik_dns_resolve(&spec, NULL, said, sizeof said); /* read again */
    assert_int_equal(spec.count, 4);
    assert_int_equal(spec.listed[1].address[15], 9);
    unlink(path);
    spotnik_dns_resolve(&spec, NULL, said, sizeof said); /* away for a moment: as before */
    assert_int_equal(spec.count, 4);
}

/* Files that people have for ssh, pdsh, Open MPI, MPICH and Horovod. A line that cannot be read is
 * no shorter list. */
TEST(odd_files)
{
    char path[] = "/tmp/spotnik-hosts-XXXXXX", said[256];
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    close(fd);
    write_file(path, "\t# nodes\nroot@n1:4 # the first\nn2#the "
                     "second\r\nn[3-4].lan:2\nfd00::5\n[fd00::6]:22\n[fd00::7]\n\nn8,n9\n");
    memset(&spec, 0, sizeof spec);
    assert_int_equal(spotnik_hosts_file_parse(path, &spec), 0);
    static const char *const wanted[] = { "n1",      "n2",      "n3.lan", "n4.lan", "fd00::5",
                                          "fd00::6", "fd00::7", "n8",     "n9" };
    assert_int_equal(spec.name_count, sizeof wanted / sizeof *wanted);
    for (uint32_t i = 0; i < spec.name_count; i++)
        assert_string_equal(spec.name[i], wanted[i]);
    write_file(path, "n1\nn[2-\n");
    spotnik_dns_resolve(&spec, NULL, said, sizeof said);
    assert_int_equal(spec.name_count, 9); /* as before */
    assert_non_null(strstr(said, "n[2-"));
    memset(&spec, 0, sizeof spec);
    assert_int_equal(spotnik_hosts_file_parse(path, &spec), SPOTNIK_ERR_ARGUMENT);
    unlink(path);
}

/* A node for each of its slots, as PBS and LSF write it, is one host. */
TEST(slots)
{
    char path[] = "/tmp/spotnik-hosts-XXXXXX";
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    close(fd);
    write_file(path, "n1\nn1\nn2\nN1\nn[2-3]\nn3:8\nn2\n");
    memset(&spec, 0, sizeof spec);
    assert_int_equal(spotnik_hosts_file_parse(path, &spec), 0);
    assert_int_equal(spec.count, 3);
    assert_string_equal(spec.name[0], "n1");
    assert_string_equal(spec.name[1], "n2");
    assert_string_equal(spec.name[2], "n3");
    unlink(path);
}

/* A host with an address of each family is one host, known by the address of the family that we
 * bind. A name with a loopback address is this host: who binds another address is known by that. */
TEST(families)
{
    static const uint8_t v4[16] = { [10] = 0xff, 0xff, 10, 0, 0, 1 }, v6[16] = { 0xfd, [15] = 1 };
    static const uint8_t any[16], loopback[16] = { [15] = 1 },
                                  mapped[16] = { [10] = 0xff, 0xff, 127, 0, 0, 1 };
    char said[256];

    assert_int_equal(spotnik_discovery_spec_parse("dns://localhost/1", NULL, &spec), 0);
    spotnik_dns_resolve(&spec, NULL, said, sizeof said);
    bool has_both =
        spec.count
        == 2; /* where this machine gives localhost both; tests/kubernetes/pods.py has such names */
    spotnik_dns_resolve(&spec, mapped, said, sizeof said);
    assert_int_equal(spec.count, 1);
    assert_memory_equal(spec.listed[0].address, mapped, 16);
    spotnik_dns_resolve(&spec, loopback, said, sizeof said);
    assert_int_equal(spec.count, 1);
    assert_memory_equal(spec.listed[0].address, has_both ? loopback : mapped, 16);
    spotnik_dns_resolve(&spec, v4, said, sizeof said);
    assert_int_equal(spec.count, 1);
    assert_memory_equal(spec.listed[0].address, v4, 16);
    spotnik_dns_resolve(&spec, v6, said, sizeof said);
    assert_int_equal(spec.count, 1);
    assert_memory_equal(spec.listed[0].address, v6, 16);
    spotnik_dns_resolve(&spec, any, said, sizeof said);
    assert_true(spotnik_address_is_loopback(spec.listed[0].address));
}
