/* SPDX-License-Identifier: Apache-2.0 */
/* dns:// and hosts: processes that are known by name, looked up again for as long as anybody
 * searches. Their addresses change, and a name may vanish and come back. list.c decides which of
 * them founds the job: it sees a list of addresses. */
#ifndef SPOTNIK_DISCOVERY_DNS_H
#define SPOTNIK_DISCOVERY_DNS_H

#include <stddef.h>

#include "discovery/spec.h"

#define SPOTNIK_DNS_PORT 21210

/* `text` behind dns://, one of
 *     train-[0-7].train[:PORT]   these names, one process each
 *     train[:PORT]/COUNT         all addresses of one name; the job begins with COUNT processes
 * All of them must be there when the job begins (list.c). With COUNT no more than that may be up
 * meanwhile: parts of a larger crowd could each begin one. Names have no such gap. Nothing is
 * looked up yet. Errors: ARGUMENT, LIMIT. */
int spotnik_dns_parse(const char *text, struct spotnik_discovery_spec *spec);

/* `path` behind hosts: names a file with a host, or a list of them, first on each line, as for
 * mpirun. user@ before it, :SLOTS behind it and comments are skipped, and so is a host that an
 * earlier line names. Port SPOTNIK_DNS_PORT. It is read again with every look, so hosts may be
 * added while a job runs. Errors: ARGUMENT (no such file, no host in it, a line that cannot be
 * read). */
int spotnik_hosts_file_parse(const char *path, struct spotnik_discovery_spec *spec);

/* Look all names up. `own`: the address that this process binds, or NULL (a tool: all addresses
 * count). If a host has addresses of both families, the one of `own`'s family counts. A name whose
 * address is a loopback is this host, at `own` (unless that is a loopback, too). An entry whose
 * name has no address becomes 0.0.0.0:0, which never answers; `said` lists these. May block for as
 * long as the resolver does. */
void spotnik_dns_resolve(struct spotnik_discovery_spec *spec, const uint8_t *own, char *said,
                         size_t size);

#endif
