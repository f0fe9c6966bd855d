/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes profiles. */
#include "plan/profile.h"
#include "plan/accelerators.h"
#include "plan/curvefit.h"
#include "common/jsonfile.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Rounded mixed-precision ResNet-50 rates (samples/s of one device), from public benchmark tables:
 * for a first look only, and said to be so in every output. */
static const struct {
    const char *accelerator;
    double samples_per_s;
} example_rates[] = { { "K80", 50 },    { "M60", 90 },   { "T4", 250 },
                      { "V100", 750 },  { "A10G", 700 }, { "A100", 2200 },
                      { "H100", 4000 }, { "L4", 450 },   { "cpu", 0.9 } };

/* Eight members that reduce in the memory of a server with several GPUs; of a small host less. */
#define HOST_BYTES_PER_S 25e9

void spotnik_profile_empty(struct spotnik_profile *p)
{
    *p = (struct spotnik_profile){ .critical_batch = INFINITY,
                                   .hop_s = 50e-6,
                                   .host_bytes_per_s = HOST_BYTES_PER_S,
                                   .overlap = 0.5,
                                   .startup_s = 90,
                                   .recover_s = 2,
                                   .join_s = 10,
                                   .checkpoint_every_s = 600,
                                   .error = 0.03 };
}

void spotnik_profile_builtin(struct spotnik_profile *profile_out)
{
    struct spotnik_profile p;

    spotnik_profile_empty(&p);
    snprintf(p.name, sizeof(p.name), "resnet50-example");
    for (size_t i = 0; i < sizeof(example_rates) / sizeof(*example_rates); i++) {
        struct spotnik_device *device = &p.devices[p.device_count++];
        snprintf(device->accelerator, sizeof(device->accelerator), "%s",
                 example_rates[i].accelerator);
        device->fixed_s = 0.01;
        device->sample_s = 1 / example_rates[i].samples_per_s;
        device->batch_most = 512;
    }
    for (double batch = 256; batch <= 8192; batch *= 2)
        p.batches[p.batch_count++] = batch;
    p.samples_per_epoch = 1281167;
    p.gradient_bytes = 102e6;
    p.state_bytes = 204e6;
    p.reference_batch = 256;
    p.critical_batch = 8000;
    p.error = 0.10;
    p.example = true;
    *profile_out = p;
}

static int keys_check(const char *path, const json_t *object, const char *const *known,
                      struct spotnik_fault *fault)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)object, key, value)
    {
        size_t i = 0;
        while (known[i] && strcmp(known[i], key))
            i++;
        if (!known[i])
            return spotnik_json_fault(fault, path, object, key, 0, "key '%s' is not known here",
                                      key);
    }
    return 0;
}

/* "devices": {"V100": {"samples_per_s": 750}} or {"V100": {"steps": [[batch, seconds], ...]}} */
static int device_steps(const char *path, const char *name, const json_t *steps,
                        struct spotnik_device *device, struct spotnik_fault *fault)
{
    double batch[64], seconds[64];
    size_t count = json_array_size(steps);

    if (count < 1 || count > 64)
        return spotnik_fault_set(fault,
                                 "%s: device '%s': 'steps' is a list of 1 to 64 [batch, seconds]",
                                 path, name);
    for (size_t i = 0; i < count; i++) {
        const json_t *pair = json_array_get(steps, i);
        batch[i] = json_number_value(json_array_get(pair, 0));
        seconds[i] = json_number_value(json_array_get(pair, 1));
        if (json_array_size(pair) != 2 || !(batch[i] > 0) || !(seconds[i] > 0))
            return spotnik_json_fault(fault, path, steps, NULL, i,
                                      "device '%s': step %zu is not [batch, seconds] above zero",
                                      name, i + 1);
    }
    struct spotnik_line line = spotnik_line_fit(batch, seconds, NULL, count);
    if (count == 1 || line.slope <= 0 || line.intercept < 0) { /* through the origin */
        line.intercept = 0;
        line.slope = 0;
        for (size_t i = 0; i < count; i++)
            line.slope += seconds[i] / batch[i] / (double)count;
    }
    device->fixed_s = line.intercept;
    device->sample_s = line.slope;
    return 0;
}

static int devices_parse(const char *path, const json_t *json, struct spotnik_profile *p,
                         struct spotnik_fault *fault)
{
    const json_t *devices = json_object_get(json, "devices");
    static const char *const known[] = { "samples_per_s", "fixed_s",    "steps",
                                         "batch_most",    "contention", NULL };
    const char *name;
    json_t *item;
    double rate;

    if (!json_object_size(devices) || json_object_size(devices) > SPOTNIK_PROFILE_DEVICES_MAX)
        return spotnik_json_fault(fault, path, json, "devices", 0,
                                  "'devices' is an object of 1 to %d accelerators",
                                  SPOTNIK_PROFILE_DEVICES_MAX);
    json_object_foreach((json_t *)devices, name, item)
    {
        struct spotnik_device *device = &p->devices[p->device_count++];
        const json_t *steps = json_object_get(item, "steps");
        snprintf(device->accelerator, sizeof(device->accelerator), "%s", name);
        if (keys_check(path, item, known, fault)
            || spotnik_json_number(path, item, "batch_most", 1, 1e9, 1e9, &device->batch_most,
                                   fault)
            || spotnik_json_number(path, item, "contention", 0, 1e3, 0, &device->contention, fault))
            return -1;
        if (steps ? device_steps(path, name, steps, device, fault)
                  : spotnik_json_number(path, item, "samples_per_s", 1e-9, 1e9, NAN, &rate, fault)
                        || spotnik_json_number(path, item, "fixed_s", 0, 1e4, 0, &device->fixed_s,
                                               fault))
            return -1;
        if (!steps)
            device->sample_s = 1 / rate;
    }
    return 0;
}

static int batches_parse(const char *path, const json_t *json, struct spotnik_profile *p,
                         struct spotnik_fault *fault)
{
    const json_t *batches = json_object_get(json, "batches");
    size_t count = json_array_size(batches);

    if (count < 1 || count > SPOTNIK_PROFILE_BATCHES_MAX)
        return spotnik_json_fault(fault, path, json, "batches", 0,
                                  "'batches' is a list of 1 to %d global batches",
                                  SPOTNIK_PROFILE_BATCHES_MAX);
    for (size_t i = 0; i < count; i++) {
        double batch = json_number_value(json_array_get(batches, i));
        if (!(batch >= 1))
            return spotnik_json_fault(fault, path, batches, NULL, i,
                                      "batch %zu is not a number of at least 1", i + 1);
        p->batches[p->batch_count++] = batch;
    }
    return 0;
}

/* "measured": [["cpu", devices, batch, seconds], ...] */
static int measured_parse(const char *path, const json_t *json, struct spotnik_profile *p,
                          struct spotnik_fault *fault)
{
    const json_t *list = json_object_get(json, "measured");
    json_t *item;
    size_t i;

    if (json_array_size(list) > SPOTNIK_PROFILE_MEASURED_MAX || (list && !json_is_array(list)))
        return spotnik_json_fault(fault, path, json, "measured", 0,
                                  "'measured' is a list of at most %d steps",
                                  SPOTNIK_PROFILE_MEASURED_MAX);
    json_array_foreach((json_t *)list, i, item)
    {
        struct spotnik_measured *m = &p->measured[p->measured_count++];
        const char *name = json_string_value(json_array_get(item, 0));
        m->devices = json_number_value(json_array_get(item, 1));
        m->batch = json_number_value(json_array_get(item, 2));
        m->step_s = json_number_value(json_array_get(item, 3));
        if (!name || json_array_size(item) != 4 || !(m->devices >= 1) || !(m->batch > 0)
            || !(m->step_s > 0))
            return spotnik_json_fault(fault, path, list, NULL, i,
                                      "measured[%zu] is not [device, how many, batch, seconds]", i);
        snprintf(m->accelerator, sizeof(m->accelerator), "%s", name);
    }
    return 0;
}

double spotnik_profile_measured_s(const struct spotnik_profile *profile, const char *accelerator,
                                  double devices, double batch)
{
    for (size_t i = 0; i < profile->measured_count; i++) {
        const struct spotnik_measured *m = &profile->measured[i];
        if (m->devices == devices && m->batch == batch && !strcmp(m->accelerator, accelerator))
            return m->step_s;
    }
    return NAN;
}

double spotnik_profile_measured_most(const struct spotnik_profile *profile, const char *accelerator)
{
    double most = 1;

    for (size_t i = 0; i < profile->measured_count; i++)
        if (!strcmp(profile->measured[i].accelerator, accelerator))
            most = fmax(most, profile->measured[i].devices);
    return most;
}

int spotnik_profile_parse(const char *path, const json_t *json, struct spotnik_profile *profile_out,
                          struct spotnik_fault *fault)
{
    static const char *const known[] = { "name",
                                         "devices",
                                         "batches",
                                         "samples_per_epoch",
                                         "gradient_mb",
                                         "state_mb",
                                         "reference_batch",
                                         "critical_batch",
                                         "link_gbps",
                                         "host_gbps",
                                         "skew_ms",
                                         "hop_us",
                                         "overlap",
                                         "startup_s",
                                         "recover_s",
                                         "join_s",
                                         "checkpoint_every_s",
                                         "error",
                                         "measured",
                                         NULL };
    struct spotnik_profile p;
    double gradient_mb, state_mb, gbps, host_gbps, skew_ms, hop_us;
    const char *name = json_string_value(json_object_get(json, "name"));

    spotnik_profile_empty(&p);
    if (!json_is_object(json))
        return spotnik_fault_set(fault, "%s: a profile is a JSON object", path);
    if (keys_check(path, json, known, fault) || devices_parse(path, json, &p, fault)
        || batches_parse(path, json, &p, fault) || measured_parse(path, json, &p, fault)
        || spotnik_json_number(path, json, "samples_per_epoch", 1, 1e15, NAN, &p.samples_per_epoch,
                               fault)
        || spotnik_json_number(path, json, "gradient_mb", 0, 1e9, NAN, &gradient_mb, fault)
        || spotnik_json_number(path, json, "state_mb", 0, 1e9, 2 * gradient_mb, &state_mb, fault)
        || spotnik_json_number(path, json, "reference_batch", 1, 1e9, p.batches[0],
                               &p.reference_batch, fault)
        || spotnik_json_number(path, json, "critical_batch", 1, INFINITY, INFINITY,
                               &p.critical_batch, fault)
        || spotnik_json_number(path, json, "link_gbps", 0, 1e5, 0, &gbps, fault)
        || spotnik_json_number(path, json, "host_gbps", 1e-6, 1e6, HOST_BYTES_PER_S * 8 / 1e9,
                               &host_gbps, fault)
        || spotnik_json_number(path, json, "skew_ms", 0, 1e7, 0, &skew_ms, fault)
        || spotnik_json_number(path, json, "hop_us", 0, 1e7, 50, &hop_us, fault)
        || spotnik_json_number(path, json, "overlap", 0, 1, p.overlap, &p.overlap, fault)
        || spotnik_json_number(path, json, "startup_s", 0, 1e5, p.startup_s, &p.startup_s, fault)
        || spotnik_json_number(path, json, "recover_s", 0, 1e5, p.recover_s, &p.recover_s, fault)
        || spotnik_json_number(path, json, "join_s", 0, 1e5, p.join_s, &p.join_s, fault)
        || spotnik_json_number(path, json, "checkpoint_every_s", 1, 1e7, p.checkpoint_every_s,
                               &p.checkpoint_every_s, fault)
        || spotnik_json_number(path, json, "error", 0, 1, p.error, &p.error, fault))
        return -1;
    snprintf(p.name, sizeof(p.name), "%s", name ? name : "unnamed");
    p.gradient_bytes = gradient_mb * 1e6;
    p.state_bytes = state_mb * 1e6;
    p.link_bytes_per_s = gbps * 1e9 / 8;
    p.host_bytes_per_s = host_gbps * 1e9 / 8;
    p.skew_s = skew_ms / 1e3;
    p.hop_s = hop_us / 1e6;
    *profile_out = p;
    return 0;
}

int spotnik_profile_read(const char *path, struct spotnik_profile *profile_out,
                         struct spotnik_fault *fault)
{
    json_t *json;

    if (spotnik_json_load(path, &json, fault))
        return -1;
    int rc = spotnik_profile_parse(path, json, profile_out, fault);
    json_decref(json);
    return rc;
}

json_t *spotnik_profile_json(const struct spotnik_profile *p)
{
    json_t *devices = json_object(), *batches = json_array();

    for (size_t i = 0; i < p->device_count; i++)
        json_object_set_new(devices, p->devices[i].accelerator,
                            json_pack("{s:f, s:f, s:f, s:f}", "samples_per_s",
                                      1 / p->devices[i].sample_s, "fixed_s", p->devices[i].fixed_s,
                                      "batch_most", p->devices[i].batch_most, "contention",
                                      p->devices[i].contention));
    for (size_t i = 0; i < p->batch_count; i++)
        json_array_append_new(batches, json_real(p->batches[i]));
    json_t *json = json_pack(
        "{s:s, s:o, s:o, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}",
        "name", p->name, "devices", devices, "batches", batches, "samples_per_epoch",
        p->samples_per_epoch, "gradient_mb", p->gradient_bytes / 1e6, "state_mb",
        p->state_bytes / 1e6, "reference_batch", p->reference_batch, "skew_ms", p->skew_s * 1e3,
        "link_gbps", p->link_bytes_per_s * 8 / 1e9, "host_gbps", p->host_bytes_per_s * 8 / 1e9,
        "hop_us", p->hop_s * 1e6, "overlap", p->overlap, "startup_s", p->startup_s, "recover_s",
        p->recover_s, "join_s", p->join_s, "checkpoint_every_s", p->checkpoint_every_s, "error",
        p->error);
    if (json && isfinite(p->critical_batch))
        json_object_set_new(json, "critical_batch", json_real(p->critical_batch));
    json_t *measured = p->measured_count ? json_array() : NULL;
    for (size_t i = 0; i < p->measured_count; i++) {
        const struct spotnik_measured *m = &p->measured[i];
        json_array_append_new(measured, json_pack("[s, f, f, f]", m->accelerator, m->devices,
                                                  m->batch, m->step_s));
    }
    if (json && measured)
        json_object_set_new(json, "measured", measured);
    return json;
}

double spotnik_skew_growth(double devices)
{
    return devices > 1 ? 1 + 0.7 * log2(devices / 2) : 0;
}

double spotnik_profile_epochs(const struct spotnik_profile *profile, double epochs, double batch)
{
    if (!isfinite(profile->critical_batch))
        return epochs;
    return epochs * (1 + batch / profile->critical_batch)
           / (1 + profile->reference_batch / profile->critical_batch);
}

const struct spotnik_device *spotnik_profile_device(const struct spotnik_profile *profile,
                                                    const char *accelerator)
{
    for (size_t i = 0; i < profile->device_count; i++)
        if (!strcmp(profile->devices[i].accelerator, *accelerator ? accelerator : "cpu"))
            return &profile->devices[i];
    for (size_t i = 0; i < profile->device_count && *accelerator; i++)
        if (spotnik_accelerator_alike(profile->devices[i].accelerator, accelerator))
            return &profile->devices[i];
    return NULL;
}
