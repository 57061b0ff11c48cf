/* One block of the program: the column of one output.
 *
 * The unknown is a column k > 0 over the inputs. Its privacy rows are k_j - q k_i >= 0,
 * q = exp(-eps d(i, j)). Everything is kept relative to the iterate, so that no number depends on
 * how large exp(eps d) is:
 *
 * - slack - infeasibility = 1 - q k_i / k_j. A row that joins when it is violated, or nearly, gets a
 *   comfortable slack and an infeasibility > 0, which shrinks with every step;
 * - dual = y k_j for the multiplier y of the row; centred means slack dual = mu;
 * - a step is k (1 + alpha u). It changes 1 - q k_i / k_j by u_j - rho u_i, rho = q k_i / k_j.
 *
 * The block matrix H = sum over rows of dual / slack (e_j - rho e_i)(e_j - rho e_i)' is nearly
 * singular along u = 1, the scaling of the whole column. That direction is split off exactly: with
 * one place g grounded, G = H without g, h = H 1 without g,
 *
 *     H^-1 t = [G^-1 t] + w (w't) / sigma,   w = 1 - [G^-1 h],   sigma = w'H w.
 *
 * u is kept in two parts, u = tau + v, because tau may be many orders larger than v: then
 * u_j - rho u_i = tau (1 - rho) + (v_j - rho v_i), with nothing cancelled.
 *
 * References: Mehrotra: On the implementation of a primal-dual interior point method, SIAM J. Optim.
 * 1992. Gondzio: Multiple centrality corrections in a primal-dual method for linear programming,
 * Comput. Optim. Appl. 1996.
 */
#include "constants.h"
#include "vectors.h"

/* Both directions of every pair, by their left place: row e says k(right) >= decay k(left). */
typedef struct {
    int n;
    int dense;       /* all ordered pairs have a place; decay is 0 where no pair is constrained */
    int64_t count;
    int64_t *start;  /* (n + 1) */
    int32_t *right;
    double *decay;   /* exp(-eps d) */
    double *near;    /* a pair joins where decay k_i > near k_j */
} pairs_t;

/* A row in use. */
typedef struct {
    double decay, slack, infeasibility, dual;
    int32_t i, j;
} row_t;

/* The rows as the loops of a step read them: an array for each quantity, so that LANES rows are
 * treated at a time. What follows the last row is zero, and adds nothing to any sum. */
typedef struct {
    double *slack, *dual, *per_slack, *per_dual, *infeasibility;
    double *open; /* slack - infeasibility; rho is 1 less this */
    double *rho;
    double *share; /* see right_side */
    int32_t *i, *j;
} row_arrays_t;

typedef struct {
    double *slack, *dual;
} row_direction_t;

typedef struct {
    int n, output, part;
    const int32_t *place;    /* (n) the places of the block, or NULL for all: see local.c */
    const pairs_t *pairs;
    const double *cost;      /* of the program, for this output */
    const int32_t *farthest; /* inputs from the farthest from the output to the nearest */
    /* The state between two steps. */
    double *k, *residual, *reduced; /* residual c - b - A'y; reduced: c - A'y for a cleaned y */
    uint8_t *active;                /* which pairs have a row */
    row_t *rows;
    int64_t count, room;
    int outside;             /* the envelope has to be laid out again */
    /* Scratch of a step. */
    double *complementarity_rhs; /* what slack dual of each row should change by, to first order */
    row_direction_t direction, trial;
    row_arrays_t arrays;
    double *numbers;         /* the memory of these */
    int64_t scratch_room;
    factor_t factor;
    int *first;
    int grounded;
    double sigma;
    double *ground_h;        /* G^-1 h */
    double *rhs, *v, *u, *try_u, *w;
    double rhs_sum;          /* the sum of rhs, without cancellation */
    double tau;
    double per_primal, per_dual; /* 1 / the longest steps */
    double products[4];
    int trouble;
} block_t;

static void block_free(block_t *s) {
    if (!s) return;
    free(s->k), free(s->active), free(s->rows), free(s->first), free(s->rhs);
    free(s->numbers), free(s->arrays.i);
    factor_free(&s->factor);
    free(s);
}

static block_t *block_new(int n, int output, const double *cost, const int32_t *farthest,
                          const pairs_t *pairs) {
    block_t *s = NEW(block_t, 1);
    if (!s) return NULL;
    int64_t width = padded(n);
    *s = (block_t){.n = n, .output = output, .cost = cost, .farthest = farthest, .pairs = pairs,
                    .outside = 1};
    s->k = NEW(double, 3 * width);
    s->active = NEW(uint8_t, pairs->count);
    s->first = NEW(int, n);
    if (!s->k || !s->active || !s->first) return block_free(s), NULL;
    s->residual = s->k + width, s->reduced = s->k + 2 * width;
    return s;
}

/* Numbers of all places, for the places of the block; `room` is used if they are not the same. */
INLINE const double *gathered(const block_t *s, const double *all, double *room) {
    if (!s->place) return all;
    for (int x = 0; x < s->n; x++) room[x] = all[s->place[x]];
    return room;
}
INLINE int place_of(const block_t *s, int x) { return s->place ? s->place[x] : x; }

/* Memory for a step: blocks that are only remembered have none. */
static int block_scratch(block_t *s) {
    int64_t width = padded(s->n);
    if (!s->rhs) {
        s->rhs = NEW(double, 6 * width);
        if (!s->rhs || factor_new(&s->factor, s->n)) return -1;
        s->v = s->rhs + width, s->u = s->rhs + 2 * width, s->try_u = s->rhs + 3 * width;
        s->w = s->rhs + 4 * width, s->ground_h = s->rhs + 5 * width;
    }
    if (s->count > s->scratch_room - LANES) {
        int64_t room = s->count + s->count / 4 + LANES;
        free(s->numbers), free(s->arrays.i);
        double *at = s->numbers = NEW(double, 13.0 * (double)room);
        s->arrays.i = NEW(int32_t, 2.0 * (double)room);
        s->scratch_room = at && s->arrays.i ? room : 0;
        if (!s->scratch_room) return -1;
        s->arrays.j = s->arrays.i + room;
        double **each[] = {&s->complementarity_rhs, &s->direction.slack, &s->direction.dual,
                           &s->trial.slack, &s->trial.dual, &s->arrays.slack, &s->arrays.dual,
                           &s->arrays.per_slack, &s->arrays.per_dual, &s->arrays.infeasibility,
                           &s->arrays.open, &s->arrays.rho, &s->arrays.share};
        for (int a = 0; a < 13; a++, at += room) *each[a] = at;
    }
    return 0;
}

static int rows_reserve(block_t *s, int64_t room) {
    if (room <= s->room) return 0;
    room += room / 4 + 16;
    row_t *more = realloc(s->rows, (size_t)room * sizeof(row_t));
    if (!more) return -1;
    s->rows = more, s->room = room;
    return 0;
}

/* Constrain a pair; its slack and multiplier are set by the caller. */
INLINE row_t *add_row(block_t *s, const pairs_t *pairs, int64_t e, int i) {
    row_t *row = s->rows + s->count++;
    int j = pairs->right[e], low = least(i, j), high = most(i, j);
    *row = (row_t){.decay = pairs->decay[e], .i = i, .j = j};
    s->active[e] = 1;
    if (s->count == 1)
        for (int x = 0; x < s->n; x++) s->first[x] = x;
    if (low < s->first[high]) s->first[high] = low, s->outside = 1;
    return row;
}

/* Fill the arrays of the rows; they are good until the next `move_block`. */
static void spread_rows(block_t *s) {
    const row_arrays_t *a = &s->arrays;
    for (int64_t r = 0; r < s->count; r++) {
        const row_t *row = s->rows + r;
        a->slack[r] = row->slack, a->dual[r] = row->dual;
        a->infeasibility[r] = row->infeasibility;
        a->i[r] = row->i, a->j[r] = row->j;
    }
    for (int64_t r = 0; r < s->count; r++) {
        a->per_slack[r] = 1.0 / a->slack[r], a->per_dual[r] = 1.0 / a->dual[r];
        a->open[r] = a->slack[r] - a->infeasibility[r];
        a->rho[r] = 1.0 - a->slack[r] + a->infeasibility[r];
    }
}

/* v_j - rho v_i of LANES rows. */
INLINE vec across(const row_arrays_t *a, int64_t r, const double *v) {
    return gather(v, a->j + r) - load(a->rho + r) * gather(v, a->i + r);
}

/* Factor G; compute G^-1 h and sigma. The arrays of the rows are filled. `pull` is k (A'y), computed by the caller because summing it
 * here would cancel. `also`, if given, is a right side from `begin_solve`: G^-1 of it replaces it.
 * Return 0 if G is positive definite. */
static int factor_block(block_t *s, const double *pull, double *also) {
    factor_t *f = &s->factor;
    const row_arrays_t *a = &s->arrays;
    int n = s->n;
    if (s->outside && factor_layout(f, s->first)) return s->trouble = WI_NO_MEMORY;
    s->outside = 0;
    memset(f->values, 0, sizeof(double) * (size_t)f->at[f->strips]);
    memcpy(s->ground_h, pull, sizeof(double) * (size_t)n);
    for (int64_t r = 0; r < s->count; r++) {
        int i = a->i[r], j = a->j[r];
        double rho = a->rho[r], weight = a->dual[r] * a->per_slack[r], side = weight * rho;
        *entry(f, j, j) += weight;
        *entry(f, i, i) += side * rho;
        *entry(f, least(i, j), most(i, j)) -= side;
        if (a->infeasibility[r] != 0.0) {
            s->ground_h[j] -= weight * a->infeasibility[r];
            s->ground_h[i] += weight * a->infeasibility[r] * rho;
        }
    }
    int g = 0;
    double largest = -1.0;
    for (int x = 0; x < n; x++) {
        double *diagonal = entry(f, x, x);
        if (*diagonal > largest) largest = *diagonal, g = x;
        *diagonal *= 1.0 + RIDGE;
    }
    for (int x = f->top[g / WIDTH]; x < g; x++) *entry(f, x, g) = 0.0;
    for (int t = g / WIDTH; t < f->strips; t++)
        if (f->top[t] <= g)
            memset(strip_row(f, t, g), 0, sizeof(double) * WIDTH);
    *entry(f, g, g) = 1.0;
    for (int x = n; x < f->rows; x++) *entry(f, x, x) = 1.0;
    if (cholesky(f)) return s->trouble = WI_NUMERICS;
    s->ground_h[g] = 0.0;
    for (int x = n; x < padded(n); x++) s->ground_h[x] = 0.0;
    if (also) {
        also[g] = 0.0;
        factor_solve_two(f, s->ground_h, f, also);
    } else {
        factor_solve(f, s->ground_h);
    }
    /* sigma = w'Hw, as a sum of squares: w minimises it, so an error in w hardly shows. */
    vec sigma = {0};
    for (int64_t r = 0; r < s->count; r += LANES) {
        vec along = load(a->open + r) - across(a, r, s->ground_h);
        sigma += load(a->dual + r) * load(a->per_slack + r) * along * along;
    }
    for (int x = 0; x < n; x++) s->w[x] = s->k[x] * (1.0 - s->ground_h[x]);
    s->grounded = g, s->sigma = vec_sum(sigma);
    return s->trouble = 0;
}

/* H^-1 rhs = tau + v in three steps: a copy of rhs, padded; G^-1 of it without the place that is
 * grounded; the direction that was split off. `rhs_sum` is the sum of rhs. */
static void begin_solve(const block_t *s, const double *rhs, double *v) {
    memcpy(v, rhs, sizeof(double) * (size_t)s->n);
    for (int x = s->n; x < padded(s->n); x++) v[x] = 0.0;
}
static double end_solve(const block_t *s, const double *rhs, double rhs_sum, double *v) {
    double product = 0.0;
    for (int x = 0; x < s->n; x++) product += s->ground_h[x] * rhs[x];
    double tau = (rhs_sum - product) / s->sigma;
    for (int x = 0; x < s->n; x++) v[x] -= tau * s->ground_h[x];
    return tau;
}

/* v and tau of H^-1 rhs. */
static double solve_block(const block_t *s, const double *rhs, double rhs_sum, double *v) {
    begin_solve(s, rhs, v);
    v[s->grounded] = 0.0;
    factor_solve(&s->factor, v);
    return end_solve(s, rhs, rhs_sum, v);
}

/* rhs = A'((complementarity_rhs + dual infeasibility) / slack) - k residual, and its sum. */
static void right_side(block_t *s, const double *residual) {
    double sum = 0.0, *rhs = s->rhs;
    for (int x = 0; x < s->n; x++) {
        rhs[x] = -s->k[x] * residual[x];
        sum += rhs[x];
    }
    const row_arrays_t *a = &s->arrays;
    vec shared = {0};
    for (int64_t r = 0; r < s->count; r += LANES) {
        vec pull = load(s->complementarity_rhs + r) + load(a->dual + r) * load(a->infeasibility + r);
        vec share = pull * load(a->per_slack + r);
        store(a->share + r, share);
        shared += share * load(a->open + r);
    }
    for (int64_t r = 0; r < s->count; r++) {
        rhs[a->j[r]] += a->share[r];
        rhs[a->i[r]] -= a->share[r] * a->rho[r];
    }
    s->rhs_sum = sum + vec_sum(shared);
}

/* The changes of slacks and duals along u = tau + v; 1 / the longest primal and dual steps. */
static void row_steps(block_t *s, const double *v, double tau, row_direction_t direction) {
    const row_arrays_t *a = &s->arrays;
    vec primal = {0}, dual = {0};
    for (int64_t r = 0; r < s->count; r += LANES) {
        vec per_slack = load(a->per_slack + r);
        vec change = tau * load(a->open + r) + across(a, r, v) - load(a->infeasibility + r);
        vec d_dual = (load(s->complementarity_rhs + r) - load(a->dual + r) * change) * per_slack;
        store(direction.slack + r, change);
        store(direction.dual + r, d_dual);
        primal = __builtin_elementwise_max(primal, -change * per_slack);
        dual = __builtin_elementwise_max(dual, -d_dual * load(a->per_dual + r));
    }
    s->per_primal = vec_max(primal), s->per_dual = vec_max(dual);
    for (int x = 0; x < s->n; x++) s->per_primal = larger(-(v[x] + tau), s->per_primal);
}

/* The sums of products that give slack dual after steps of any length. */
static void row_products(block_t *s, row_direction_t direction) {
    vec a = {0}, b = {0}, c = {0}, d = {0};
    for (int64_t r = 0; r < s->count; r += LANES) {
        vec slack = load(s->arrays.slack + r), dual = load(s->arrays.dual + r);
        vec d_slack = load(direction.slack + r), d_dual = load(direction.dual + r);
        a += slack * dual, b += d_slack * dual, c += slack * d_dual, d += d_slack * d_dual;
    }
    s->products[0] = vec_sum(a), s->products[1] = vec_sum(b);
    s->products[2] = vec_sum(c), s->products[3] = vec_sum(d);
}

/* Take a step: columns, slacks and duals, which stay relative to the column.
 *
 * A row that is private now, and not only just, gives up its infeasibility. Slacks that are not
 * tiny are computed from the column: carried along they would drift. */
static void move_block(block_t *s, row_direction_t direction, const double *u, double primal,
                       double dual) {
    double *k = s->k;
    for (int64_t r = 0; r < s->count; r++) {
        row_t *row = s->rows + r;
        double growth = 1.0 + primal * u[row->j], per_growth = 1.0 / growth;
        row->dual = (row->dual + dual * direction.dual[r]) * growth;
        row->slack = (row->slack + primal * direction.slack[r]) * per_growth;
        row->infeasibility *= (1.0 - primal) * per_growth;
    }
    for (int x = 0; x < s->n; x++) k[x] *= 1.0 + primal * u[x];
    for (int64_t r = 0; r < s->count; r++) {
        row_t *row = s->rows + r;
        if (row->infeasibility != 0.0) {
            double have = row->slack - row->infeasibility;
            if (have > FEASIBLE * row->slack) {
                row->dual *= row->slack / have;
                row->slack = have;
                row->infeasibility = 0.0;
            }
        } else if (row->slack > FRESH) {
            row->slack = 1.0 - row->decay * k[row->i] / k[row->j];
        }
    }
}

/* Whether a pair of place i without a row has come near its limit. */
INLINE int any_near(const pairs_t *pairs, int i, const double *k, const uint8_t *active) {
    typedef uint8_t bytes __attribute__((vector_size(LANES), aligned(1)));
    int64_t start = pairs->start[i], count = pairs->start[i + 1] - start, any = 0;
    const double *decay = pairs->decay + start, *near = pairs->near + start, here = k[i];
    active += start;
    if (pairs->dense && count >= LANES) {
        mask found = {0};
        for (int64_t next = 0; next < count; next += LANES) {
            int64_t j = next + LANES <= count ? next : count - LANES;
            mask off = __builtin_convertvector(*(const bytes *)(active + j), mask) - 1;
            found |= off & (load(decay + j) * here > load(near + j) * load(k + j));
        }
        return __builtin_reduce_or(found) != 0;
    }
    const int32_t *right = pairs->right + start;
    for (int64_t e = 0; e < count; e++)
        any |= (int64_t)(active[e] == 0) & (int64_t)(decay[e] * here > near[e] * k[right[e]]);
    return any != 0;
}

/* Constrain the pairs that have come near their limit or past it.
 *
 * They join at the centre, unless their multiplier would be above a share of the price of the input:
 * far from the output, where k is tiny, that would spoil the bound for many steps. */
static int join_rows(block_t *s, const pairs_t *pairs, const double *price, double mu,
                     double share) {
    const double *k = s->k;
    for (int i = 0; i < s->n; i++) {
        if (!any_near(pairs, i, k, s->active)) continue;
        for (int64_t e = pairs->start[i]; e < pairs->start[i + 1]; e++) {
            int j = pairs->right[e];
            double near = pairs->near[e];
            if (s->active[e] || !(pairs->decay[e] * k[i] > near * k[j])) continue;
            if (rows_reserve(s, s->count + 1)) return s->trouble = WI_NO_MEMORY;
            row_t *row = add_row(s, pairs, e, i);
            double left = 1.0 - row->decay * k[i] / k[j];
            row->slack = larger(left, JOIN_SLACK * (1.0 - near));
            row->infeasibility = row->slack - left;
            double most_dual = row->slack * share * fabs(price[j]) * k[j];
            row->dual = larger(smaller(mu, most_dual), 1e-6 * mu) / row->slack;
        }
    }
    return 0;
}

/* Whether a step of 1 / limit would violate a pair of place i by FAR_OFF. */
INLINE int any_far_off(const pairs_t *pairs, int i, const double *k, const double *ku,
                       double limit) {
    int64_t start = pairs->start[i], count = pairs->start[i + 1] - start, any = 0;
    const double *decay = pairs->decay + start, here = k[i] / FAR_OFF, moved = ku[i] / FAR_OFF;
    /* lost > limit margin, with lost = decay moved - ku_j and margin = k_j - decay here. */
    double ours = moved + limit * here;
    if (pairs->dense && count >= LANES) {
        mask found = {0};
        for (int64_t next = 0; next < count; next += LANES) {
            int64_t j = next + LANES <= count ? next : count - LANES;
            found |= load(decay + j) * ours > load(ku + j) + limit * load(k + j);
        }
        return __builtin_reduce_or(found) != 0;
    }
    const int32_t *right = pairs->right + start;
    for (int64_t e = 0; e < count; e++)
        any |= (int64_t)(decay[e] * ours > ku[right[e]] + limit * k[right[e]]);
    return any != 0;
}

/* 1 / the longest step before a pair without a row is violated by a factor of FAR_OFF, or `limit`
 * if that is larger. It keeps the pairs with a row inside: hardly any of those is looked at. */
static double far_off(const block_t *s, const pairs_t *pairs, const double *u, double limit,
                      double *ku) {
    const double *k = s->k;
    for (int x = 0; x < s->n; x++) {
        ku[x] = k[x] * u[x];
        limit = larger(larger(u[x] / GROWTH, -u[x]), limit); /* no entry may become negative */
    }
    for (int i = 0; i < s->n; i++) {
        if (!any_far_off(pairs, i, k, ku, limit)) continue;
        double here = k[i] / FAR_OFF, moved = ku[i] / FAR_OFF;
        for (int64_t e = pairs->start[i]; e < pairs->start[i + 1]; e++) {
            int j = pairs->right[e];
            double lost = pairs->decay[e] * moved - ku[j];
            double margin = k[j] - pairs->decay[e] * here;
            if (s->active[e] == 0 && margin > 0.0 && lost > limit * margin) limit = lost / margin;
        }
    }
    return limit;
}

/* reduced = c - A'y, from the multipliers y and true coefficients: slacks are carried along and
 * drift, and a bound must not drift with them. */
static void reduced_cost(const block_t *s, const double *cost, double *reduced, double *multiplier) {
    for (int x = 0; x < s->n; x++) reduced[x] = cost[x];
    for (int64_t r = 0; r < s->count; r++) {
        const row_t *row = s->rows + r;
        double y = row->dual / s->k[row->j];
        multiplier[r] = y;
        reduced[row->j] -= y;
        reduced[row->i] += y * row->decay;
    }
}

/* reduced = c - A'y, from multipliers of the rows. */
static void sum_reduced(const block_t *s, const double *cost, const double *multiplier,
                        double *reduced) {
    for (int x = 0; x < s->n; x++) reduced[x] = cost[x];
    for (int64_t r = 0; r < s->count; r++) {
        reduced[s->rows[r].j] -= multiplier[r];
        reduced[s->rows[r].i] += multiplier[r] * s->rows[r].decay;
    }
}

#include "forest.c"

/* Lift reduced costs that are below their aim: by less y, and never a negative one.
 *
 * Far from the output k is tiny, and the rounding of a scaled multiplier is large against c. There
 * a multiplier into x is lowered by what is missing; its other end i then misses q times as much,
 * q = exp(-eps d), and so on towards the output, where nothing is left. If some are still short,
 * the multipliers of a forest are tried (forest.c). `reduced` and `multiplier` are those of
 * `reduced_cost`, and stay true to each other. `links` has room for n + count. */
static void clean(const block_t *s, const double *aim, const double *cost, double *reduced,
                  double *multiplier, int32_t *links) {
    int n = s->n, is_short = 0;
    for (int x = 0; x < n; x++) is_short |= reduced[x] < aim[x] + HAIR * fabs(cost[x]);
    if (!is_short) return;
    int32_t *head = links, *after = links + n;
    for (int x = 0; x < n; x++) head[x] = -1;
    for (int64_t r = 0; r < s->count; r++) {
        int j = s->rows[r].j;
        after[r] = head[j];
        head[j] = (int32_t)r;
    }
    for (int pass = 0; pass < CLEAN_PASSES; pass++) {
        int lifted = 0;
        for (int a = 0; a < n; a++) {
            int x = s->farthest[a];
            double missing = aim[x] + HAIR * fabs(cost[x]) - reduced[x];
            if (missing <= 0.0) continue;
            /* First from rows whose other end has more than it needs, then from the largest. */
            for (int32_t r = head[x]; r >= 0 && missing > 0.0; r = after[r]) {
                int i = s->rows[r].i;
                double decay = s->rows[r].decay, spare = (reduced[i] - aim[i]) / decay;
                double less = smaller(smaller(missing, multiplier[r]), spare);
                if (less > 0.0) {
                    lifted = 1;
                    multiplier[r] -= less;
                    reduced[x] += less;
                    reduced[i] -= less * decay;
                    missing -= less;
                }
            }
            while (missing > 0.0) {
                int32_t largest = -1;
                for (int32_t r = head[x]; r >= 0; r = after[r])
                    if (largest < 0 || multiplier[r] > multiplier[largest]) largest = r;
                if (largest < 0 || !(multiplier[largest] > 0.0)) break;
                lifted = 1;
                double less = smaller(missing, multiplier[largest]);
                multiplier[largest] -= less;
                reduced[x] += less;
                reduced[s->rows[largest].i] -= less * s->rows[largest].decay;
                missing -= less;
            }
        }
        if (!lifted) break;
        /* What was huge and is small now has lost its digits: compute it afresh. */
        sum_reduced(s, cost, multiplier, reduced);
    }
    is_short = 0;
    for (int x = 0; x < n; x++) is_short |= reduced[x] < aim[x];
    if (is_short) use_forest(s, aim, cost, reduced, multiplier);
}

/* Add a column to that of the block: the sum of two private columns is private. Multipliers stay. */
static void merge_column(block_t *s, const double *more) {
    for (int64_t r = 0; r < s->count; r++) {
        row_t *row = s->rows + r;
        double share = s->k[row->j] / (s->k[row->j] + more[row->j]);
        double gained = (1.0 - row->decay * more[row->i] / more[row->j]) * (1.0 - share);
        row->slack = row->slack * share + larger(gained, 0.0);
        row->infeasibility = row->infeasibility * share + larger(-gained, 0.0);
        row->dual /= share;
    }
    for (int x = 0; x < s->n; x++) s->k[x] += more[x];
}
