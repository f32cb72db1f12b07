/* LU: SPLASH-2's blocked LU factorisation without pivoting, with contiguous blocks.
 *
 * A dense size × size matrix, cut into square blocks, becomes L·U in place. Step k factors the diagonal block
 * (k, k), solves with it for the perimeter (the blocks below and right of it), and subtracts the products of
 * perimeter blocks from all blocks below and right of those.
 *
 * The workers form a grid, as square as possible, that is laid over the blocks again and again; who lies on a
 * block owns it and alone writes to it. The blocks of an owner follow one another, column by column, and the
 * owners too: who reads the owner's part of a column walks forward.
 *
 * One barrier per step. The straightforward program has two: perimeter blocks wait for the factored diagonal
 * block, and the blocks inside for the perimeter. Here each worker that owns perimeter blocks factors the
 * diagonal block itself, in a private copy, which costs less than to wait for it. For that it needs the block
 * as step k-2 left it, and subtracts the product of step k-1 in its copy too. So between barriers k-1 and k a
 * worker brings up to step k-1 its copy of block (k, k), which it then factors, its blocks of perimeter k,
 * for which it then solves, and its blocks inside. Others may read block (k, k) until barrier k, so its owner
 * stores the factors after that barrier. */
#include "kernels.h"
#include "program.h"

#include <stdint.h>
#include <string.h>

enum { SIZE, BLOCK };

/* Which blocks a worker owns, and where they are. */
struct layout {
    size_t blocks;        /* in a row or column of the matrix */
    size_t rows, columns; /* of the grid of workers */
    size_t block_length;  /* in elements */
};

static struct layout make_layout(const struct program *lu, size_t workers)
{
    size_t b = lu->parameters[BLOCK].value, rows = 1;
    for (size_t divisor = 1; divisor <= workers / divisor; divisor++)
        if (workers % divisor == 0)
            rows = divisor;
    return (struct layout){lu->parameters[SIZE].value / b, rows, workers / rows, block_lines(b) * LANES};
}

static size_t owner(const struct layout *layout, size_t i, size_t j)
{
    return i % layout->rows + j % layout->columns * layout->rows;
}

/* How many of 0, …, count - 1 are `place` modulo `places`. */
static size_t share(size_t count, size_t place, size_t places)
{
    return (count + places - 1 - place) / places;
}

/* How many of 0, …, count - 1 are less than `place` modulo `places`. */
static size_t share_before(size_t count, size_t place, size_t places)
{
    size_t rest = count % places;
    return count / places * place + (place < rest ? place : rest);
}

/* Where the elements of block (i, j) start. Before them are the blocks of all owners in earlier columns of
 * the grid, those of earlier owners in its own column, and the owner's own in earlier columns of the matrix
 * and rows above. */
static size_t locate(const struct layout *layout, size_t i, size_t j)
{
    size_t row = i % layout->rows, column = j % layout->columns;
    size_t own_columns = share(layout->blocks, column, layout->columns);
    size_t height = share(layout->blocks, row, layout->rows);
    size_t place = share_before(layout->blocks, column, layout->columns) * layout->blocks;
    place += share_before(layout->blocks, row, layout->rows) * own_columns;
    place += j / layout->columns * height + i / layout->rows;
    return place * layout->block_length;
}

static void plan(struct program *lu)
{
    size_t size = lu->parameters[SIZE].value, b = lu->parameters[BLOCK].value, blocks;
    if (size % b != 0)
        die("--size %zu is not a multiple of --block %zu", size, b);
    if (__builtin_mul_overflow(size / b, size / b, &blocks) ||
        __builtin_mul_overflow(blocks, b, &blocks) ||
        __builtin_mul_overflow(blocks, (b + LANES - 1) / LANES * LANES, &lu->length))
        die("the arrays do not fit in the address space; choose a smaller --size");
    lu->arrays = 1;
    lu->result = 0;
}

static bool owned(const struct program *lu, size_t index, size_t count, size_t n, struct run *run)
{
    struct layout here = make_layout(lu, count), alone = make_layout(lu, 1);
    size_t row = index % here.rows, column = index / here.rows;
    size_t height = share(here.blocks, row, here.rows);
    if (n >= height * share(here.blocks, column, here.columns))
        return false;
    size_t i = row + n % height * here.rows, j = column + n / height * here.columns;
    *run = (struct run){locate(&here, i, j), here.block_length, locate(&alone, i, j)};
    return true;
}

/* Makes neighbouring numbers unlike each other (the finaliser of SplitMix64). */
static uint64_t mix(uint64_t x)
{
    x = (x + 1) * 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

/* Element (i, j) of the matrix to factor: between 0 and 1, but larger on the diagonal than its row's sum, so
 * that no pivot comes near zero. */
static double element(size_t size, size_t i, size_t j)
{
    double random = (double)(mix(i * size + j) >> 11) * 0x1p-53;
    return i == j ? random + (double)size : random;
}

static void initialise(const struct program *lu, const struct worker *worker, double *const arrays[])
{
    size_t size = lu->parameters[SIZE].value, b = lu->parameters[BLOCK].value;
    struct layout layout = make_layout(lu, worker->count);
    size_t column = worker->index / layout.rows, row = worker->index % layout.rows;
    for (size_t j = column; j < layout.blocks; j += layout.columns) {
        for (size_t i = row; i < layout.blocks; i += layout.rows) {
            double *block = arrays[0] + locate(&layout, i, j);
            for (size_t r = 0; r < b; r++)
                for (size_t c = 0; c < b; c++)
                    block[block_element(b, r, c)] = element(size, i * b + r, j * b + c);
        }
    }
}

/* What a worker works with. */
struct task {
    struct layout layout;
    double *matrix;
    line *diagonal; /* the worker's copy of the step's diagonal block */
    size_t index, b;
};

static bool owns(const struct task *task, size_t i, size_t j)
{
    return owner(&task->layout, i, j) == task->index;
}

static line *block(const struct task *task, size_t i, size_t j)
{
    return (line *)(task->matrix + locate(&task->layout, i, j));
}

/* Brings `target`, which is block (i, j) or a copy of it, up to step k-1. */
static void update(const struct task *task, size_t k, size_t i, size_t j, line *target)
{
    if (k > 0)
        bmod((const line *)block(task, i, k - 1), (const line *)block(task, k - 1, j), target, task->b);
}

/* All that a worker does between barriers k-1 and k. */
static void step(const struct task *task, size_t k)
{
    size_t n = task->layout.blocks;
    const line *d = (const line *)task->diagonal;
    bool on_perimeter = owns(task, k, k);
    for (size_t i = k + 1; i < n; i++)
        on_perimeter |= owns(task, i, k) || owns(task, k, i);
    if (on_perimeter) {
        memcpy(task->diagonal, block(task, k, k), task->layout.block_length * sizeof(double));
        update(task, k, k, k, task->diagonal);
        lu0(task->diagonal, task->b);
    }
    for (size_t i = k + 1; i < n; i++) {
        if (owns(task, i, k)) {
            update(task, k, i, k, block(task, i, k));
            bdiv(d, block(task, i, k), task->b);
        }
    }
    for (size_t j = k + 1; j < n; j++) {
        if (owns(task, k, j)) {
            update(task, k, k, j, block(task, k, j));
            bmodd(d, block(task, k, j), task->b);
        }
    }
    for (size_t j = k + 1; j < n; j++)
        for (size_t i = k + 1; i < n; i++)
            if (owns(task, i, j))
                update(task, k, i, j, block(task, i, j));
}

static void compute(const struct program *lu, const struct worker *worker, double *const arrays[])
{
    struct layout layout = make_layout(lu, worker->count);
    double *diagonal = allocate(layout.block_length);
    struct task task = {layout, arrays[0], (line *)diagonal, worker->index, lu->parameters[BLOCK].value};
    for (size_t k = 0; k < layout.blocks; k++) {
        step(&task, k);
        if (k + 1 < layout.blocks)
            crew_wait(worker);
        if (owns(&task, k, k))
            memcpy(block(&task, k, k), diagonal, layout.block_length * sizeof(double));
    }
    crew_wait(worker);
    release(diagonal, layout.block_length);
}

int main(int argc, char **argv)
{
    struct program lu = {
        .name = "lu-c",
        .about = "Blocked LU factorisation without pivoting, with contiguous blocks.",
        .parameters = {[SIZE] = {"size", "rows and columns of the matrix", 1, 2048},
                       [BLOCK] = {"block", "rows and columns of a block", 1, 64}},
        .plan = plan,
        .initialise = initialise,
        .compute = compute,
        .owned = owned,
    };
    return program_main(&lu, argc, argv);
}
