/* The five-point stencil of LAPLACE. */
#include "kernels.h"
#include "multiversion.h"

INLINE void relax_row(const double *restrict above, const double *restrict middle, const double *restrict below,
                      double *restrict new, size_t width)
{
    for (size_t j = 1; j < width - 1; j++)
        new[j] = 0.25 * (above[j] + below[j] + middle[j - 1] + middle[j + 1]);
}

INLINE void relax_body(const double *old, double *new, size_t rows, size_t width)
{
    for (size_t i = 0; i < rows; i++) {
        const double *above = old + i * width;
        relax_row(above, above + width, above + 2 * width, new + i * width, width);
    }
}

MULTIVERSION(relax, (const double *old, double *new, size_t rows, size_t width), (old, new, rows, width))
