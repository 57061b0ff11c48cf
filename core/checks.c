/* The checks of privacy and the loops of the repair, over all pairs of inputs and all outputs.
 *
 * Rows low <= x < high are computed, so that threads can share them. Nothing here is shared with the
 * solver: these functions judge its results. The file is compiled without fused multiply-add, so
 * that the results have the same bits on every instruction set.
 *
 * Products of matrices with the maximum in place of the sum are computed as usual (Goto, van de
 * Geijn: Anatomy of high-performance matrix multiplication, ACM TOMS 2008): a panel of one operand
 * is packed, and a tile of the result stays in registers.
 */
#include "export.h"
#include "whereish.h"

#include <string.h>

enum {
    LANES = 8,   /* of a vector; the compiler splits it where registers are shorter */
    ROWS = 4,    /* of a tile */
    DEPTH = 512, /* of a panel: 32 KiB, which stay in the nearest cache */
};

typedef double vec __attribute__((vector_size(8 * LANES)));
typedef int64_t bits __attribute__((vector_size(8 * LANES)));

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
/* The larger of two numbers; b if a is NaN. */
static vec larger(vec a, vec b) {
    const bits mask = a > b;
    return (vec)(((bits)a & mask) | ((bits)b & ~mask));
}
static vec all(double value) { return value - (vec){0}; }

static vec load(const double *at, int64_t count) {
    vec v = {0};
    memcpy(&v, at, (size_t)count * sizeof *at);
    return v;
}
static void store(double *at, vec v, int64_t count) { memcpy(at, &v, (size_t)count * sizeof *at); }

/* largest[x, c] = max(largest[x, c], max over r of left[x, r] right[r, c]), for low <= x < high.
 * left has `depth` columns, right and largest have `width`. */
static void max_product(int64_t low, int64_t high, int64_t depth, int64_t width,
                        const double *restrict left, const double *restrict right,
                        double *restrict largest) {
    vec panel[DEPTH];
    for (int64_t c = 0; c < width; c += LANES) {
        const int64_t lanes = least(LANES, width - c);
        for (int64_t r = 0; r < depth; r += DEPTH) {
            const int64_t deep = least(DEPTH, depth - r);
            for (int64_t k = 0; k < deep; k++) panel[k] = load(right + (r + k) * width + c, lanes);
            for (int64_t x = low; x < high; x += ROWS) {
                const double *row[ROWS];
                double *result[ROWS];
                vec best[ROWS];
                for (int a = 0; a < ROWS; a++) {
                    const int64_t at = least(x + a, high - 1); /* the last row may come twice */
                    row[a] = left + at * depth + r;
                    result[a] = largest + at * width + c;
                    best[a] = load(result[a], lanes);
                }
                for (int64_t k = 0; k < deep; k++)
                    for (int a = 0; a < ROWS; a++)
                        best[a] = larger(all(row[a][k]) * panel[k], best[a]);
                for (int a = 0; a < ROWS; a++) store(result[a], best[a], lanes);
            }
        }
    }
}

/* 0 / 0 is NaN, which is not larger than any number. */
void WI_EXPORT(wi_worst_ratios)(int64_t low, int64_t high, int64_t n, int64_t m,
                                const double *matrix, const double *inverse, double *worst) {
    for (int64_t at = low * n; at < high * n; at++) worst[at] = 0.0;
    max_product(low, high, m, n, matrix, inverse, worst);
}

void WI_EXPORT(wi_lift)(int64_t low, int64_t high, int64_t n, int64_t m, const double *matrix,
                        const double *decay, double *lifted) {
    for (int64_t at = low * m; at < high * m; at++) lifted[at] = matrix[at];
    max_product(low, high, n, m, decay, matrix, lifted);
}

void WI_EXPORT(wi_shortfalls)(int64_t low, int64_t high, int64_t n, int64_t m,
                              const double *matrix, const double *factors, double *shortfall) {
    vec panel[DEPTH] = {{0}};
    for (int64_t at = low * n; at < high * n; at++) shortfall[at] = 0.0;
    for (int64_t y = 0; y < n; y += LANES) {
        const int64_t lanes = least(LANES, n - y);
        for (int64_t z = 0; z < m; z += DEPTH) {
            const int64_t deep = least(DEPTH, m - z);
            for (int64_t lane = 0; lane < lanes; lane++) /* the panel is transposed */
                for (int64_t k = 0; k < deep; k++) panel[k][lane] = matrix[(y + lane) * m + z + k];
            for (int64_t x = low; x < high; x += ROWS) {
                const double *row[ROWS];
                double *result[ROWS];
                vec factor[ROWS], most[ROWS];
                for (int a = 0; a < ROWS; a++) {
                    const int64_t at = least(x + a, high - 1);
                    row[a] = matrix + at * m + z;
                    result[a] = shortfall + at * n + y;
                    factor[a] = load(factors + at * n + y, lanes);
                    most[a] = load(result[a], lanes);
                }
                for (int64_t k = 0; k < deep; k++)
                    for (int a = 0; a < ROWS; a++)
                        most[a] = larger(all(row[a][k]) - factor[a] * panel[k], most[a]);
                for (int a = 0; a < ROWS; a++) store(result[a], most[a], lanes);
            }
        }
    }
}

/* Whether count > factor other / 2^shift. Both sides times 2^shift are integers below 2^128, made of
 * two 64-bit halves; the product is the sum of four products of 32 by 32 bits. */
static inline int is_broken(uint64_t count, uint64_t factor, uint64_t other, unsigned shift) {
    const uint64_t f0 = (uint32_t)factor, f1 = factor >> 32, o0 = (uint32_t)other, o1 = other >> 32;
    const uint64_t low = f0 * o0, middle = f1 * o0 + (low >> 32), more = f0 * o1 + (uint32_t)middle;
    const uint64_t product_high = f1 * o1 + (middle >> 32) + (more >> 32);
    const uint64_t product_low = more << 32 | (uint32_t)low;
    const uint64_t count_high = count >> 1 >> (63 - shift), count_low = count << shift;
    return (count_high > product_high) | ((count_high == product_high) & (count_low > product_low));
}

void WI_EXPORT(wi_first_broken)(int64_t low, int64_t high, int64_t n, int64_t m,
                                const uint64_t *restrict counts, const uint64_t *restrict factor,
                                const int64_t *restrict shift, int64_t *restrict worst) {
    for (int64_t x = low; x < high; x++) {
        const uint64_t *here = counts + x * m;
        for (int64_t y = 0; y < n; y++) {
            const uint64_t *other = counts + y * m, f = factor[x * n + y];
            const unsigned s = (unsigned)shift[x * n + y] & 63;
            int any = 0;
            for (int64_t z = 0; z < m; z++) any |= is_broken(here[z], f, other[z], s);
            if (!any) continue;
            int64_t z = 0;
            while (!is_broken(here[z], f, other[z], s)) z++;
            worst[x] = y * m + z;
            break;
        }
    }
}
