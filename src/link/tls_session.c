/* SPDX-License-Identifier: Apache-2.0 */
/* TLS trusts a holder of the job key (PSK). With CERT an authority of ours must also have signed
 * the peer's certificate, for the address that we dialled. See tls.h. */
#include "link/tls_session.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/error.h"
#include "link/address.h"
#include "link/auth.h"
#include "spotnik/spotnik.h"

#define PSK_IDENTITY "spotnik"
#define PSK_OBSERVER "spotnik observer"
#define PSK_LABEL "spotnik tls psk 1"
#define EXPORTER "EXPORTER-spotnik-1"
#define ALPN_PSK "\13spotnik-psk"
#define ALPN_CERT "\14spotnik-cert"

/* ---- settings ---- */

void spotnik_tls_differs_text(unsigned peer_mode, unsigned own_mode,
                              char ret_text[SPOTNIK_TLS_TEXT])
{
    static const char *const name[] = { "off", "psk", "cert", "psk or cert" };
    const unsigned last = sizeof name / sizeof name[0] - 1;
    snprintf(ret_text, SPOTNIK_TLS_TEXT,
             "has SPOTNIK_TLS=%s, and this process has %s; set the same on all hosts",
             name[peer_mode < last ? peer_mode : last], name[own_mode < last ? own_mode : last]);
}

static struct spotnik_tls_settings environment;
static bool environment_is_wrong;

static void environment_read(void)
{
    const char *mode = getenv("SPOTNIK_TLS");
    if (mode == NULL || *mode == '\0')
        environment = (struct spotnik_tls_settings){ SPOTNIK_TLS_PSK, .bare_inside = true };
    else if (strcmp(mode, "off") == 0)
        environment.mode = SPOTNIK_TLS_OFF;
    else if (strcmp(mode, "psk") == 0)
        environment.mode = SPOTNIK_TLS_PSK;
    else if (strncmp(mode, "cert:/", 6) == 0 && (environment.folder = strdup(mode + 5)) != NULL)
        environment.mode = SPOTNIK_TLS_CERT;
    else
        environment_is_wrong = true;
}

int spotnik_tls_settings_read(const struct spotnik_tls_settings **ret)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, environment_read);
    *ret = &environment;
    return environment_is_wrong
               ? spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                      "SPOTNIK_TLS must be off, psk, or cert:/FOLDER with tls.crt, "
                                      "tls.key and ca.crt")
               : 0;
}

/* ---- the job key ---- */

static struct spotnik_tls_session *session_of(SSL *ssl)
{
    return SSL_get_app_data(ssl);
}

/* NULL: no memory. */
static SSL_SESSION *psk_session(SSL *ssl, const uint8_t psk[32])
{
    static const uint8_t cipher[] = { 0x13, 0x01 }; /* TLS_AES_128_GCM_SHA256 */
    SSL_SESSION *made = SSL_SESSION_new();
    if (made != NULL && SSL_SESSION_set1_master_key(made, psk, 32) == 1
        && SSL_SESSION_set_cipher(made, SSL_CIPHER_find(ssl, cipher)) == 1
        && SSL_SESSION_set_protocol_version(made, TLS1_3_VERSION) == 1)
        return made;
    SSL_SESSION_free(made);
    return NULL;
}

static int psk_use(SSL *ssl, const EVP_MD *digest, const unsigned char **ret_id, size_t *ret_size,
                   SSL_SESSION **ret)
{
    const struct spotnik_tls_session *session = session_of(ssl);
    const char *name = session->role == SPOTNIK_TLS_OBSERVER ? PSK_OBSERVER : PSK_IDENTITY;
    (void)digest;
    *ret_id = (const unsigned char *)name;
    *ret_size = strlen(name);
    *ret = psk_session(ssl, session->psk);
    return *ret != NULL;
}

static bool is_named(const unsigned char *id, size_t size, const char *name)
{
    return size == strlen(name) && memcmp(id, name, size) == 0;
}

static int psk_find(SSL *ssl, const unsigned char *id, size_t size, SSL_SESSION **ret)
{
    const struct spotnik_tls_session *session = session_of(ssl);
    const uint8_t *psk = is_named(id, size, PSK_IDENTITY)   ? session->psk
                         : is_named(id, size, PSK_OBSERVER) ? session->observer_psk
                                                            : NULL;
    *ret = psk != NULL ? psk_session(ssl, psk) : NULL;
    return psk == NULL || *ret != NULL;
}

/* HKDF-Expand of one block, with the label as info. */
static bool key_expand(const uint8_t key[32], const char *label, const uint8_t *more, size_t size,
                       uint8_t ret[32])
{
    struct spotnik_auth auth;
    const struct spotnik_auth_part part[] = { { label, strlen(label) },
                                              { more, size },
                                              { "\1", 1 } };
    bool good = spotnik_auth_init(&auth, key) == 0 && spotnik_auth_mac(&auth, part, 3, ret);
    spotnik_auth_done(&auth);
    return good;
}

bool spotnik_tls_session_key(struct spotnik_tls_session *session, const uint8_t key[32],
                             uint8_t ret_key[32])
{
    uint8_t exported[32];
    bool good = SSL_export_keying_material(session->ssl, exported, sizeof exported, EXPORTER,
                                           sizeof EXPORTER - 1, NULL, 0, 0)
                    == 1
                && key_expand(key, "spotnik tls key 1", exported, sizeof exported, ret_key);
    OPENSSL_cleanse(exported, sizeof exported);
    return good;
}

/* ---- modes ---- */

/* The client names its mode in ALPN; the server has the same or refuses. */
static int hello_look(SSL *ssl, int *ret_alert, void *context)
{
    struct spotnik_tls_session *session = session_of(ssl);
    const char *ours = session->mode == SPOTNIK_TLS_PSK ? ALPN_PSK : ALPN_CERT;
    const unsigned char *named;
    size_t size;
    (void)context;
    *ret_alert = SSL_AD_NO_APPLICATION_PROTOCOL;
    if (SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_application_layer_protocol_negotiation, &named,
                                  &size)
            != 1
        || size < 2)
        return SSL_CLIENT_HELLO_ERROR; /* no member */
    if (size - 2 == strlen(ours) && memcmp(named + 2, ours, size - 2) == 0)
        return SSL_CLIENT_HELLO_SUCCESS;
    session->differs = true;
    session->peer_mode = session->mode == SPOTNIK_TLS_PSK ? SPOTNIK_TLS_CERT : SPOTNIK_TLS_PSK;
    return SSL_CLIENT_HELLO_ERROR;
}

static void alert_note(const SSL *ssl, int where, int value)
{
    if (where == SSL_CB_READ_ALERT)
        session_of((SSL *)(uintptr_t)ssl)->alert = value & 0xff;
}

/* ---- one connection ---- */

static SSL_CTX *context_new(void)
{
    SSL_CTX *context = SSL_CTX_new(TLS_method());
    if (context == NULL)
        return NULL;
    SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
    SSL_CTX_set_num_tickets(context, 0); /* unread ones would make a close say RST */
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER
                                  | SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_client_hello_cb(context, hello_look, NULL);
    SSL_CTX_set_info_callback(context, alert_note);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    if (SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") == 1)
        return context;
    SSL_CTX_free(context);
    return NULL;
}

static SSL_CTX *psk_context;

static void psk_context_make(void)
{
    psk_context = context_new();
    if (psk_context == NULL)
        return;
    SSL_CTX_set_psk_use_session_callback(psk_context, psk_use);
    SSL_CTX_set_psk_find_session_callback(psk_context, psk_find);
}

typedef int load_function(SSL_CTX *context, const char *path);

static int key_load(SSL_CTX *context, const char *path)
{
    return SSL_CTX_use_PrivateKey_file(context, path, SSL_FILETYPE_PEM);
}

static int load(SSL_CTX *context, const char *folder, const char *name, load_function *function)
{
    char path[4096], reason[120];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (function(context, path) == 1)
        return 0;
    ERR_error_string_n(ERR_peek_last_error(), reason, sizeof reason);
    return spotnik_error_return(SPOTNIK_ERR_ARGUMENT, "%s (SPOTNIK_TLS) cannot be used: %s", path,
                                reason);
}

/* The files are read for each connection, so a new certificate needs no restart. */
static int cert_context_make(const struct spotnik_tls_settings *settings, SSL_CTX **ret)
{
    SSL_CTX *context = context_new();
    *ret = context;
    if (context == NULL)
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM, "OpenSSL has no TLS 1.3 here");
    int rc = load(context, settings->folder, "tls.crt", SSL_CTX_use_certificate_chain_file);
    if (rc == 0)
        rc = load(context, settings->folder, "tls.key", key_load);
    if (rc == 0)
        rc = load(context, settings->folder, "ca.crt", SSL_CTX_load_verify_file);
    return rc;
}

/* The certificate must name the address that we have dialled. Whoever dials us may have several,
 * and needs the authority and the key. */
static bool name_expect(struct spotnik_tls_session *session)
{
    struct sockaddr_storage name;
    socklen_t size = sizeof name;
    uint8_t address[16];
    uint16_t port;
    if (getpeername(session->fd, (struct sockaddr *)&name, &size) != 0)
        return false;
    spotnik_address_from_kernel(&name, address, &port);
    bool old = IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)address);
    return X509_VERIFY_PARAM_set1_ip(SSL_get0_param(session->ssl), old ? address + 12 : address,
                                     old ? 4 : 16)
           == 1;
}

static int context_get(const struct spotnik_tls_settings *settings, SSL_CTX **ret)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (settings->mode == SPOTNIK_TLS_CERT)
        return cert_context_make(settings, ret);
    pthread_once(&once, psk_context_make);
    *ret = psk_context;
    if (psk_context == NULL || SSL_CTX_up_ref(psk_context) != 1)
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM, "OpenSSL has no TLS 1.3 here");
    return 0;
}

/* A server does not know yet which of the two its client has. */
static bool psk_make(struct spotnik_tls_session *session, const uint8_t key[32])
{
    uint8_t observer[32];
    bool good = key_expand(key, PSK_LABEL, NULL, 0, session->psk);
    if (session->role == SPOTNIK_TLS_SERVER)
        good = good && spotnik_auth_observer_key(key, observer)
               && key_expand(observer, PSK_LABEL, NULL, 0, session->observer_psk);
    OPENSSL_cleanse(observer, sizeof observer);
    return good;
}

static bool ssl_make(struct spotnik_tls_session *session, SSL_CTX *context, const uint8_t key[32])
{
    const char *alpn = session->mode == SPOTNIK_TLS_PSK ? ALPN_PSK : ALPN_CERT;
    session->ssl = SSL_new(context);
    if (session->ssl == NULL || SSL_set_app_data(session->ssl, session) != 1
        || !psk_make(session, key))
        return false;
    if (session->role == SPOTNIK_TLS_SERVER) {
        SSL_set_accept_state(session->ssl);
        if (session->mode == SPOTNIK_TLS_PSK) /* it has no certificate: without PSK, no handshake */
            SSL_set_verify(session->ssl, SSL_VERIFY_NONE, NULL);
        return true;
    }
    SSL_set_connect_state(session->ssl);
    return SSL_set_alpn_protos(session->ssl, (const uint8_t *)alpn, (unsigned)strlen(alpn)) == 0
           && (session->mode != SPOTNIK_TLS_CERT || name_expect(session));
}

int spotnik_tls_session_open(struct spotnik_tls_session *session,
                             const struct spotnik_tls_settings *settings, const uint8_t key[32])
{
    SSL_CTX *context = NULL;
    int rc = context_get(settings, &context);
    if (rc == 0 && !ssl_make(session, context, key))
        rc = spotnik_error_return(SPOTNIK_ERR_SYSTEM, "OpenSSL cannot begin TLS");
    SSL_CTX_free(context);
    return rc;
}

/* ---- why not ---- */

static int say(struct spotnik_tls_session *session, int rc, const char *what, const char *detail)
{
    snprintf(session->why, sizeof session->why, what, detail);
    return rc;
}

static int differs_say(struct spotnik_tls_session *session)
{
    session->differs = true;
    spotnik_tls_differs_text(session->peer_mode, session->mode, session->why);
    return SPOTNIK_ERR_VERSION;
}

static int alert_judge(struct spotnik_tls_session *session)
{
    if (session->alert == SSL_AD_NO_APPLICATION_PROTOCOL) {
        session->peer_mode = session->mode == SPOTNIK_TLS_PSK ? SPOTNIK_TLS_CERT : SPOTNIK_TLS_PSK;
        return differs_say(session);
    }
    if (session->mode == SPOTNIK_TLS_PSK)
        return session->alert == SSL_AD_ILLEGAL_PARAMETER || session->alert == SSL_AD_DECRYPT_ERROR
                   ? SPOTNIK_ERR_KEY
                   : SPOTNIK_ERR_ARGUMENT;
    return say(
        session, SPOTNIK_ERR_KEY,
        "refuses the certificate of this process (%s); look at tls.crt here and ca.crt there",
        SSL_alert_desc_string_long(session->alert));
}

static int certificate_judge(struct spotnik_tls_session *session, long error)
{
    switch (error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
        return say(session, SPOTNIK_ERR_KEY, "shows a certificate that has expired; %s",
                   "write a new one to its tls.crt");
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
    case X509_V_ERR_HOSTNAME_MISMATCH:
        return say(session, SPOTNIK_ERR_KEY, "shows a certificate of another address; %s",
                   "name its SPOTNIK_BIND as an IP in subjectAltName");
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
        return say(session, SPOTNIK_ERR_KEY,
                   "shows a certificate of an authority that is not in our ca.crt (%s)",
                   X509_verify_cert_error_string(error));
    default:
        return say(session, SPOTNIK_ERR_KEY, "shows a certificate that does not verify (%s)",
                   X509_verify_cert_error_string(error));
    }
}

int spotnik_tls_session_judge(struct spotnik_tls_session *session)
{
    long verified = SSL_get_verify_result(session->ssl);
    unsigned long error = ERR_peek_error();
    if (session->differs)
        return differs_say(session);
    if (session->alert != 0)
        return alert_judge(session);
    if (session->mode == SPOTNIK_TLS_CERT && verified != X509_V_OK)
        return certificate_judge(session, verified);
    if (session->mode == SPOTNIK_TLS_CERT
        && ERR_GET_REASON(error) == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE)
        return say(session, SPOTNIK_ERR_KEY, "shows no certificate; %s",
                   "put one into tls.crt there");
    if (session->ended || session->error != 0)
        return SPOTNIK_ERR_PEERS;
    if (ERR_GET_REASON(error) == SSL_R_BINDER_DOES_NOT_VERIFY)
        return SPOTNIK_ERR_KEY;
    return SPOTNIK_ERR_ARGUMENT;
}
