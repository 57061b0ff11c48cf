/* One predictor-corrector step over all blocks (Mehrotra 1992), with Gondzio's correctors (1996).
 *
 * Only n rows couple the blocks: the probabilities of each input add up to 1. So a Newton step is
 * one n x n factorisation for each block, and one n x n system between them: the Schur complement,
 * the sum over the blocks of K H^-1 K.
 */
#include "constants.h"
#include "vectors.h"

/* The step that goes this share of the way to the nearest bound, 1 at most. */
INLINE double step_length(double per_longest, double share) {
    return smaller(1.0, share / larger(per_longest, 1e-300));
}

/* The sum of slack dual after steps of these lengths. */
INLINE double complementarity_after(const double *products, double primal, double dual) {
    return products[0] + primal * products[1] + dual * products[2] + primal * dual * products[3];
}

/* Mehrotra's target for slack dual: the smaller, the more the affine step would achieve. */
INLINE double centering(const double *products, double primal, double dual, double rows) {
    double ratio = complementarity_after(products, primal, dual) / products[0];
    ratio = larger(ratio, CENTERING_FLOOR);
    return products[0] / rows * ratio * ratio * ratio;
}

/* sum += K H^-1 K for a block of some places; `sum` has the layout of the Schur complement. */
static void add_local_inverse(const solve_t *s, const block_t *block, double *sum, scratch_t *own) {
    int n = block->n;
    int64_t width = padded(n);
    factor_t to = s->schur;
    to.values = sum;
    memset(own->dense, 0, sizeof(double) * (size_t)(n * width));
    add_inverse(&block->factor, block->grounded, block->k, block->w, 1.0 / block->sigma, own->dense,
                own->strip);
    for (int y = 0; y < n; y++) {
        const double *from = own->dense + y * width;
        double *at = strip_row(&to, block->place[y] / WIDTH, to.top[block->place[y] / WIDTH]) +
                     block->place[y] % WIDTH;
        const int top = to.top[block->place[y] / WIDTH];
        for (int x = 0; x <= y; x++) at[(int64_t)(block->place[x] - top) * WIDTH] += from[x];
    }
}

/* Factor a block, add its share of the Schur complement to `sum`, solve for the affine direction. */
static void factor_and_predict(solve_t *s, block_t *block, double *sum, scratch_t *own) {
    double *pull = own->vectors;
    const double *b = gathered(block, s->b, pull + s->width);
    if (block_scratch(block)) {
        block->trouble = WI_NO_MEMORY;
        return;
    }
    for (int x = 0; x < block->n; x++)
        pull[x] = block->k[x] * (block->cost[x] - b[x] - block->residual[x]);
    spread_rows(block);
    for (int64_t r = 0; r < block->count; r++)
        block->complementarity_rhs[r] = -block->arrays.slack[r] * block->arrays.dual[r];
    right_side(block, block->residual);
    begin_solve(block, block->rhs, block->v);
    if (factor_block(block, pull, block->v)) return;
    if (block->place) add_local_inverse(s, block, sum, own);
    else
        add_inverse(&block->factor, block->grounded, block->k, block->w, 1.0 / block->sigma, sum,
                    own->strip);
    block->tau = end_solve(block, block->rhs, block->rhs_sum, block->v);
}

INLINE int first_of_part(const solve_t *s, int part) {
    int low = 0, high = s->count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (s->blocks[middle]->part < part) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* The sum of the Schur complements under a node of the tree, into the layers of `sums`. */
static void factor_node(solve_t *s, node_t node, double *sums, scratch_t *own) {
    int64_t numbers = s->schur_numbers;
    if (node.high - node.low == 1) {
        memset(sums, 0, sizeof(double) * (size_t)numbers);
        for (int z = first_of_part(s, node.low); z < first_of_part(s, node.high); z++) {
            if (is_stopped(s)) s->blocks[z]->trouble = WI_NUMERICS;
            else factor_and_predict(s, s->blocks[z], sums, own);
            if (s->blocks[z]->trouble) return;
        }
        return;
    }
    int middle = (node.low + node.high) / 2;
    factor_node(s, (node_t){node.low, middle}, sums, own);
    factor_node(s, (node_t){middle, node.high}, sums + numbers, own);
    for (int64_t a = 0; a < numbers; a++) sums[a] += sums[numbers + a];
}

typedef struct {
    solve_t *s;
    node_t tasks[MANY_PARTS];
    int count;
} factor_tasks;

static void factor_task(void *context, int64_t item, int thread) {
    factor_tasks *all = context;
    solve_t *s = all->s;
    scratch_t *own = s->scratch + thread;
    node_t node = all->tasks[item];
    if (node.high - node.low == 1) {
        factor_node(s, node, s->task_sums[item], own);
        return;
    }
    factor_node(s, node, own->sums, own);
    memcpy(s->task_sums[item], own->sums, sizeof(double) * (size_t)s->schur_numbers);
}

/* Cut the subtrees of this member into tasks for the threads: 16 at least, where there are so many. */
static void cut_tasks(const solve_t *s, factor_tasks *all) {
    memcpy(all->tasks, s->node, sizeof(node_t) * (size_t)s->nodes);
    all->count = s->nodes;
    int wanted = most(PARTS, 4 * s->pool.threads);
    while (all->count < least(wanted, MANY_PARTS)) {
        int widest = 0;
        for (int a = 1; a < all->count; a++)
            if (all->tasks[a].high - all->tasks[a].low >
                all->tasks[widest].high - all->tasks[widest].low)
                widest = a;
        node_t node = all->tasks[widest];
        if (node.high - node.low < 2) break;
        memmove(all->tasks + widest + 2, all->tasks + widest + 1,
                sizeof(node_t) * (size_t)(all->count - widest - 1));
        int middle = (node.low + node.high) / 2;
        all->tasks[widest] = (node_t){node.low, middle};
        all->tasks[widest + 1] = (node_t){middle, node.high};
        all->count++;
    }
}

/* What the columns of each part would add up to after the step. */
static void push_leaves(const solve_t *s, double *leaves, int64_t stride) {
    for (int z = 0; z < s->count; z++) {
        const block_t *block = s->blocks[z];
        double *to = leaves + (block->part - s->low) * stride;
        if (block->place)
            for (int x = 0; x < block->n; x++)
                to[block->place[x]] += block->k[x] * (1.0 + block->v[x] + block->tau);
        else
            for (int x = 0; x < s->n; x++) to[x] += block->k[x] * (1.0 + block->v[x] + block->tau);
    }
}

static double *new_leaves(solve_t *s, int64_t stride) {
    double *leaves = NEW(double, (double)(s->high - s->low) * (double)stride);
    if (!leaves) s->failed = WI_NO_MEMORY;
    return leaves;
}

/* db: the change of the prices that makes the probabilities of every input add up to its amount. */
static void solve_schur(const solve_t *s, const double *push, double *db) {
    for (int x = 0; x < s->n; x++) db[x] = s->amount[x] - push[x];
    for (int x = s->n; x < s->width; x++) db[x] = 0.0;
    factor_solve(&s->schur, db);
}

static int push_and_solve(solve_t *s, double *db) {
    double *leaves = new_leaves(s, s->n);
    if (!leaves) return -1;
    push_leaves(s, leaves, s->n);
    int failed = reduce(s, leaves, s->n, s->push, NULL, 0);
    free(leaves);
    if (!failed) solve_schur(s, s->push, db);
    return failed;
}

/* Factor all blocks and the Schur complement; leave the affine push in s->push. */
static int factor_all(solve_t *s) {
    int n = s->n, troubled = 0;
    factor_tasks all = {.s = s};
    cut_tasks(s, &all);
    for (int a = 0; a < all.count; a++)
        if (!s->task_sums[a] && !(s->task_sums[a] = NEW(double, s->schur_numbers)))
            return s->failed = WI_NO_MEMORY;
    run(s, all.count, (double)s->count * n * n * n, factor_task, &all);
    for (int z = 0; z < s->count; z++) {
        if (s->blocks[z]->trouble == WI_NO_MEMORY) s->failed = WI_NO_MEMORY;
        troubled |= s->blocks[z]->trouble != 0;
    }
    double *sums[MANY_PARTS];
    memcpy(sums, s->task_sums, sizeof sums);
    int64_t numbers = s->schur_numbers, triangle = (int64_t)n * (n + 1) / 2;
    int roots[MAX_NODES];
    for (int a = 0; a < s->nodes; a++)
        roots[a] = fold(all.tasks, sums, all.count, s->node[a], numbers);
    double *leaves = new_leaves(s, n);
    if (!leaves) return -1;
    if (!troubled) push_leaves(s, leaves, n);
    const double *matrix = s->task_sums[roots[0]];
    if (s->options.members == 1) {
        int failed = reduce(s, leaves, n, s->push, NULL, 0);
        free(leaves);
        if (failed || troubled) return 1;
    } else {
        /* One message: the push and the triangle of every subtree, and whether a block failed. */
        int64_t each = n + triangle, total = s->nodes * each + 1;
        double *message = NEW(double, total), flag = troubled;
        if (!message) return free(leaves), s->failed = WI_NO_MEMORY;
        for (int a = 0; a < s->nodes; a++) {
            double *to = message + a * each, *first = leaves + (s->node[a].low - s->low) * n;
            int span = s->node[a].high - s->node[a].low;
            for (int step = 1; step < span; step *= 2)
                for (int p = 0; p + step < span; p += 2 * step)
                    for (int x = 0; x < n; x++) first[p * n + x] += first[(p + step) * n + x];
            memcpy(to, first, sizeof(double) * (size_t)n);
            const double *from = s->task_sums[roots[a]];
            for (int64_t x = 0, at = n; x < n; at += ++x)
                memcpy(to + at, from + x * s->width, sizeof(double) * (size_t)(x + 1));
        }
        message[s->nodes * each] = flag;
        free(leaves);
        if (s->options.all_reduce(s->options.context, message, each, 1)) {
            free(message);
            return s->failed = WI_COMMUNICATION;
        }
        memcpy(s->push, message, sizeof(double) * (size_t)n);
        double *to = s->task_sums[roots[0]];
        for (int64_t x = 0, at = n; x < n; at += ++x)
            memcpy(to + x * s->width, message + at, sizeof(double) * (size_t)(x + 1));
        troubled = message[each] != 0.0;
        free(message);
        if (troubled) return 1;
    }
    factor_t *f = &s->schur;
    if (s->is_local) memcpy(f->values, matrix, sizeof(double) * (size_t)numbers);
    else {
        memset(f->values, 0, sizeof(double) * (size_t)f->at[f->strips]);
        for (int y = 0; y < n; y++)
            for (int x = 0; x <= y; x++) *entry(f, x, y) = matrix[(int64_t)y * s->width + x];
    }
    for (int x = n; x < f->rows; x++) *entry(f, x, x) = 1.0;
    return cholesky(f);
}

/* The loops over blocks that cost n^2 each. */
typedef struct {
    solve_t *s;
    const double *db;
    double target, primal, dual;
    double join_share; /* see join_rows */
    int trial, affine, clean;
    int together; /* blocks that one task of a direction or correction solves for */
} pass_t;

/* G^-1 of the right sides in `sides`, for so many blocks. */
static void solve_sides(block_t *const *blocks, double *const *sides, int count) {
    for (int a = 0; a < count; a++) sides[a][blocks[a]->grounded] = 0.0;
    if (count == TURNS) {
        const factor_t *factors[TURNS];
        for (int a = 0; a < TURNS; a++) factors[a] = &blocks[a]->factor;
        solve_in_turns(factors, sides, TURNS);
        return;
    }
    if (count == 2)
        factor_solve_two(&blocks[0]->factor, sides[0], &blocks[1]->factor, sides[1]);
    else
        for (int a = 0; a < count; a++) factor_solve(&blocks[a]->factor, sides[a]);
}

/* Finish a direction once the coupling is known; note how far each block could go. */
static void direct_task(void *context, int64_t item, int thread) {
    pass_t *pass = context;
    solve_t *s = pass->s;
    block_t *const *blocks = s->blocks + item * pass->together;
    int count = least(pass->together, s->count - (int)item * pass->together);
    double *full = s->scratch[thread].vectors, *u[TURNS], sums[TURNS];
    for (int a = 0; a < count; a++) {
        block_t *block = blocks[a];
        double *to = full + (int64_t)a * s->width, sum = block->rhs_sum;
        const double *db = gathered(block, pass->db, full + TURNS * (int64_t)s->width);
        for (int x = 0; x < block->n; x++) {
            double push = block->k[x] * db[x];
            to[x] = block->rhs[x] + push;
            sum += push;
        }
        sums[a] = sum, u[a] = pass->trial ? block->try_u : block->u;
        begin_solve(block, to, u[a]);
    }
    solve_sides(blocks, u, count);
    for (int a = 0; a < count; a++) {
        block_t *block = blocks[a];
        row_direction_t direction = pass->trial ? block->trial : block->direction;
        double tau = end_solve(block, full + (int64_t)a * s->width, sums[a], u[a]);
        row_steps(block, u[a], tau, direction);
        for (int x = 0; x < block->n; x++) u[a][x] += tau;
        if (pass->affine) row_products(block, direction);
    }
}

/* Solve a block for a step towards slack dual = target.
 *
 * Without step lengths this is Mehrotra's corrector: the second-order term of the affine step is
 * compensated. With them it is Gondzio's: rows that a step of these lengths would leave far off the
 * centre are pulled back towards it. */
static void correct_rows(const pass_t *pass, block_t *block) {
    const double target = pass->target, low = CENTRAL_LOW * target, high = CENTRAL_HIGH * target;
    const row_arrays_t *a = &block->arrays;
    const row_direction_t d = block->direction;
    const vec none = {0};
    for (int64_t r = 0; r < block->count; r += LANES) {
        vec slack = load(a->slack + r), dual = load(a->dual + r);
        vec d_slack = load(d.slack + r), d_dual = load(d.dual + r);
        double *rhs = block->complementarity_rhs + r;
        if (pass->primal == 0.0) {
            store(rhs, target - slack * dual - d_slack * d_dual);
            continue;
        }
        vec product = (slack + pass->primal * d_slack) * (dual + pass->dual * d_dual);
        vec up = __builtin_elementwise_max(low - product, none);
        vec down = __builtin_elementwise_min(high - product, none);
        store(rhs, load(rhs) + up + __builtin_elementwise_max(down, none - high));
    }
    right_side(block, block->residual);
    begin_solve(block, block->rhs, block->v);
}

static void correct_task(void *context, int64_t item, int thread) {
    (void)thread;
    pass_t *pass = context;
    block_t *const *blocks = pass->s->blocks + item * pass->together;
    int count = least(pass->together, pass->s->count - (int)item * pass->together);
    double *v[TURNS];
    for (int a = 0; a < count; a++) correct_rows(pass, blocks[a]), v[a] = blocks[a]->v;
    solve_sides(blocks, v, count);
    for (int a = 0; a < count; a++)
        blocks[a]->tau = end_solve(blocks[a], blocks[a]->rhs, blocks[a]->rhs_sum, v[a]);
}


static void limit_task(void *context, int64_t item, int thread) {
    pass_t *pass = context;
    solve_t *s = pass->s;
    block_t *block = s->blocks[item];
    block->per_primal = far_off(block, block->pairs, block->u, STEP_TO_BOUNDARY / pass->primal,
                                s->scratch[thread].vectors);
    row_products(block, block->direction);
    int finite = 1;
    for (int x = 0; x < block->n; x++) finite &= isfinite(block->u[x]) != 0;
    block->trouble = !finite;
}

/* Take the step, constrain the pairs that came near, compute reduced costs. */
static void advance_task(void *context, int64_t item, int thread) {
    pass_t *pass = context;
    solve_t *s = pass->s;
    block_t *block = s->blocks[item];
    scratch_t *own = s->scratch + thread;
    move_block(block, block->direction, block->u, pass->primal, pass->dual);
    const double *b = gathered(block, s->b, own->vectors);
    if (join_rows(block, block->pairs, b, s->mu, pass->join_share)) return;
    if (scratch_rows(own, s->n, block->count)) {
        block->trouble = WI_NO_MEMORY;
        return;
    }
    reduced_cost(block, block->cost, block->reduced, own->multiplier);
    for (int x = 0; x < block->n; x++) block->residual[x] = block->reduced[x] - b[x];
    if (pass->clean)
        clean(block, b, block->cost, block->reduced, own->multiplier, own->links);
}

static void run_blocks(solve_t *s, loop_body body, pass_t *pass) {
    pass->s = s;
    run(s, s->count, 8.0 * s->count * s->n * s->n, body, pass);
}

/* Directions and corrections: TURNS blocks in a task, where there are enough for all threads and
 * all have the same places. */
static void run_in_turns(solve_t *s, loop_body body, pass_t *pass) {
    int in_turns = s->count >= 8 * s->pool.threads && !s->is_local;
    pass->s = s, pass->together = in_turns ? TURNS : 1;
    int items = (s->count + pass->together - 1) / pass->together;
    run(s, items, 8.0 * s->count * s->n * s->n, body, pass);
}

static int reduce_products(solve_t *s, double *out, double *maxima, int count) {
    double leaves[MANY_PARTS * 4] = {0};
    for (int z = 0; z < s->count; z++)
        for (int a = 0; a < 4; a++)
            leaves[4 * (s->blocks[z]->part - s->low) + a] += s->blocks[z]->products[a];
    return reduce(s, leaves, 4, out, maxima, count);
}

/* Finish a direction with the push of the last correction; return its step lengths. */
static int direct(solve_t *s, double *db, double share, int trial, double *products, double *primal,
                  double *dual) {
    pass_t pass = {.db = db, .trial = trial, .affine = products != NULL};
    run_in_turns(s, direct_task, &pass);
    double maxima[2] = {0.0, 0.0};
    for (int z = 0; z < s->count; z++) {
        maxima[0] = larger(s->blocks[z]->per_primal, maxima[0]);
        maxima[1] = larger(s->blocks[z]->per_dual, maxima[1]);
    }
    if (products ? reduce_products(s, products, maxima, 2) : reduce(s, NULL, 0, NULL, maxima, 2))
        return -1;
    *primal = step_length(maxima[0], share), *dual = step_length(maxima[1], share);
    return 0;
}

/* Summarise the blocks: least reduced costs, loss, what the columns add up to, largest entries. */
static int summarise(solve_t *s) {
    int n = s->n;
    int64_t stride = n + 2, maxima = n + s->in_use;
    double *leaves = new_leaves(s, stride), *sums = NEW(double, stride);
    double *extremes = NEW(double, maxima);
    if (!leaves || !sums || !extremes) {
        free(leaves), free(sums), free(extremes);
        return s->failed = WI_NO_MEMORY;
    }
    for (int x = 0; x < n; x++) extremes[x] = -INFINITY;
    int at = 0;
    for (int z = 0; z < s->count; z++) {
        const block_t *block = s->blocks[z];
        double *to = leaves + (block->part - s->low) * stride, loss = 0.0, largest = 0.0;
        for (int x = 0; x < block->n; x++) {
            int at_place = place_of(block, x);
            loss += block->cost[x] * block->k[x];
            to[at_place] += block->k[x];
            largest = larger(block->k[x], largest);
            extremes[at_place] = larger(-block->reduced[x], extremes[at_place]);
        }
        to[n] += loss, to[n + 1] += (double)block->count;
        while (s->used[at] != block->output) at++;
        extremes[n + at] = largest;
    }
    int failed = reduce(s, leaves, stride, sums, extremes, maxima);
    if (!failed) {
        for (int x = 0; x < n; x++) s->least_reduced[x] = -extremes[x], s->totals[x] = sums[x];
        s->loss = sums[n], s->rows = (int64_t)sums[n + 1];
        memcpy(s->largest, extremes + n, sizeof(double) * (size_t)s->in_use);
    }
    free(leaves), free(sums), free(extremes);
    return failed;
}

/* Take one predictor-corrector step; return 0 if the numbers allowed one. */
static int newton_step(solve_t *s) {
    double products[4], primal, dual, *db = s->db, *try_db = s->try_db;
    if (factor_all(s)) return 1;
    solve_schur(s, s->push, db);
    if (direct(s, db, 1.0, 0, products, &primal, &dual)) return 1;
    pass_t correct = {.target = centering(products, primal, dual, (double)s->rows)};
    run_in_turns(s, correct_task, &correct);
    if (push_and_solve(s, db) || direct(s, db, STEP_TO_BOUNDARY, 0, NULL, &primal, &dual)) return 1;
    for (int corrector = 0; corrector < CORRECTORS && primal + dual <= LONG_STEP; corrector++) {
        double try_primal, try_dual;
        correct.primal = smaller(1.0, 1.1 * primal + 0.3);
        correct.dual = smaller(1.0, 1.1 * dual + 0.3);
        run_in_turns(s, correct_task, &correct);
        if (push_and_solve(s, try_db) ||
            direct(s, try_db, STEP_TO_BOUNDARY, 1, NULL, &try_primal, &try_dual))
            return 1;
        if (!(try_primal + try_dual > primal + dual + CORRECTOR_GAIN)) break;
        primal = try_primal, dual = try_dual;
        double *swap = db;
        db = try_db, try_db = swap;
        for (int z = 0; z < s->count; z++) {
            block_t *block = s->blocks[z];
            row_direction_t direction = block->direction;
            double *u = block->u;
            block->direction = block->trial, block->trial = direction;
            block->u = block->try_u, block->try_u = u;
        }
    }
    pass_t advance = {.primal = primal};
    run_blocks(s, limit_task, &advance);
    double maxima[2] = {0.0, 0.0}; /* 1 / the longest step, and whether a number is not finite */
    for (int z = 0; z < s->count; z++) {
        maxima[0] = larger(s->blocks[z]->per_primal, maxima[0]);
        maxima[1] = larger((double)s->blocks[z]->trouble, maxima[1]);
    }
    for (int x = 0; x < s->n; x++)
        if (!isfinite(db[x])) maxima[1] = 1.0;
    if (reduce_products(s, products, maxima, 2)) return 1;
    primal = smaller(primal, step_length(maxima[0], STEP_TO_BOUNDARY));
    if (maxima[1] != 0.0 || !isfinite(primal + dual)) return 1;
    for (int x = 0; x < s->n; x++) s->b[x] += dual * db[x];
    s->mu = complementarity_after(products, primal, dual) / (double)s->rows;
    advance.primal = primal, advance.dual = dual;
    int late = s->n >= LARGE && s->mu * (double)s->rows < JOIN_GAP * s->loss;
    advance.join_share = late ? JOIN_LATE : JOIN_DUAL;
    s->closing = s->mu * (double)s->rows <= CLOSING * s->target * s->loss;
    advance.clean = s->options.progress || s->closing;
    run_blocks(s, advance_task, &advance);
    for (int z = 0; z < s->count; z++)
        if (s->blocks[z]->trouble == WI_NO_MEMORY) s->failed = WI_NO_MEMORY;
    return summarise(s) || s->failed;
}
