/* What the solves for different priors have in common, and where every solve begins.
 *
 * Nothing about the start has to be right: pairs are constrained when they matter, outputs join
 * when they pay, and the order of the places decides only how much of a factor is empty.
 *
 * References: Cuthill, McKee: Reducing the bandwidth of sparse symmetric matrices, 1969 (the order,
 * reversed). Floyd: Algorithm 97, Shortest path, 1962.
 */
#include "constants.h"
#include "vectors.h"

struct wi_program {
    int n, m;
    int64_t edges;
    int32_t *order;      /* which place comes where; everything below is in that order */
    double *loss;        /* (n, m) */
    pairs_t pairs;
    uint8_t *near_edge;  /* (edges), in the order of the caller: constrained at first */
    int64_t firsts;
    int64_t *first;      /* rows that are constrained at first ... */
    int32_t *first_left; /* ... and their left places */
    double *decay_of;    /* (n, n): exp(-eps d) of pairs, 0 elsewhere */
    double *start;       /* (m, n): columns inside all pairs */
    int32_t *farthest;   /* (m, n) */
    double *lengths;     /* (n, n): shortest paths along the pairs */
    int32_t *before;     /* (n, n): before[j, i] is the last place but one from j to i */
    /* Tight-constraints mechanisms at epsilon and a little less: exp(-eps d), weights of its rows. */
    double *kernel[2], *weight[2];
};

typedef struct {
    double key;
    int64_t index;
} keyed_t;

static int by_key(const void *a, const void *b) {
    const keyed_t *one = a, *other = b;
    if (one->key != other->key) return one->key < other->key ? -1 : 1;
    return one->index < other->index ? -1 : one->index > other->index;
}

/* Choose the pairs to begin with: the nearest of each place, and a spanning tree. */
static int near_pairs(int n, int64_t edges, const int32_t *pairs, const double *exponents,
                      uint8_t *near) {
    keyed_t *sorted = NEW(keyed_t, edges);
    int32_t *degree = NEW(int32_t, n), *group = NEW(int32_t, n);
    int failed = !sorted || !degree || !group;
    if (!failed) {
        for (int64_t e = 0; e < edges; e++) sorted[e] = (keyed_t){exponents[e], e};
        qsort(sorted, (size_t)edges, sizeof *sorted, by_key);
        for (int x = 0; x < n; x++) group[x] = x;
        for (int64_t a = 0; a < edges; a++) {
            int64_t e = sorted[a].index;
            int i = pairs[2 * e], j = pairs[2 * e + 1];
            near[e] = degree[i] < NEIGHBOURS || degree[j] < NEIGHBOURS;
            degree[i]++, degree[j]++;
            while (group[i] != i) i = group[i] = group[group[i]];
            while (group[j] != j) j = group[j] = group[group[j]];
            if (i != j) group[i] = j, near[e] = 1;
        }
    }
    free(sorted), free(degree), free(group);
    return failed;
}

/* Order places so that the two of a pair are not far apart: reverse Cuthill-McKee. */
static int near_order(int n, int64_t edges, const int32_t *pairs, const uint8_t *chosen,
                      int32_t *order) {
    int64_t *start = NEW(int64_t, n + 1), *filled = NEW(int64_t, n);
    int32_t *beside = NEW(int32_t, 2 * edges), *queue = NEW(int32_t, n);
    keyed_t *sorted = NEW(keyed_t, n);
    uint8_t *seen = NEW(uint8_t, n), *here = NEW(uint8_t, n);
    int failed = !start || !filled || !beside || !queue || !sorted || !seen || !here;
    if (failed) goto end;
    for (int64_t e = 0; e < edges; e++)
        if (chosen[e]) start[pairs[2 * e] + 1]++, start[pairs[2 * e + 1] + 1]++;
    for (int x = 0; x < n; x++) start[x + 1] += start[x], filled[x] = start[x];
    for (int64_t e = 0; e < edges; e++) {
        int i = pairs[2 * e], j = pairs[2 * e + 1];
        if (chosen[e]) beside[filled[i]++] = j, beside[filled[j]++] = i;
    }
#define DEGREE(x) (start[(x) + 1] - start[x])
    for (int x = 0; x < n; x++) {
        int64_t count = least((int)DEGREE(x), n);
        for (int64_t a = 0; a < count; a++) {
            int32_t other = beside[start[x] + a];
            sorted[a] = (keyed_t){(double)DEGREE(other), a << 32 | other};
        }
        qsort(sorted, (size_t)count, sizeof *sorted, by_key);
        for (int64_t a = 0; a < count; a++)
            beside[start[x] + a] = (int32_t)(sorted[a].index & 0xffffffff);
    }
    for (int done = 0; done < n;) {
        /* From an end of what is connected: where a search from somewhere stops, twice. */
        int at = 0, high = done;
        for (int x = 0; x < n; x++)
            if (!seen[x] && (seen[at] || DEGREE(x) < DEGREE(at))) at = x;
        for (int search = 0; search < 3; search++) {
            memcpy(here, seen, (size_t)n);
            queue[done] = at, here[at] = 1, high = done + 1;
            for (int low = done; low < high; low++) {
                int x = queue[low];
                for (int64_t a = start[x]; a < start[x + 1]; a++)
                    if (!here[beside[a]]) here[beside[a]] = 1, queue[high++] = beside[a];
            }
            if (search < 2) at = queue[high - 1];
        }
        memcpy(seen, here, (size_t)n);
        done = high;
    }
#undef DEGREE
    for (int x = 0; x < n; x++) order[x] = queue[n - 1 - x];
end:
    free(start), free(filled), free(beside), free(queue), free(sorted), free(seen), free(here);
    return failed;
}

/* Pairs by their left place. */
static int fill_pairs(wi_program *p, const int32_t *pairs, const double *exponents,
                      const int32_t *rank) {
    pairs_t *to = &p->pairs;
    int64_t *filled = NEW(int64_t, p->n), n = p->n;
    to->n = p->n, to->dense = 8 * p->edges > n * n;
    to->count = to->dense ? n * n : 2 * p->edges;
    to->start = NEW(int64_t, p->n + 1), to->right = NEW(int32_t, to->count);
    to->decay = NEW(double, to->count), to->near = NEW(double, to->count);
    p->decay_of = NEW(double, (double)p->n * p->n);
    for (int64_t e = 0; e < p->edges; e++) p->firsts += 2 * p->near_edge[e];
    p->first = NEW(int64_t, p->firsts), p->first_left = NEW(int32_t, p->firsts);
    if (!filled || !to->start || !to->right || !to->decay || !to->near || !p->decay_of ||
        !p->first || !p->first_left)
        return free(filled), -1;
    for (int64_t e = 0; e < p->edges && !to->dense; e++)
        to->start[rank[pairs[2 * e]] + 1]++, to->start[rank[pairs[2 * e + 1]] + 1]++;
    for (int64_t x = 0; x < n; x++) {
        to->start[x + 1] = to->dense ? (x + 1) * n : to->start[x + 1] + to->start[x];
        filled[x] = to->start[x];
    }
    for (int64_t e = 0; e < to->count && to->dense; e++) to->right[e] = (int32_t)(e % n), to->near[e] = 1.0;
    int64_t firsts = 0;
    for (int side = 0; side < 2; side++)
        for (int64_t e = 0; e < p->edges; e++) {
            int i = rank[pairs[2 * e + side]], j = rank[pairs[2 * e + 1 - side]];
            int64_t at = to->dense ? i * n + j : filled[i]++;
            double decay = exp(-exponents[e]);
            to->right[at] = j, to->decay[at] = decay;
            to->near[at] = 1.0 - NEAR * (1.0 - decay * decay);
            p->decay_of[(int64_t)i * p->n + j] = decay;
            if (p->near_edge[e]) p->first[firsts] = at, p->first_left[firsts++] = i;
        }
    free(filled);
    return 0;
}

static int fill_start(wi_program *p, const double *loss, const double *reach) {
    int n = p->n, m = p->m;
    keyed_t *sorted = NEW(keyed_t, n);
    p->start = NEW(double, (double)m * n), p->farthest = NEW(int32_t, (double)m * n);
    if (!sorted || !p->start || !p->farthest) return free(sorted), -1;
    for (int z = 0; z < m; z++) {
        int at = 0; /* an output that is not an input stands where it is most useful */
        for (int x = 1; x < n; x++)
            if (loss[(int64_t)x * m + z] < loss[(int64_t)at * m + z]) at = x;
        for (int x = 0; x < n; x++) {
            double far = smaller(reach[(int64_t)p->order[x] * n + at], FAR);
            p->start[(int64_t)z * n + x] = exp(-0.25 * far);
            sorted[x] = (keyed_t){-far, x};
        }
        qsort(sorted, (size_t)n, sizeof *sorted, by_key);
        for (int x = 0; x < n; x++) p->farthest[(int64_t)z * n + x] = (int32_t)sorted[x].index;
    }
    free(sorted);
    return 0;
}

static int shortest_paths(wi_program *p, const int32_t *pairs, const double *exponents,
                          const int32_t *rank) {
    int n = p->n;
    p->lengths = NEW(double, (double)n * n), p->before = NEW(int32_t, (double)n * n);
    if (!p->lengths || !p->before) return -1;
    for (int64_t a = 0; a < (int64_t)n * n; a++) p->lengths[a] = INFINITY, p->before[a] = -1;
    for (int64_t e = 0; e < p->edges; e++) {
        int64_t i = rank[pairs[2 * e]], j = rank[pairs[2 * e + 1]];
        p->lengths[i * n + j] = p->lengths[j * n + i] = exponents[e];
        p->before[i * n + j] = (int32_t)i, p->before[j * n + i] = (int32_t)j;
    }
    for (int64_t x = 0; x < n; x++) p->lengths[x * n + x] = 0.0;
    for (int64_t by = 0; by < n; by++) {
        const double *to = p->lengths + by * n;
        const int32_t *to_before = p->before + by * n;
        for (int64_t i = 0; i < n; i++) {
            double way = p->lengths[i * n + by], *row = p->lengths + i * n;
            int32_t *before = p->before + i * n;
            if (way == INFINITY || i == by) continue;
            for (int j = 0; j < n; j++) {
                double length = way + to[j];
                int shorter = length < row[j];
                before[j] = shorter ? to_before[j] : before[j];
                row[j] = shorter ? length : row[j];
            }
        }
    }
    return 0;
}

/* Solve M x = right by Gaussian elimination with partial pivoting, overwriting both. */
static void eliminate(int64_t n, double *matrix, double *right) {
    for (int64_t p = 0; p < n; p++) {
        int64_t best = p;
        for (int64_t x = p + 1; x < n; x++)
            if (fabs(matrix[x * n + p]) > fabs(matrix[best * n + p])) best = x;
        if (best != p) {
            for (int64_t y = p; y < n; y++) {
                double swap = matrix[p * n + y];
                matrix[p * n + y] = matrix[best * n + y], matrix[best * n + y] = swap;
            }
            double swap = right[p];
            right[p] = right[best], right[best] = swap;
        }
        const double *row = matrix + p * n;
        for (int64_t x = p + 1; x < n; x++) {
            double factor = matrix[x * n + p] / row[p], *to = matrix + x * n;
            if (factor == 0.0) continue;
            for (int64_t y = p + 1; y < n; y++) to[y] -= factor * row[y];
            right[x] -= factor * right[p];
        }
    }
    for (int64_t p = n - 1; p >= 0; p--) {
        for (int64_t y = p + 1; y < n; y++) right[p] -= matrix[p * n + y] * right[y];
        right[p] /= matrix[p * n + p];
    }
}

/* K = E diag(v) with E = exp(-eps d) and E v = 1, where d are the shortest paths: with a dilation
 * they, and not the distances, say what may be told apart. */
static int tight_constraints(wi_program *p) {
    int64_t n = p->n;
    double *matrix = NEW(double, (double)n * n);
    if (!matrix) return -1;
    for (int a = 0; a < 2; a++) {
        double share = a ? LESS_EPSILON : 1.0;
        double *kernel = p->kernel[a] = NEW(double, (double)n * n);
        double *weight = p->weight[a] = NEW(double, n);
        if (!kernel || !weight) return free(matrix), -1;
        for (int64_t b = 0; b < n * n; b++) matrix[b] = kernel[b] = exp(-share * p->lengths[b]);
        for (int64_t x = 0; x < n; x++) weight[x] = 1.0;
        eliminate(n, matrix, weight);
        int finite = 1;
        for (int64_t x = 0; x < n; x++) finite &= isfinite(weight[x]) != 0;
        for (int64_t x = 0; x < n && !finite; x++) weight[x] = 1.0;
    }
    free(matrix);
    return 0;
}

void WI_EXPORT(wi_program_free)(wi_program *p) {
    if (!p) return;
    free(p->order), free(p->loss), free(p->near_edge), free(p->first), free(p->first_left);
    free(p->pairs.start), free(p->pairs.right), free(p->pairs.decay), free(p->pairs.near);
    free(p->decay_of), free(p->start), free(p->farthest), free(p->lengths), free(p->before);
    for (int a = 0; a < 2; a++) free(p->kernel[a]), free(p->weight[a]);
    free(p);
}

static int check_numbers(const double *numbers, int64_t count, int infinite) {
    for (int64_t a = 0; a < count; a++)
        if (!(numbers[a] >= 0.0 && (infinite || numbers[a] <= 1e300))) return WI_BAD_NUMBER;
    return WI_OK;
}

int32_t WI_EXPORT(wi_program_new)(int32_t n, int32_t m, int64_t edges, const double *loss,
                                  const int32_t *pairs, const double *exponents,
                                  const double *reach, wi_program **program) {
    if (!program) return WI_BAD_SIZE;
    *program = NULL;
    if (n < 1 || m < 1 || n > 30000 || m > 30000 || edges < 0 ||
        edges > (int64_t)n * (n - 1) / 2 || !loss || !reach || (edges && (!pairs || !exponents)))
        return WI_BAD_SIZE;
    for (int64_t e = 0; e < edges; e++) {
        int32_t i = pairs[2 * e], j = pairs[2 * e + 1];
        if (i < 0 || j < 0 || i >= n || j >= n || i == j) return WI_BAD_INDEX;
    }
    if (check_numbers(loss, (int64_t)n * m, 0) || check_numbers(exponents, edges, 1) ||
        check_numbers(reach, (int64_t)n * n, 1))
        return WI_BAD_NUMBER;
    wi_program *p = NEW(wi_program, 1);
    int32_t *rank = NEW(int32_t, n);
    double *cut = NEW(double, edges);
    if (!p || !rank || !cut) goto no_memory;
    p->n = n, p->m = m, p->edges = edges;
    for (int64_t e = 0; e < edges; e++) cut[e] = smaller(exponents[e], LARGEST_EXPONENT);
    p->near_edge = NEW(uint8_t, edges), p->order = NEW(int32_t, n);
    p->loss = NEW(double, (double)n * m);
    if (!p->near_edge || !p->order || !p->loss) goto no_memory;
    if (near_pairs(n, edges, pairs, cut, p->near_edge)) goto no_memory;
    if (near_order(n, edges, pairs, p->near_edge, p->order)) goto no_memory;
    for (int x = 0; x < n; x++) {
        rank[p->order[x]] = x;
        memcpy(p->loss + (int64_t)x * m, loss + (int64_t)p->order[x] * m, sizeof(double) * (size_t)m);
    }
    if (fill_pairs(p, pairs, cut, rank) || fill_start(p, loss, reach) ||
        shortest_paths(p, pairs, cut, rank) || tight_constraints(p))
        goto no_memory;
    free(rank), free(cut);
    *program = p;
    return WI_OK;
no_memory:
    free(rank), free(cut);
    WI_EXPORT(wi_program_free)(p);
    return WI_NO_MEMORY;
}

void WI_EXPORT(wi_program_order)(const wi_program *p, int32_t *order, uint8_t *first) {
    memcpy(order, p->order, sizeof(int32_t) * (size_t)p->n);
    memcpy(first, p->near_edge, (size_t)p->edges);
}

void WI_EXPORT(wi_program_paths)(const wi_program *p, double *lengths, int32_t *before) {
    memcpy(lengths, p->lengths, sizeof(double) * (size_t)p->n * (size_t)p->n);
    memcpy(before, p->before, sizeof(int32_t) * (size_t)p->n * (size_t)p->n);
}
