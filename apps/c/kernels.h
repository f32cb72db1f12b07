/* The arithmetic of the programs. Every mode of a program calls the same kernel on the same rows or blocks,
 * and a kernel applies its operations to an element in one fixed order, so the modes agree bitwise. Each
 * kernel is compiled for any processor and for AVX2 with fused multiply-add, and picks its version when it is
 * called. */
#ifndef KERNELS_H
#define KERNELS_H

#include <stddef.h>

/* Makes each inner element of the `rows` rows at `new` the mean of its four neighbours in `old`, which starts
 * one row before and ends one row after. Rows are `width` elements long; the first and last element of each
 * stay. */
void relax(const double *old, double *new, size_t rows, size_t width);

/* A block of b × b elements is cut into panels of LANES columns, and the b lines of a panel follow one
 * another. With b = 64 a panel is one page, and all that the innermost loop reads of its right operand is
 * contiguous. Where LANES does not divide b, the last panel is filled up with columns of zeros. */
enum { LANES = 8 };

/* LANES neighbouring elements of one row. */
typedef struct {
    double x[LANES];
} line;

/* How many lines a block has. */
static inline size_t block_lines(size_t b)
{
    return (b + LANES - 1) / LANES * b;
}

/* Where element (i, j) of a block is. */
static inline size_t block_element(size_t b, size_t i, size_t j)
{
    return (j / LANES * b + i) * LANES + j % LANES;
}

/* The four steps of blocked LU, by SPLASH-2's names. As there, U has ones on its diagonal. */

/* Factors the diagonal block: L·U = d. */
void lu0(line *d, size_t b);

/* Solves X·U = x, for a block below the factored diagonal block d. */
void bdiv(const line *d, line *x, size_t b);

/* Solves L·X = x, for a block right of the factored diagonal block d. */
void bmodd(const line *d, line *x, size_t b);

/* Subtracts l·u from c. */
void bmod(const line *l, const line *u, line *c, size_t b);

#endif
