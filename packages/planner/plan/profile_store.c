/* SPDX-License-Identifier: Apache-2.0 */
/* The store. Its layout has a number (user_version); a newer one than ours is refused, not guessed
 * at. */
#include "plan/profile_store.h"

#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAYOUT 1
#define APPLICATION_ID 1397772364 /* "SPOL" */

struct spotnik_store {
    sqlite3 *db;
    char path[512];
};

static const char layout[] =
    "BEGIN;"
    "CREATE TABLE profiles(id INTEGER PRIMARY KEY, name TEXT NOT NULL, made TEXT NOT NULL DEFAULT "
    "CURRENT_TIMESTAMP,"
    " body TEXT NOT NULL);"
    "CREATE TABLE prices(id INTEGER PRIMARY KEY, taken TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP, "
    "instance "
    "TEXT NOT NULL,"
    " region TEXT NOT NULL, zone TEXT NOT NULL, accelerator TEXT NOT NULL, accelerators REAL, "
    "vcpus REAL,"
    " memory_gib REAL, on_demand_usd_per_h REAL, spot_usd_per_h REAL, losses_per_h REAL, link_gbps "
    "REAL);"
    "CREATE INDEX prices_place ON prices(instance, region, zone);"
    "CREATE TABLE plans(id INTEGER PRIMARY KEY, made TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP, "
    "profile TEXT "
    "NOT NULL,"
    " fleet TEXT NOT NULL, batch REAL NOT NULL, predicted_s REAL NOT NULL, predicted_usd REAL NOT "
    "NULL,"
    " measured_s REAL, measured_usd REAL);"
    "PRAGMA application_id=1397772364; PRAGMA user_version=1; COMMIT;";

static int fail(const struct spotnik_store *store, const char *doing, struct spotnik_fault *fault)
{
    return spotnik_fault_set(fault, "%s: %s: %s", store->path, doing, sqlite3_errmsg(store->db));
}

static int pragma_number(struct spotnik_store *store, const char *sql, int *value_out)
{
    sqlite3_stmt *statement;
    int rc = -1;

    if (sqlite3_prepare_v2(store->db, sql, -1, &statement, NULL) != SQLITE_OK)
        return -1;
    if (sqlite3_step(statement) == SQLITE_ROW) {
        *value_out = sqlite3_column_int(statement, 0);
        rc = 0;
    }
    sqlite3_finalize(statement);
    return rc;
}

static int layout_check(struct spotnik_store *store, struct spotnik_fault *fault)
{
    int version, id, tables;

    if (pragma_number(store, "PRAGMA user_version", &version)
        || pragma_number(store, "PRAGMA application_id", &id)
        || pragma_number(store, "SELECT count(*) FROM sqlite_master", &tables))
        return fail(store, "not a store", fault);
    if (!version && !id && !tables)
        return sqlite3_exec(store->db, layout, NULL, NULL, NULL) == SQLITE_OK
                   ? 0
                   : fail(store, "cannot be made", fault);
    if (id != APPLICATION_ID)
        return spotnik_fault_set(fault, "%s: a database of something else; give another file",
                                 store->path);
    if (version > LAYOUT)
        return spotnik_fault_set(fault,
                                 "%s: written by a newer spotnik (layout %d, this one knows %d)",
                                 store->path, version, LAYOUT);
    return 0;
}

int spotnik_plan_store_open(const char *path, struct spotnik_store **store_out,
                            struct spotnik_fault *fault)
{
    struct spotnik_store *store = calloc(1, sizeof(*store));

    if (!store)
        return spotnik_fault_set(fault, "out of memory");
    snprintf(store->path, sizeof(store->path), "%s", path);
    if (sqlite3_open_v2(path, &store->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL)
        != SQLITE_OK) {
        fail(store, "cannot open", fault);
        spotnik_store_close(store);
        return -1;
    }
    sqlite3_busy_timeout(store->db, 2000);
    if (layout_check(store, fault)) {
        spotnik_store_close(store);
        return -1;
    }
    *store_out = store;
    return 0;
}

void spotnik_store_close(struct spotnik_store *store)
{
    if (!store)
        return;
    sqlite3_close(store->db);
    free(store);
}

bool spotnik_store_is(const char *path)
{
    char head[16] = "";
    FILE *file = fopen(path, "rb");

    if (!file)
        return false;
    bool is =
        fread(head, 1, sizeof(head), file) == sizeof(head) && !memcmp(head, "SQLite format 3", 15);
    fclose(file);
    return is;
}

/* Runs a statement whose arguments are given as text ("s") and numbers ("d"; NAN is null). */
static int put(struct spotnik_store *store, sqlite3_stmt *statement, const char *const *texts,
               size_t text_count, const double *numbers, size_t number_count)
{
    sqlite3_reset(statement);
    for (size_t i = 0; i < text_count; i++)
        sqlite3_bind_text(statement, (int)i + 1, texts[i], -1, SQLITE_TRANSIENT);
    for (size_t i = 0; i < number_count; i++) {
        int at = (int)(text_count + i) + 1;
        if (isnan(numbers[i]))
            sqlite3_bind_null(statement, at);
        else
            sqlite3_bind_double(statement, at, numbers[i]);
    }
    (void)store;
    return sqlite3_step(statement) == SQLITE_DONE ? 0 : -1;
}

static int put_once(struct spotnik_store *store, const char *sql, const char *const *texts,
                    size_t text_count, const double *numbers, size_t number_count,
                    struct spotnik_fault *fault)
{
    sqlite3_stmt *statement;

    if (sqlite3_prepare_v2(store->db, sql, -1, &statement, NULL) != SQLITE_OK)
        return fail(store, "cannot write", fault);
    int rc = put(store, statement, texts, text_count, numbers, number_count);
    if (rc)
        fail(store, "cannot write", fault);
    sqlite3_finalize(statement);
    return rc;
}

int spotnik_store_profile_put(struct spotnik_store *store, const struct spotnik_profile *profile,
                              struct spotnik_fault *fault)
{
    json_t *json = spotnik_profile_json(profile);
    char *body = json ? json_dumps(json, JSON_COMPACT) : NULL;
    const char *texts[] = { profile->name, body };

    json_decref(json);
    if (!body)
        return spotnik_fault_set(fault, "out of memory");
    int rc =
        put_once(store, "INSERT INTO profiles(name, body) VALUES(?,?)", texts, 2, NULL, 0, fault);
    free(body);
    return rc;
}

int spotnik_store_profile_get(struct spotnik_store *store, const char *name,
                              struct spotnik_profile *profile_out, struct spotnik_fault *fault)
{
    sqlite3_stmt *statement;
    json_error_t error;
    int rc = -1;

    if (sqlite3_prepare_v2(
            store->db,
            "SELECT body FROM profiles WHERE name = coalesce(?1, name) ORDER BY id DESC LIMIT 1",
            -1, &statement, NULL)
        != SQLITE_OK)
        return fail(store, "cannot read", fault);
    if (name)
        sqlite3_bind_text(statement, 1, name, -1, SQLITE_TRANSIENT);
    if (sqlite3_step(statement) == SQLITE_ROW) {
        json_t *json = json_loads((const char *)sqlite3_column_text(statement, 0), 0, &error);
        rc = json ? spotnik_profile_parse(store->path, json, profile_out, fault)
                  : spotnik_fault_set(fault, "%s: a profile in it is damaged: %s", store->path,
                                      error.text);
        json_decref(json);
    } else {
        spotnik_fault_set(fault, "%s: no profile%s%s in it; make one with spotnik profile",
                          store->path, name ? " called " : "", name ? name : "");
    }
    sqlite3_finalize(statement);
    return rc;
}

int spotnik_store_prices_put(struct spotnik_store *store, const struct spotnik_catalog *catalog,
                             struct spotnik_fault *fault)
{
    sqlite3_stmt *statement;
    int rc = 0;

    if (sqlite3_prepare_v2(
            store->db,
            "INSERT INTO prices(instance, region, zone, accelerator, accelerators, vcpus,"
            " memory_gib, on_demand_usd_per_h, spot_usd_per_h, losses_per_h, link_gbps)"
            " VALUES(?,?,?,?,?,?,?,?,?,?,?)",
            -1, &statement, NULL)
        != SQLITE_OK)
        return fail(store, "cannot write prices", fault);
    sqlite3_exec(store->db, "BEGIN", NULL, NULL, NULL);
    for (size_t i = 0; !rc && i < catalog->count; i++) {
        const struct spotnik_offer *o = &catalog->offers[i];
        const char *zone = *o->zone ? o->zone : o->zone_id;
        const char *texts[] = { o->instance, o->region, zone, o->accelerator };
        const double numbers[] = { o->accelerators, o->vcpus, o->memory_gib, o->on_demand_usd_per_h,
                                   /* a rate, not a band */
                                   o->spot_usd_per_h,
                                   o->losses_most_per_h > 0 ? NAN : o->losses_per_h, o->link_gbps };
        rc = put(store, statement, texts, 4, numbers, 7);
    }
    if (rc)
        fail(store, "cannot write prices", fault);
    sqlite3_finalize(statement);
    sqlite3_exec(store->db, rc ? "ROLLBACK" : "COMMIT", NULL, NULL, NULL);
    return rc;
}

static double column_number(sqlite3_stmt *statement, int column)
{
    return sqlite3_column_type(statement, column) == SQLITE_NULL
               ? NAN
               : sqlite3_column_double(statement, column);
}

/* The older of two dates, of which the first may not be there yet. */
static void date_keep(char oldest[24], const char *date)
{
    if (date && (!*oldest || strcmp(date, oldest) < 0))
        snprintf(oldest, 24, "%s", date);
}

int spotnik_store_prices_get(struct spotnik_store *store, struct spotnik_catalog *catalog,
                             struct spotnik_fault *fault)
{
    size_t before = catalog->count;
    char oldest[24] = "";
    sqlite3_stmt *statement;
    int rc = 0;

    if (sqlite3_prepare_v2(
            store->db,
            "SELECT instance, region, zone, accelerator, accelerators, vcpus, memory_gib,"
            " on_demand_usd_per_h, spot_usd_per_h, losses_per_h, link_gbps, date(taken) FROM prices"
            " WHERE id IN"
            " (SELECT max(id) FROM prices"
            " GROUP BY instance, region, zone, accelerator, accelerators)",
            -1, &statement, NULL)
        != SQLITE_OK)
        return fail(store, "cannot read prices", fault);
    while (!rc && sqlite3_step(statement) == SQLITE_ROW) {
        struct spotnik_offer o = { 0 };
        char *const texts[] = { o.instance, o.region, o.zone, o.accelerator };
        const size_t sizes[] = { sizeof(o.instance), sizeof(o.region), sizeof(o.zone),
                                 sizeof(o.accelerator) };
        double *const numbers[] = { &o.accelerators,   &o.vcpus,
                                    &o.memory_gib,     &o.on_demand_usd_per_h,
                                    &o.spot_usd_per_h, &o.losses_per_h,
                                    &o.link_gbps };
        for (int i = 0; i < 4; i++)
            snprintf(texts[i], sizes[i], "%s", (const char *)sqlite3_column_text(statement, i));
        for (int i = 0; i < 7; i++)
            *numbers[i] = column_number(statement, 4 + i);
        spotnik_catalog_locate(&o);
        date_keep(oldest, (const char *)sqlite3_column_text(statement, 11));
        rc = spotnik_catalog_add(catalog, &o, fault);
    }
    sqlite3_finalize(statement);
    if (!rc && catalog->count == before)
        rc = spotnik_fault_set(fault, "%s: no prices in it; give --prices FILE once", store->path);
    char source[256];
    snprintf(source, sizeof(source), "%.200s of %s", store->path, oldest);
    spotnik_catalog_source_add(catalog, source);
    return rc;
}

int spotnik_store_plan_put(struct spotnik_store *store, const char *profile, const char *fleet,
                           double batch, double time_s, double cost_usd,
                           struct spotnik_fault *fault)
{
    const char *texts[] = { profile, fleet };
    const double numbers[] = { batch, time_s, cost_usd };

    return put_once(
        store,
        "INSERT INTO plans(profile, fleet, batch, predicted_s, predicted_usd) VALUES(?,?,?,?,?)",
        texts, 2, numbers, 3, fault);
}
