/* LAPLACE: Jacobi iterations on a square grid.
 *
 * size × size inner elements, with a frame of zeros around them, start as a smooth function. In each
 * iteration every inner element becomes the mean of its four neighbours. There are two grids: an iteration
 * reads one and writes the other, then they change roles.
 *
 * Each worker owns neighbouring rows, the same in both grids, and the first and last worker a row of the
 * frame too. It writes those alone, and reads one more row above and below. One barrier per iteration is
 * enough: before it, nobody writes the grid that is read; after it, what was written is only read. */
#include "kernels.h"
#include "program.h"

#include <math.h>
#include <string.h>

enum { SIZE, ITERATIONS };

static size_t width(const struct program *laplace)
{
    return laplace->parameters[SIZE].value + 2;
}

static void plan(struct program *laplace)
{
    size_t w;
    if (__builtin_add_overflow(laplace->parameters[SIZE].value, 2, &w) || __builtin_mul_overflow(w, w, &laplace->length))
        die("the arrays do not fit in the address space; choose a smaller --size");
    laplace->arrays = 2;
    laplace->result = laplace->parameters[ITERATIONS].value % 2;
}

/* The worker owns the rows from *start up to *end. Those of the frame are 0 and size + 1. */
static void own_rows(const struct program *laplace, size_t index, size_t count, size_t *start, size_t *end)
{
    size_t size = laplace->parameters[SIZE].value;
    *start = index == 0 ? 0 : 1 + size * index / count;
    *end = index + 1 == count ? size + 2 : 1 + size * (index + 1) / count;
}

static bool owned(const struct program *laplace, size_t index, size_t count, size_t n, struct run *run)
{
    size_t start, end, w = width(laplace);
    own_rows(laplace, index, count, &start, &end);
    *run = (struct run){start * w, (end - start) * w, start * w};
    return n == 0;
}

static void initialise(const struct program *laplace, const struct worker *worker, double *const arrays[])
{
    size_t start, end, w = width(laplace);
    double step = acos(-1) / (double)w;
    double *cosines = allocate(w);
    for (size_t j = 1; j < w - 1; j++)
        cosines[j] = cos(step * (double)j);
    own_rows(laplace, worker->index, worker->count, &start, &end);
    for (size_t grid = 0; grid < laplace->arrays; grid++) {
        for (size_t i = start; i < end; i++) {
            double *row = arrays[grid] + i * w, sine = sin(step * (double)i);
            bool inner = i > 0 && i < w - 1;
            row[0] = row[w - 1] = 0;
            for (size_t j = 1; j < w - 1; j++)
                row[j] = inner ? sine + cosines[j] : 0;
        }
    }
    release(cosines, w);
}

static void compute(const struct program *laplace, const struct worker *worker, double *const arrays[])
{
    size_t start, end, w = width(laplace);
    own_rows(laplace, worker->index, worker->count, &start, &end);
    start += start == 0;
    end -= end == w;
    for (size_t iteration = 0; iteration < laplace->parameters[ITERATIONS].value; iteration++) {
        const double *old = arrays[iteration % 2];
        double *new = arrays[1 - iteration % 2];
        if (start < end)
            relax(old + (start - 1) * w, new + start * w, end - start, w);
        crew_wait(worker);
    }
}

int main(int argc, char **argv)
{
    struct program laplace = {
        .name = "laplace-c",
        .about = "Jacobi iterations with a five-point stencil on a square grid.",
        .parameters = {[SIZE] = {"size", "inner elements in a row and in a column of the grid", 1, 1022},
                       [ITERATIONS] = {"iterations", "how many iterations", 0, 50}},
        .plan = plan,
        .initialise = initialise,
        .compute = compute,
        .owned = owned,
    };
    return program_main(&laplace, argc, argv);
}
