/* SPDX-License-Identifier: Apache-2.0 */
/* Trust under TLS (link/tls.h): both modes, and the sentence of each disagreement. */
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdlib.h>

#include "link/auth.h"
#include "link/duplex.h"
#include "link/seal.h"
#include "tls_ends.h"

#define DAY 86400L

static const struct spotnik_tls_settings off = { .mode = SPOTNIK_TLS_OFF };
static const struct spotnik_tls_settings usual = { SPOTNIK_TLS_PSK, .bare_inside = true };
static char folder[2][64]; /* of the dialling side, and of the other */
static struct spotnik_tls_settings cert[2] = { { SPOTNIK_TLS_CERT, .folder = folder[0] },
                                               { SPOTNIK_TLS_CERT, .folder = folder[1] } };

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

static void observe(const struct spotnik_tls_settings *client,
                    const struct spotnik_tls_settings *server, enum spotnik_purpose purpose,
                    int expected)
{
    struct ends ends;
    struct spotnik_runtime_config config;
    cluster_config(&config, 1);
    config.credentials.self.id = cluster_id(1);
    config.credentials.self.port = 1;
    config.credentials.tls = client;
    config.credentials.observes = true;
    shakes_init(&ends, client, server, 0);
    assert_true(spotnik_auth_observer_key(config.credentials.key, config.credentials.key));
    spotnik_shake_init_client(&ends.shake[0], &config.credentials, SPOTNIK_PURPOSE_STATUS);
    ends.shake[0].wire.purpose = (uint8_t)purpose;
    spotnik_handshake_hello(&ends.shake[0].wire, ends.shake[0].out);
    pair_open(ends.fd);
    ends_decide(&ends);
    assert_int_equal(ends.rc[0], expected);
    assert_int_equal(ends.rc[1], expected);
    assert_true(spotnik_tls_is_on(ends.fd[0]) && spotnik_tls_is_on(ends.fd[1]));
    ends_close(&ends);
}

TEST_WITH(an_observer_key_observes_and_no_more, setup, teardown)
{
    observe(&psk, &psk, SPOTNIK_PURPOSE_OBSERVE, 0);
    observe(&cert[0], &cert[1], SPOTNIK_PURPOSE_OBSERVE, 0);
    for (int purpose = SPOTNIK_PURPOSE_CONTROL; purpose < SPOTNIK_PURPOSE_OBSERVE; purpose++) {
        observe(&psk, &psk, (enum spotnik_purpose)purpose, SPOTNIK_ERR_KEY);
        observe(&cert[0], &cert[1], (enum spotnik_purpose)purpose, SPOTNIK_ERR_KEY);
    }
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

static void assert_bare(const struct spotnik_tls_settings *client,
                        const struct spotnik_tls_settings *server)
{
    struct ends ends;
    ends_open(&ends, client, server, 0);
    assert_int_equal(ends.rc[0], 0);
    assert_int_equal(ends.rc[1], 0);
    assert_false(spotnik_tls_is_on(ends.fd[0]) || spotnik_tls_is_on(ends.fd[1]));
    ends_close(&ends);
}

/* Between hosts: tests/e2e/network_faults_hostile.py, encrypted. */
TEST(what_stays_inside_a_host_is_bare_unless_it_was_asked)
{
    assert_bare(&usual, &usual);
    assert_bare(&usual, &off);
    assert_bare(&off, &usual);
    assert_good(&psk, &usual);
    differ(&usual, &psk, "has SPOTNIK_TLS=psk, and this process has off",
           "has SPOTNIK_TLS=off, and this process has psk");
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
