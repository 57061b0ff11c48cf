/* Factors and inverses of symmetric matrices whose entries lie near the diagonal.
 *
 * A pair of places is constrained mostly if they are near. With the places in a good order
 * (Cuthill, McKee 1969) column j of a block matrix is empty above some row, and so is its factor:
 * the envelope (George, Liu: Computer Solution of Large Sparse Positive Definite Systems, 1981).
 *
 * A factor U'U = M is kept in strips of WIDTH columns. A strip begins at the first row that any of
 * its columns needs, and its rows follow each other in memory. The diagonal is kept apart, as its
 * reciprocals; what is on it and below it in the strip is zero. Rows are eliminated in panels of
 * PANEL: the sum over all rows above the panel stays in registers.
 */
#include "vectors.h"

typedef struct {
    int n, rows;         /* rows is n, padded to PANEL: the padding is an identity matrix */
    int strips;
    int *top;            /* the first row of each strip, a multiple of PANEL */
    int64_t *at;         /* where each strip begins */
    double *values;
    double *reciprocal;  /* 1 / U(i, i) */
    int64_t room;
} factor_t;

static void factor_free(factor_t *f) {
    free(f->top), free(f->at), free(f->values), free(f->reciprocal);
    *f = (factor_t){0};
}

static int factor_new(factor_t *f, int n) {
    *f = (factor_t){.n = n, .rows = (n + PANEL - 1) / PANEL * PANEL, .strips = padded(n) / WIDTH};
    f->top = NEW(int, f->strips);
    f->at = NEW(int64_t, f->strips + 1);
    f->reciprocal = NEW(double, padded(n));
    return f->top && f->at && f->reciprocal ? 0 : -1;
}

/* Lay out the strips for columns that begin at first[j]. */
static int factor_layout(factor_t *f, const int *first) {
    int64_t total = 0;
    for (int s = 0; s < f->strips; s++) {
        int left = s * WIDTH, right = least(left + WIDTH, f->rows), top = left;
        for (int j = left; j < least(right, f->n); j++) top = least(top, first[j]);
        f->top[s] = top - top % PANEL;
        f->at[s] = total;
        total += (int64_t)(right - f->top[s]) * WIDTH;
    }
    f->at[f->strips] = total;
    if (total > f->room) {
        free(f->values);
        f->room = total + total / 4;
        f->values = NEW(double, f->room);
        if (!f->values) f->room = 0;
    }
    return f->values ? 0 : -1;
}

/* The row i of strip s, and the entry (i, j). */
INLINE double *strip_row(const factor_t *f, int s, int i) {
    return f->values + f->at[s] + (int64_t)(i - f->top[s]) * WIDTH;
}
INLINE double *entry(const factor_t *f, int i, int j) {
    return strip_row(f, j / WIDTH, i) + j % WIDTH;
}
INLINE int strip_columns(const factor_t *f, int s) { return least(WIDTH, f->rows - s * WIDTH); }
INLINE int vectors_in(int columns) { return (columns + LANES - 1) / LANES; }

/* out[r] -= sum over k of factors[k fk + r fr] rows[k], for r < height, `vectors` vectors wide. */
INLINE void tile(double *out, const double *factors, int64_t fk, int64_t fr, const double *rows,
                 int64_t count, const int height, const int vectors) {
    vec sums[PANEL][TILE];
#pragma clang loop unroll(full)
    for (int r = 0; r < height; r++)
#pragma clang loop unroll(full)
        for (int c = 0; c < vectors; c++) sums[r][c] = load(out + r * WIDTH + c * LANES);
    for (int64_t k = 0; k < count; k++) {
        vec row[TILE];
#pragma clang loop unroll(full)
        for (int c = 0; c < vectors; c++) row[c] = load(rows + k * WIDTH + c * LANES);
#pragma clang loop unroll(full)
        for (int r = 0; r < height; r++) {
            double factor = factors[k * fk + r * fr];
#pragma clang loop unroll(full)
            for (int c = 0; c < vectors; c++) sums[r][c] -= factor * row[c];
        }
    }
#pragma clang loop unroll(full)
    for (int r = 0; r < height; r++)
#pragma clang loop unroll(full)
        for (int c = 0; c < vectors; c++) store(out + r * WIDTH + c * LANES, sums[r][c]);
}

INLINE void tiles(double *out, const double *factors, int64_t fk, int64_t fr, const double *rows,
                  int64_t count, const int height, int vectors) {
    int c = 0;
    if (count <= 0) return;
    for (; c + TILE <= vectors; c += TILE)
        tile(out + c * LANES, factors, fk, fr, rows + c * LANES, count, height, TILE);
    out += c * LANES, rows += c * LANES;
    switch (vectors - c) {
#if TILE > 2
    case 3: tile(out, factors, fk, fr, rows, count, height, 3); break;
    case 2: tile(out, factors, fk, fr, rows, count, height, 2); break;
#endif
    case 1: tile(out, factors, fk, fr, rows, count, height, 1); break;
    default: break;
    }
}

static void panel_down(double *out, const double *factors, const double *rows, int64_t count,
                       int vectors) {
    tiles(out, factors, WIDTH, 1, rows, count, PANEL, vectors);
}
static void panel_up(double *out, const double *factors, const double *rows, int64_t count,
                     int vectors) {
    tiles(out, factors, 1, WIDTH, rows, count, PANEL, vectors);
}
/* The same for one row: even and odd rows are summed apart, so that additions overlap. */
INLINE void row_tile(double *out, const double *factors, const double *rows, int64_t count,
                     const int vectors) {
    vec even[TILE], odd[TILE];
#pragma clang loop unroll(full)
    for (int c = 0; c < vectors; c++) even[c] = load(out + c * LANES), odd[c] = (vec){0};
    int64_t k = 0;
    for (; k + 1 < count; k += 2) {
#pragma clang loop unroll(full)
        for (int c = 0; c < vectors; c++) {
            even[c] -= factors[k] * load(rows + k * WIDTH + c * LANES);
            odd[c] -= factors[k + 1] * load(rows + (k + 1) * WIDTH + c * LANES);
        }
    }
    for (; k < count; k++)
#pragma clang loop unroll(full)
        for (int c = 0; c < vectors; c++)
            even[c] -= factors[k] * load(rows + k * WIDTH + c * LANES);
#pragma clang loop unroll(full)
    for (int c = 0; c < vectors; c++) store(out + c * LANES, even[c] + odd[c]);
}

static void one_row(double *out, const double *factors, const double *rows, int64_t count,
                    int vectors) {
    int c = 0;
    if (count <= 0) return;
    for (; c + TILE <= vectors; c += TILE)
        row_tile(out + c * LANES, factors, rows + c * LANES, count, TILE);
    for (; c < vectors; c++) row_tile(out + c * LANES, factors, rows + c * LANES, count, 1);
}

INLINE void subtract(double *out, double factor, const double *row, int vectors) {
    for (int c = 0; c < vectors; c++)
        store(out + c * LANES, load(out + c * LANES) - factor * load(row + c * LANES));
}
INLINE void scale(double *out, double factor, int vectors) {
    for (int c = 0; c < vectors; c++) store(out + c * LANES, load(out + c * LANES) * factor);
}

/* Factor the matrix in place; return 0 if it is positive definite. */
static int cholesky(factor_t *f) {
    for (int s = 0; s < f->strips; s++) {
        int left = s * WIDTH, columns = strip_columns(f, s), right = left + columns;
        int top = f->top[s], vectors = vectors_in(columns);
        for (int i = top; i < right; i += PANEL) {
            int t = i / WIDTH, low = most(top, f->top[t]);
            double *out = strip_row(f, s, i);
            panel_down(out, strip_row(f, t, low) + i % WIDTH, strip_row(f, s, low), i - low,
                       vectors);
            const double *triangle = strip_row(f, t, i) + i % WIDTH;
            for (int a = 0; a < PANEL; a++) {
                double *row = out + a * WIDTH;
                for (int b = 0; b < a; b++)
                    subtract(row, triangle[b * WIDTH + a], out + b * WIDTH, vectors);
                if (t == s) {
                    double pivot = row[i + a - left];
                    if (!(pivot > 0.0)) return 1;
                    f->reciprocal[i + a] = 1.0 / sqrt(pivot);
                }
                scale(row, f->reciprocal[i + a], vectors);
            }
        }
        for (int i = left; i < right; i++)
            memset(strip_row(f, s, i), 0, sizeof(double) * (size_t)(i - left + 1));
    }
    return 0;
}

/* The products of PANEL rows with a vector. */
INLINE void products(const double *rows, const double *x, int from, int vectors, double *out) {
    vec sums[PANEL] = {0};
    for (int c = from; c < vectors; c++) {
        vec here = load(x + c * LANES);
#pragma clang loop unroll(full)
        for (int r = 0; r < PANEL; r++) sums[r] += load(rows + r * WIDTH + c * LANES) * here;
    }
#pragma clang loop unroll(full)
    for (int r = 0; r < PANEL; r++) out[r] = vec_sum(sums[r]);
}

/* The steps of a solve in place, for one panel: forwards with U', backwards with U. */
INLINE void panel_forwards(const factor_t *f, int s, int i, double *x, int vectors) {
    const int left = s * WIDTH;
    const double *rows = strip_row(f, s, left + i);
    double *y = x + left, done[PANEL];
    for (int a = 0; a < PANEL; a++) {
        double value = y[i + a];
        for (int b = 0; b < a; b++) value -= rows[b * WIDTH + i + a] * done[b];
        done[a] = value * f->reciprocal[left + i + a];
    }
    for (int c = (i + PANEL) / LANES; c < vectors; c++) {
        vec here = load(y + c * LANES);
#pragma clang loop unroll(full)
        for (int a = 0; a < PANEL; a++) here -= done[a] * load(rows + a * WIDTH + c * LANES);
        store(y + c * LANES, here);
    }
    for (int a = 0; a < PANEL; a++) y[i + a] = done[a];
}
INLINE void panel_backwards(const factor_t *f, int s, int i, double *x, int vectors) {
    const int left = s * WIDTH;
    const double *rows = strip_row(f, s, left + i);
    double *y = x + left, sums[PANEL], here[PANEL];
    for (int a = 0; a < PANEL; a++) here[a] = y[i + a], y[i + a] = 0.0;
    products(rows, y, (i + PANEL) / LANES, vectors, sums);
    for (int a = PANEL - 1; a >= 0; a--) {
        double value = here[a] - sums[a];
        for (int b = a + 1; b < PANEL; b++) value -= rows[a * WIDTH + i + b] * y[i + b];
        y[i + a] = value * f->reciprocal[left + i + a];
    }
}

/* Solve U'U x = x in place for `count` systems of the same size; the vectors are padded.
 *
 * Each panel waits for the one before it. Several systems in turns fill each other's waiting. */
INLINE void solve_in_turns(const factor_t *const *f, double *const *x, const int count) {
    const int strips = f[0]->strips;
    for (int s = 0; s < strips; s++) {
        const int left = s * WIDTH, columns = strip_columns(f[0], s), vectors = vectors_in(columns);
        for (int a = 0; a < count; a++) {
            const int top = f[a]->top[s];
            one_row(x[a] + left, x[a] + top, strip_row(f[a], s, top), left - top, vectors);
        }
        for (int i = 0; i < columns; i += PANEL)
            for (int a = 0; a < count; a++) panel_forwards(f[a], s, i, x[a], vectors);
    }
    for (int s = strips - 1; s >= 0; s--) {
        const int left = s * WIDTH, columns = strip_columns(f[0], s), vectors = vectors_in(columns);
        for (int i = columns - PANEL; i >= 0; i -= PANEL)
            for (int a = 0; a < count; a++) panel_backwards(f[a], s, i, x[a], vectors);
        for (int a = 0; a < count; a++) {
            double sums[PANEL];
            for (int i = f[a]->top[s]; i < left; i += PANEL) {
                products(strip_row(f[a], s, i), x[a] + left, 0, vectors, sums);
                for (int r = 0; r < PANEL; r++) x[a][i + r] -= sums[r];
            }
        }
    }
}
static void factor_solve(const factor_t *f, double *x) { solve_in_turns(&f, &x, 1); }
static void factor_solve_two(const factor_t *f, double *x, const factor_t *g, double *y) {
    const factor_t *const both[] = {f, g};
    double *const sides[] = {x, y};
    solve_in_turns(both, sides, 2);
}

/* sum += K M^-1 K + w w' / sigma, K = diag(k) without place `skipped`: the lower triangle.
 *
 * By strips of columns of the inverse, which do not depend on each other: strip s is solved forwards
 * and backwards in `strip`, (rows, WIDTH), and stays in the cache. `sum` has rows of padded(n).
 */
static void add_inverse_strip(const factor_t *f, int s, int skipped, const double *k,
                              const double *w, double per_sigma, double *sum, double *strip) {
    int rows = f->rows, width = padded(f->n);
    int left = s * WIDTH, columns = strip_columns(f, s), vectors = vectors_in(columns);
    memset(strip + (int64_t)left * WIDTH, 0, sizeof(double) * (size_t)(rows - left) * WIDTH);
    for (int i = left; i < least(left + WIDTH, f->n); i++)
        if (i != skipped) strip[(int64_t)i * WIDTH + i - left] = k[i];
    for (int i = left; i < rows; i += PANEL) {
        int t = i / WIDTH, low = most(left, f->top[t]);
        double *out = strip + (int64_t)i * WIDTH;
        panel_down(out, strip_row(f, t, low) + i % WIDTH, strip + (int64_t)low * WIDTH,
                   i - low, vectors);
        const double *triangle = strip_row(f, t, i) + i % WIDTH;
        for (int a = 0; a < PANEL; a++) {
            for (int b = 0; b < a; b++)
                subtract(out + a * WIDTH, triangle[b * WIDTH + a], out + b * WIDTH, vectors);
            scale(out + a * WIDTH, f->reciprocal[i + a], vectors);
        }
    }
    for (int i = rows - PANEL; i >= left; i -= PANEL) {
        double *out = strip + (int64_t)i * WIDTH;
        int own = i / WIDTH;
        for (int t = own; t < f->strips; t++) {
            if (f->top[t] > i) continue;
            int from = t == own ? i % WIDTH + PANEL : 0;
            panel_up(out, strip_row(f, t, i) + from, strip + ((int64_t)t * WIDTH + from) * WIDTH,
                     strip_columns(f, t) - from, vectors);
        }
        const double *triangle = strip_row(f, own, i) + i % WIDTH;
        for (int a = PANEL - 1; a >= 0; a--) {
            for (int b = a + 1; b < PANEL; b++)
                subtract(out + a * WIDTH, triangle[a * WIDTH + b], out + b * WIDTH, vectors);
            scale(out + a * WIDTH, f->reciprocal[i + a], vectors);
        }
        for (int a = 0; a < PANEL && i + a < f->n; a++) {
            double *to = sum + (int64_t)(i + a) * width + left;
            double here = w[i + a] * per_sigma, factor = k[i + a];
            for (int c = 0; c < vectors; c++)
                store(to + c * LANES, load(to + c * LANES) +
                                          (factor * load(out + a * WIDTH + c * LANES) +
                                           here * load(w + left + c * LANES)));
        }
    }
}

/* The same for all strips. */
static void add_inverse(const factor_t *f, int skipped, const double *k, const double *w,
                        double per_sigma, double *sum, double *strip) {
    for (int s = 0; s < f->strips; s++)
        add_inverse_strip(f, s, skipped, k, w, per_sigma, sum, strip);
}
