/* SPDX-License-Identifier: Apache-2.0 */
/* The loop of allreduce_worker.c over Gloo's TCP transport, on loopback or the address in WIRE_ADDRESS. allreduce.py and wire.py compile
 * it where libgloo-dev is installed.
 *
 *     allreduce_gloo RANK SIZE DIRECTORY BYTES ITERATIONS */
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/transport/tcp/device.h>

static double now_s()
{
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int main(int argc, char **argv)
{
    if (argc != 6)
        return 2;
    int rank = std::atoi(argv[1]), size = std::atoi(argv[2]);
    size_t count = std::strtoull(argv[4], nullptr, 10) / sizeof(float);
    long iterations = std::strtol(argv[5], nullptr, 10);
    gloo::transport::tcp::attr attr;
    const char *address = std::getenv("WIRE_ADDRESS");
    attr.hostname = address ? address : "127.0.0.1";
    auto device = gloo::transport::tcp::CreateDevice(attr);
    gloo::rendezvous::FileStore store(argv[3]);
    auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
    context->connectFullMesh(store, device);
    std::vector<float> in(count, static_cast<float>(rank + 1)), out(count);
    gloo::AllreduceOptions options(context);
    options.setInput(in.data(), count);
    options.setOutput(out.data(), count);
    options.setReduceFunction([](void *to, const void *a, const void *b, size_t n) { gloo::sum<float>(to, a, b, n); });
    options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
    for (int i = 0; i < 5; i++)
        gloo::allreduce(options);
    std::vector<double> end(iterations + 1, 0.0);
    end[0] = now_s();
    for (long i = 0; i < iterations; i++) {
        gloo::allreduce(options);
        end[i + 1] = now_s();
    }
    for (long i = 0; i < iterations && rank == 0; i++)
        std::printf("%.9f\n", end[i + 1] - end[i]);
    bool bad = false;
    for (size_t i = 0; i < count; i++)
        bad |= out[i] != static_cast<float>(size * (size + 1) / 2);
    if (rank == 0 || bad)
        std::printf("%s\n", bad ? "wrong" : "right");
    return bad;
}
