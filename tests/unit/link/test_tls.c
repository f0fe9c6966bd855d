/* SPDX-License-Identifier: Apache-2.0 */
/* TLS below the handshake (link/tls.h), over loopback: both modes, the sentence of each
 * disagreement, and that a connection ends as its kernel says. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../runtime/cluster.h"
#include "base/clock.h"
#include "base/time.h"
#include "link/duplex.h"
#include "link/seal.h"
#include "link/shake.h"
#include "link/tls_session.h"
#include "tests.h"

#define DAY 86400L

static const struct spotnik_tls_settings off = { .mode = SPOTNIK_TLS_OFF };
static const struct spotnik_tls_settings psk = { .mode = SPOTNIK_TLS_PSK };
static char folder[2][64]; /* of the dialling side, and of the other */
static struct spotnik_tls_settings cert[2] = { { SPOTNIK_TLS_CERT, folder[0] },
                                               { SPOTNIK_TLS_CERT, folder[1] } };

/* ---- two ends ---- */

struct ends {
    int fd[2];
    int rc[2];
    struct spotnik_shake shake[2];
};

static void pair_open(int pair[2])
{
    struct sockaddr_in name = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof name;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&name, size), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&name, &size), 0);
    pair[0] = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(pair[0], (struct sockaddr *)&name, size), 0);
    pair[1] = accept(listener, NULL, NULL);
    assert_true(pair[1] >= 0);
    close(listener);
}

/* Goes on with one side, until it has a verdict. */
static void ends_turn(struct ends *ends, int which)
{
    if (ends->rc[which] > 0)
        ends->rc[which] = spotnik_shake_run(&ends->shake[which], ends->fd[which]);
    if (ends->rc[which] < 0) /* as its owners do */
        shutdown(ends->fd[which], SHUT_WR);
}

static void shakes_init(struct ends *ends, const struct spotnik_tls_settings *client,
                        const struct spotnik_tls_settings *server, uint8_t key_bits)
{
    struct spotnik_runtime_config config;
    cluster_config(&config, 1);
    config.credentials.self.id = cluster_id(1);
    config.credentials.self.port = 1;
    config.credentials.tls = client;
    spotnik_shake_init_client(&ends->shake[0], &config.credentials, SPOTNIK_PURPOSE_DATA);
    config.credentials.self.id = cluster_id(2);
    config.credentials.tls = server;
    config.credentials.key[0] ^= key_bits;
    spotnik_shake_init_server(&ends->shake[1], &config.credentials);
    ends->rc[0] = ends->rc[1] = SPOTNIK_SHAKE_AGAIN;
}

static bool is_decided(const struct ends *ends, uint64_t until_ns)
{
    return (ends->rc[0] <= 0 && ends->rc[1] <= 0) || spotnik_clock_ns() >= until_ns;
}

static void ends_open(struct ends *ends, const struct spotnik_tls_settings *client,
                      const struct spotnik_tls_settings *server, uint8_t key_bits)
{
    uint64_t until_ns = spotnik_clock_ns() + 10 * SPOTNIK_S;
    pair_open(ends->fd);
    shakes_init(ends, client, server, key_bits);
    for (int i = 0; !is_decided(ends, until_ns); i++)
        ends_turn(ends, i % 2);
}

static void ends_close(struct ends *ends)
{
    spotnik_tls_close(ends->fd[0]);
    spotnik_tls_close(ends->fd[1]);
}

static void assert_text(const struct ends *ends, int which, int error, const char *part)
{
    char text[SPOTNIK_SHAKE_TEXT];
    assert_int_equal(ends->rc[which], error);
    spotnik_shake_text(&ends->shake[which], error, text);
    if (strstr(text, part) == NULL)
        fail_msg("\"%s\" lacks \"%s\"", text, part);
    assert_true(strlen(text) + 1 < SPOTNIK_SHAKE_TEXT);
}

static void assert_good(const struct spotnik_tls_settings *client,
                        const struct spotnik_tls_settings *server)
{
    struct ends ends;
    uint8_t key[4][32];
    ends_open(&ends, client, server, 0);
    assert_int_equal(ends.rc[0], 0);
    assert_int_equal(ends.rc[1], 0);
    assert_true(spotnik_tls_is_on(ends.fd[0]) && spotnik_tls_is_on(ends.fd[1]));
    spotnik_handshake_keys(&ends.shake[0].wire, key[0], key[1]);
    spotnik_handshake_keys(&ends.shake[1].wire, key[2], key[3]);
    assert_memory_equal(key[0], key[3], 32);
    assert_memory_equal(key[1], key[2], 32);
    ends_close(&ends);
}

/* ---- certificates ---- */

static EVP_PKEY *authority_key[2];
static X509 *authority[2];

/* `address` NULL: of an authority. */
static X509 *certificate(EVP_PKEY *key, EVP_PKEY *signer, X509 *issuer, long days,
                         const char *address, const char *common_name)
{
    X509 *made = X509_new();
    X509_NAME *name = X509_get_subject_name(made);
    X509V3_CTX context;
    X509_set_version(made, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(made), address != NULL ? 2 : 1);
    X509_gmtime_adj(X509_getm_notBefore(made), -2 * DAY);
    X509_gmtime_adj(X509_getm_notAfter(made), days * DAY);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const uint8_t *)common_name, -1, -1, 0);
    X509_set_issuer_name(made, issuer != NULL ? X509_get_subject_name(issuer) : name);
    X509_set_pubkey(made, key);
    X509V3_set_ctx(&context, issuer != NULL ? issuer : made, made, NULL, NULL, 0);
    X509_EXTENSION *extension =
        address != NULL
            ? X509V3_EXT_conf_nid(NULL, &context, NID_subject_alt_name, address)
            : X509V3_EXT_conf_nid(NULL, &context, NID_basic_constraints, "critical,CA:TRUE");
    assert_non_null(extension);
    X509_add_ext(made, extension, -1);
    X509_EXTENSION_free(extension);
    assert_true(X509_sign(made, signer, EVP_sha256()) > 0);
    return made;
}

static FILE *file_open(int side, const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder[side], name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    return file;
}

/* The files of one side: signed by the authority `by`, good for so long, for that address. */
static void files_write(int side, int by, long days, const char *address)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *made = certificate(key, authority_key[by], authority[by], days, address, "member");
    FILE *file = file_open(side, "tls.crt");
    PEM_write_X509(file, made);
    fclose(file);
    file = file_open(side, "tls.key");
    PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL);
    fclose(file);
    file = file_open(side, "ca.crt");
    PEM_write_X509(file, authority[0]);
    fclose(file);
    X509_free(made);
    EVP_PKEY_free(key);
}

static int setup(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        const char *name = i == 0 ? "authority" : "another";
        strcpy(folder[i], "/tmp/spotnik-tls-XXXXXX");
        assert_non_null(mkdtemp(folder[i]));
        authority_key[i] = EVP_EC_gen("P-256");
        authority[i] = certificate(authority_key[i], authority_key[i], NULL, 9, NULL, name);
    }
    files_write(0, 0, 1, "IP:127.0.0.1");
    files_write(1, 0, 1, "IP:127.0.0.1");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        char command[96];
        X509_free(authority[i]);
        EVP_PKEY_free(authority_key[i]);
        snprintf(command, sizeof command, "rm -rf -- %s", folder[i]);
        assert_int_equal(system(command), 0);
    }
    return 0;
}

/* ---- who is trusted ---- */

TEST(a_key_proves_both_sides)
{
    struct ends ends;
    assert_good(&psk, &psk);
    ends_open(&ends, &psk, &psk, 1);
    assert_text(&ends, 0, SPOTNIK_ERR_KEY, "another job key");
    assert_text(&ends, 1, SPOTNIK_ERR_KEY, "another job key");
    ends_close(&ends);
}

static void differ(const struct spotnik_tls_settings *client,
                   const struct spotnik_tls_settings *server, const char *of_client,
                   const char *of_server)
{
    struct ends ends;
    ends_open(&ends, client, server, 0);
    assert_text(&ends, 0, SPOTNIK_ERR_VERSION, of_client);
    assert_text(&ends, 1, SPOTNIK_ERR_VERSION, of_server);
    ends_close(&ends);
}

TEST_WITH(members_that_disagree_name_both_modes, setup, teardown)
{
    differ(&psk, &off, "has SPOTNIK_TLS=off, and this process has psk",
           "has SPOTNIK_TLS=psk or cert, and this process has off");
    differ(&off, &psk, "has SPOTNIK_TLS=psk, and this process has off",
           "has SPOTNIK_TLS=off, and this process has psk");
    differ(&off, &cert[1], "has SPOTNIK_TLS=cert, and this process has off",
           "has SPOTNIK_TLS=off, and this process has cert");
    differ(&psk, &cert[1], "has SPOTNIK_TLS=cert, and this process has psk",
           "has SPOTNIK_TLS=psk, and this process has cert");
    differ(&cert[0], &psk, "has SPOTNIK_TLS=psk, and this process has cert",
           "has SPOTNIK_TLS=cert, and this process has psk");
}

TEST_WITH(certificates_are_beside_the_key, setup, teardown)
{
    struct ends ends;
    assert_good(&cert[0], &cert[1]);
    ends_open(&ends, &cert[0], &cert[1], 1);
    assert_text(&ends, 0, SPOTNIK_ERR_KEY, "another job key");
    ends_close(&ends);
}

static void refuses(int side, const char *text)
{
    struct ends ends;
    ends_open(&ends, &cert[0], &cert[1], 0);
    assert_text(&ends, side, SPOTNIK_ERR_KEY, text);
    assert_true(ends.rc[!side] < 0);
    ends_close(&ends);
}

/* Files are read for each connection: what was written last counts. */
TEST_WITH(each_wrong_certificate_has_its_sentence, setup, teardown)
{
    files_write(1, 0, -1, "IP:127.0.0.1");
    refuses(0, "shows a certificate that has expired");
    files_write(1, 1, 1, "IP:127.0.0.1");
    refuses(0, "of an authority that is not in our ca.crt");
    files_write(1, 0, 1, "IP:127.0.0.2");
    refuses(0, "shows a certificate of another address");
    files_write(1, 0, 1, "IP:127.0.0.1");
    assert_good(&cert[0], &cert[1]);
    files_write(0, 0, -1, "IP:127.0.0.1");
    refuses(1, "shows a certificate that has expired");
    files_write(0, 1, 1, "IP:127.0.0.1");
    refuses(1, "of an authority that is not in our ca.crt");
    files_write(0, 0, 1, "IP:127.0.0.2"); /* who dials may have another address */
    assert_good(&cert[0], &cert[1]);
    fclose(file_open(1, "tls.key"));
    struct ends ends;
    ends_open(&ends, &cert[0], &cert[1], 0);
    assert_text(&ends, 1, SPOTNIK_ERR_ARGUMENT, "tls.key (SPOTNIK_TLS) cannot be used");
    assert_int_equal(ends.rc[0], SPOTNIK_ERR_PEERS);
    ends_close(&ends);
}

/* What has come on one connection goes on to the other. */
static void hand_on(int from, int to)
{
    uint8_t bytes[1024];
    ssize_t got = spotnik_tls_recv(from, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got > 0)
        (void)!spotnik_tls_send(to, bytes, (size_t)got, MSG_DONTWAIT);
    if (got == 0)
        shutdown(to, SHUT_WR);
}

/* A machine in between has a good certificate and no key. It can end TLS on both sides, and hand
 * the handshake of members on, but their proofs are of two connections. */
TEST_WITH(a_certificate_without_the_key_is_of_no_use, setup, teardown)
{
    struct ends ends;
    int client[2], server[2]; /* ours, and that of the machine in between */
    uint8_t none[32] = { 0 }, ignored[32];
    bool begun[2] = { false, false };
    uint64_t until_ns = spotnik_clock_ns() + 10 * SPOTNIK_S;
    pair_open(client);
    pair_open(server);
    shakes_init(&ends, &cert[0], &cert[1], 0);
    ends.fd[0] = client[0];
    ends.fd[1] = server[1];
    assert_int_equal(spotnik_tls_begin(client[1], &cert[1], none, true), 0);
    assert_int_equal(spotnik_tls_begin(server[0], &cert[0], none, false), 0);
    while (!is_decided(&ends, until_ns)) {
        ends_turn(&ends, 0);
        ends_turn(&ends, 1);
        begun[0] = begun[0] || spotnik_tls_shake(client[1], none, ignored) == 0;
        begun[1] = begun[1] || spotnik_tls_shake(server[0], none, ignored) == 0;
        if (begun[0] && begun[1]) {
            hand_on(client[1], server[0]);
            hand_on(server[0], client[1]);
        }
    }
    assert_text(&ends, 0, SPOTNIK_ERR_KEY, "another job key");
    assert_text(&ends, 1, SPOTNIK_ERR_KEY, "another job key");
    spotnik_tls_close(client[1]);
    spotnik_tls_close(server[0]);
    ends_close(&ends);
}

/* ---- bytes ---- */

#define MANY (3u << 20)

/* A small buffer of the kernel: records are cut. Returns how often one was. */
static uint32_t move_many(struct ends *ends, const uint8_t *out, uint8_t *in)
{
    size_t sent = 0, got = 0;
    uint32_t cut = 0;
    for (uint32_t turn = 0; got < MANY; turn++) {
        size_t piece = turn * 7919 % 50000 + 1;
        struct iovec part[2] = { { (void *)(uintptr_t)(out + sent), 1 }, { NULL, 0 } };
        part[0].iov_len = MANY - sent < piece ? MANY - sent : piece / 3;
        part[1].iov_base = (void *)(uintptr_t)(out + sent + part[0].iov_len);
        part[1].iov_len = MANY - sent < piece ? 0 : piece - piece / 3;
        struct msghdr message = { .msg_iov = part, .msg_iovlen = 2 };
        ssize_t moved = spotnik_tls_sendmsg(ends->fd[0], &message, MSG_DONTWAIT);
        assert_true(moved >= 0 || errno == EAGAIN);
        sent += moved > 0 ? (size_t)moved : 0;
        cut += spotnik_tls_promised(ends->fd[0]) > 0;
        moved = spotnik_tls_recv(ends->fd[1], in + got, MANY - got < 9000 ? MANY - got : 9000,
                                 MSG_DONTWAIT);
        assert_true(moved > 0 || errno == EAGAIN);
        got += moved > 0 ? (size_t)moved : 0;
    }
    return cut;
}

TEST(bytes_come_whole_through_a_slow_socket_and_many_keys)
{
    struct ends ends;
    spotnik_tls_key_records = 7;
    int small = 8192;
    uint8_t *out = malloc(MANY), *in = calloc(1, MANY);
    ends_open(&ends, &psk, &psk, 0);
    setsockopt(ends.fd[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    for (size_t i = 0; i < MANY; i++)
        out[i] = (uint8_t)(i * 31 >> 5);
    assert_true(move_many(&ends, out, in) > 0);
    assert_memory_equal(in, out, MANY);
    assert_int_equal(spotnik_tls_promised(ends.fd[0]), 0);
    spotnik_tls_key_records = UINT64_C(1) << 23;
    free(out);
    free(in);
    ends_close(&ends);
}

/* Bulk under TLS has no tags of ours. */
TEST(under_tls_seals_are_bare)
{
    struct ends ends;
    struct spotnik_duplex duplex;
    ends_open(&ends, &psk, &psk, 0);
    assert_int_equal(spotnik_duplex_init(&duplex, ends.fd[0], &ends.shake[0].wire), 0);
    assert_true(duplex.send.bare && duplex.receive.bare);
    assert_false(spotnik_duplex_is_local(&duplex));
    ends_close(&ends);
}

/* ---- the end ---- */

static ssize_t heard(const struct ends *ends)
{
    char byte;
    ssize_t got;
    do
        got = spotnik_tls_recv(ends->fd[1], &byte, 1, MSG_DONTWAIT);
    while (got < 0 && errno == EAGAIN);
    return got;
}

TEST(a_close_is_fin_and_nothing_else)
{
    struct ends ends;
    ends_open(&ends, &psk, &psk, 0);
    assert_int_equal(spotnik_tls_send(ends.fd[0], "x", 1, MSG_DONTWAIT), 1);
    spotnik_tls_close(ends.fd[0]);
    assert_int_equal(heard(&ends), 1);
    assert_int_equal(heard(&ends), 0);
    spotnik_tls_close(ends.fd[1]);
}

/* The kernel tells of RST once, and of FIN afterwards. */
TEST(a_reset_stays_a_reset)
{
    struct ends ends;
    struct linger reset = { .l_onoff = 1 };
    ends_open(&ends, &psk, &psk, 0);
    setsockopt(ends.fd[0], SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    spotnik_tls_close(ends.fd[0]);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(heard(&ends), -1);
        assert_int_equal(errno, ECONNRESET);
    }
    spotnik_tls_close(ends.fd[1]);
}

TEST(fin_within_a_record_is_no_end)
{
    struct ends ends;
    static const uint8_t begun[] = { 0x17, 3, 3, 0, 80, 1, 2, 3 };
    ends_open(&ends, &psk, &psk, 0);
    assert_int_equal(send(ends.fd[0], begun, sizeof begun, 0), sizeof begun);
    spotnik_tls_close(ends.fd[0]);
    assert_int_equal(heard(&ends), -1);
    spotnik_tls_close(ends.fd[1]);
}

TEST(a_foreign_record_is_counted_and_ends_it)
{
    struct ends ends;
    uint64_t before = spotnik_seal_failures();
    uint8_t foreign[5 + 40] = { 0x17, 3, 3, 0, 40 };
    ends_open(&ends, &psk, &psk, 0);
    assert_int_equal(send(ends.fd[0], foreign, sizeof foreign, 0), sizeof foreign);
    assert_int_equal(heard(&ends), -1);
    assert_int_equal(errno, EBADMSG);
    assert_int_equal(heard(&ends), -1);
    assert_int_equal(spotnik_seal_failures(), before + 1);
    ends_close(&ends);
}
