/* The conic program of a lattice: checks of the input, start, descent, result.
 *
 * The start is inside all cones: constant columns. The first steps shrink what is missing in the
 * dual, the bound is by weak duality from the first step on. The matrix of every iterate is inside
 * the cones and its rows add up to 1, so the last one is the result.
 */
#include "constants.h"
#include "vectors.h"

#define MOST_VERTICES 30000

int64_t WI_EXPORT(wi_cone_corners)(int32_t nx, int32_t ny) {
    if (nx < 1 || ny < 1 || (int64_t)nx * ny > MOST_VERTICES || (int64_t)nx * ny < 2) return 0;
    return lattice_corners(nx, ny);
}

static void cone_solve_free(cone_solve_t *s) {
    if (!s) return;
    pool_end(&s->pool);
    for (int z = 0; s->blocks && z < s->m; z++) cone_block_free(s->blocks + z);
    for (int t = 0; s->strips && s->order && t < s->options->threads; t++)
        free(s->strips[t]), free(s->order[t]);
    free(s->blocks), free(s->coupled), free(s->strips), free(s->order), free(s->cost), free(s->b), free(s->sum);
    free(s->best_k), free(s->best_y);
    factor_free(&s->schur);
    lattice_free(&s->lattice);
    free(s);
}

static cone_solve_t *cone_solve_new(int nx, int ny, int m, const double *xs, const double *ys,
                                    const double *cost, double epsilon, const wi_options *options) {
    cone_solve_t *s = NEW(cone_solve_t, 1);
    if (!s) return NULL;
    int n = nx * ny, width = padded(n);
    s->options = options, s->n = n, s->m = m, s->width = width, s->pool.threads = 1;
    s->begun = now_s(), s->best_loss = INFINITY, s->best_bound = -INFINITY;
    s->deadline = s->begun + (options->time_limit_s >= 0.0 ? options->time_limit_s : INFINITY);
    int *zero = NEW(int, n), threads = options->threads;
    s->blocks = NEW(cone_block_t, m), s->coupled = NEW(int, m), s->cost = NEW(double, (double)m * n);
    s->strips = NEW(double *, threads), s->order = NEW(int32_t *, threads);
    s->b = NEW(double, 5 * width), s->sum = NEW(double, (double)n * width);
    int failed = !zero || !s->blocks || !s->coupled || !s->cost || !s->strips || !s->order || !s->b || !s->sum ||
                 lattice_new(&s->lattice, nx, ny, xs, ys, epsilon) ||
                 pool_start(&s->pool, threads) || factor_new(&s->schur, n) ||
                 factor_layout(&s->schur, zero);
    free(zero);
    double corners = (double)s->lattice.corners;
    s->best_k = NEW(double, (double)m * n), s->best_y = NEW(double, 3.0 * m * corners);
    failed = failed || !s->best_k || !s->best_y;
    for (int t = 0; t < threads && !failed; t++) {
        s->strips[t] = NEW(double, (double)s->schur.rows * WIDTH);
        s->order[t] = NEW(int32_t, n);
        failed = !s->strips[t] || !s->order[t];
    }
    for (int z = 0; z < m && !failed; z++)
        failed = cone_block_new(s->blocks + z, &s->lattice, s->cost + (int64_t)z * n);
    if (failed) return cone_solve_free(s), NULL;
    s->db = s->b + width, s->try_db = s->b + 2 * width, s->low = s->b + 3 * width;
    s->off = s->b + 4 * width;
    s->unit = 0.0;
    for (int64_t a = 0; a < (int64_t)n * m; a++) s->unit = larger(s->unit, fabs(cost[a]));
    if (!(s->unit > 0.0)) s->unit = 1.0;
    for (int z = 0; z < m; z++)
        for (int x = 0; x < n; x++)
            s->cost[(int64_t)z * n + x] = cost[(int64_t)s->lattice.place[x] * m + z] / s->unit;
    return s;
}

/* How much must be added to every row, whose sums are 1 + off, so that what is added itself obeys the
 * cones: D - off(v) >= |slope of off at v| / epsilon. */
static double filling(const lattice_t *l, const double *off) {
    double most_needed = 0.0;
    for (int64_t r = 0; r < l->corners; r++) {
        const corner_t *at = l->corner + r;
        double a = at->at_a * (off[at->a] - off[at->v]), b = at->at_b * (off[at->b] - off[at->v]);
        most_needed = larger(off[at->v] + sqrt(a * a + b * b), most_needed);
    }
    return most_needed;
}

/* Loss and bound of the iterate; keep what is better than before.
 *
 * The matrix obeys the cones. Its rows add up to 1 only up to rounding, or less exactly after an
 * output was taken back: the output that costs least on its own gets what makes all sums equal. */
static void cone_summarise(cone_solve_t *s) {
    int n = s->n;
    double loss = 0.0, bound = 0.0, bound_of_coupled = 0.0;
    for (int i = 0; i < s->count; i++) loss += s->blocks[s->coupled[i]].loss;
    for (int x = 0; x < n; x++) {
        double low = INFINITY, low_of_coupled = INFINITY, total = 0.0;
        for (int z = 0; z < s->m; z++) {
            const cone_block_t *block = s->blocks + z;
            low = smaller(block->clean[x], low);
            if (!block->coupled) continue;
            low_of_coupled = smaller(block->clean[x], low_of_coupled);
            total += block->k[x];
        }
        bound += low, bound_of_coupled += low_of_coupled;
        s->low[x] = low_of_coupled;
        s->off[x] = total - 1.0;
    }
    s->gap_of_coupled = loss - bound_of_coupled;
    double fill = filling(&s->lattice, s->off), per_sum = 1.0 / (1.0 + fill);
    int alone = s->coupled[0];
    for (int i = 1; i < s->count; i++)
        if (s->blocks[s->coupled[i]].cost_sum < s->blocks[alone].cost_sum) alone = s->coupled[i];
    for (int x = 0; x < n; x++) loss += s->blocks[alone].cost[x] * (fill - s->off[x]);
    loss *= per_sum;
    if (loss < s->best_loss) {
        s->best_loss = loss;
        memset(s->best_k, 0, sizeof(double) * (size_t)n * (size_t)s->m);
        for (int i = 0; i < s->count; i++)
            memcpy(s->best_k + (int64_t)s->coupled[i] * n, s->blocks[s->coupled[i]].k,
                   sizeof(double) * (size_t)n);
        for (int x = 0; x < n; x++) s->best_k[(int64_t)alone * n + x] += fill - s->off[x];
    }
    if (bound > s->best_bound && isfinite(bound)) {
        int64_t numbers = 3 * s->lattice.corners;
        s->best_bound = bound;
        for (int z = 0; z < s->m; z++)
            memcpy(s->best_y + z * numbers, s->blocks[z].multiplier,
                   sizeof(double) * (size_t)numbers);
    }
}

static void list_coupled(cone_solve_t *s) {
    s->count = 0;
    for (int z = 0; z < s->m; z++)
        if (s->blocks[z].coupled) s->coupled[s->count++] = z;
}

static double largest_of(const cone_block_t *block) {
    double entry = 0.0;
    for (int x = 0; x < block->n; x++) entry = larger(block->k[x], entry);
    return entry;
}

/* The output where a column costs least. */
static int cheapest_for(const cone_solve_t *s, int z) {
    double least_cost = INFINITY;
    int to = -1;
    for (int t = 0; t < s->m; t++) {
        double cost = 0.0;
        if (t == z || !s->blocks[t].coupled) continue;
        for (int x = 0; x < s->n; x++) cost += s->blocks[z].k[x] * s->blocks[t].cost[x];
        if (cost < least_cost) least_cost = cost, to = t;
    }
    return to;
}

/* Let outputs that die leave the coupling, which is where the time goes.
 *
 * The column goes to another output, so that the rows still add up to 1. The block itself stays and
 * follows the prices on its own: its multipliers prove that the output does not pay, and count in
 * the bound like all others. If it has none for several steps, the output is taken back. */
static void retire_outputs(cone_solve_t *s) {
    double relative = s->gap_of_coupled / larger(fabs(s->best_loss), 1e-300);
    double dying = larger(DYING, smaller(RETIRING * relative, DYING_MOST));
    for (int z = 0; z < s->m; z++) {
        cone_block_t *block = s->blocks + z;
        double entry = largest_of(block);
        if (block->coupled) {
            int to = block->kept || entry >= dying ? -1 : cheapest_for(s, z);
            if (to < 0) continue;
            add_column(s->blocks + to, block->k);
            block->coupled = 0, block->late = 0;
            continue;
        }
        double missing = 0.0;
        for (int x = 0; x < s->n; x++) missing += larger(s->low[x] - block->clean[x], 0.0);
        block->late = missing > SPOILT * s->gap_of_coupled ? block->late + 1 : 0;
        if (block->late < LATE) continue;
        scale_column(block, smaller(s->mu / complementarity_of(block), DYING_MOST / entry));
        block->coupled = block->kept = 1;
    }
    list_coupled(s);
}

/* Constant columns, multipliers at the centre, prices that fit them on average. */
static void cone_start(cone_solve_t *s) {
    double spread = 0.0, share = 1.0 / s->m;
    for (int x = 0; x < s->n; x++) {
        double low = INFINITY, high = -INFINITY;
        for (int z = 0; z < s->m; z++) {
            low = smaller(s->cost[(int64_t)z * s->n + x], low);
            high = larger(s->cost[(int64_t)z * s->n + x], high);
        }
        spread += high - low;
        s->size += larger(fabs(low), fabs(high));
    }
    s->mu = FIRST_MU * spread / ((double)s->m * (double)s->lattice.corners);
    for (int z = 0; z < s->m; z++) {
        cone_block_t *block = s->blocks + z;
        for (int x = 0; x < s->n; x++) block->k[x] = share, block->cost_sum += block->cost[x];
        for (int64_t r = 0; r < s->lattice.corners; r++) block->cones[r].y[0] = s->mu;
        reduce_costs(block);
        for (int x = 0; x < s->n; x++) s->b[x] += block->reduced[x] * share;
    }
    list_coupled(s);
    cone_summarise(s);
}

static double cone_gap(const cone_solve_t *s) {
    double over = s->best_loss - s->best_bound;
    return over > 0.0 ? over / larger(fabs(s->best_loss), 1e-300) : 0.0;
}

static int cone_descend(cone_solve_t *s) {
    for (;; s->iterations++) {
        double gap = cone_gap(s);
        if (s->options->progress) {
            wi_progress now = {s->iterations, s->m, s->m * s->lattice.corners,
                               s->best_loss * s->unit, s->best_bound * s->unit, gap};
            s->asked = s->options->progress(s->options->context, &now) != 0;
        }
        if (gap <= s->options->tolerance) return WI_SOLVED;
        if (s->best_loss - s->best_bound <= CONE_DIGITS * s->size) return WI_NUMERICS;
        if (s->asked) return WI_STOPPED;
        if (now_s() > s->deadline) return WI_TIME;
        if (cones_stopped(s)) return WI_STOPPED;
        if (s->iterations >= CONE_ITERATIONS) return WI_NUMERICS;
        retire_outputs(s);
        if (cone_newton_step(s)) {
            if (now_s() > s->deadline) return WI_TIME;
            return cones_stopped(s) ? WI_STOPPED : WI_NUMERICS;
        }
        cone_summarise(s);
    }
}

/* The incumbent in the order of the caller, with rows that add up to 1. */
static void cone_result(const cone_solve_t *s, double epsilon, double *matrix, double *multipliers,
                        wi_cone_report *report) {
    int n = s->n, m = s->m;
    double loss = 0.0;
    for (int x = 0; x < n; x++) {
        double total = 0.0, *row = matrix + (int64_t)s->lattice.place[x] * m;
        for (int z = 0; z < m; z++) total += row[z] = s->best_k[(int64_t)z * n + x];
        for (int z = 0; z < m; z++) {
            row[z] /= total;
            loss += row[z] * s->cost[(int64_t)z * n + x];
        }
    }
    for (int64_t a = 0; a < 3 * m * s->lattice.corners; a++)
        multipliers[a] = s->best_y[a] * (s->unit / epsilon);
    report->loss = loss * s->unit, report->bound = s->best_bound * s->unit;
    double over = report->loss - report->bound;
    report->gap = over > 0.0 ? over / larger(fabs(report->loss), 1e-300) : 0.0;
    report->iterations = s->iterations, report->seconds = now_s() - s->begun;
    report->stopped = s->stopped;
}

static int check_axis(const double *at, int count) {
    for (int i = 0; i < count; i++) {
        if (!(fabs(at[i]) <= 1e12)) return WI_BAD_NUMBER;
        if (i && !(at[i] - at[i - 1] >= 1e-12)) return WI_BAD_NUMBER;
    }
    return WI_OK;
}

int32_t WI_EXPORT(wi_cones)(int32_t nx, int32_t ny, int32_t m, const double *xs, const double *ys,
                            const double *cost, double epsilon, const wi_options *given,
                            double *matrix, double *multipliers, wi_cone_report *report) {
    if (nx < 1 || ny < 1 || m < 1 || m > MOST_VERTICES || (int64_t)nx * ny > MOST_VERTICES ||
        (int64_t)nx * ny < 2 || !xs || !ys || !cost || !given || !matrix || !multipliers ||
        !report || !(given->tolerance > 0.0))
        return WI_BAD_SIZE;
    if (check_axis(xs, nx) || check_axis(ys, ny) || !(epsilon >= 1e-9 && epsilon <= 1e9))
        return WI_BAD_NUMBER;
    for (int64_t a = 0; a < (int64_t)nx * ny * m; a++)
        if (!(fabs(cost[a]) <= 1e300)) return WI_BAD_NUMBER;
    wi_options options = *given;
    options.threads = most(1, options.threads);
    int catching = options.catch_interrupt && interrupt_catch(), status = WI_NO_MEMORY;
    cone_solve_t *s = cone_solve_new(nx, ny, m, xs, ys, cost, epsilon, &options);
    if (s) {
        cone_start(s);
        s->stopped = cone_descend(s);
        cone_result(s, epsilon, matrix, multipliers, report);
        status = WI_OK;
    }
    cone_solve_free(s);
    if (catching) interrupt_release();
    return status;
}
