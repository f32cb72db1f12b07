/* MPI behind functions whose arguments are plain numbers, so that a program can load it at run time
 * (../src/mpi.rs): MPI's own types differ from one MPI library to the next. Compiled with the mpicc of each
 * library; MPI's default of ending the job at an error is left as it is. */
#include <mpi.h>
#include <stdint.h>
#include <string.h>

/* Both in the order of `numbers` in ../src/mpi.rs. */
static MPI_Datatype element(int number) {
    const MPI_Datatype types[] = {MPI_INT8_T,  MPI_UINT8_T, MPI_INT16_T,  MPI_UINT16_T, MPI_INT32_T,
                                  MPI_UINT32_T, MPI_INT64_T, MPI_UINT64_T, MPI_FLOAT,    MPI_DOUBLE};
    return types[number];
}

static MPI_Op operation(int number) {
    const MPI_Op operations[] = {MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX, MPI_BAND, MPI_BOR, MPI_BXOR};
    return operations[number];
}

/* A request in 64 bits: it is a pointer in one library, and an int in another. */
_Static_assert(sizeof(MPI_Request) <= sizeof(uint64_t), "a request fits 64 bits");

static uint64_t packed(MPI_Request request) {
    uint64_t bits = 0;
    memcpy(&bits, &request, sizeof request);
    return bits;
}

static MPI_Request unpacked(uint64_t bits) {
    MPI_Request request;
    memcpy(&request, &bits, sizeof request);
    return request;
}

int shim_init(void) { return MPI_Init(NULL, NULL); }

int shim_finalize(void) { return MPI_Finalize(); }

int shim_rank(void) {
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank;
}

int shim_size(void) {
    int size;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    return size;
}

int shim_send(const void *bytes, int length, int to, int tag) {
    return MPI_Send(bytes, length, MPI_BYTE, to, tag, MPI_COMM_WORLD);
}

int shim_receive(void *into, int length, int from, int tag) {
    return MPI_Recv(into, length, MPI_BYTE, from, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int shim_start_send(const void *bytes, int length, int to, int tag, uint64_t *request) {
    MPI_Request own;
    int outcome = MPI_Isend(bytes, length, MPI_BYTE, to, tag, MPI_COMM_WORLD, &own);
    *request = packed(own);
    return outcome;
}

int shim_start_receive(void *into, int length, int from, int tag, uint64_t *request) {
    MPI_Request own;
    int outcome = MPI_Irecv(into, length, MPI_BYTE, from, tag, MPI_COMM_WORLD, &own);
    *request = packed(own);
    return outcome;
}

int shim_wait(uint64_t request) {
    MPI_Request own = unpacked(request);
    return MPI_Wait(&own, MPI_STATUS_IGNORE);
}

/* Whether the operation is over; it is not to be asked for again then. */
int shim_test(uint64_t request, int *over) {
    MPI_Request own = unpacked(request);
    return MPI_Test(&own, over, MPI_STATUS_IGNORE);
}

int shim_barrier(void) { return MPI_Barrier(MPI_COMM_WORLD); }

int shim_broadcast(void *bytes, int length, int root) {
    return MPI_Bcast(bytes, length, MPI_BYTE, root, MPI_COMM_WORLD);
}

int shim_reduce(const void *in, void *out, int count, int type, int op, int root) {
    return MPI_Reduce(in, out, count, element(type), operation(op), root, MPI_COMM_WORLD);
}

int shim_all_reduce(const void *in, void *out, int count, int type, int op) {
    return MPI_Allreduce(in, out, count, element(type), operation(op), MPI_COMM_WORLD);
}

int shim_gather(const void *in, void *out, int length, int root) {
    return MPI_Gather(in, length, MPI_BYTE, out, length, MPI_BYTE, root, MPI_COMM_WORLD);
}

int shim_all_gather(const void *in, void *out, int length) {
    return MPI_Allgather(in, length, MPI_BYTE, out, length, MPI_BYTE, MPI_COMM_WORLD);
}

int shim_all_gather_v(const void *in, int length, void *out, const int *lengths, const int *places) {
    return MPI_Allgatherv(in, length, MPI_BYTE, out, lengths, places, MPI_BYTE, MPI_COMM_WORLD);
}

int shim_all_to_all(const void *in, void *out, int length) {
    return MPI_Alltoall(in, length, MPI_BYTE, out, length, MPI_BYTE, MPI_COMM_WORLD);
}

int shim_all_to_all_v(const void *in, const int *to, const int *to_places, void *out, const int *from,
                      const int *from_places) {
    return MPI_Alltoallv(in, to, to_places, MPI_BYTE, out, from, from_places, MPI_BYTE, MPI_COMM_WORLD);
}

int shim_reduce_scatter(const void *in, void *out, const int *counts, int type, int op) {
    return MPI_Reduce_scatter(in, out, counts, element(type), operation(op), MPI_COMM_WORLD);
}
