/* The method: descend along the central path, price the outputs left out, let those that pay join,
 * until the gap between the incumbent and the bound is closed.
 *
 * Three things make it fast. Only outputs that carry probability are in the program; pricing proves
 * the others useless (column generation). Only pairs that come near their limit are constrained;
 * they join while the method runs, without a restart. Everything is kept relative to the iterate
 * (see block.c).
 */
#include "constants.h"
#include "vectors.h"

/* Which output loses least where each row of the kernel was reported, among `outputs`. */
typedef struct {
    const wi_program *p;
    const double *prior, *kernel, *weight;
    const int32_t *outputs;
    int count;
    int32_t *best;
    uint8_t *nearly; /* marks the outputs that are nearly the best of a row with a weight */
    double **lost;
} remap_t;

static void remap_task(void *context, int64_t z, int thread) {
    remap_t *task = context;
    const wi_program *p = task->p;
    double *lost = task->lost[thread];
    for (int y = 0; y < task->count; y++) lost[y] = 0.0;
    for (int x = 0; x < p->n; x++) {
        double share = task->prior[x] * task->kernel[(int64_t)x * p->n + z];
        const double *loss = p->loss + (int64_t)x * p->m;
        if (task->count == p->m)
            for (int y = 0; y < task->count; y++) lost[y] += share * loss[y];
        else
            for (int y = 0; y < task->count; y++) lost[y] += share * loss[task->outputs[y]];
    }
    int best = 0;
    for (int y = 1; y < task->count; y++)
        if (lost[y] < lost[best]) best = y;
    task->best[z] = best;
    if (!task->nearly || !(task->weight[z] > 0.0)) return;
    for (int y = 0; y < task->count; y++)
        if (lost[y] <= (1.0 + NEARLY_BEST) * lost[best]) task->nearly[y] = 1;
}

static int remap(pool_t *pool, remap_t task) {
    const wi_program *p = task.p;
    int failed = 0;
    task.lost = NEW(double *, pool->threads);
    if (!task.lost) return -1;
    for (int t = 0; t < pool->threads; t++)
        if (!(task.lost[t] = NEW(double, task.count))) failed = -1;
    if (!failed && (double)p->n * p->n * task.count >= WORTH_THREADS)
        pool_run(pool, p->n, remap_task, &task);
    else
        for (int64_t z = 0; !failed && z < p->n; z++) remap_task(&task, z, 0);
    for (int t = 0; t < pool->threads; t++) free(task.lost[t]);
    free(task.lost);
    return failed;
}

/* Guess the outputs in use: those of the tight-constraints mechanism after its best remap.
 *
 * At both epsilons: together they miss half as many as the first alone, and an output missed costs
 * more iterations than one too many. In large programs, where it costs most, also those that are
 * nearly the best. Return how many there are, or -1. */
static int likely_outputs(pool_t *pool, const wi_program *p, const double *prior,
                          int32_t *outputs) {
    int count = 0;
    if (p->m <= ALL_OUTPUTS) {
        for (int z = 0; z < p->m; z++) outputs[z] = z;
        return p->m;
    }
    uint8_t *likely = NEW(uint8_t, p->m);
    int32_t *best = NEW(int32_t, p->n);
    int failed = !likely || !best;
    for (int a = 0; a < 2 && !failed; a++) {
        failed = remap(pool, (remap_t){.p = p, .prior = prior, .kernel = p->kernel[a],
                                       .weight = p->weight[a], .count = p->m, .best = best,
                                       .nearly = p->n >= LARGE ? likely : NULL});
        for (int z = 0; z < p->n && !failed; z++)
            if (p->weight[a][z] > 0.0) likely[best[z]] = 1;
    }
    for (int z = 0; z < p->m && !failed; z++)
        if (likely[z]) outputs[count++] = z;
    if (!failed && count == 0) outputs[count++] = 0;
    free(likely), free(best);
    return failed ? -1 : count;
}

static int parts_of(int n, int outputs) {
    if ((double)outputs * n * n * n < WORTH_THREADS) return 1;
    return n < MANY_INPUTS ? PARTS : MANY_PARTS;
}

/* Prior in the order of the program. */
static double *ordered_prior(const wi_program *p, const double *prior) {
    double *ordered = NEW(double, p->n);
    for (int x = 0; ordered && x < p->n; x++) ordered[x] = prior[p->order[x]];
    return ordered;
}

int32_t WI_EXPORT(wi_parts)(const wi_program *p, const double *prior) {
    if (!p || !prior || check_numbers(prior, p->n, 0)) return 0;
    double *ordered = ordered_prior(p, prior);
    int32_t *outputs = NEW(int32_t, p->m);
    pool_t pool;
    int count = -1;
    if (ordered && outputs && !pool_start(&pool, 1))
        count = likely_outputs(&pool, p, ordered, outputs);
    free(ordered), free(outputs);
    if (count < 0) return 0;
    return (double)count * p->n * p->n * p->n < WORTH_MEMBERS ? 1 : parts_of(p->n, count);
}

/* Columns of the outputs in use to begin with: those of the tight-constraints mechanism at the
 * smaller epsilon, remapped, and an equal share of columns inside all pairs. */
static double *first_columns(solve_t *s) {
    const wi_program *p = s->p;
    int n = s->n, count = s->in_use;
    double *columns = NEW(double, (double)count * n), *sums = NEW(double, n);
    int32_t *best = NEW(int32_t, n);
    if (!columns || !sums || !best ||
        remap(&s->pool, (remap_t){.p = p, .prior = s->prior, .kernel = p->kernel[1],
                                  .outputs = s->used, .count = count, .best = best})) {
        free(columns), free(sums), free(best);
        return NULL;
    }
    for (int z = 0; z < n; z++) {
        double weight = larger(p->weight[1][z], 0.0);
        for (int x = 0; x < n; x++)
            columns[(int64_t)best[z] * n + x] += weight * p->kernel[1][(int64_t)z * n + x];
    }
    double most_sum = 0.0;
    for (int x = 0; x < n; x++) {
        double sum = 0.0;
        for (int z = 0; z < count; z++) {
            sum += columns[(int64_t)z * n + x];
            sums[x] += p->start[(int64_t)s->used[z] * n + x];
        }
        most_sum = larger(sum, most_sum);
    }
    for (int z = 0; z < count; z++)
        for (int x = 0; x < n; x++) {
            double start = p->start[(int64_t)s->used[z] * n + x] / sums[x];
            double *column = columns + (int64_t)z * n + x;
            *column = 0.5 * (start + (most_sum > 0.0 ? *column / most_sum : 0.0));
        }
    free(sums), free(best);
    return columns;
}

INLINE int is_own(const solve_t *s, int part) { return part >= s->low && part < s->high; }

static block_t *new_block(solve_t *s, int output, int part) {
    block_t *block = block_new(s->n, output, s->cost + (int64_t)output * s->n,
                               s->p->farthest + (int64_t)output * s->n, &s->p->pairs);
    if (block) block->part = part;
    else s->failed = WI_NO_MEMORY;
    return block;
}

/* Sort the outputs in use by their part; the order within a part stays. */
static void sort_by_part(solve_t *s) {
    int32_t used[64 + 1] = {0};
    int32_t *output = NEW(int32_t, s->in_use), *part = NEW(int32_t, s->in_use);
    if (!output || !part) {
        s->failed = WI_NO_MEMORY;
    } else {
        for (int a = 0; a < s->in_use; a++) used[s->part[a] + 1]++;
        for (int a = 0; a < s->parts; a++) used[a + 1] += used[a];
        for (int a = 0; a < s->in_use; a++) {
            int at = used[s->part[a]]++;
            output[at] = s->used[a], part[at] = s->part[a];
        }
        memcpy(s->used, output, sizeof(int32_t) * (size_t)s->in_use);
        memcpy(s->part, part, sizeof(int32_t) * (size_t)s->in_use);
    }
    free(output), free(part);
}

/* The first iterate: central blocks for the likely outputs. */
static int begin(solve_t *s) {
    for (int a = 0; a < s->in_use; a++) s->part[a] = a % s->parts;
    sort_by_part(s);
    double *columns = s->failed ? NULL : first_columns(s);
    double *leaves = new_leaves(s, s->n), loss = 0.0;
    if (!columns || !leaves) {
        free(columns), free(leaves);
        return s->failed = WI_NO_MEMORY;
    }
    for (int a = 0; a < s->in_use; a++)
        for (int x = 0; x < s->n; x++)
            loss += s->cost[(int64_t)s->used[a] * s->n + x] * columns[(int64_t)a * s->n + x];
    s->mu = FIRST_MU * loss / ((double)s->in_use * (double)s->p->firsts);
    for (int a = 0; a < s->in_use; a++) {
        if (!is_own(s, s->part[a])) continue;
        block_t *block = new_block(s, s->used[a], s->part[a]);
        if (!block) break;
        s->blocks[s->count++] = block;
        memcpy(block->k, columns + (int64_t)a * s->n, sizeof(double) * (size_t)s->n);
        if (first_rows(s->p, block, s->mu) || scratch_rows(s->scratch, s->n, block->count)) {
            s->failed = WI_NO_MEMORY;
            break;
        }
        reduced_cost(block, block->cost, block->reduced, s->scratch->multiplier);
        double *to = leaves + (block->part - s->low) * (int64_t)s->n;
        for (int x = 0; x < s->n; x++) to[x] += block->k[x] * block->reduced[x];
    }
    free(columns);
    if (!s->failed) reduce(s, leaves, s->n, s->b, NULL, 0);
    free(leaves);
    if (s->failed) return s->failed;
    for (int z = 0; z < s->count; z++)
        for (int x = 0; x < s->n; x++)
            s->blocks[z]->residual[x] = s->blocks[z]->reduced[x] - s->b[x];
    return summarise(s);
}

/* Merge the outputs that are dying into others: their blocks break down first. */
static int merge_dying(solve_t *s) {
    int n = s->n, dying = 0, gone = 0;
    double gap = s->mu * (double)s->rows / s->loss;
    double limit = DYING;
    if (n >= LARGE && gap < DYING_FROM) limit = larger(smaller(DYING_GAP * gap, DYING_MOST), DYING);
    for (int a = 0; a < s->in_use; a++) dying += s->largest[a] < limit && !s->kept[s->used[a]];
    if (!dying || dying == s->in_use) return 0;
    double *columns = NEW(double, (double)dying * n);
    uint8_t *leaves_use = NEW(uint8_t, s->m);
    if (!columns || !leaves_use) {
        free(columns), free(leaves_use);
        return s->failed = WI_NO_MEMORY;
    }
    for (int a = 0; a < s->in_use; a++) {
        if (!(s->largest[a] < limit) || s->kept[s->used[a]]) continue;
        leaves_use[s->used[a]] = 1;
        for (int z = 0; z < s->count; z++)
            if (s->blocks[z]->output == s->used[a])
                memcpy(columns + (int64_t)gone * n, s->blocks[z]->k, sizeof(double) * (size_t)n);
        gone++;
    }
    if (s->options.members > 1) /* each column is held by one member, and positive */
        reduce(s, NULL, 0, NULL, columns, (int64_t)dying * n);
    for (int g = 0; g < dying && !s->failed; g++) {
        const double *column = columns + (int64_t)g * n;
        int into = -1;
        double least_cost = INFINITY;
        for (int a = 0; a < s->in_use; a++) {
            if (leaves_use[s->used[a]]) continue;
            const double *cost = s->cost + (int64_t)s->used[a] * n;
            double total = 0.0;
            for (int x = 0; x < n; x++) total += column[x] * cost[x];
            if (total < least_cost || into < 0) least_cost = total, into = s->used[a];
        }
        for (int z = 0; z < s->count; z++)
            if (s->blocks[z]->output == into) merge_column(s->blocks[z], column);
    }
    int kept = 0, in_use = 0;
    for (int z = 0; z < s->count; z++) {
        if (leaves_use[s->blocks[z]->output]) block_free(s->blocks[z]);
        else s->blocks[kept++] = s->blocks[z];
    }
    for (int a = 0; a < s->in_use; a++)
        if (!leaves_use[s->used[a]]) s->used[in_use] = s->used[a], s->part[in_use++] = s->part[a];
    s->count = kept, s->in_use = in_use;
    free(columns), free(leaves_use);
    return s->failed ? s->failed : summarise(s);
}

/* Copies of blocks, without scratch. */
static block_t *block_copy(const block_t *from, const pairs_t *pairs) {
    block_t *s = block_new(from->n, from->output, from->cost, from->farthest, pairs);
    if (!s || rows_reserve(s, from->count)) return block_free(s), NULL;
    int64_t width = padded(from->n);
    s->part = from->part, s->count = from->count;
    memcpy(s->k, from->k, sizeof(double) * (size_t)(3 * width));
    memcpy(s->active, from->active, (size_t)pairs->count);
    memcpy(s->first, from->first, sizeof(int) * (size_t)from->n);
    memcpy(s->rows, from->rows, sizeof(row_t) * (size_t)from->count);
    return s;
}

static void snapshot_free(solve_t *s) {
    for (int z = 0; z < s->snapshot.count; z++) block_free(s->snapshot.blocks[z]);
    s->snapshot.count = 0, s->snapshot.there = 0;
}

static int snapshot_take(solve_t *s) {
    snapshot_free(s);
    for (int z = 0; z < s->count; z++) {
        block_t *copy = block_copy(s->blocks[z], &s->p->pairs);
        if (!copy) return s->failed = WI_NO_MEMORY;
        s->snapshot.blocks[s->snapshot.count++] = copy;
    }
    memcpy(s->snapshot.used, s->used, sizeof(int32_t) * (size_t)s->in_use);
    memcpy(s->snapshot.part, s->part, sizeof(int32_t) * (size_t)s->in_use);
    memcpy(s->snapshot.b, s->b, sizeof(double) * (size_t)s->n);
    s->snapshot.in_use = s->in_use, s->snapshot.mu = s->mu, s->snapshot.there = 1;
    return 0;
}

/* Go back to the snapshot, which is used up. */
static void snapshot_restore(solve_t *s) {
    for (int z = 0; z < s->count; z++) block_free(s->blocks[z]);
    memcpy(s->blocks, s->snapshot.blocks, sizeof(block_t *) * (size_t)s->snapshot.count);
    memcpy(s->used, s->snapshot.used, sizeof(int32_t) * (size_t)s->snapshot.in_use);
    memcpy(s->part, s->snapshot.part, sizeof(int32_t) * (size_t)s->snapshot.in_use);
    memcpy(s->b, s->snapshot.b, sizeof(double) * (size_t)s->n);
    s->count = s->snapshot.count, s->in_use = s->snapshot.in_use, s->mu = s->snapshot.mu;
    s->snapshot.count = 0, s->snapshot.there = 0;
}

/* New blocks are priced in parallel. */
typedef struct {
    solve_t *s;
    const int32_t *outputs;
    block_t **blocks;
    const double *bound;
    double enough, floor, *gains;
    proofs_t *proofs;
    int final, thorough;
} pricing_t;

static void join_task(void *context, int64_t item, int thread) {
    pricing_t *task = context;
    solve_t *s = task->s;
    block_t *block = task->blocks[item];
    scratch_t *own = s->scratch + thread;
    double *gain = own->vectors + (VECTORS - 1) * (int64_t)s->width, largest = 0.0;
    for (int x = 0; x < s->n; x++) gain[x] = block->cost[x] - s->b[x];
    price_block(s->p, block, gain, 0.0, s->mu / NEW_COLUMN, own);
    if (block->trouble == WI_NO_MEMORY) return;
    block->trouble = 0;
    for (int x = 0; x < s->n; x++) largest = larger(block->k[x], largest);
    double small = NEW_COLUMN / largest;
    for (int x = 0; x < s->n; x++) block->k[x] *= small;
    for (int64_t r = 0; r < block->count; r++) block->rows[r].dual *= small;
    reduced_cost(block, block->cost, block->reduced, own->multiplier);
    for (int x = 0; x < s->n; x++) block->residual[x] = block->reduced[x] - s->b[x];
}

/* Take more outputs into use, each into the part with the fewest, with small central columns. */
static int add_outputs(solve_t *s, const int32_t *outputs, int count) {
    int held[MANY_PARTS] = {0}, own = 0;
    block_t **fresh = NEW(block_t *, count);
    if (!fresh) return s->failed = WI_NO_MEMORY;
    for (int a = 0; a < s->in_use; a++) held[s->part[a]]++;
    for (int a = 0; a < count; a++) {
        int part = 0;
        for (int p = 1; p < s->parts; p++)
            if (held[p] < held[part]) part = p;
        held[part]++;
        s->used[s->in_use] = outputs[a], s->part[s->in_use++] = part;
        if (is_own(s, part) && (fresh[own] = new_block(s, outputs[a], part))) own++;
    }
    sort_by_part(s);
    pricing_t task = {.s = s, .blocks = fresh};
    if (!s->failed) run(s, own, 20.0 * own * s->n * s->n * s->n, join_task, &task);
    for (int a = 0; a < own; a++) { /* at the end of its part */
        int at = s->count;
        while (at > 0 && s->blocks[at - 1]->part > fresh[a]->part) at--;
        memmove(s->blocks + at + 1, s->blocks + at, sizeof(block_t *) * (size_t)(s->count - at));
        s->blocks[at] = fresh[a];
        s->count++;
        if (fresh[a]->trouble == WI_NO_MEMORY) s->failed = WI_NO_MEMORY;
    }
    free(fresh);
    return s->failed ? s->failed : summarise(s);
}

/* The mechanism nearby that is private on all pairs: a share of an interior point is mixed in.
 *
 * (1 - t) k + t interior obeys a pair if (1 - t) (k_j - q k_i) + t (interior_j - q interior_i) >= 0. */
typedef struct {
    solve_t *s;
    const double *interior; /* sums of the starting columns in use */
    double *share;          /* that each block needs */
} private_t;

static void private_task(void *context, int64_t item, int thread) {
    private_t *task = context;
    solve_t *s = task->s;
    const block_t *block = s->blocks[item];
    const pairs_t *pairs = &s->p->pairs;
    double *k = s->scratch[thread].vectors, *inside = k + s->width, share = 0.0;
    const double *start = s->p->start + (int64_t)block->output * s->n;
    for (int x = 0; x < s->n; x++)
        k[x] = block->k[x] / s->totals[x], inside[x] = start[x] / task->interior[x];
    for (int i = 0; i < s->n; i++) {
        int64_t first = pairs->start[i], count = pairs->start[i + 1] - first, broken = 0;
        const double *decay = pairs->decay + first;
        const int32_t *right = pairs->right + first;
        if (pairs->dense)
            for (int64_t j = 0; j < count; j++) broken |= (int64_t)(k[j] < decay[j] * k[i]);
        else
            for (int64_t e = 0; e < count; e++) broken |= (int64_t)(k[right[e]] < decay[e] * k[i]);
        if (!broken) continue;
        for (int64_t e = pairs->start[i]; e < pairs->start[i + 1]; e++) {
            int j = pairs->right[e];
            double here = k[j] - pairs->decay[e] * k[i];
            if (here >= 0.0) continue;
            double there = inside[j] - pairs->decay[e] * inside[i];
            share = larger(here / (here - there), share);
        }
    }
    task->share[item] = share;
}

/* Keep the private mechanism nearby if it is the best so far; return its loss. */
static double update_incumbent(solve_t *s) {
    int n = s->n;
    double leaves[2 * MANY_PARTS] = {0}, losses[2], share = 0.0;
    double *interior = NEW(double, n), *shares = NEW(double, s->count);
    if (!interior || !shares) {
        s->failed = WI_NO_MEMORY;
        goto end;
    }
    for (int a = 0; a < s->in_use; a++)
        for (int x = 0; x < n; x++) interior[x] += s->p->start[(int64_t)s->used[a] * n + x];
    private_t task = {s, interior, shares};
    run(s, s->count, 2.0 * s->count * (double)s->p->pairs.count, private_task, &task);
    for (int z = 0; z < s->count; z++) {
        const block_t *block = s->blocks[z];
        const double *start = s->p->start + (int64_t)block->output * n;
        double loss = 0.0, inside = 0.0;
        for (int x = 0; x < n; x++) {
            loss += block->cost[x] * block->k[x] / s->totals[x];
            inside += block->cost[x] * start[x] / interior[x];
        }
        leaves[2 * (block->part - s->low)] += loss;
        leaves[2 * (block->part - s->low) + 1] += inside;
        share = larger(shares[z], share);
    }
    if (reduce(s, leaves, 2, losses, &share, 1)) goto end;
    double loss = losses[0] + share * (losses[1] - losses[0]);
    if (loss < s->best_loss) {
        s->best_loss = loss, s->best_count = s->count;
        for (int z = 0; z < s->count; z++) {
            const block_t *block = s->blocks[z];
            const double *start = s->p->start + (int64_t)block->output * n;
            double *to = s->best_column + (int64_t)z * n;
            s->best_output[z] = block->output;
            for (int x = 0; x < n; x++) {
                double k = block->k[x] / s->totals[x];
                to[x] = share > 0.0 ? k + share * (start[x] / interior[x] - k) : k;
            }
        }
    }
    free(interior), free(shares);
    return loss;
end:
    free(interior), free(shares);
    return INFINITY;
}

static void lower(scratch_t *own, const double *reduced, const double *plus, int n) {
    for (int x = 0; x < n; x++)
        own->low[x] = smaller(own->low[x], reduced[x] + (plus ? plus[x] : 0.0));
}

/* Multipliers and reduced costs of the outputs in use, computed afresh and cleaned. */
static void clean_task(void *context, int64_t item, int thread) {
    pricing_t *task = context;
    solve_t *s = task->s;
    block_t *block = s->blocks[item];
    scratch_t *own = s->scratch + thread;
    double *reduced = own->vectors;
    if (task->thorough && !task->final) { /* the last step has cleaned them */
        lower(own, block->reduced, NULL, s->n);
        return;
    }
    if (scratch_rows(own, s->n, block->count)) {
        s->failed = WI_NO_MEMORY;
        return;
    }
    reduced_cost(block, block->cost, reduced, own->multiplier);
    clean(block, s->b, block->cost, reduced, own->multiplier, own->links);
    lower(own, reduced, NULL, s->n);
    if (task->final && proof_of_block(block, own->multiplier, task->proofs->each + item))
        s->failed = WI_NO_MEMORY;
}

INLINE int is_own_output(const solve_t *s, int64_t item) {
    return item % s->options.members == s->options.member;
}

static void prove_task(void *context, int64_t item, int thread) {
    pricing_t *task = context;
    solve_t *s = task->s;
    if (!is_own_output(s, item)) return;
    scratch_t *own = s->scratch + thread;
    int z = task->outputs[item];
    const double *cost = s->cost + (int64_t)z * s->n;
    double *gain = own->vectors;
    transport_t transport;
    if (is_stopped(s) && !task->final) {
        task->gains[item] = 0.0;
        return;
    }
    for (int x = 0; x < s->n; x++) gain[x] = cost[x] - task->bound[x];
    prove(s->p, gain, task->enough, own, &transport);
    task->gains[item] = transport.left;
    if (task->final && (!task->thorough || transport.left <= task->enough) &&
        write_proof(s->p, z, cost, &transport, own, task->proofs->each + item))
        s->failed = WI_NO_MEMORY;
}

static void price_task(void *context, int64_t item, int thread) {
    pricing_t *task = context;
    solve_t *s = task->s;
    if (!is_own_output(s, item)) return;
    scratch_t *own = s->scratch + thread;
    double *gain = own->vectors + (VECTORS - 1) * (int64_t)s->width;
    block_t *block = new_block(s, task->outputs[item], 0);
    if (!block) return;
    for (int x = 0; x < s->n; x++) gain[x] = block->cost[x] - task->bound[x];
    task->gains[item] = price_block(s->p, block, gain, task->enough, 0.0, own);
    lower(own, block->reduced, task->bound, s->n);
    if (block->trouble == WI_NO_MEMORY ||
        (task->final && proof_of_block(block, own->multiplier, task->proofs->each + item)))
        s->failed = WI_NO_MEMORY;
    block_free(block);
}

static void reset_low(solve_t *s) {
    for (int t = 0; t < s->pool.threads; t++)
        for (int x = 0; x < s->n; x++) s->scratch[t].low[x] = INFINITY;
}

/* The least of what all threads of all members have seen, and the values of items they own. */
static int reduce_low(solve_t *s, double *low, double *values, int64_t count) {
    double *maxima = NEW(double, s->n + count);
    if (!maxima) return s->failed = WI_NO_MEMORY;
    for (int x = 0; x < s->n; x++) {
        maxima[x] = -INFINITY;
        for (int t = 0; t < s->pool.threads; t++)
            maxima[x] = larger(-s->scratch[t].low[x], maxima[x]);
    }
    for (int64_t a = 0; a < count; a++) maxima[s->n + a] = is_own_output(s, a) ? values[a] : -INFINITY;
    reduce(s, NULL, 0, NULL, maxima, s->n + count);
    for (int x = 0; x < s->n; x++) low[x] = smaller(low[x], -maxima[x]);
    for (int64_t a = 0; a < count; a++) values[a] = maxima[s->n + a];
    free(maxima);
    return s->failed;
}

static proofs_t *merge_proofs(proofs_t *one, proofs_t *more) {
    if (!one || !more) return one ? one : more;
    proof_t *each = realloc(one->each, sizeof(proof_t) * (size_t)(one->count + more->count + 1));
    if (!each) return proofs_free(more), one;
    memcpy(each + one->count, more->each, sizeof(proof_t) * (size_t)more->count);
    one->each = each, one->count += more->count;
    more->count = 0;
    proofs_free(more);
    return one;
}

/* Whether the multipliers prove anything: none is negative, infinite or not a number. */
static int proofs_hold(const proofs_t *proofs) {
    for (int64_t a = 0; proofs && a < proofs->count; a++)
        for (int64_t r = 0; r < proofs->each[a].count; r++)
            if (!(proofs->each[a].value[r] >= 0.0 && proofs->each[a].value[r] <= 1e300)) return 0;
    return 1;
}

/* Bound the loss over all outputs; list those left out that would pay. Return how many. */
static int price(solve_t *s, double tolerance, int thorough, int final, int32_t *paying) {
    int n = s->n, left_out = 0, count = 0;
    int32_t *outputs = NEW(int32_t, s->m), *hard = NEW(int32_t, s->m);
    uint8_t *in_use = NEW(uint8_t, s->m);
    double *bound = NEW(double, n), *low = NEW(double, n), *values = NEW(double, s->m);
    proofs_t *proofs = NULL;
    if (!outputs || !hard || !in_use || !bound || !low || !values) {
        s->failed = WI_NO_MEMORY;
        goto end;
    }
    update_incumbent(s);
    for (int a = 0; a < s->in_use; a++) in_use[s->used[a]] = 1;
    for (int z = 0; z < s->m; z++)
        if (!in_use[z]) outputs[left_out++] = z;
    final |= !left_out;
    pricing_t task = {.s = s, .final = final, .thorough = thorough};
    if (final && !(proofs = task.proofs = proofs_new(s->count))) s->failed = WI_NO_MEMORY;
    if (s->failed) goto end;
    reset_low(s);
    run(s, s->count, 8.0 * s->count * n * n, clean_task, &task);
    for (int x = 0; x < n; x++) bound[x] = INFINITY;
    if (s->failed || reduce_low(s, bound, NULL, 0)) goto end;
    memcpy(low, bound, sizeof(double) * (size_t)n);
    double enough = tolerance * s->best_loss, each = enough / n;
    if (left_out) {
        task.outputs = outputs, task.bound = bound, task.enough = each, task.gains = values;
        if (final && !(task.proofs = proofs_new(left_out))) s->failed = WI_NO_MEMORY;
        reset_low(s);
        if (!s->failed) run(s, left_out, 20.0 * left_out * n * n, prove_task, &task);
        if (s->failed || reduce_low(s, low, values, left_out)) goto end;
        if (final) proofs = merge_proofs(proofs, task.proofs);
        for (int a = 0; thorough && a < left_out; a++)
            if (values[a] > each) hard[count++] = outputs[a];
    }
    if (count) {
        task.outputs = hard, task.enough = enough;
        if (final && !(task.proofs = proofs_new(count))) s->failed = WI_NO_MEMORY;
        reset_low(s);
        if (!s->failed) run(s, count, 20.0 * count * n * n * n, price_task, &task);
        if (s->failed || reduce_low(s, low, values, count)) goto end;
        if (final) proofs = merge_proofs(proofs, task.proofs);
        int paid = 0;
        for (int a = 0; a < count; a++)
            if (values[a] < -enough) paying[paid++] = hard[a];
        count = paid;
    }
    if (final) {
        double total = 0.0, wrong = !proofs_hold(proofs);
        for (int x = 0; x < n; x++) total += low[x];
        if (reduce(s, NULL, 0, NULL, &wrong, 1)) goto end;
        if (total > s->best_bound && wrong == 0.0) {
            proofs_free(s->proofs);
            s->best_bound = total, s->proofs = proofs;
            proofs = NULL;
        }
    }
end:
    proofs_free(proofs);
    free(outputs), free(hard), free(in_use), free(bound), free(low), free(values);
    return s->failed ? 0 : count;
}

/* Whether to end, as all members agree: 0, or 1 + a wi_stopped. */
static int agreed_stop(solve_t *s) {
    double flags[2] = {now_s() > s->deadline, is_stopped(s)};
    if (s->options.members > 1 && reduce(s, NULL, 0, NULL, flags, 2)) return 1 + WI_NUMERICS;
    if (flags[0] != 0.0) return 1 + WI_TIME;
    return flags[1] != 0.0 ? 1 + WI_STOPPED : 0;
}

/* Newton steps until the gap over the outputs in use is below the target. */
static int descend(solve_t *s) {
    for (; s->descent < ITERATIONS; s->descent++) {
        double total = 0.0, loss = s->loss;
        for (int x = 0; x < s->n; x++) total += s->least_reduced[x];
        s->descent_bound = larger(total, s->descent_bound);
        double bound = s->descent_bound;
        if (s->options.progress || (s->closing && loss - bound <= s->target * loss))
            loss = update_incumbent(s);
        if (s->failed) return WI_NUMERICS;
        double gap = loss > 0.0 ? (loss - bound) / loss : 0.0;
        int asked = 0;
        if (s->options.progress) {
            wi_progress now = {s->iterations, s->in_use, s->rows, loss, bound, gap};
            asked = s->options.progress(s->options.context, &now);
        }
        if (s->closing && gap <= s->target) return WI_SOLVED;
        if (asked) s->deadline = -INFINITY;
        int stop = agreed_stop(s);
        if (asked) return WI_STOPPED;
        if (stop) return stop - 1;
        if (s->options.checkpoint && s->iterations % s->options.checkpoint_every == 0 &&
            s->iterations != s->resumed)
            write_checkpoint(s);
        if (newton_step(s) || s->failed) {
            if (s->failed) return WI_NUMERICS;
            stop = agreed_stop(s);
            return stop ? stop - 1 : WI_NUMERICS;
        }
        s->iterations++;
        if (merge_dying(s)) return WI_NUMERICS;
    }
    return WI_NUMERICS;
}

/* The whole method. Where it is, is in `s`: so it can be resumed in the middle of a descent. */
static void solve_to(solve_t *s, double tolerance, int resumed) {
    static const double small[] = STAGE_SMALL, large[] = STAGE_LARGE;
    const double *all = s->n >= LARGE ? large : small;
    int stages = s->n >= LARGE ? 2 : 1;
    int32_t *paying = NEW(int32_t, s->m), *fresh = NEW(int32_t, s->m);
    if (!paying || !fresh) s->failed = WI_NO_MEMORY;
#define NEXT_TARGET()                                                                       \
    do {                                                                                    \
        while (s->stage < stages && !(all[s->stage] > 3 * tolerance)) s->stage++;           \
        s->target = s->stage < stages ? all[s->stage] : 0.5 * tolerance;                    \
        if (s->stage == stages && tolerance < 0.2 * DEEP) s->target = DEEP;                 \
        s->stage++;                                                                         \
    } while (0)
    if (!resumed) NEXT_TARGET();
    for (; s->round < ROUNDS && !s->failed; s->round++) {
        if (!resumed) s->descent = 0, s->descent_bound = -INFINITY, s->closing = 0;
        resumed = 0;
        s->stopped = descend(s);
        if (s->failed) break;
        int solved = s->stopped == WI_SOLVED;
        int final = s->target <= larger(tolerance, DEEP) || !solved;
        int count = price(s, 0.1 * smaller(s->target, 1e-2), solved, final, paying);
        if (s->failed || !solved || s->best_loss - s->best_bound <= tolerance * s->best_loss) break;
        if (count) {
            /* At the same complementarity, going back would only repeat the descent. */
            if (s->snapshot.there && s->mu < GO_BACK * s->snapshot.mu) snapshot_restore(s);
            int more = 0;
            for (int a = 0; a < count; a++) {
                int there = 0;
                for (int b = 0; b < s->in_use; b++) there |= s->used[b] == paying[a];
                s->kept[paying[a]] = 1;
                if (!there) fresh[more++] = paying[a];
            }
            if (add_outputs(s, fresh, more) || snapshot_take(s)) break;
        } else if (s->target <= 0.03 * tolerance) {
            break;
        } else if (s->target > tolerance) {
            if (snapshot_take(s)) break;
            NEXT_TARGET();
        } else {
            s->target *= 0.3;
        }
    }
#undef NEXT_TARGET
    free(paying), free(fresh);
}

static void solve_free(solve_t *s) {
    if (!s) return;
    pool_end(&s->pool);
    for (int t = 0; s->scratch && t < most(1, s->options.threads); t++) {
        scratch_t *own = s->scratch + t;
        free(own->strip), free(own->dense), free(own->vectors), free(own->sums);
        free(own->multiplier), free(own->links), free(own->near), free(own->weights);
        free(own->low);
    }
    free(s->scratch), free(s->prior), free(s->cost), free(s->amount), free(s->message);
    for (int z = 0; s->blocks && z < s->count; z++) block_free(s->blocks[z]);
    if (s->snapshot.blocks) snapshot_free(s);
    free(s->blocks), free(s->used), free(s->part), free(s->kept), free(s->b);
    free(s->least_reduced), free(s->totals), free(s->largest);
    free(s->snapshot.blocks), free(s->snapshot.used), free(s->snapshot.part), free(s->snapshot.b);
    factor_free(&s->schur);
    free(s->db), free(s->try_db), free(s->push);
    for (int a = 0; a < MANY_PARTS; a++) free(s->task_sums[a]);
    free(s->best_output), free(s->best_column);
    proofs_free(s->proofs);
    free(s);
}

static solve_t *solve_new(const wi_program *p, const double *prior, const wi_options *options) {
    solve_t *s = NEW(solve_t, 1);
    if (!s) return NULL;
    int n = p->n, m = p->m, width = padded(n), failed = 0, *zero = NEW(int, n);
    s->p = p, s->options = *options, s->n = n, s->m = m, s->width = width;
    s->options.threads = least(most(1, options->threads), 256);
    s->options.members = most(1, options->members);
    s->options.checkpoint_every = most(1, options->checkpoint_every);
    s->begun = now_s();
    s->deadline = options->time_limit_s >= 0 ? s->begun + options->time_limit_s : INFINITY;
    s->best_loss = INFINITY, s->resumed = -1;
    s->scratch = NEW(scratch_t, s->options.threads);
    s->prior = ordered_prior(p, prior), s->cost = NEW(double, (double)m * n);
    s->amount = NEW(double, n);
    s->blocks = NEW(block_t *, m), s->snapshot.blocks = NEW(block_t *, m);
    s->used = NEW(int32_t, m), s->part = NEW(int32_t, m), s->kept = NEW(uint8_t, m);
    s->snapshot.used = NEW(int32_t, m), s->snapshot.part = NEW(int32_t, m);
    s->b = NEW(double, width), s->snapshot.b = NEW(double, width);
    s->least_reduced = NEW(double, width), s->totals = NEW(double, width);
    s->largest = NEW(double, m);
    s->db = NEW(double, width), s->try_db = NEW(double, width), s->push = NEW(double, width);
    s->best_output = NEW(int32_t, m), s->best_column = NEW(double, (double)m * n);
    failed = !zero || !s->scratch || !s->prior || !s->cost || !s->amount || !s->blocks ||
             !s->snapshot.blocks || !s->used || !s->part || !s->kept || !s->snapshot.used || !s->snapshot.part || !s->b ||
             !s->snapshot.b || !s->least_reduced || !s->totals || !s->largest || !s->db ||
             !s->try_db || !s->push || !s->best_output || !s->best_column ||
             pool_start(&s->pool, s->options.threads) || factor_new(&s->schur, n) ||
             factor_layout(&s->schur, zero);
    free(zero);
    for (int t = 0; t < s->options.threads && !failed; t++) {
        scratch_t *own = s->scratch + t;
        own->strip = NEW(double, (double)s->schur.rows * WIDTH);
        own->vectors = NEW(double, (double)VECTORS * width);
        own->near = NEW(double, ((double)n / 2 + LANES) * ((double)n / 2 + 2 * LANES));
        own->weights = NEW(double, ((double)n / 2 + LANES) * ((double)n / 2 + 2 * LANES));
        own->low = NEW(double, n);
        failed = !own->strip || !own->vectors || !own->near || !own->weights || !own->low;
    }
    for (int x = 0; x < n && !failed; x++) s->amount[x] = 1.0;
    for (int z = 0; z < m && !failed; z++)
        for (int x = 0; x < n; x++)
            s->cost[(int64_t)z * n + x] = s->prior[x] * p->loss[(int64_t)x * m + z];
    if (!failed) s->in_use = likely_outputs(&s->pool, p, s->prior, s->used);
    if (failed || s->in_use < 0) return solve_free(s), NULL;
    s->schur_numbers = (int64_t)n * width;
    s->parts = options->parts ? options->parts : parts_of(n, s->in_use);
    s->low = span_start(s->parts, s->options.members, s->options.member);
    s->high = span_start(s->parts, s->options.members, s->options.member + 1);
    s->nodes = subtrees(s->low, s->high, (node_t){0, s->parts}, s->node, 0);
    if (s->nodes > 0 && s->parts > PARTS) /* tasks of several parts need layers of sums */
        for (int t = 0; t < s->options.threads; t++)
            if (!(s->scratch[t].sums = NEW(double, 8.0 * n * width))) return solve_free(s), NULL;
    return s;
}

void WI_EXPORT(wi_result_free)(wi_result *r) {
    if (!r) return;
    free(r->output), free(r->column);
    free(r->row_output), free(r->row_left), free(r->row_right), free(r->row_value);
    free(r);
}

/* The incumbent of this member, in the places of the caller. */
static wi_result *result_of(solve_t *s, double tolerance) {
    wi_result *r = NEW(wi_result, 1);
    if (!r) return NULL;
    int n = s->n;
    const int32_t *order = s->p->order;
    r->loss = s->best_loss, r->bound = larger(s->best_bound, 0.0);
    r->gap = r->loss > 0.0 ? (r->loss - r->bound) / r->loss : 0.0;
    r->iterations = s->iterations, r->seconds = now_s() - s->begun, r->parts = s->parts;
    r->stopped = r->gap <= tolerance ? WI_SOLVED
                 : s->stopped == WI_SOLVED ? WI_NUMERICS : s->stopped;
    r->columns = s->best_count;
    int64_t rows = 0, at = 0;
    for (int64_t a = 0; s->proofs && a < s->proofs->count; a++) rows += s->proofs->each[a].count;
    r->multipliers = rows;
    r->output = NEW(int32_t, r->columns), r->column = NEW(double, (double)r->columns * n);
    r->row_output = NEW(int32_t, rows), r->row_left = NEW(int32_t, rows);
    r->row_right = NEW(int32_t, rows), r->row_value = NEW(double, rows);
    if (!r->output || !r->column || !r->row_output || !r->row_left || !r->row_right ||
        !r->row_value)
        return WI_EXPORT(wi_result_free)(r), NULL;
    for (int z = 0; z < r->columns; z++) {
        r->output[z] = s->best_output[z];
        for (int x = 0; x < n; x++)
            r->column[(int64_t)z * n + order[x]] = s->best_column[(int64_t)z * n + x];
    }
    for (int64_t a = 0; s->proofs && a < s->proofs->count; a++) {
        const proof_t *proof = s->proofs->each + a;
        for (int64_t row = 0; row < proof->count; row++, at++) {
            r->row_output[at] = proof->output[row], r->row_value[at] = proof->value[row];
            r->row_left[at] = order[proof->left[row]];
            r->row_right[at] = order[proof->right[row]];
        }
    }
    return r;
}

/* Without any pair nothing is private: every input reports the output that loses least. */
static void unconstrained(solve_t *s) {
    s->best_loss = 0.0, s->best_count = 0;
    for (int x = 0; x < s->n; x++) {
        int best = 0, at = 0;
        for (int z = 1; z < s->m; z++)
            if (s->cost[(int64_t)z * s->n + x] < s->cost[(int64_t)best * s->n + x]) best = z;
        s->best_loss += s->cost[(int64_t)best * s->n + x];
        if (s->options.member) continue; /* the first member has it all */
        while (at < s->best_count && s->best_output[at] != best) at++;
        if (at == s->best_count) s->best_output[s->best_count++] = best;
        s->best_column[(int64_t)at * s->n + x] = 1.0;
    }
    s->best_bound = s->best_loss, s->stopped = WI_SOLVED;
}

int32_t WI_EXPORT(wi_solve)(const wi_program *p, const double *prior, const wi_options *options,
                            wi_result **result) {
    if (!p || !prior || !options || !result) return WI_BAD_SIZE;
    *result = NULL;
    int members = most(1, options->members);
    if (options->member < 0 || options->member >= members ||
        (members > 1 && !options->all_reduce) || !(options->tolerance > 0.0) ||
        (options->parts && options->parts != 1 && options->parts != PARTS &&
         options->parts != MANY_PARTS))
        return WI_BAD_SIZE;
    if (check_numbers(prior, p->n, 0)) return WI_BAD_NUMBER;
    int catching = options->catch_interrupt && interrupt_catch(), status = WI_NO_MEMORY;
    solve_t *s = solve_new(p, prior, options);
    if (s && members > s->parts) status = WI_BAD_SIZE;
    else if (s) {
        int resumed = options->resume != NULL;
        if (!p->edges) unconstrained(s);
        else if (resumed) s->failed = read_checkpoint(s, options->resume, options->resume_bytes);
        else if (!begin(s)) update_incumbent(s);
        if (!s->failed && p->edges) solve_to(s, options->tolerance, resumed);
        status = s->failed;
        if (!status && !(*result = result_of(s, options->tolerance))) status = WI_NO_MEMORY;
    }
    solve_free(s);
    if (catching) interrupt_release();
    return status;
}

int32_t WI_EXPORT(wi_envelope)(int32_t n, const double *matrix, const int32_t *first, double *right,
                               int32_t skipped, const double *k, double *inverse) {
    if (n < 1 || n > 30000) return 1;
    int width = padded(n), failed;
    factor_t f;
    double *x = NEW(double, width), *sum = NEW(double, (double)n * width), *w = NEW(double, width);
    double *strip = NEW(double, ((double)n + PANEL) * WIDTH), *scaled = NEW(double, width);
    failed = factor_new(&f, n) || !x || !sum || !w || !strip || !scaled;
    for (int j = 0; j < n && !failed; j++) failed = first[j] < 0 || first[j] > j;
    failed = failed || factor_layout(&f, first);
    if (!failed) {
        memset(f.values, 0, sizeof(double) * (size_t)f.at[f.strips]);
        for (int j = 0; j < n; j++)
            for (int i = first[j]; i <= j; i++) *entry(&f, i, j) = matrix[(int64_t)i * n + j];
        for (int i = n; i < f.rows; i++) *entry(&f, i, i) = 1.0;
        failed = cholesky(&f);
    }
    if (!failed) {
        memcpy(x, right, sizeof(double) * (size_t)n);
        factor_solve(&f, x);
        memcpy(right, x, sizeof(double) * (size_t)n);
        memcpy(scaled, k, sizeof(double) * (size_t)n);
        add_inverse(&f, skipped, scaled, w, 0.0, sum, strip);
        for (int64_t i = 0; i < n; i++)
            for (int j = 0; j <= i; j++) inverse[i * n + j] = sum[i * width + j];
    }
    factor_free(&f);
    free(x), free(sum), free(w), free(strip), free(scaled);
    return failed != 0;
}
