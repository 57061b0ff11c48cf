/* One predictor-corrector step over all blocks of the conic program (Mehrotra 1992; Andersen, Roos,
 * Terlaky: On implementing a primal-dual interior-point method for conic quadratic optimization,
 * Math. Program. 2003), with Gondzio's correctors.
 *
 * Only the n sums of the rows couple the blocks, as in step.c. The Schur complement is summed by
 * strips of its columns: each strip adds up all blocks in their order, so the result does not depend
 * on the number of threads, and one n x n matrix is enough.
 */
#include "constants.h"
#include "vectors.h"

typedef struct {
    lattice_t lattice;
    const wi_options *options;
    pool_t pool;
    int n, m, width;
    double *cost;          /* (m, n), divided by `unit` */
    double unit, begun, deadline;
    cone_block_t *blocks;  /* (m) */
    int *coupled, count;   /* the blocks that are coupled by the sums of the rows */
    double *b, *db, *try_db;
    double *low;           /* the least reduced costs of the coupled blocks */
    double *sum;           /* (n, width) the Schur complement */
    double **strips;       /* (threads) see add_inverse */
    int32_t **order;       /* (threads) see clean_cones */
    factor_t schur;
    double *off;           /* by how much the sums of the rows are above 1 */
    double mu, gap_of_coupled, size;       /* size: the sum over the vertices of their largest cost */
    double best_loss, best_bound, *best_k, *best_y;
    int iterations, stopped, asked;
} cone_solve_t;

typedef struct {
    cone_solve_t *s;
    const double *db;
    double target, primal, dual;
    int trial, affine;
} cone_pass_t;

static int cones_stopped(const cone_solve_t *s) {
    return s->asked || (s->options->stop && *s->options->stop) || interrupted ||
           now_s() > s->deadline;
}

static void run_cones(cone_solve_t *s, int items, loop_body body, cone_pass_t *pass) {
    pass->s = s;
    if (50.0 * items * (double)s->lattice.corners >= WORTH_THREADS)
        pool_run(&s->pool, items, body, pass);
    else
        for (int item = 0; item < items; item++) body(pass, item, 0);
}

static void cone_predict_task(void *context, int64_t item, int thread) {
    (void)thread;
    cone_pass_t *pass = context;
    cone_solve_t *s = pass->s;
    cone_block_t *block = s->blocks + s->coupled[item];
    if (cones_stopped(s)) {
        block->trouble = WI_NUMERICS;
        return;
    }
    if (factor_cones(block)) return;
    for (int64_t r = 0; r < s->lattice.corners; r++)
        for (int a = 0; a < 3; a++)
            block->cones[r].target[a] = -block->cones[r].scaling.lambda[a];
    cone_right_side(block, s->b);
    block->tau = solve_cones(block, block->rhs, block->rhs_sum, block->v);
}

static void cone_schur_task(void *context, int64_t item, int thread) {
    cone_pass_t *pass = context;
    cone_solve_t *s = pass->s;
    int left = (int)item * WIDTH;
    for (int i = left; i < s->n; i++)
        memset(s->sum + (int64_t)i * s->width + left, 0, sizeof(double) * WIDTH);
    for (int i = 0; i < s->count && !cones_stopped(s); i++) {
        const cone_block_t *block = s->blocks + s->coupled[i];
        add_inverse_strip(&block->factor, (int)item, block->grounded, block->k, block->w,
                          1.0 / block->sigma, s->sum, s->strips[thread]);
    }
    factor_t *f = &s->schur;
    for (int y = left; y < s->n; y++) /* the lower triangle here is the upper one of the factor */
        for (int x = left; x <= least(y, left + WIDTH - 1); x++)
            *entry(f, x, y) = s->sum[(int64_t)y * s->width + x];
}

/* Factor all blocks and the Schur complement. Return 0 if that worked. */
static int factor_all_cones(cone_solve_t *s) {
    cone_pass_t pass = {.s = s};
    run_cones(s, s->count, cone_predict_task, &pass);
    for (int i = 0; i < s->count; i++)
        if (s->blocks[s->coupled[i]].trouble) return 1;
    factor_t *f = &s->schur;
    memset(f->values, 0, sizeof(double) * (size_t)f->at[f->strips]);
    if ((double)s->count * s->n * s->n * 16 >= WORTH_THREADS)
        pool_run(&s->pool, f->strips, cone_schur_task, &pass);
    else
        for (int strip = 0; strip < f->strips; strip++) cone_schur_task(&pass, strip, 0);
    if (cones_stopped(s)) return 1;
    for (int x = 0; x < s->n; x++) *entry(f, x, x) *= 1.0 + RIDGE;
    for (int x = s->n; x < f->rows; x++) *entry(f, x, x) = 1.0;
    return cholesky(f);
}

/* db: the change of the prices that makes every row add up to 1. */
static void solve_cone_schur(cone_solve_t *s, double *db) {
    memset(db, 0, sizeof(double) * (size_t)s->width);
    for (int i = 0; i < s->count; i++) {
        const cone_block_t *block = s->blocks + s->coupled[i];
        for (int x = 0; x < s->n; x++) db[x] += block->k[x] * (1.0 + block->v[x] + block->tau);
    }
    for (int x = 0; x < s->n; x++) db[x] = 1.0 - db[x];
    factor_solve(&s->schur, db);
}

static void cone_direct_task(void *context, int64_t item, int thread) {
    (void)thread;
    cone_pass_t *pass = context;
    cone_solve_t *s = pass->s;
    cone_block_t *block = s->blocks + s->coupled[item];
    double *u = pass->trial ? block->try_u : block->u, sum = block->rhs_sum;
    for (int x = 0; x < s->n; x++) {
        double push = block->k[x] * pass->db[x];
        u[x] = block->rhs[x] + push;
        sum += push;
    }
    cone_direction_t *direction = pass->trial ? block->trial : block->direction;
    double tau = solve_cones(block, u, sum, u);
    cone_steps(block, u, tau, direction);
    for (int x = 0; x < s->n; x++) u[x] += tau;
    if (pass->affine) cone_products(block, direction);
}

static void cone_correct_task(void *context, int64_t item, int thread) {
    (void)thread;
    cone_pass_t *pass = context;
    cone_block_t *block = pass->s->blocks + pass->s->coupled[item];
    if (pass->primal == 0.0) mehrotra_targets(block, pass->target);
    else gondzio_targets(block, pass->target, pass->primal, pass->dual);
    cone_right_side(block, pass->s->b);
    block->tau = solve_cones(block, block->rhs, block->rhs_sum, block->v);
}

static void cone_advance_task(void *context, int64_t item, int thread) {
    cone_pass_t *pass = context;
    cone_solve_t *s = pass->s;
    cone_block_t *block = s->blocks + item;
    if (block->coupled) move_cones(block, pass->primal, pass->dual);
    else follow_prices(block, s->b);
    reduce_costs(block);
    clean_cones(block, s->b, s->order[thread]);
}

/* Finish a direction once the coupling is known; return the longest steps. */
static void direct_cones(cone_solve_t *s, const double *db, double share, int trial, int affine,
                         double *primal, double *dual) {
    cone_pass_t pass = {.db = db, .trial = trial, .affine = affine};
    run_cones(s, s->count, cone_direct_task, &pass);
    double per_primal = 0.0, per_dual = 0.0;
    for (int i = 0; i < s->count; i++) {
        per_primal = larger(s->blocks[s->coupled[i]].per_primal, per_primal);
        per_dual = larger(s->blocks[s->coupled[i]].per_dual, per_dual);
    }
    *primal = step_length(per_primal, share), *dual = step_length(per_dual, share);
}

static void sum_products(const cone_solve_t *s, double *out) {
    for (int a = 0; a < 4; a++) {
        out[a] = 0.0;
        for (int i = 0; i < s->count; i++) out[a] += s->blocks[s->coupled[i]].products[a];
    }
}

/* Take one step; return 0 if the numbers allowed one. */
static int cone_newton_step(cone_solve_t *s) {
    double products[4], primal, dual, *db = s->db, *try_db = s->try_db;
    double cones = (double)s->count * (double)s->lattice.corners;
    if (factor_all_cones(s)) return 1;
    solve_cone_schur(s, db);
    direct_cones(s, db, 1.0, 0, 1, &primal, &dual);
    sum_products(s, products);
    cone_pass_t correct = {.target = centering(products, primal, dual, cones)};
    run_cones(s, s->count, cone_correct_task, &correct);
    solve_cone_schur(s, db);
    direct_cones(s, db, STEP_TO_BOUNDARY, 0, 0, &primal, &dual);
    for (int corrector = 0; corrector < CORRECTORS && primal + dual <= LONG_STEP; corrector++) {
        double try_primal, try_dual;
        correct.primal = smaller(1.0, 1.1 * primal + 0.3);
        correct.dual = smaller(1.0, 1.1 * dual + 0.3);
        run_cones(s, s->count, cone_correct_task, &correct);
        solve_cone_schur(s, try_db);
        direct_cones(s, try_db, STEP_TO_BOUNDARY, 1, 0, &try_primal, &try_dual);
        if (!(try_primal + try_dual > primal + dual + CORRECTOR_GAIN)) break;
        primal = try_primal, dual = try_dual;
        double *swap = db;
        db = try_db, try_db = swap;
        for (int i = 0; i < s->count; i++) {
            cone_block_t *block = s->blocks + s->coupled[i];
            cone_direction_t *direction = block->direction;
            double *u = block->u;
            block->direction = block->trial, block->trial = direction;
            block->u = block->try_u, block->try_u = u;
        }
    }
    for (int i = 0; i < s->count; i++)
        cone_products(s->blocks + s->coupled[i], s->blocks[s->coupled[i]].direction);
    sum_products(s, products);
    int finite = isfinite(primal + dual) != 0;
    for (int x = 0; x < s->n; x++) {
        finite &= isfinite(db[x]) != 0;
        for (int i = 0; i < s->count; i++)
            finite &= isfinite(s->blocks[s->coupled[i]].u[x]) != 0;
    }
    if (!finite) return 1;
    for (int x = 0; x < s->n; x++) s->b[x] += dual * db[x];
    s->mu = complementarity_after(products, primal, dual) / cones;
    cone_pass_t advance = {.primal = primal, .dual = dual};
    run_cones(s, s->m, cone_advance_task, &advance);
    return 0;
}
