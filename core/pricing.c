/* Pricing: prove that an output left out is useless, or find a column of it that would pay
 * (column generation).
 *
 * Let b be the prices of the inputs: the multipliers of the rows sum_z k(x, z) = 1. An output is
 * useless (no private column of it has a negative reduced cost) if some y >= 0 has
 * A'y <= c - b = gain. A multiplier y on the pair (i, j) takes y from the gain of j and gives q y to
 * that of i, with q = exp(-eps d(i, j)): positive gains must cover negative ones, at a loss that
 * grows with distance. That is a transport problem, and nearly always easy: `prove` lets every
 * supply serve the places that bid most for it, and raises the bids of those still in need (an
 * auction, as in Bertsekas: The auction algorithm, 1988). What it cannot settle goes to
 * `price_block`, Newton's method on a single block, which gives the proof or the column.
 */
#include "constants.h"
#include "vectors.h"

/* The share of each supply that each place in need gets. */
static void serve(int supplies, int width, const double *near, const double *bids, int squarings,
                  double *weights) {
    for (int a = 0; a < supplies; a++) {
        double *row = weights + (int64_t)a * width;
        const double *here = near + (int64_t)a * width;
        vec best_of = {0};
        for (int c = 0; c < width; c += LANES) {
            vec bid = load(bids + c) * load(here + c);
            store(row + c, bid);
            best_of = __builtin_elementwise_max(best_of, bid);
        }
        double best = 0.0;
        for (int lane = 0; lane < LANES; lane++) best = larger(best_of[lane], best);
        double per_best = best > 0.0 ? 1.0 / best : 0.0;
        vec sum = {0};
        for (int c = 0; c < width; c += LANES) {
            vec share = load(row + c) * per_best;
            for (int power = 0; power < squarings; power++) share *= share;
            share = (vec)((mask)share & (mask)(share >= BID_SMALL));
            store(row + c, share);
            sum += share;
        }
        double per_sum = 1.0 / larger(vec_sum(sum), 1.0);
        for (int c = 0; c < width; c += LANES) store(row + c, load(row + c) * per_sum);
    }
}

/* What reaches each place in need. */
static void receive(int supplies, int width, const double *near, const double *weights,
                    const double *supply, double *got) {
    memset(got, 0, sizeof(double) * (size_t)width);
    for (int a = 0; a < supplies; a++) {
        const double *row = weights + (int64_t)a * width, *here = near + (int64_t)a * width;
        double flow = supply[a];
        for (int c = 0; c < width; c += LANES)
            store(got + c, load(got + c) + load(row + c) * load(here + c) * flow);
    }
}

static int squarings_in(int round) { return round < BID_ROUNDS_8 ? 3 : round < BID_ROUNDS_16 ? 4 : 5; }

typedef struct {
    int supplies, needs, width;
    int32_t *supply_at, *need_at; /* places */
    double *supply, *need, *bids; /* the bids of the best round */
    int rounds;
    double left;                  /* of the need, not covered */
} transport_t;

/* Try to cover the negative gains of an output with its positive ones. */
static void prove(const wi_program *p, const double *gain, double enough, scratch_t *own,
                  transport_t *t) {
    int n = p->n;
    double *vectors = own->vectors + 4 * (int64_t)padded(n), *got = vectors, *bid;
    int64_t width = padded(n);
    bid = vectors + width, t->supply = vectors + 2 * width, t->need = vectors + 3 * width;
    t->bids = vectors + 4 * width;
    t->supply_at = (int32_t *)(vectors + 5 * width), t->need_at = t->supply_at + width;
    t->supplies = t->needs = t->rounds = 0, t->left = 0.0;
    for (int x = 0; x < n; x++) {
        if (gain[x] > 0.0) t->supply[t->supplies] = gain[x], t->supply_at[t->supplies++] = x;
        if (gain[x] < 0.0) {
            t->need[t->needs] = -gain[x], t->need_at[t->needs++] = x;
            t->left -= gain[x];
        }
    }
    t->width = (t->needs + LANES - 1) / LANES * LANES;
    if (t->left <= enough || t->supplies == 0 || t->needs == 0) return;
    for (int a = 0; a < t->supplies; a++) {
        const double *from = p->kernel[0] + (int64_t)t->supply_at[a] * n;
        double *to = own->near + (int64_t)a * t->width;
        for (int c = 0; c < t->needs; c++) to[c] = from[t->need_at[c]];
        for (int c = t->needs; c < t->width; c++) to[c] = 0.0;
    }
    for (int c = 0; c < t->width; c++) bid[c] = t->bids[c] = c < t->needs;
    for (int round = 0; round < BID_ROUNDS; round++) {
        int squarings = squarings_in(round);
        serve(t->supplies, t->width, own->near, bid, squarings, own->weights);
        receive(t->supplies, t->width, own->near, own->weights, t->supply, got);
        double missing = 0.0;
        for (int c = 0; c < t->needs; c++) missing += larger(t->need[c] - got[c], 0.0);
        if (missing < t->left) {
            t->left = missing, t->rounds = round + 1;
            memcpy(t->bids, bid, sizeof(double) * (size_t)t->width);
        }
        if (missing <= enough) return;
        double power = 1.2 / (double)(1 << squarings);
        for (int c = 0; c < t->needs; c++)
            bid[c] *= pow(t->need[c] / larger(got[c], 0.01 * t->need[c]), power);
    }
}

/* Write the flows of `prove` as multipliers of the pairs along their paths; `low` is lowered to
 * c - A'y where it is above. */
static int write_proof(const wi_program *p, int z, const double *cost, const transport_t *t,
                       scratch_t *own, proof_t *proof) {
    int n = p->n, failed = 0;
    double *dense = NEW(double, (double)n * n), *pull = NEW(double, n);
    int32_t *path = NEW(int32_t, n);
    if (!dense || !pull || !path) failed = -1;
    if (!failed && t->rounds > 0) {
        serve(t->supplies, t->width, own->near, t->bids, squarings_in(t->rounds - 1), own->weights);
        for (int a = 0; a < t->supplies; a++)
            for (int c = 0; c < t->needs; c++) {
                /* Slightly less than the supply, or rounding would take too much. */
                double flow = own->weights[(int64_t)a * t->width + c] * t->supply[a] * (1 - 1e-14);
                if (flow == 0.0) continue;
                int j = t->supply_at[a], at = t->need_at[c], steps = 0;
                while (at != j && at >= 0 && steps < n) {
                    path[steps++] = at;
                    at = p->before[(int64_t)j * n + at];
                }
                if (at != j) continue;
                for (int step = steps - 1; step >= 0; step--) {
                    int64_t pair = (int64_t)path[step] * n + at;
                    dense[pair] += flow;
                    flow *= p->decay_of[pair];
                    at = path[step];
                }
            }
    }
    for (int i = 0; i < n && !failed; i++) {
        if (proof_reserve(proof, proof->count + n)) failed = -1;
        for (int j = 0; j < n && !failed; j++) {
            double value = dense[(int64_t)i * n + j];
            if (value == 0.0) continue;
            pull[j] += value;
            pull[i] -= value * p->decay_of[(int64_t)i * n + j];
            int64_t a = proof->count++;
            proof->output[a] = z, proof->left[a] = i, proof->right[a] = j, proof->value[a] = value;
        }
    }
    for (int x = 0; x < n && !failed; x++) own->low[x] = smaller(own->low[x], cost[x] - pull[x]);
    free(dense), free(pull), free(path);
    return failed;
}

/* Give a block its first rows, with slack dual = mu. */
static int first_rows(const wi_program *p, block_t *s, double mu) {
    if (rows_reserve(s, p->firsts)) return -1;
    for (int64_t a = 0; a < p->firsts; a++) {
        row_t *row = add_row(s, &p->pairs, p->first[a], p->first_left[a]);
        row->slack = 1.0 - row->decay * s->k[row->i] / s->k[row->j];
        row->dual = mu / row->slack;
    }
    return 0;
}

/* Look for a column of an output that would pay, or a proof that none does.
 *
 * Minimise gain'k over private columns k with mean 1. The result is the proof: no column is below
 * it. It ends when the bound is high enough, or the column in `s` clearly pays. With a `floor` it
 * goes instead to the central point where slack dual is that times the largest entry of the column.
 * The multipliers of the bound are left in own->multiplier, c - A'y in s->reduced. */
static double price_block(const wi_program *p, block_t *s, const double *gain, double enough,
                          double floor, scratch_t *own) {
    int n = s->n;
    int64_t width = padded(n);
    double *pull = own->vectors, *push = pull + width, *w_v = pull + 2 * width;
    double *aim = pull + 3 * width, *ku = pull + 4 * width;
    double *k = s->k, weight = 1.0 / n, total = 0.0, size = 0.0, bound = -INFINITY, t = 0.0;
    const double *start = p->start + (int64_t)s->output * n;
    for (int x = 0; x < n; x++) total += weight * start[x];
    for (int x = 0; x < n; x++) {
        k[x] = start[x] / total;
        size = larger(fabs(gain[x]) / weight, size);
    }
    double mu = 0.1 * size / n;
    if (first_rows(p, s, mu) || block_scratch(s) || scratch_rows(own, n, s->count))
        return s->trouble = WI_NO_MEMORY, bound;
    reduced_cost(s, gain, s->reduced, own->multiplier);
    for (int x = 0; x < n; x++) t += k[x] * s->reduced[x];
    for (int iteration = 0; iteration < PRICING_ITERATIONS; iteration++) {
        double found = 0.0, largest = 0.0, violation = 0.0, complementarity = 0.0;
        for (int x = 0; x < n; x++) {
            found += gain[x] * k[x];
            s->residual[x] = s->reduced[x] - t * weight;
            aim[x] = smaller(0.0, t) * weight;
            largest = larger(k[x], largest);
        }
        clean(s, aim, gain, s->reduced, own->multiplier, own->links);
        bound = INFINITY;
        for (int x = 0; x < n; x++) bound = smaller(s->reduced[x] / weight, bound);
        for (int64_t r = 0; r < s->count; r++) {
            complementarity += s->rows[r].slack * s->rows[r].dual;
            violation = larger(s->rows[r].infeasibility / s->rows[r].slack, violation);
        }
        mu = complementarity / (double)s->count;
        double lowest = floor * largest;
        if (floor > 0.0 ? violation < 0.1 && mu < 1.5 * lowest
                        : bound >= -enough ||
                              (violation < 0.1 &&
                               (found < 0.5 * bound || complementarity < 1e-3 * enough)))
            break;
        double off = 1.0;
        for (int x = 0; x < n; x++) {
            pull[x] = k[x] * (gain[x] - t * weight - s->residual[x]);
            push[x] = k[x] * weight;
            off -= push[x];
        }
        spread_rows(s);
        if (factor_block(s, pull, NULL)) break;
        double w_tau = solve_block(s, push, 1.0 - off, w_v), curve = 0.0, target = 0.0, dt = 0.0;
        for (int x = 0; x < n; x++) curve += push[x] * (w_v[x] + w_tau);
        for (int corrected = 0; corrected < 2; corrected++) {
            for (int64_t r = 0; r < s->count; r++) {
                double rhs = target - s->rows[r].slack * s->rows[r].dual;
                if (corrected) rhs -= s->direction.slack[r] * s->direction.dual[r];
                s->complementarity_rhs[r] = rhs;
            }
            right_side(s, s->residual);
            double tau = solve_block(s, s->rhs, s->rhs_sum, s->u), reach = off;
            for (int x = 0; x < n; x++) reach -= push[x] * (s->u[x] + tau);
            dt = reach / curve;
            tau += dt * w_tau;
            for (int x = 0; x < n; x++) s->u[x] += dt * w_v[x];
            row_steps(s, s->u, tau, s->direction);
            if (corrected)
                for (int x = 0; x < n; x++) s->u[x] += tau;
            else {
                double primal = step_length(s->per_primal, 1.0);
                double dual = step_length(s->per_dual, 1.0);
                row_products(s, s->direction);
                target = larger(centering(s->products, primal, dual, (double)s->count), lowest);
            }
        }
        double primal = step_length(far_off(s, &p->pairs, s->u, s->per_primal, ku),
                                    STEP_TO_BOUNDARY);
        double dual = step_length(s->per_dual, STEP_TO_BOUNDARY);
        move_block(s, s->direction, s->u, primal, dual);
        t += dual * dt;
        if (join_rows(s, &p->pairs, gain, mu, n < LARGE ? JOIN_DUAL : JOIN_LATE) || block_scratch(s) ||
            scratch_rows(own, n, s->count))
            return s->trouble = WI_NO_MEMORY, bound;
        reduced_cost(s, gain, s->reduced, own->multiplier);
    }
    return bound;
}
