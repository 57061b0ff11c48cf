/* The checks of privacy and the loops of the repair, over all pairs of inputs and all outputs.
 *
 * Rows low <= x < high are computed, so that threads can share them. The loops are written for the
 * compiler's vectoriser. Nothing here is shared with the solver: these functions judge its results.
 */
#include "export.h"
#include "whereish.h"

enum {
    ROWS = 8,    /* rows of a tile: each number that is loaded is used for all of them */
    STRIP = 512, /* numbers of a row that stay in the nearest cache */
};

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* 0 / 0 is NaN, which compares as not larger. */
void WI_EXPORT(wi_worst_ratios)(int64_t low, int64_t high, int64_t n, int64_t m,
                                const double *restrict matrix, const double *restrict inverse,
                                double *restrict worst) {
    for (int64_t first = low; first < high; first += ROWS) {
        const int64_t rows = least(ROWS, high - first);
        for (int64_t left = 0; left < n; left += STRIP) {
            const int64_t width = least(STRIP, n - left);
            double largest[ROWS][STRIP] = {{0.0}};
            for (int64_t z = 0; z < m; z++) {
                const double *other = inverse + z * n + left;
                for (int64_t a = 0; a < rows; a++) {
                    const double here = matrix[(first + a) * m + z];
                    double *best = largest[a];
                    for (int64_t y = 0; y < width; y++) {
                        const double ratio = here * other[y];
                        best[y] = ratio > best[y] ? ratio : best[y];
                    }
                }
            }
            for (int64_t a = 0; a < rows; a++)
                for (int64_t y = 0; y < width; y++) worst[(first + a) * n + left + y] = largest[a][y];
        }
    }
}

/* Whether c > factor other / 2^shift: factor other < (c + 1) 2^shift does not hold exactly, so the
 * 128-bit product is shifted down, which rounds it down to an integer, and c is compared with it. */
static int is_broken(uint64_t c, uint64_t factor, uint64_t other, unsigned shift) {
    const unsigned __int128 allowed = (unsigned __int128)factor * other >> shift;
    return c > allowed;
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

void WI_EXPORT(wi_lift)(int64_t low, int64_t high, int64_t n, int64_t m,
                        const double *restrict matrix, const double *restrict decay,
                        double *restrict lifted) {
    for (int64_t x = low; x < high; x++) {
        double *row = lifted + x * m;
        for (int64_t z = 0; z < m; z++) row[z] = matrix[x * m + z];
        for (int64_t y = 0; y < n; y++) {
            const double factor = decay[x * n + y], *other = matrix + y * m;
            for (int64_t z = 0; z < m; z++) {
                const double lower = factor * other[z];
                row[z] = lower > row[z] ? lower : row[z];
            }
        }
    }
}

void WI_EXPORT(wi_shortfalls)(int64_t low, int64_t high, int64_t n, int64_t m,
                              const double *restrict matrix, const double *restrict factors,
                              double *restrict shortfall) {
    for (int64_t x = low; x < high; x++) {
        for (int64_t y = 0; y < n; y++) {
            const double *here = matrix + x * m, *other = matrix + y * m, factor = factors[x * n + y];
            double most = 0.0;
            for (int64_t z = 0; z < m; z++) {
                const double lost = here[z] - factor * other[z];
                most = lost > most ? lost : most;
            }
            shortfall[x * n + y] = most;
        }
    }
}
