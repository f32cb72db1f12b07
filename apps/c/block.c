/* The steps of blocked LU on whole blocks. Each element has the products of its sum subtracted one by one in
 * rising order of the inner index; tiles keep the elements in registers meanwhile and do not change that
 * order. */
#include "kernels.h"
#include "multiversion.h"

#include <string.h>

/* Half a line: a register of 256 bits, or two of 128. */
typedef double half __attribute__((vector_size(32), aligned(8), may_alias));

enum { HALF = LANES / 2 };

/* Rows that the innermost loop keeps in registers: four lines are eight registers of 256 bits, just enough to
 * cover the latency of two fused multiply-adds a cycle. */
enum { ROWS = 4 };

/* Subtracts factor·u from x. */
INLINE void subtract_line(half x[2], double factor, const half u[2])
{
    x[0] -= factor * u[0];
    x[1] -= factor * u[1];
}

/* The `rows` lines of a tile, into registers and back. */
INLINE void load(half tile[][2], const line *c, size_t rows)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t h = 0; h < 2; h++)
            tile[i][h] = *(const half *)&c[i].x[h * HALF];
}

INLINE void store(line *c, half tile[][2], size_t rows)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t h = 0; h < 2; h++)
            *(half *)&c[i].x[h * HALF] = tile[i][h];
}

/* The innermost loop: subtracts from a tile the products of its rows of a block, from the line `l` of the
 * first panel on, with the first `depth` lines of the panel `u`. */
INLINE void subtract_products(half tile[][2], size_t rows, const line *l, const line *u, size_t depth, size_t b)
{
    size_t q = 0;
    for (; q + LANES <= depth; q += LANES, l += b, u += LANES)
        for (size_t p = 0; p < LANES; p++)
            for (size_t i = 0; i < rows; i++)
                subtract_line(tile[i], l[i].x[p], (const half *)u[p].x);
    for (size_t p = 0; p < depth - q; p++)
        for (size_t i = 0; i < rows; i++)
            subtract_line(tile[i], l[i].x[p], (const half *)u[p].x);
}

INLINE void bmod_tile(const line *l, const line *u, line *c, size_t rows, size_t b)
{
    half tile[ROWS][2];
    load(tile, c, rows);
    subtract_products(tile, rows, l, u, b, b);
    store(c, tile, rows);
}

INLINE void bmod_body(const line *l, const line *u, line *c, size_t b)
{
    for (size_t panel = 0; panel < block_lines(b); panel += b) {
        size_t row = 0;
        for (; row + ROWS <= b; row += ROWS)
            bmod_tile(l + row, u + panel, c + panel + row, ROWS, b);
        for (; row < b; row++)
            bmod_tile(l + row, u + panel, c + panel + row, 1, b);
    }
}

MULTIVERSION(bmod, (const line *l, const line *u, line *c, size_t b), (l, u, c, b))

/* Solves for the tile at `x`, given its rows of the block left of it from `solved` on. `corner` is the square
 * of d on the diagonal, without what is not above it. */
INLINE void bdiv_tile(const line *solved, size_t left, const line *d, const line *corner, line *x, size_t rows,
                      size_t b)
{
    half tile[ROWS][2];
    load(tile, x, rows);
    subtract_products(tile, rows, solved, d, left, b);
    for (size_t p = 0; p < LANES; p++)
        for (size_t i = 0; i < rows; i++)
            subtract_line(tile[i], tile[i][p / HALF][p % HALF], (const half *)corner[p].x);
    store(x, tile, rows);
}

INLINE void bdiv_body(const line *d, line *x, size_t b)
{
    for (size_t left = 0; left < b; left += LANES) {
        size_t panel = left / LANES * b, row = 0;
        line corner[LANES] = {{{0}}};
        for (size_t i = 0; i < LANES && left + i < b; i++)
            memcpy(&corner[i].x[i + 1], &d[panel + left + i].x[i + 1], (LANES - 1 - i) * sizeof(double));
        for (; row + ROWS <= b; row += ROWS)
            bdiv_tile(x + row, left, d + panel, corner, x + panel + row, ROWS, b);
        for (; row < b; row++)
            bdiv_tile(x + row, left, d + panel, corner, x + panel + row, 1, b);
    }
}

MULTIVERSION(bdiv, (const line *d, line *x, size_t b), (d, x, b))

/* Solves for the tile at `x[row]`, given the panel `x` above it. */
INLINE void bmodd_tile(const line *d, line *x, size_t row, size_t rows, size_t b)
{
    const double *element = (const double *)d;
    half tile[ROWS][2];
    load(tile, x + row, rows);
    subtract_products(tile, rows, d + row, x, row, b);
    for (size_t i = 0; i < rows; i++) {
        for (size_t p = 0; p < i; p++)
            subtract_line(tile[i], element[block_element(b, row + i, row + p)], tile[p]);
        for (size_t h = 0; h < 2; h++)
            tile[i][h] /= element[block_element(b, row + i, row + i)];
    }
    store(x + row, tile, rows);
}

INLINE void bmodd_body(const line *d, line *x, size_t b)
{
    for (size_t panel = 0; panel < block_lines(b); panel += b) {
        size_t row = 0;
        for (; row + ROWS <= b; row += ROWS)
            bmodd_tile(d, x + panel, row, ROWS, b);
        for (; row < b; row++)
            bmodd_tile(d, x + panel, row, 1, b);
    }
}

MULTIVERSION(bmodd, (const line *d, line *x, size_t b), (d, x, b))

/* Divides line k of the panel `x` by the pivot, in the columns from `first` on, and subtracts its products
 * with the column `l` from the lines below it. */
INLINE void eliminate(const line *l, size_t lane, line *x, size_t first, double pivot, size_t k, size_t b)
{
    line u = {{0}};
    for (size_t j = first; j < LANES; j++)
        u.x[j] = x[k].x[j] /= pivot;
    for (size_t i = k + 1; i < b; i++)
        subtract_line((half *)x[i].x, l[i].x[lane], (const half *)u.x);
}

INLINE void lu0_body(line *d, size_t b)
{
    for (size_t k = 0; k < b; k++) {
        size_t column = k / LANES * b, lane = k % LANES;
        double pivot = d[column + k].x[lane];
        eliminate(d + column, lane, d + column, lane + 1, pivot, k, b);
        for (size_t panel = column + b; panel < block_lines(b); panel += b)
            eliminate(d + column, lane, d + panel, 0, pivot, k, b);
    }
}

MULTIVERSION(lu0, (line *d, size_t b), (d, b))
