/* SPDX-License-Identifier: Apache-2.0 */
/* Reading SPOTNIK_PEERS. See spec.h. */
#include "discovery/spec.h"

#include <string.h>

#include "base/error.h"
#include "link/address.h"
#include "discovery/dns.h"
#include "spotnik/spotnik.h"
#include "store/store.h"

static int store_parse(const char *text, struct spotnik_discovery_spec *spec)
{
    size_t length = strlen(text);
    if (length == 0 || length >= sizeof spec->location)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                    "SPOTNIK_PEERS: write file:DIR with a directory that all "
                                    "members can reach");
    memcpy(spec->location, text, length + 1);
    spec->is_store = true;
    return 0;
}

static int address_add(const char *text, size_t length, const uint8_t *own,
                       struct spotnik_discovery_spec *spec)
{
    char one[300];
    if (length >= sizeof one)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                    "SPOTNIK_PEERS: \"%.60s...\" is no address", text);
    if (spec->count == SPOTNIK_DISCOVERY_LISTED_MAX)
        return spotnik_error_return(SPOTNIK_ERR_LIMIT,
                                    "SPOTNIK_PEERS lists more than %d addresses; a few are enough",
                                    SPOTNIK_DISCOVERY_LISTED_MAX);
    memcpy(one, text, length);
    one[length] = '\0';
    struct spotnik_member *member = &spec->listed[spec->count];
    int rc = spotnik_address_parse_for(one, own, member->address, &member->port);
    if (rc != 0)
        return rc;
    if (member->port == 0)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                    "SPOTNIK_PEERS: \"%s\" needs a port: host:port", one);
    for (uint32_t i = 0; i < spec->count; i++)
        if (memcmp(spec->listed[i].address, member->address, 16) == 0
            && spec->listed[i].port == member->port)
            return spotnik_error_return(SPOTNIK_ERR_ARGUMENT, "SPOTNIK_PEERS lists \"%s\" twice",
                                        one);
    spec->count++;
    return 0;
}

int spotnik_discovery_spec_parse(const char *text, const uint8_t *own,
                                 struct spotnik_discovery_spec *ret_spec)
{
    memset(ret_spec, 0, sizeof *ret_spec);
    if (strncmp(text, "file:", 5) == 0)
        return store_parse(text + 5, ret_spec);
    if (spotnik_objects_is_bucket(text))
        return store_parse(text, ret_spec);
    if (strncmp(text, "dns://", 6) == 0)
        return spotnik_dns_parse(text + 6, ret_spec);
    if (strncmp(text, "hosts:", 6) == 0)
        return spotnik_hosts_file_parse(text + 6, ret_spec);
    if (spotnik_objects_is_foreign(text))
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                    "SPOTNIK_PEERS: \"%.60s\" is of no kind that is known; write "
                                    "host:port,..., file:DIR, " SPOTNIK_OBJECTS_URLS,
                                    text);
    int rc = 0;
    for (const char *at = text; rc == 0 && at != NULL;) {
        const char *comma = strchr(at, ',');
        size_t length = comma != NULL ? (size_t)(comma - at) : strlen(at);
        while (length > 0 && *at == ' ') {
            at++;
            length--;
        }
        if (length > 0)
            rc = address_add(at, length, own, ret_spec);
        at = comma != NULL ? comma + 1 : NULL;
    }
    if (rc == 0 && ret_spec->count == 0)
        rc = spotnik_error_return(
            SPOTNIK_ERR_ARGUMENT,
            "SPOTNIK_PEERS is empty; write host:port,..., file:DIR, " SPOTNIK_OBJECTS_URLS
            ", or unset it for a job of one");
    return rc;
}
