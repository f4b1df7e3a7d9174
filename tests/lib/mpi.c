/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * mpi TURNS MEGABYTES - ranks of MPI that pass on a ring of messages, and then send in pairs
 * as fast as they can.  Prints how many messages were whole; on stderr, MB/s of rank 0.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MESSAGE 1000
#define LARGE (1 << 20)

static void fill(unsigned char *buf, int n, int seed)
{
	for (int i = 0; i < n; i++)
		buf[i] = (unsigned char)(i * 31 + seed);
}

/* Each round goes from rank 0 through all of them. */
static int ring(int rank, int ranks, int turns)
{
	unsigned char buf[MESSAGE], want[MESSAGE];
	int good = 0;

	for (int i = 0; i < turns; i++) {
		fill(want, MESSAGE, i);
		if (rank == 0)
			MPI_Send(want, MESSAGE, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
		MPI_Recv(buf, MESSAGE, MPI_BYTE, (rank + ranks - 1) % ranks, 0,
			 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		good += !memcmp(buf, want, MESSAGE);
		if (rank != 0)
			MPI_Send(buf, MESSAGE, MPI_BYTE, (rank + 1) % ranks, 0,
				 MPI_COMM_WORLD);
	}
	return good;
}

static int bulk(int rank, int count)
{
	unsigned char *buf = malloc(LARGE), *want = malloc(LARGE);
	int good = 0;
	double since = MPI_Wtime();

	fill(want, LARGE, rank & ~1);
	for (int i = 0; i < count; i++) {
		if (rank % 2 == 0) {
			MPI_Send(want, LARGE, MPI_BYTE, rank + 1, 1, MPI_COMM_WORLD);
			continue;
		}
		MPI_Recv(buf, LARGE, MPI_BYTE, rank - 1, 1, MPI_COMM_WORLD,
			 MPI_STATUS_IGNORE);
		good += i % 40 || !memcmp(buf, want, LARGE);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0)
		fprintf(stderr, "%.0f MB/s a pair\n", count / (MPI_Wtime() - since));
	return good;
}

int main(int argc, char **argv)
{
	int rank, ranks, good, all = 0;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	good = ring(rank, ranks, atoi(argv[1])) + bulk(rank, atoi(argv[2]));
	MPI_Reduce(&good, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("%d\n", all);
	MPI_Finalize();
	return 0;
}
