/* SPDX-License-Identifier: Apache-2.0 */
/* The loop of allreduce_worker.c over MPI: one program for Open MPI and MPICH. allreduce.py
 * compiles it where an MPI is installed.
 *
 *     mpirun -n N allreduce_mpi BYTES ITERATIONS */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define WARM_UP 5

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc != 3)
        return 2;
    int rank, size, bad = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    size_t count = strtoull(argv[1], NULL, 10) / sizeof(float);
    long iterations = strtol(argv[2], NULL, 10);
    float *in = calloc(count, sizeof *in), *out = calloc(count, sizeof *out);
    double *end = calloc((size_t)iterations + 1, sizeof *end);
    if (in == NULL || out == NULL || end == NULL)
        return 1;
    for (size_t i = 0; i < count; i++)
        in[i] = (float)(rank + 1);
    for (int i = 0; i < WARM_UP; i++)
        MPI_Allreduce(in, out, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    end[0] = MPI_Wtime();
    for (long i = 0; i < iterations; i++) {
        MPI_Allreduce(in, out, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        end[i + 1] = MPI_Wtime();
    }
    for (long i = 0; i < iterations && rank == 0; i++)
        printf("%.9f\n", end[i + 1] - end[i]);
    for (size_t i = 0; i < count; i++)
        bad |= out[i] != (float)(size * (size + 1) / 2);
    if (rank == 0 || bad)
        printf("%s\n", bad ? "wrong" : "right");
    MPI_Finalize();
    return bad;
}
