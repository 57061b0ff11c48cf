/* Second-order cones of dimension 3, and the lattice whose corners they belong to.
 *
 * The cone Q is { x : x0 >= |(x1, x2)| }. Its Jordan product is x o y = (x'y, x0 y1 + y0 x1, x0 y2 +
 * y0 x2), with unit e = (1, 0, 0) and determinant x0^2 - x1^2 - x2^2. A slack s and a multiplier y
 * inside Q have one scaling W, symmetric, with W y = W^-1 s = lambda (Nesterov, Todd: Self-scaled
 * barriers and interior-point methods for convex programming, Math. Oper. Res. 1997). Alizadeh,
 * Goldfarb: Second-order cone programming, Math. Program. 2003, has all of this for this cone.
 */
#include "vectors.h"

INLINE double dot3(const double *x, const double *y) {
    return x[0] * y[0] + x[1] * y[1] + x[2] * y[2];
}
INLINE double determinant(const double *x) {
    double length = sqrt(x[1] * x[1] + x[2] * x[2]);
    return (x[0] - length) * (x[0] + length);
}
INLINE void jordan_product(const double *x, const double *y, double *out) {
    double first = dot3(x, y);
    double second = x[0] * y[1] + y[0] * x[1], third = x[0] * y[2] + y[0] * x[2];
    out[0] = first, out[1] = second, out[2] = third;
}

/* The scaling of one cone: W = eta [w0, w'; w, I + w w' / (1 + w0)], with w0^2 - |w|^2 = 1. */
typedef struct {
    double w[3], per_eta;
    double lambda[3], lambda_det;
} scaling_t;

/* Return 0 if s and y are inside the cone. */
INLINE int scale_cone(const double *s, const double *y, scaling_t *out) {
    double det_s = determinant(s), det_y = determinant(y);
    if (!(det_s > 0.0 && det_y > 0.0 && s[0] > 0.0 && y[0] > 0.0)) return 1;
    double root_s = sqrt(det_s), root_y = sqrt(det_y), per_s = 1.0 / root_s, per_y = 1.0 / root_y;
    double s0 = s[0] * per_s, y0 = y[0] * per_y;
    double gamma = sqrt(0.5 * (1.0 + dot3(s, y) * per_s * per_y)), per_gamma = 0.5 / gamma;
    double root = sqrt(root_s * root_y), per_sum = root / (s0 + y0 + 2.0 * gamma);
    out->w[0] = (s0 + y0) * per_gamma;
    out->lambda[0] = root * gamma;
    for (int a = 1; a < 3; a++) {
        double s_a = s[a] * per_s, y_a = y[a] * per_y;
        out->w[a] = (s_a - y_a) * per_gamma;
        out->lambda[a] = per_sum * ((gamma + y0) * s_a + (gamma + s0) * y_a);
    }
    out->per_eta = sqrt(root_y * per_s);
    out->lambda_det = root_s * root_y;
    return !(out->lambda_det > 0.0 && isfinite(out->per_eta + out->w[0] + out->lambda[0]));
}

/* W^-1 x. */
INLINE void unscale(const scaling_t *c, const double *x, double *out) {
    double along = c->w[1] * x[1] + c->w[2] * x[2];
    double share = x[0] - along / (1.0 + c->w[0]);
    out[0] = (c->w[0] * x[0] - along) * c->per_eta;
    out[1] = (x[1] - share * c->w[1]) * c->per_eta;
    out[2] = (x[2] - share * c->w[2]) * c->per_eta;
}

/* The x with lambda o x = right. */
INLINE void jordan_divide(const scaling_t *c, const double *right, double *out) {
    const double *l = c->lambda;
    double first = (l[0] * right[0] - l[1] * right[1] - l[2] * right[2]) / c->lambda_det;
    double per = 1.0 / l[0];
    out[1] = (right[1] - first * l[1]) * per, out[2] = (right[2] - first * l[2]) * per;
    out[0] = first;
}

/* 1 / the longest step from lambda along d that stays in the cone; 0 or less for any length. */
INLINE double per_longest(const scaling_t *c, const double *d) {
    const double *l = c->lambda;
    double per = 1.0 / sqrt(c->lambda_det);
    double inner = (l[0] * d[0] - l[1] * d[1] - l[2] * d[2]) * per;
    double share = (inner + d[0]) / (l[0] * per + 1.0) * per;
    double x = d[1] - share * l[1], y = d[2] - share * l[2];
    return (sqrt(x * x + y * y) - inner) * per;
}

/* One corner of one cell: the vertex v and its neighbours a and b. In units of epsilon k_v, the
 * slack of its cone is (1, at_a (k_a / k_v - 1), at_b (k_b / k_v - 1)). On a line one of the
 * neighbours is missing: its factor is 0. */
typedef struct {
    int v, a, b;
    double at_a, at_b; /* 1 / (epsilon spacing) */
} corner_t;

typedef struct {
    int n;
    int64_t corners;
    corner_t *corner;     /* by cell, rows of cells first: lower left, lower right, upper ... */
    int32_t *place;       /* (n) where the caller has a vertex: here they run along the shorter side */
    int *first;           /* (n) the envelope of a block matrix */
    int64_t *start;       /* (n + 1), and the corners whose cones a vertex belongs to */
    int32_t *member;
} lattice_t;

static void lattice_free(lattice_t *l) {
    free(l->corner), free(l->place), free(l->first), free(l->start), free(l->member);
    *l = (lattice_t){0};
}

static int64_t lattice_corners(int32_t nx, int32_t ny) {
    if (nx > 1 && ny > 1) return 4 * (int64_t)(nx - 1) * (ny - 1);
    return 2 * ((int64_t)nx * ny - 1);
}

static int lattice_new(lattice_t *l, int nx, int ny, const double *xs, const double *ys,
                       double epsilon) {
    int n = nx * ny, along_x = nx <= ny;
    *l = (lattice_t){.n = n, .corners = lattice_corners(nx, ny)};
    l->corner = NEW(corner_t, l->corners), l->place = NEW(int32_t, n), l->first = NEW(int, n);
    l->start = NEW(int64_t, n + 1), l->member = NEW(int32_t, 3 * l->corners);
    if (!l->corner || !l->place || !l->first || !l->start || !l->member) return -1;
#define VERTEX(ix, iy) (along_x ? (iy) * nx + (ix) : (ix) * ny + (iy))
    for (int iy = 0; iy < ny; iy++)
        for (int ix = 0; ix < nx; ix++) l->place[VERTEX(ix, iy)] = iy * nx + ix;
    int64_t at = 0;
    for (int iy = 0; iy < most(1, ny - 1); iy++)
        for (int ix = 0; ix < most(1, nx - 1); ix++)
            for (int up = 0; up < least(2, ny); up++)
                for (int right = 0; right < least(2, nx); right++) {
                    corner_t *c = l->corner + at++;
                    c->v = VERTEX(ix + right, iy + up);
                    if (nx > 1) {
                        c->a = VERTEX(ix + 1 - right, iy + up);
                        c->at_a = 1.0 / (epsilon * (xs[ix + 1] - xs[ix]));
                    }
                    if (ny > 1) {
                        c->b = VERTEX(ix + right, iy + 1 - up);
                        c->at_b = 1.0 / (epsilon * (ys[iy + 1] - ys[iy]));
                    }
                    if (nx == 1) c->a = c->b;
                    if (ny == 1) c->b = c->a;
                }
#undef VERTEX
    for (int v = 0; v < n; v++) l->first[v] = v;
    for (int64_t c = 0; c < l->corners; c++) {
        int all[3] = {l->corner[c].v, l->corner[c].a, l->corner[c].b};
        int low = least(all[0], least(all[1], all[2]));
        for (int a = 0; a < 3 - (all[1] == all[2]); a++) {
            l->first[all[a]] = least(l->first[all[a]], low);
            l->start[all[a] + 1]++;
        }
    }
    for (int v = 0; v < n; v++) l->start[v + 1] += l->start[v];
    int64_t *fill = NEW(int64_t, n);
    if (!fill) return -1;
    memcpy(fill, l->start, sizeof(int64_t) * (size_t)n);
    for (int64_t c = 0; c < l->corners; c++) {
        int all[3] = {l->corner[c].v, l->corner[c].a, l->corner[c].b};
        for (int a = 0; a < 3 - (all[1] == all[2]); a++) l->member[fill[all[a]]++] = (int32_t)c;
    }
    free(fill);
    return 0;
}
