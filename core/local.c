/* Programs whose columns have a small support: the places near their output, and some others.
 *
 * A column of a good mechanism is tiny far from its output. Here the column of output z covers only
 * the places of a support, and its privacy rows are those between them. The multipliers of these rows
 * are multipliers of the whole program, with 0 on all other rows. The caller adds to the costs what
 * the places outside a support would cost, and says which amount of probability the supports hold
 * (mechanisms/local.py). Nothing of this is trusted: the bound is computed from the multipliers, and
 * every ratio of a mechanism is checked, by code that shares nothing with this file.
 *
 * A Newton step is that of all programs (step.c). The factor of a block has the size of its support,
 * and the Schur complement couples two places only if some support has both. So a step takes time in
 * proportion to the number of outputs, but for the factor of the Schur complement.
 */
#include "constants.h"
#include "vectors.h"

#define SPENT 1e-3 /* complementarity below this share of the target: no step closes the gap */

/* A support: its places, from 0 on in the order of the program. */
typedef struct {
    int n;
    int32_t *place, *farthest;
    double *cost, *column;
    int64_t *at;         /* (n) where each place is in the lists of the caller */
    pairs_t pairs;
    int64_t firsts, *first;
    int32_t *first_left;
} support_t;

/* All places and pairs, in the order of the program. */
typedef struct {
    int n;
    int32_t *order, *rank;
    int64_t *start; /* (n + 1) */
    int32_t *right;
    double *exponent;
} neighbours_t;

static void support_free(support_t *s) {
    free(s->place), free(s->farthest), free(s->cost), free(s->column), free(s->at);
    free(s->pairs.start), free(s->pairs.right), free(s->pairs.decay), free(s->pairs.near);
    free(s->first), free(s->first_left);
    *s = (support_t){0};
}

static void neighbours_free(neighbours_t *all) {
    free(all->order), free(all->rank), free(all->start), free(all->right), free(all->exponent);
    *all = (neighbours_t){0};
}

/* Put the places that are in many supports last: the Schur complement couples them with nearly all
 * others, and only their own rows of its envelope become long. The order of the others stays. */
static int hubs_last(int n, int64_t entries, const int32_t *place, int32_t *order) {
    int64_t *count = NEW(int64_t, n);
    int32_t *hubs = NEW(int32_t, n);
    int kept = 0, last = 0, failed = !count || !hubs;
    for (int64_t a = 0; a < entries && !failed; a++) count[place[a]]++;
    for (int x = 0; x < n && !failed; x++) {
        if ((double)count[order[x]] * n > HUB * (double)entries) hubs[last++] = order[x];
        else order[kept++] = order[x];
    }
    if (!failed) memcpy(order + kept, hubs, sizeof(int32_t) * (size_t)last);
    free(count), free(hubs);
    return failed;
}

static int neighbours_new(neighbours_t *all, int n, int64_t edges, const int32_t *pairs,
                          const double *exponents, int64_t entries, const int32_t *place) {
    *all = (neighbours_t){.n = n};
    uint8_t *near = NEW(uint8_t, edges);
    int64_t *filled = NEW(int64_t, n);
    all->order = NEW(int32_t, n), all->rank = NEW(int32_t, n), all->start = NEW(int64_t, n + 1);
    all->right = NEW(int32_t, 2 * edges), all->exponent = NEW(double, 2 * edges);
    int failed = !near || !filled || !all->order || !all->rank || !all->start || !all->right ||
                 !all->exponent || near_pairs(n, edges, pairs, exponents, near) ||
                 near_order(n, edges, pairs, near, all->order) ||
                 hubs_last(n, entries, place, all->order);
    if (!failed) {
        for (int x = 0; x < n; x++) all->rank[all->order[x]] = x;
        for (int64_t a = 0; a < 2 * edges; a++) all->start[all->rank[pairs[a]] + 1]++;
        for (int x = 0; x < n; x++) all->start[x + 1] += all->start[x], filled[x] = all->start[x];
        for (int64_t a = 0; a < 2 * edges; a++) {
            int64_t at = filled[all->rank[pairs[a]]]++;
            all->right[at] = all->rank[pairs[a ^ 1]], all->exponent[at] = exponents[a / 2];
        }
    }
    free(near), free(filled);
    return failed;
}

/* A pair of places of a support, with eps d. */
typedef struct {
    int32_t i, j;
    double exponent;
} link_t;

/* Fill a support from lists of places, costs, first columns and eps d to the first of the places.
 * All are paired with the first, so that no part of the support is cut off. `index` is scratch: n
 * numbers that are -1, and are so again afterwards. */
static int support_new(support_t *s, const neighbours_t *all, int count, int64_t begin,
                       const int32_t *place, const double *cost, const double *reach,
                       const double *column, int32_t *index) {
    *s = (support_t){.n = count};
    keyed_t *sorted = NEW(keyed_t, count);
    s->place = NEW(int32_t, count), s->farthest = NEW(int32_t, count), s->at = NEW(int64_t, count);
    s->cost = NEW(double, padded(count)), s->column = NEW(double, padded(count));
    int64_t links = 0, edges = 0, *filled = NEW(int64_t, count);
    int failed = !sorted || !s->place || !s->farthest || !s->at || !s->cost || !s->column || !filled;
    int32_t *ends = NULL;
    double *exponents = NULL;
    uint8_t *near = NULL;
    if (failed) goto end;
    for (int x = 0; x < count; x++) sorted[x] = (keyed_t){all->rank[place[begin + x]], begin + x};
    qsort(sorted, (size_t)count, sizeof *sorted, by_key);
    int centre = 0;
    for (int x = 0; x < count; x++) {
        int64_t at = sorted[x].index;
        s->at[x] = at, s->place[x] = all->rank[place[at]];
        s->cost[x] = cost[at], s->column[x] = column[at];
        index[s->place[x]] = x;
        if (at == begin) centre = x;
    }
    for (int x = 0; x < count; x++) sorted[x] = (keyed_t){-reach[s->at[x]], x};
    qsort(sorted, (size_t)count, sizeof *sorted, by_key);
    for (int x = 0; x < count; x++) s->farthest[x] = (int32_t)sorted[x].index;
    for (int x = 0; x < count; x++) {
        const int here = s->place[x];
        for (int64_t e = all->start[here]; e < all->start[here + 1]; e++)
            links += index[all->right[e]] > x;
    }
    links += count;
    ends = NEW(int32_t, 2 * links), exponents = NEW(double, links), near = NEW(uint8_t, links);
    failed = !ends || !exponents || !near;
    for (int x = 0; x < count && !failed; x++) {
        const int here = s->place[x];
        int with_centre = x == centre;
        for (int64_t e = all->start[here]; e < all->start[here + 1]; e++) {
            const int other = index[all->right[e]];
            with_centre |= other == centre;
            if (other <= x) continue;
            ends[2 * edges] = x, ends[2 * edges + 1] = other;
            exponents[edges++] = smaller(all->exponent[e], LARGEST_EXPONENT);
        }
        if (with_centre) continue;
        ends[2 * edges] = x, ends[2 * edges + 1] = centre;
        exponents[edges++] = smaller(reach[s->at[x]], LARGEST_EXPONENT);
    }
    for (int x = 0; x < count; x++) index[s->place[x]] = -1;
    failed = failed || near_pairs(count, edges, ends, exponents, near);
    pairs_t *to = &s->pairs;
    to->n = count, to->count = 2 * edges;
    to->start = NEW(int64_t, count + 1), to->right = NEW(int32_t, to->count);
    to->decay = NEW(double, to->count), to->near = NEW(double, to->count);
    for (int64_t e = 0; e < edges && !failed; e++) s->firsts += 2 * near[e];
    s->first = NEW(int64_t, s->firsts), s->first_left = NEW(int32_t, s->firsts);
    failed = failed || !to->start || !to->right || !to->decay || !to->near || !s->first ||
             !s->first_left;
    if (failed) goto end;
    for (int64_t a = 0; a < 2 * edges; a++) to->start[ends[a] + 1]++;
    for (int x = 0; x < count; x++) to->start[x + 1] += to->start[x], filled[x] = to->start[x];
    int64_t firsts = 0;
    for (int64_t a = 0; a < 2 * edges; a++) {
        int64_t at = filled[ends[a]]++;
        double decay = exp(-exponents[a / 2]);
        to->right[at] = ends[a ^ 1], to->decay[at] = decay;
        to->near[at] = 1.0 - NEAR * (1.0 - decay * decay);
        if (near[a / 2]) s->first[firsts] = at, s->first_left[firsts++] = ends[a];
    }
end:
    free(sorted), free(filled), free(ends), free(exponents), free(near);
    return failed;
}

/* Give a block its first rows. A row that the first column violates joins as it would later. */
static int first_local_rows(const support_t *support, block_t *s, double mu) {
    const pairs_t *pairs = &support->pairs;
    if (rows_reserve(s, support->firsts)) return -1;
    for (int64_t a = 0; a < support->firsts; a++) {
        row_t *row = add_row(s, pairs, support->first[a], support->first_left[a]);
        double left = 1.0 - row->decay * s->k[row->i] / s->k[row->j];
        row->slack = larger(left, JOIN_SLACK * (1.0 - pairs->near[support->first[a]]));
        row->infeasibility = row->slack - left;
        row->dual = mu / row->slack;
    }
    return 0;
}

/* The columns as probabilities, in the places of the caller. */
static void write_columns(const solve_t *s, const support_t *supports, double *column) {
    for (int z = 0; z < s->count; z++) {
        const block_t *block = s->blocks[z];
        for (int x = 0; x < block->n; x++) {
            int at = block->place[x];
            column[supports[block->output].at[x]] = block->k[x] * s->amount[at] / s->totals[at];
        }
    }
}

/* Whether the columns add up to the amounts and obey their rows, to the tolerance. While they do
 * not, the loss may be below the bound, and a gap says nothing: no columns may do so at all. */
static int is_feasible_local(const solve_t *s) {
    const double limit = s->options.tolerance;
    for (int x = 0; x < s->n; x++)
        if (!(fabs(s->totals[x] - s->amount[x]) <= limit * s->amount[x])) return 0;
    for (int z = 0; z < s->count; z++) {
        const block_t *block = s->blocks[z];
        for (int64_t r = 0; r < block->count; r++) {
            const row_t *row = block->rows + r;
            if (!(row->decay * block->k[row->i] - block->k[row->j] <= limit)) return 0;
        }
    }
    return 1;
}

/* Newton steps until the gap is closed or the time is up. The bound is that of this program. */
static void descend_local(solve_t *s) {
    for (; s->iterations < ITERATIONS; s->iterations++) {
        double bound = 0.0;
        for (int x = 0; x < s->n; x++) bound += s->amount[x] * s->least_reduced[x];
        s->best_bound = larger(bound, s->best_bound), s->best_loss = s->loss;
        double gap = s->loss > 0.0 ? (s->loss - bound) / s->loss : 0.0;
        int asked = 0;
        if (s->options.progress) {
            wi_progress now = {s->iterations, s->in_use, s->rows, s->loss, bound, gap};
            asked = s->options.progress(s->options.context, &now);
        }
        s->stopped = asked ? WI_STOPPED : WI_SOLVED;
        if (asked || (s->iterations && fabs(gap) <= s->options.tolerance && is_feasible_local(s)))
            return;
        int stop = agreed_stop(s);
        int spent = s->mu * (double)s->rows < SPENT * s->options.tolerance * s->loss;
        int ended = stop || spent || newton_step(s) || s->failed;
        if (ended && !stop) stop = agreed_stop(s); /* in the middle of a step */
        s->stopped = stop ? stop - 1 : WI_NUMERICS;
        if (ended) return;
    }
}

static solve_t *solve_local_new(const neighbours_t *all, int m, const support_t *supports,
                                const double *amount, const wi_options *options) {
    solve_t *s = NEW(solve_t, 1);
    if (!s) return NULL;
    int n = all->n, largest = 0, *first = NEW(int, n), failed = !first;
    s->is_local = 1, s->options = *options, s->n = n, s->m = m, s->width = padded(n);
    s->options.threads = least(most(1, options->threads), 256);
    s->options.members = 1;
    s->begun = now_s();
    s->deadline = options->time_limit_s >= 0 ? s->begun + options->time_limit_s : INFINITY;
    s->target = options->tolerance;
    for (int x = 0; x < n && !failed; x++) first[x] = x;
    for (int z = 0; z < m && !failed; z++) {
        largest = most(supports[z].n, largest);
        for (int x = 0; x < supports[z].n; x++) {
            int *to = first + supports[z].place[x];
            *to = least(*to, supports[z].place[0]);
        }
    }
    s->scratch = NEW(scratch_t, s->options.threads);
    s->blocks = NEW(block_t *, m), s->used = NEW(int32_t, m), s->part = NEW(int32_t, m);
    s->b = NEW(double, s->width), s->least_reduced = NEW(double, s->width);
    s->totals = NEW(double, s->width), s->largest = NEW(double, m);
    s->db = NEW(double, s->width), s->try_db = NEW(double, s->width);
    s->push = NEW(double, s->width), s->amount = NEW(double, n);
    failed = failed || !s->scratch || !s->blocks || !s->used || !s->part || !s->b ||
             !s->least_reduced || !s->totals || !s->largest || !s->db || !s->try_db || !s->push ||
             !s->amount || pool_start(&s->pool, s->options.threads) || factor_new(&s->schur, n) ||
             factor_layout(&s->schur, first);
    free(first);
    for (int t = 0; t < s->options.threads && !failed; t++) {
        scratch_t *own = s->scratch + t;
        own->strip = NEW(double, ((double)largest + PANEL) * WIDTH);
        own->dense = NEW(double, (double)largest * padded(largest));
        own->vectors = NEW(double, (double)VECTORS * s->width);
        failed = !own->strip || !own->dense || !own->vectors;
    }
    if (failed) return solve_free(s), NULL;
    for (int x = 0; x < n; x++) s->amount[x] = amount[all->order[x]];
    s->schur_numbers = s->schur.at[s->schur.strips];
    s->parts = LOCAL_PARTS, s->low = 0, s->high = s->parts;
    s->nodes = subtrees(0, s->parts, (node_t){0, s->parts}, s->node, 0);
    return s;
}

/* The first iterate: blocks by part, so that each part has as many. */
static int begin_local(solve_t *s, const support_t *supports) {
    double loss = 0.0, rows = 0.0;
    for (int z = 0; z < s->m; z++) {
        rows += (double)supports[z].firsts;
        for (int x = 0; x < supports[z].n; x++) loss += supports[z].cost[x] * supports[z].column[x];
    }
    s->mu = FIRST_MU * loss / rows;
    for (int part = 0; part < s->parts; part++)
        for (int z = part; z < s->m; z += s->parts) {
            const support_t *support = supports + z;
            block_t *block = block_new(support->n, z, support->cost, support->farthest, &support->pairs);
            if (!block) return s->failed = WI_NO_MEMORY;
            block->part = part, block->place = support->place;
            s->used[s->count] = z, s->part[s->count] = part, s->blocks[s->count++] = block;
            s->in_use = s->count;
            memcpy(block->k, support->column, sizeof(double) * (size_t)support->n);
            if (first_local_rows(support, block, s->mu) ||
                scratch_rows(s->scratch, s->n, block->count))
                return s->failed = WI_NO_MEMORY;
            reduced_cost(block, block->cost, block->reduced, s->scratch->multiplier);
            for (int x = 0; x < block->n; x++) {
                s->b[block->place[x]] += block->k[x] * block->reduced[x];
                s->totals[block->place[x]] += block->k[x];
            }
        }
    for (int x = 0; x < s->n; x++) s->b[x] /= larger(s->totals[x], 1e-300);
    for (int z = 0; z < s->count; z++)
        for (int x = 0; x < s->blocks[z]->n; x++)
            s->blocks[z]->residual[x] = s->blocks[z]->reduced[x] - s->b[s->blocks[z]->place[x]];
    return summarise(s);
}

/* Cleaned multipliers of all blocks, in the places of the caller. */
static wi_result *local_result(solve_t *s, const neighbours_t *all, const support_t *supports,
                               double *column, double *prices) {
    wi_result *r = NEW(wi_result, 1);
    if (!r) return NULL;
    int64_t rows = 0;
    for (int z = 0; z < s->count; z++) rows += s->blocks[z]->count;
    r->row_output = NEW(int32_t, rows), r->row_left = NEW(int32_t, rows);
    r->row_right = NEW(int32_t, rows), r->row_value = NEW(double, rows);
    if (!r->row_output || !r->row_left || !r->row_right || !r->row_value)
        return WI_EXPORT(wi_result_free)(r), NULL;
    write_columns(s, supports, column);
    for (int x = 0; x < s->n; x++) prices[all->order[x]] = s->b[x];
    scratch_t *own = s->scratch;
    for (int z = 0; z < s->count; z++) {
        const block_t *block = s->blocks[z];
        const double *b = gathered(block, s->b, own->vectors);
        if (scratch_rows(own, s->n, block->count)) return WI_EXPORT(wi_result_free)(r), NULL;
        reduced_cost(block, block->cost, block->reduced, own->multiplier);
        clean(block, b, block->cost, block->reduced, own->multiplier, own->links);
        for (int64_t row = 0; row < block->count; row++) {
            double value = own->multiplier[row];
            if (!(value > 0.0 && value <= 1e300)) continue;
            int64_t a = r->multipliers++;
            r->row_output[a] = block->output, r->row_value[a] = value;
            r->row_left[a] = all->order[block->place[block->rows[row].i]];
            r->row_right[a] = all->order[block->place[block->rows[row].j]];
        }
    }
    r->loss = s->loss, r->bound = larger(s->best_bound, 0.0);
    r->gap = r->loss > 0.0 ? (r->loss - r->bound) / r->loss : 0.0;
    r->iterations = s->iterations, r->seconds = now_s() - s->begun;
    r->parts = s->parts, r->stopped = s->stopped;
    return r;
}

static int check_local(int32_t n, int32_t m, int64_t edges, const int32_t *pairs,
                       const double *exponents, const int64_t *first, const int32_t *place,
                       const double *cost, const double *reach, const double *amount,
                       const double *column) {
    if (n < 1 || m < 1 || n > 30000 || m > 30000 || edges < 1 || edges > (int64_t)n * (n - 1) / 2 ||
        !pairs || !exponents || !first || !place || !cost || !reach || !amount || !column ||
        first[0] != 0)
        return WI_BAD_SIZE;
    for (int64_t e = 0; e < edges; e++) {
        int32_t i = pairs[2 * e], j = pairs[2 * e + 1];
        if (i < 0 || j < 0 || i >= n || j >= n || i == j) return WI_BAD_INDEX;
    }
    for (int z = 0; z < m; z++)
        if (first[z + 1] < first[z] + 2 || first[z + 1] > first[z] + n) return WI_BAD_SIZE;
    uint8_t *seen = NEW(uint8_t, n);
    if (!seen) return WI_NO_MEMORY;
    int status = WI_OK;
    for (int z = 0; z < m && !status; z++) { /* 2: in a support, 3: in this one */
        for (int64_t a = first[z]; a < first[z + 1] && !status; a++)
            if (place[a] < 0 || place[a] >= n || seen[place[a]] == 3) status = WI_BAD_INDEX;
            else seen[place[a]] = 3;
        for (int64_t a = first[z]; a < first[z + 1] && !status; a++) seen[place[a]] = 2;
    }
    for (int x = 0; x < n && !status; x++)
        if (!seen[x]) status = WI_BAD_SIZE; /* nothing can add up to its amount */
    free(seen);
    if (status) return status;
    if (check_numbers(exponents, edges, 1) || check_numbers(cost, first[m], 0) ||
        check_numbers(reach, first[m], 1) || check_numbers(column, first[m], 0))
        return WI_BAD_NUMBER;
    for (int64_t a = 0; a < first[m]; a++)
        if (!(column[a] > 0.0)) return WI_BAD_NUMBER;
    for (int x = 0; x < n; x++)
        if (!(amount[x] > 0.0 && amount[x] <= 1.0)) return WI_BAD_NUMBER;
    return WI_OK;
}

int32_t WI_EXPORT(wi_solve_local)(int32_t n, int32_t m, int64_t edges, const int32_t *pairs,
                                  const double *exponents, const int64_t *first,
                                  const int32_t *place, const double *cost, const double *reach,
                                  const double *amount, const wi_options *options, double *column,
                                  double *prices, wi_result **result) {
    if (!options || !result || !prices || !(options->tolerance > 0.0)) return WI_BAD_SIZE;
    *result = NULL;
    int status = check_local(n, m, edges, pairs, exponents, first, place, cost, reach,
                             amount, column);
    if (status) return status;
    status = WI_NO_MEMORY;
    neighbours_t all;
    int catching = options->catch_interrupt && interrupt_catch();
    support_t *supports = NEW(support_t, m);
    int32_t *index = NEW(int32_t, n);
    int failed = neighbours_new(&all, n, edges, pairs, exponents, first[m], place) || !supports || !index;
    for (int x = 0; x < n && !failed; x++) index[x] = -1;
    for (int z = 0; z < m && !failed; z++)
        failed = support_new(supports + z, &all, (int)(first[z + 1] - first[z]), first[z], place, cost,
                             reach, column, index);
    solve_t *s = failed ? NULL : solve_local_new(&all, m, supports, amount, options);
    if (s) {
        if (!begin_local(s, supports)) descend_local(s);
        status = s->failed;
        if (!status && !(*result = local_result(s, &all, supports, column, prices)))
            status = WI_NO_MEMORY;
    }
    solve_free(s);
    for (int z = 0; z < m && supports; z++) support_free(supports + z);
    neighbours_free(&all);
    free(supports), free(index);
    if (catching) interrupt_release();
    return status;
}
