/* SPDX-License-Identifier: Apache-2.0 */
/* spotnik kubernetes: the manifest of a training job whose pods come and go. Decides what stands in
 * it; Kubernetes, and Kueue where there is one, decide which pods run. */
#include <getopt.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/options.h"

#define PORT 21210 /* of names in the DNS (discovery/spec.c) */
#define GRACE_S 25 /* clouds kill after 30 */

static const char help[] =
    "Usage: spotnik kubernetes --pods MIN:MAX --image IMAGE [OPTION]... -- COMMAND "
    "[ARGUMENT]...\n\n"
    "Print the manifest of one training job of MAX pods, which come and go. Steps wait until there "
    "are MIN; the first MIN pods\n"
    "begin the job.\n\n"
    "      --pods MIN:MAX      pods that the training needs, and pods to ask for                "
    "[1]\n"
    "  -w, --workers N         workers in each pod                                              "
    "[1]\n"
    "      --group N           processes of a worker, which are one member: a number, or auto: its "
    "GPUs\n"
    "      --image IMAGE       has spotnik and the command\n"
    "      --name NAME         of the job                                                   "
    "[train]\n"
    "      --kind KIND         job, jobset, or trainjob (Kubeflow Trainer 2)                  "
    "[job]\n"
    "      --cpus N            processors of a pod\n"
    "      --memory SIZE       of a pod, such as 64Gi\n"
    "      --gpus N            of a pod (nvidia.com/gpu)\n"
    "      --claim CLAIM       volume for checkpoints, which all pods must see (ReadWriteMany); "
    "none: no checkpoints\n"
    "                                                                                   "
    "[NAME-data]\n"
    "      --checkpoint WHERE  s3://BUCKET/NAME, gs://... or az://... for checkpoints, "
    "and no claim;\n"
    "                          the secret NAME-aws, "
    "if there is one,\n"
    "                          has AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION\n"
    "      --spot              tolerate the taints of GKE's and AKS's spot machines\n"
    "      --queue QUEUE       of Kueue; a job may be admitted with MIN pods\n"
    "      --elastic           with --queue: Kueue lets parallelism change while the job runs\n\n"
    "  spotnik key job.key && kubectl create secret generic train-key --from-file=key=job.key\n"
    "  spotnik kubernetes --pods 2:8 --image registry.example/train:1 --gpus 1 --spot -- python "
    "train.py > job.yaml\n"
    "  kubectl apply -f job.yaml\n";

enum kind { JOB, JOBSET, TRAINJOB };

struct request {
    uint32_t min, max, workers;
    enum kind kind;
    const char *image, *name, *cpus, *memory, *gpus, *claim, *queue, *checkpoint, *group;
    bool spot, elastic;
    char **command;
};

/* ---- options ---- */

static bool is_made_of(const char *text, const char *letters, size_t most)
{
    return *text && strspn(text, letters) == strlen(text) && strlen(text) <= most;
}

static bool take_word(const char **ret, const char *value, const char *letters, size_t most)
{
    *ret = value;
    return is_made_of(value, letters, most);
}

#define SMALL "abcdefghijklmnopqrstuvwxyz0123456789-"
#define AMOUNT "0123456789.EPTGMKikmn"

static bool take_kind(enum kind *ret, const char *value)
{
    static const char *const words[] = { "job", "jobset", "trainjob" };

    for (int i = JOB; i <= TRAINJOB; i++)
        if (!strcmp(value, words[i])) {
            *ret = (enum kind)i;
            return true;
        }
    return false;
}

static bool take(struct request *request, int option, const char *value)
{
    uint64_t number;

    switch (option) {
    case 'n':
        return option_span(value, &request->min, &request->max);
    case 'w':
        if (!option_u64(value, 1, 32, &number))
            return false;
        request->workers = (uint32_t)number;
        return true;
    case 'G':
        request->group = value;
        return option_is_group(value);
    case 'i':
        request->image = value;
        return *value != 0;
    case 'N':
        return take_word(&request->name, value, SMALL, 40) && *value != '-';
    case 'k':
        return take_kind(&request->kind, value);
    case 'c':
        return take_word(&request->cpus, value, AMOUNT, 16);
    case 'm':
        return take_word(&request->memory, value, AMOUNT, 16);
    case 'g':
        return take_word(&request->gpus, value, "0123456789", 4);
    case 'C':
        return take_word(&request->claim, value, SMALL ".", 200);
    case 'b':
        return (!strncmp(value, "s3://", 5) || !strncmp(value, "gs://", 5)
                || !strncmp(value, "az://", 5))
               && take_word(&request->checkpoint, value, SMALL "ABCDEFGHIJKLMNOPQRSTUVWXYZ._:/",
                            500);
    case 'q':
        return take_word(&request->queue, value, SMALL ".", 63);
    case 's':
        request->spot = true;
        return true;
    case 'e':
        request->elastic = true;
        return true;
    default:
        return false;
    }
}

/* 0: go on; 1: help was wanted; 2: refused. */
static int parse(int argc, char **argv, struct request *request)
{
    static const struct option names[] = {
        { "pods", required_argument, NULL, 'n' },   { "workers", required_argument, NULL, 'w' },
        { "image", required_argument, NULL, 'i' },  { "name", required_argument, NULL, 'N' },
        { "kind", required_argument, NULL, 'k' },   { "cpus", required_argument, NULL, 'c' },
        { "memory", required_argument, NULL, 'm' }, { "gpus", required_argument, NULL, 'g' },
        { "group", required_argument, NULL, 'G' },  { "claim", required_argument, NULL, 'C' },
        { "queue", required_argument, NULL, 'q' },  { "checkpoint", required_argument, NULL, 'b' },
        { "spot", no_argument, NULL, 's' },         { "elastic", no_argument, NULL, 'e' },
        { "help", no_argument, NULL, 'h' },         { NULL, 0, NULL, 0 }
    };
    int option;

    opterr = 0;
    while ((option = getopt_long(argc, argv, "+w:h", names, NULL)) != -1) {
        if (option == 'h') {
            fputs(help, stdout);
            return 1;
        }
        if (option == '?')
            return option_refuse("kubernetes", "unknown option, or a value is missing: %s",
                                 argv[optind - 1]);
        if (!take(request, option, optarg))
            return option_refuse("kubernetes", "\"%s\" is no value for %s", optarg,
                                 argv[optind - 2]);
    }
    if (!request->image)
        return option_refuse("kubernetes", "name the image with --image");
    if (request->checkpoint && request->claim)
        return option_refuse("kubernetes", "take --checkpoint or --claim for the checkpoints");
    if (request->elastic && (!request->queue || request->kind != JOB))
        return option_refuse("kubernetes", "--elastic is for --kind job with a --queue");
    if (optind == argc)
        return option_refuse("kubernetes", "what shall the workers run? Put it after --");
    request->command = argv + optind;
    return 0;
}

/* ---- the manifest ---- */

static void put(int indent, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(int indent, const char *format, ...)
{
    va_list arguments;

    printf("%*s", indent, "");
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
}

/* A JSON string is a string of YAML, too. */
static void put_word(const char *word)
{
    json_t *string = json_string(word);
    char *text = string ? json_dumps(string, JSON_ENCODE_ANY) : NULL;

    fputs(text ? text : "\"\"", stdout);
    free(text);
    json_decref(string);
}

static void put_words(char **word)
{
    for (; *word; word++) {
        char *text = malloc(2 * strlen(*word) + 1);
        if (text) {
            option_container_word(*word, text);
            put_word(text);
        }
        free(text);
        if (word[1])
            fputs(", ", stdout);
    }
}

/* Names of the pods that begin the job: one of them that is not up might be in the job already. */
static void put_peers(const struct request *request)
{
    const char *set = request->kind == TRAINJOB ? "$(JOBSET)" : request->name;
    const char *node = request->kind == JOB ? "" : "-node-0";

    if (request->min == 1)
        printf("\"dns://%s%s-0.%s\"", set, node, set);
    else
        printf("\"dns://%s%s-[0-%u].%s\"", set, node, request->min - 1, set);
}

static void put_command(const struct request *request, int indent)
{
    printf("%*scommand: [\"spotnik\", \"run\", \"-n\", \"%u\", ", indent, "", request->workers);
    if (request->group)
        printf("\"--group\", \"%s\", ", request->group);
    printf("\"--respawn\", \"--min\", \"%u\", \"--peers\", ", request->min * request->workers);
    put_peers(request);
    fputs(", \"--key-file\", \"/etc/spotnik/key\", \"--\"", stdout);
    if (request->kind != TRAINJOB) {
        fputs(", ", stdout);
        put_words(request->command);
    }
    puts("]");
    if (request->kind == TRAINJOB) {
        printf("%*sargs: [", indent, "");
        put_words(request->command);
        puts("]");
    }
}

static void put_resources(const struct request *request, int indent)
{
    if (!request->cpus && !request->memory && !request->gpus)
        return;
    put(indent, "resources:");
    if (request->cpus || request->memory)
        put(indent + 2, "requests:");
    if (request->cpus)
        put(indent + 4, "cpu: \"%s\"", request->cpus);
    if (request->memory)
        put(indent + 4, "memory: \"%s\"", request->memory);
    if (request->memory || request->gpus)
        put(indent + 2, "limits:");
    if (request->memory)
        put(indent + 4, "memory: \"%s\"", request->memory);
    if (request->gpus)
        put(indent + 4, "nvidia.com/gpu: \"%s\"", request->gpus);
}

static void put_field(int indent, const char *name, const char *path)
{
    put(indent, "- name: %s", name);
    put(indent + 2, "valueFrom:");
    put(indent + 4, "fieldRef:");
    put(indent + 6, "fieldPath: %s", path);
}

static void put_environment(const struct request *request, int indent)
{
    put(indent, "env:");
    if (request->kind == TRAINJOB) /* the TrainJob's name, which Kubernetes puts in for $(JOBSET) */
        put_field(indent, "JOBSET", "metadata.labels['jobset.sigs.k8s.io/jobset-name']");
    put_field(indent, "POD_IP", "status.podIP");
    put(indent, "- name: SPOTNIK_JOB");
    put(indent, "  value: %s", request->name);
    if (request->checkpoint || request->claim) {
        put(indent, "- name: SPOTNIK_CHECKPOINT");
        put(indent, "  value: %s", request->checkpoint ? request->checkpoint : "/data/checkpoints");
    }
    if (!request->checkpoint)
        return;
    put(indent, "envFrom:");
    put(indent, "- secretRef:");
    put(indent, "    name: %s-aws", request->name);
    put(indent, "    optional: true");
}

/* A member answers as soon as it looks for its job, however many readers hold the page open. It may
 * take an hour to begin, and five minutes to be replaced. 1: no member answered. */
static void put_probes(const struct request *request, int indent)
{
    static const char *const probes[][2] = {
        { "startupProbe", "periodSeconds: 10, failureThreshold: 360" },
        { "livenessProbe", "periodSeconds: 30, failureThreshold: 10" }
    };

    for (int i = 0; i < 2; i++) {
        printf("%*s%s: {%s, timeoutSeconds: 10, exec: {command: [sh, -c, \"spotnik status --peers ",
               indent, "", probes[i][0], probes[i][1]);
        for (uint32_t worker = 0; worker < request->workers; worker++)
            printf("%s$POD_IP:%u", worker ? "," : "", PORT + worker);
        puts(" --key-file /etc/spotnik/key > /dev/null; [ $? != 1 ]\"]}}");
    }
}

static void put_volumes(const struct request *request, int indent)
{
    put(indent, "volumes:");
    put(indent, "- name: key");
    put(indent, "  secret:");
    put(indent, "    secretName: %s-key", request->name);
    put(indent, "    defaultMode: 0400");
    if (!request->claim)
        return;
    put(indent, "- name: data");
    put(indent, "  persistentVolumeClaim:");
    put(indent, "    claimName: %s", request->claim);
}

static void put_container(const struct request *request, int indent)
{
    put(indent, "- name: %s", request->kind == TRAINJOB ? "node" : "worker");
    printf("%*simage: ", indent + 2, "");
    put_word(request->image);
    putchar('\n');
    put_command(request, indent + 2);
    put_environment(request, indent + 2);
    put(indent + 2, "ports:");
    for (uint32_t i = 0; i < request->workers; i++) {
        put(indent + 2, "- containerPort: %u", PORT + i);
        put(indent + 2, "  protocol: TCP");
    }
    put_probes(request, indent + 2);
    put_resources(request, indent + 2);
    put(indent + 2, "volumeMounts:");
    put(indent + 2, "- name: key");
    put(indent + 2, "  mountPath: /etc/spotnik");
    put(indent + 2, "  readOnly: true");
    if (request->claim) {
        put(indent + 2, "- name: data");
        put(indent + 2, "  mountPath: /data");
    }
}

static void put_pod(const struct request *request, int indent)
{
    if (request->kind == JOB)
        put(indent, "subdomain: %s", request->name);
    put(indent, "restartPolicy: Never");
    put(indent, "terminationGracePeriodSeconds: %d", GRACE_S);
    put(indent, "automountServiceAccountToken: false");
    if (request->spot) {
        put(indent, "tolerations:");
        put(indent, "- {key: cloud.google.com/gke-spot, operator: Exists}");
        put(indent, "- {key: kubernetes.azure.com/scalesetpriority, operator: Exists}");
    }
    put(indent, "containers:");
    put_container(request, indent);
    put_volumes(request, indent);
}

/* What preempts a pod, and 75, put no mark against the job; 74 ends it. It is over when MIN pods
 * have ended with 0: one that waits for a machine holds up nothing. */
static void put_policies(const struct request *request, int indent)
{
    put(indent, "completionMode: Indexed");
    put(indent, "backoffLimit: 1000");
    put(indent, "successPolicy:");
    put(indent, "  rules:");
    put(indent, "  - succeededCount: %u", request->min);
    put(indent, "podFailurePolicy:");
    put(indent, "  rules:");
    put(indent, "  - action: Ignore");
    put(indent, "    onPodConditions:");
    put(indent, "    - type: DisruptionTarget");
    put(indent, "      status: \"True\"");
    put(indent, "  - action: Ignore");
    put(indent, "    onExitCodes:");
    put(indent, "      containerName: %s", request->kind == TRAINJOB ? "node" : "worker");
    put(indent, "      operator: In");
    put(indent, "      values: [75]");
    put(indent, "  - action: FailJob # ended, and completed no checkpoint: it would train anew");
    put(indent, "    onExitCodes:");
    put(indent, "      containerName: %s", request->kind == TRAINJOB ? "node" : "worker");
    put(indent, "      operator: In");
    put(indent, "      values: [74]");
}

static void put_counts(const struct request *request, int indent)
{
    put(indent, "completions: %u", request->max);
    put(indent, "parallelism: %u", request->max);
}

static void put_head(const char *version, const char *kind, const char *name)
{
    put(0, "apiVersion: %s", version);
    put(0, "kind: %s", kind);
    put(0, "metadata:");
    put(0, "  name: %s", name);
}

/* Kueue reads these from the object that it admits. It takes a minimum only below parallelism. */
static void put_queue(const struct request *request)
{
    if (!request->queue)
        return;
    put(2, "labels:");
    put(2, "  kueue.x-k8s.io/queue-name: %s", request->queue);
    if (request->elastic) {
        put(2, "annotations:");
        put(2, "  kueue.x-k8s.io/elastic-job: \"true\"");
    } else if (request->kind == JOB && request->min < request->max) {
        put(2, "annotations:");
        put(2, "  kueue.x-k8s.io/job-min-parallelism: \"%u\"", request->min);
        put(2, "  kueue.x-k8s.io/job-completions-equal-parallelism: \"true\"");
    }
}

static void put_job(const struct request *request)
{
    put_head("v1", "Service", request->name);
    put(0, "spec:");
    put(0, "  clusterIP: None");
    put(0, "  publishNotReadyAddresses: true");
    put(0, "  selector:");
    put(0, "    job-name: %s", request->name);
    put(0, "---");
    put_head("batch/v1", "Job", request->name);
    put_queue(request);
    put(0, "spec:");
    put_counts(request, 2);
    put_policies(request, 2);
    put(2, "template:");
    put(2, "  metadata:");
    put(2, "    labels:");
    put(2, "      job-name: %s", request->name);
    put(2, "  spec:");
    put_pod(request, 6);
}

/* The set of one group of pods; a pod that goes is no failure of it, since its job replaces it. */
static void put_set(const struct request *request, int indent)
{
    bool trains = request->kind == TRAINJOB;

    put(indent, "network:");
    put(indent, "  enableDNSHostnames: true");
    put(indent, "  publishNotReadyAddresses: true");
    put(indent, "failurePolicy:");
    put(indent, "  maxRestarts: 0");
    put(indent, "replicatedJobs:");
    put(indent, "- name: node");
    put(indent, "  replicas: 1");
    put(indent, "  template:");
    if (trains) {
        put(indent, "    metadata:");
        put(indent, "      labels:");
        put(indent, "        trainer.kubeflow.org/trainjob-ancestor-step: trainer");
    }
    put(indent, "    spec:");
    if (!trains)
        put_counts(request, indent + 6);
    put_policies(request, indent + 6);
    put(indent, "      template:");
    put(indent, "        spec:");
    put_pod(request, indent + 10);
}

static void put_jobset(const struct request *request)
{
    put_head("jobset.x-k8s.io/v1alpha2", "JobSet", request->name);
    put_queue(request);
    put(0, "spec:");
    put_set(request, 2);
}

static void put_trainjob(const struct request *request)
{
    char runtime[64];

    snprintf(runtime, sizeof(runtime), "spotnik-%s", request->name);
    put_head("trainer.kubeflow.org/v1alpha1", "TrainingRuntime", runtime);
    put(0, "  labels:");
    put(0, "    trainer.kubeflow.org/framework: torch");
    put(0, "spec:");
    put(0, "  mlPolicy:");
    put(0, "    numNodes: %u", request->max);
    put(0, "  template:");
    put(0, "    spec:");
    put_set(request, 6);
    put(0, "---");
    put_head("trainer.kubeflow.org/v1alpha1", "TrainJob", request->name);
    put_queue(request);
    put(0, "spec:");
    put(0, "  runtimeRef:");
    put(0, "    apiGroup: trainer.kubeflow.org");
    put(0, "    kind: TrainingRuntime");
    put(0, "    name: %s", runtime);
}

int main(int argc, char **argv)
{
    struct request request = { .min = 1, .max = 1, .workers = 1, .name = "train" };
    char claim[64];
    int refused = parse(argc, argv, &request);

    if (refused)
        return refused == 1 ? 0 : refused;
    snprintf(claim, sizeof(claim), "%s-data", request.name);
    if (request.checkpoint)
        request.claim = "none";
    request.claim = !request.claim ? claim : strcmp(request.claim, "none") ? request.claim : NULL;
    put(0, "# Written by spotnik kubernetes: one training job of %u pods that come and go.",
        request.max);
    put(0, "# spotnik key job.key && kubectl create secret generic %s-key --from-file=key=job.key",
        request.name);
    if (request.kind == JOB)
        put_job(&request);
    else if (request.kind == JOBSET)
        put_jobset(&request);
    else
        put_trainjob(&request);
    return fflush(stdout) ? 1 : 0;
}
