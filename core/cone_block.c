/* One block of the conic program: the column k > 0 of one output, and the cones of all corners.
 *
 * Everything is kept relative to the iterate, as in block.c, so that no number depends on how small
 * k is: the slack of a corner is s = (1, at_a (k_a / k_v - 1), at_b (k_b / k_v - 1)), its multiplier
 * is in units of 1 / (epsilon k_v), and a step is k (1 + alpha u). With B = W^-1 A in these units the
 * block matrix is H = B'B, a stencil of 9 points. It is nearly singular along u = 1, the scaling of
 * the whole column, for which B 1 = lambda; that direction is split off exactly, see block.c.
 */
#include "vectors.h"

typedef struct {
    double y[3];
    scaling_t scaling;
    double at_v[3], at_a[3], at_b[3]; /* the columns of B */
    double target[3];                 /* W^-1 ds + W dy of the step */
} cone_t;

/* A direction in scaled coordinates: W^-1 ds and W dy. */
typedef struct {
    double s[3], y[3];
} cone_direction_t;

typedef struct {
    int n;
    const lattice_t *lattice;
    const double *cost;
    double *k, *reduced;        /* reduced: c - A'y */
    double *clean, *multiplier; /* the same for multipliers (corners, 3) that were cleaned */
    double loss, cost_sum;
    int coupled;                /* the column counts in the sums of the rows, see retire_outputs */
    int late;                   /* steps in a row in which a block that is not spoilt the bound */
    int kept;                   /* it was taken back, and must not retire again */
    cone_t *cones;
    cone_direction_t *direction, *trial;
    factor_t factor;
    int grounded;
    double sigma, *ground_h, *rhs, *v, *u, *try_u, *w;
    double rhs_sum, tau, per_primal, per_dual, products[4];
    int trouble;
} cone_block_t;

static void cone_block_free(cone_block_t *s) {
    free(s->k), free(s->multiplier), free(s->cones), free(s->direction), free(s->trial);
    factor_free(&s->factor);
}

static int cone_block_new(cone_block_t *s, const lattice_t *lattice, const double *cost) {
    int64_t width = padded(lattice->n), corners = lattice->corners;
    *s = (cone_block_t){.n = lattice->n, .lattice = lattice, .cost = cost, .coupled = 1};
    s->k = NEW(double, 9 * width), s->multiplier = NEW(double, 3 * corners);
    s->cones = NEW(cone_t, corners);
    s->direction = NEW(cone_direction_t, corners), s->trial = NEW(cone_direction_t, corners);
    if (!s->k || !s->multiplier || !s->cones || !s->direction || !s->trial ||
        factor_new(&s->factor, lattice->n) || factor_layout(&s->factor, lattice->first))
        return -1;
    s->reduced = s->k + width, s->clean = s->k + 2 * width, s->rhs = s->k + 3 * width;
    s->v = s->k + 4 * width, s->u = s->k + 5 * width, s->try_u = s->k + 6 * width;
    s->w = s->k + 7 * width, s->ground_h = s->k + 8 * width;
    return 0;
}

/* B x for one corner. */
INLINE void apply_b(const cone_t *c, const corner_t *at, const double *x, double *out) {
    for (int a = 0; a < 3; a++)
        out[a] = c->at_v[a] * x[at->v] + c->at_a[a] * x[at->a] + c->at_b[a] * x[at->b];
}

/* The scaling of one corner, and its columns of B. Return 0 if slack and multiplier are inside. */
INLINE int scale_corner(cone_t *c, const corner_t *at, const double *k) {
    double per_k = 1.0 / k[at->v];
    double s[3] = {1.0, at->at_a * ((k[at->a] - k[at->v]) * per_k),
                   at->at_b * ((k[at->b] - k[at->v]) * per_k)};
    if (scale_cone(s, c->y, &c->scaling)) return 1;
    double v[3] = {1.0, -at->at_a, -at->at_b}, a[3] = {0.0, at->at_a * (k[at->a] * per_k), 0.0};
    double b[3] = {0.0, 0.0, at->at_b * (k[at->b] * per_k)};
    unscale(&c->scaling, v, c->at_v), unscale(&c->scaling, a, c->at_a);
    unscale(&c->scaling, b, c->at_b);
    return 0;
}

/* Scale all cones, factor H without the grounded vertex; compute G^-1 h and sigma. */
static int factor_cones(cone_block_t *s) {
    factor_t *f = &s->factor;
    const lattice_t *l = s->lattice;
    int n = s->n, g = 0;
    memset(f->values, 0, sizeof(double) * (size_t)f->at[f->strips]);
    for (int64_t r = 0; r < l->corners; r++) {
        cone_t *c = s->cones + r;
        const corner_t *at = l->corner + r;
        if (scale_corner(c, at, s->k)) return s->trouble = WI_NUMERICS;
        *entry(f, at->v, at->v) += dot3(c->at_v, c->at_v);
        *entry(f, at->a, at->a) += dot3(c->at_a, c->at_a);
        *entry(f, at->b, at->b) += dot3(c->at_b, c->at_b);
        *entry(f, least(at->v, at->a), most(at->v, at->a)) += dot3(c->at_v, c->at_a);
        *entry(f, least(at->v, at->b), most(at->v, at->b)) += dot3(c->at_v, c->at_b);
        if (at->a != at->b)
            *entry(f, least(at->a, at->b), most(at->a, at->b)) += dot3(c->at_a, c->at_b);
    }
    double largest_entry = -1.0;
    for (int x = 0; x < n; x++) {
        double *diagonal = entry(f, x, x);
        if (*diagonal > largest_entry) largest_entry = *diagonal, g = x;
        *diagonal *= 1.0 + RIDGE;
        s->ground_h[x] = s->k[x] * (s->cost[x] - s->reduced[x]);
    }
    for (int x = f->top[g / WIDTH]; x < g; x++) *entry(f, x, g) = 0.0;
    for (int t = g / WIDTH; t < f->strips; t++)
        if (f->top[t] <= g) memset(strip_row(f, t, g), 0, sizeof(double) * WIDTH);
    *entry(f, g, g) = 1.0;
    for (int x = n; x < f->rows; x++) *entry(f, x, x) = 1.0;
    if (cholesky(f)) return s->trouble = WI_NUMERICS;
    s->ground_h[g] = 0.0;
    for (int x = n; x < padded(n); x++) s->ground_h[x] = 0.0;
    factor_solve(f, s->ground_h);
    double sigma = 0.0;
    for (int64_t r = 0; r < l->corners; r++) {
        double along[3], left;
        apply_b(s->cones + r, l->corner + r, s->ground_h, along);
        for (int a = 0; a < 3; a++) {
            left = s->cones[r].scaling.lambda[a] - along[a];
            sigma += left * left;
        }
    }
    for (int x = 0; x < n; x++) s->w[x] = s->k[x] * (1.0 - s->ground_h[x]);
    s->grounded = g, s->sigma = sigma;
    return s->trouble = sigma > 0.0 && isfinite(sigma) ? 0 : WI_NUMERICS;
}

/* v and tau of H^-1 rhs = tau + v; `rhs_sum` is the sum of rhs. */
static double solve_cones(const cone_block_t *s, const double *rhs, double rhs_sum, double *v) {
    int n = s->n;
    double product = 0.0;
    for (int x = 0; x < n; x++) {
        v[x] = rhs[x];
        product += s->ground_h[x] * rhs[x];
    }
    for (int x = n; x < padded(n); x++) v[x] = 0.0;
    v[s->grounded] = 0.0;
    factor_solve(&s->factor, v);
    double tau = (rhs_sum - product) / s->sigma;
    for (int x = 0; x < n; x++) v[x] -= tau * s->ground_h[x];
    return tau;
}

/* rhs = B' target - k (c - b - A'y), and its sum. */
static void cone_right_side(cone_block_t *s, const double *price) {
    const lattice_t *l = s->lattice;
    double sum = 0.0, *rhs = s->rhs;
    for (int x = 0; x < s->n; x++) {
        rhs[x] = -s->k[x] * (s->reduced[x] - price[x]);
        sum += rhs[x];
    }
    for (int64_t r = 0; r < l->corners; r++) {
        const cone_t *c = s->cones + r;
        const corner_t *at = l->corner + r;
        rhs[at->v] += dot3(c->at_v, c->target);
        rhs[at->a] += dot3(c->at_a, c->target);
        rhs[at->b] += dot3(c->at_b, c->target);
        sum += dot3(c->scaling.lambda, c->target);
    }
    s->rhs_sum = sum;
}

/* The direction of all cones along u = tau + v; 1 / the longest primal and dual steps. */
static void cone_steps(cone_block_t *s, const double *v, double tau, cone_direction_t *direction) {
    double primal = 0.0, dual = 0.0;
    for (int64_t r = 0; r < s->lattice->corners; r++) {
        const cone_t *c = s->cones + r;
        cone_direction_t *d = direction + r;
        apply_b(c, s->lattice->corner + r, v, d->s);
        for (int a = 0; a < 3; a++) {
            d->s[a] += tau * c->scaling.lambda[a];
            d->y[a] = c->target[a] - d->s[a];
        }
        primal = larger(per_longest(&c->scaling, d->s), primal);
        dual = larger(per_longest(&c->scaling, d->y), dual);
    }
    s->per_primal = primal, s->per_dual = dual;
}

/* The sums of products that give s'y after steps of any length. */
static void cone_products(cone_block_t *s, const cone_direction_t *direction) {
    double a = 0.0, b = 0.0, c = 0.0, d = 0.0;
    for (int64_t r = 0; r < s->lattice->corners; r++) {
        const double *lambda = s->cones[r].scaling.lambda;
        a += dot3(lambda, lambda);
        b += dot3(lambda, direction[r].s);
        c += dot3(lambda, direction[r].y);
        d += dot3(direction[r].s, direction[r].y);
    }
    s->products[0] = a, s->products[1] = b, s->products[2] = c, s->products[3] = d;
}

/* The target of Mehrotra's corrector: s o y = mu e, with the second-order term compensated. */
static void mehrotra_targets(cone_block_t *s, double mu) {
    for (int64_t r = 0; r < s->lattice->corners; r++) {
        cone_t *c = s->cones + r;
        double product[3];
        jordan_product(s->direction[r].s, s->direction[r].y, product);
        double right[3] = {mu - product[0], -product[1], -product[2]};
        jordan_divide(&c->scaling, right, c->target);
        for (int a = 0; a < 3; a++) c->target[a] -= c->scaling.lambda[a];
    }
}

/* Gondzio's correctors, for the eigenvalues of s o y: those that steps of these lengths would leave
 * far off mu are pulled back towards it. */
static void gondzio_targets(cone_block_t *s, double mu, double primal, double dual) {
    for (int64_t r = 0; r < s->lattice->corners; r++) {
        cone_t *c = s->cones + r;
        double x[3], y[3], product[3], more[3], shift[2];
        for (int a = 0; a < 3; a++) {
            x[a] = c->scaling.lambda[a] + primal * s->direction[r].s[a];
            y[a] = c->scaling.lambda[a] + dual * s->direction[r].y[a];
        }
        jordan_product(x, y, product);
        double length = sqrt(product[1] * product[1] + product[2] * product[2]);
        for (int side = 0; side < 2; side++) {
            double value = product[0] + (side ? length : -length), aim = 0.0;
            if (value < CENTRAL_LOW * mu) aim = CENTRAL_LOW * mu - value;
            else if (value > CENTRAL_HIGH * mu)
                aim = larger(CENTRAL_HIGH * mu - value, -CENTRAL_HIGH * mu);
            shift[side] = aim;
        }
        if (shift[0] == 0.0 && shift[1] == 0.0) continue;
        double turn = length > 0.0 ? 0.5 * (shift[1] - shift[0]) / length : 0.0;
        double right[3] = {0.5 * (shift[0] + shift[1]), turn * product[1], turn * product[2]};
        jordan_divide(&c->scaling, right, more);
        for (int a = 0; a < 3; a++) c->target[a] += more[a];
    }
}

/* Take a step: columns, and multipliers, which stay relative to the column. */
static void move_cones(cone_block_t *s, double primal, double dual) {
    for (int64_t r = 0; r < s->lattice->corners; r++) {
        cone_t *c = s->cones + r;
        double dy[3], growth = 1.0 + primal * s->u[s->lattice->corner[r].v];
        unscale(&c->scaling, s->direction[r].y, dy);
        for (int a = 0; a < 3; a++) c->y[a] = (c->y[a] + dual * dy[a]) * growth;
    }
    for (int x = 0; x < s->n; x++) s->k[x] *= 1.0 + primal * s->u[x];
}

static double complementarity_of(const cone_block_t *s) {
    double sum = 0.0;
    for (int64_t r = 0; r < s->lattice->corners; r++)
        sum += dot3(s->cones[r].scaling.lambda, s->cones[r].scaling.lambda);
    return sum / (double)s->lattice->corners;
}

/* One Newton step of a block alone, for fixed prices: towards multipliers at the centre of A'y = c - b,
 * which exist as long as the output does not pay. They do not depend on mu: it only scales k. */
static void follow_prices(cone_block_t *s, const double *price) {
    if (factor_cones(s)) return;
    double mu = complementarity_of(s);
    memset(s->direction, 0, sizeof(cone_direction_t) * (size_t)s->lattice->corners);
    mehrotra_targets(s, mu);
    cone_right_side(s, price);
    double tau = solve_cones(s, s->rhs, s->rhs_sum, s->u);
    cone_steps(s, s->u, tau, s->direction);
    int finite = isfinite(s->per_primal + s->per_dual) != 0;
    for (int x = 0; x < s->n; x++) {
        s->u[x] += tau;
        finite &= isfinite(s->u[x]) != 0;
    }
    if (!finite) return;
    move_cones(s, step_length(s->per_primal, STEP_TO_BOUNDARY),
               step_length(s->per_dual, STEP_TO_BOUNDARY));
}

/* What the multiplier y of a corner, in units of s / k_v, adds to A'y at its vertices. */
INLINE void shares_of(const corner_t *at, const double *y, double *v, double *a, double *b) {
    *a = at->at_a * y[1], *b = at->at_b * y[2];
    *v = y[0] - *a - *b;
}

/* Put a multiplier inside its cone for certain, after rounding; one whose squares underflow is 0. */
INLINE void put_inside(double *y) {
    if (y[0] < TINY_MULTIPLIER) y[0] = y[1] = y[2] = 0.0;
    y[0] = larger(y[0], sqrt(y[1] * y[1] + y[2] * y[2]) * (1.0 + HAIR));
}

/* reduced = c - A'y, from the multipliers alone: a bound must not depend on how exact a step was.
 * They are put inside the cones for certain, and so are those of `multiplier`. */
static void reduce_costs(cone_block_t *s) {
    const lattice_t *l = s->lattice;
    double v, a, b, loss = 0.0;
    for (int x = 0; x < s->n; x++) {
        s->reduced[x] = s->cost[x];
        loss += s->cost[x] * s->k[x];
    }
    for (int64_t r = 0; r < l->corners; r++) {
        const corner_t *at = l->corner + r;
        double *y = s->multiplier + 3 * r, per_k = 1.0 / s->k[at->v];
        for (int i = 0; i < 3; i++) y[i] = s->cones[r].y[i] * per_k;
        put_inside(y);
        shares_of(at, y, &v, &a, &b);
        s->reduced[at->v] -= v, s->reduced[at->a] -= a, s->reduced[at->b] -= b;
    }
    s->loss = loss;
    memcpy(s->clean, s->reduced, sizeof(double) * (size_t)s->n);
}

/* Add a column to that of the block: the sum of two columns obeys the cones. Multipliers stay. */
static void add_column(cone_block_t *s, const double *more) {
    for (int64_t r = 0; r < s->lattice->corners; r++) {
        int v = s->lattice->corner[r].v;
        for (int a = 0; a < 3; a++) s->cones[r].y[a] *= 1.0 + more[v] / s->k[v];
    }
    for (int x = 0; x < s->n; x++) {
        s->k[x] += more[x];
        s->loss += s->cost[x] * more[x];
    }
}

/* Scale the column; multipliers stay. */
static void scale_column(cone_block_t *s, double factor) {
    for (int64_t r = 0; r < s->lattice->corners; r++)
        for (int a = 0; a < 3; a++) s->cones[r].y[a] *= factor;
    for (int x = 0; x < s->n; x++) s->k[x] *= factor;
    s->loss *= factor;
}

/* Sort vertices from the smallest k to the largest (Shell 1959; Ciura 2001). */
static void sort_by_column(const double *k, int32_t *order, int n) {
    static const int gaps[] = {6961, 3094, 1375, 611, 271, 121, 54, 24, 10, 4, 1};
    for (size_t g = 0; g < sizeof gaps / sizeof *gaps; g++)
        for (int i = gaps[g]; i < n; i++) {
            int32_t x = order[i];
            int j = i;
            for (; j >= gaps[g] && k[order[j - gaps[g]]] > k[x]; j -= gaps[g])
                order[j] = order[j - gaps[g]];
            order[j] = x;
        }
}

/* Lift reduced costs that are below their price: by less y, which stays in its cone.
 *
 * Far from the output k is tiny, and the rounding of a scaled multiplier is large against c. There
 * the cones that cost x something are scaled down. Their vertices with larger k lose by it what is
 * only a share of that, and so on towards the output, where nothing is left. */
static void clean_cones(cone_block_t *s, const double *price, int32_t *order) {
    const lattice_t *l = s->lattice;
    for (int pass = 0; pass < CLEAN_PASSES; pass++) {
        int lifted = 0;
        for (int i = 0; i < s->n; i++) {
            int x = pass ? order[i] : i;
            if (s->clean[x] >= price[x] + HAIR * fabs(s->cost[x])) continue;
            if (!lifted && !pass) {
                for (int j = 0; j < s->n; j++) order[j] = j;
                sort_by_column(s->k, order, s->n);
                lifted = 1;
                break;
            }
            double missing = price[x] + HAIR * fabs(s->cost[x]) - s->clean[x], cost = 0.0, share[3];
            for (int64_t j = l->start[x]; j < l->start[x + 1]; j++) {
                const corner_t *at = l->corner + l->member[j];
                shares_of(at, s->multiplier + 3 * (int64_t)l->member[j], share, share + 1, share + 2);
                cost += larger(share[at->v == x ? 0 : at->a == x && at->at_a != 0.0 ? 1 : 2], 0.0);
            }
            if (!(cost > 0.0)) continue;
            double less = smaller(1.0, missing / cost);
            for (int64_t j = l->start[x]; j < l->start[x + 1]; j++) {
                const corner_t *at = l->corner + l->member[j];
                double *y = s->multiplier + 3 * (int64_t)l->member[j];
                shares_of(at, y, share, share + 1, share + 2);
                if (!(share[at->v == x ? 0 : at->a == x && at->at_a != 0.0 ? 1 : 2] > 0.0)) continue;
                for (int a = 0; a < 3; a++) y[a] *= 1.0 - less;
                s->clean[at->v] += less * share[0];
                s->clean[at->a] += less * share[1], s->clean[at->b] += less * share[2];
            }
            lifted = 1;
        }
        if (!lifted) return;
        /* What was huge and is small now has lost its digits: compute it afresh. */
        memcpy(s->clean, s->cost, sizeof(double) * (size_t)s->n);
        for (int64_t r = 0; r < l->corners; r++) {
            const corner_t *at = l->corner + r;
            double *y = s->multiplier + 3 * r, v, a, b;
            put_inside(y);
            shares_of(at, y, &v, &a, &b);
            s->clean[at->v] -= v, s->clean[at->a] -= a, s->clean[at->b] -= b;
        }
    }
}
