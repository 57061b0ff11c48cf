/* Multipliers on a forest: exact where scaled ones have lost their digits.
 *
 * An optimal y of one output is a flow with losses: a multiplier y on the pair (i, j) takes y from
 * the gain c - b of j and gives exp(-eps d) y to that of i. Cycles only lose, so a forest of pairs
 * is enough (Ahuja, Magnanti, Orlin: Network Flows, 1993, chapter 15). On a given forest the flow is
 * determined from the leaves to the roots, with additions only. The forest comes from the duals of
 * the scaled rows, which keep their digits where k is tiny and y = dual / k has none.
 */

typedef struct {
    int32_t end[2]; /* inputs */
    int32_t row[2]; /* row[a] gives to end[a] and takes from the other end; -1 if there is none */
    double decay;
} tree_edge_t;

typedef struct {
    double dual;
    int32_t row, i, j;
} candidate_t;

static int by_dual(const void *a, const void *b) {
    const candidate_t *x = a, *y = b;
    if (x->dual != y->dual) return x->dual < y->dual ? 1 : -1;
    return x->row < y->row ? -1 : x->row > y->row;
}

static int root_of(int32_t *above, int x) {
    while (above[x] != x) x = above[x] = above[above[x]];
    return x;
}

/* A maximum spanning forest of the rows, by their duals: every tree takes the best row that leaves
 * it, until none does (Boruvka 1926). Equal duals are ordered by their rows, so there is one such
 * forest. `left` are all rows, and is overwritten; `tree` and `best` have room for n. Return the
 * number of rows in `forest`, which `by_dual` orders. */
static int spanning_forest(const block_t *s, candidate_t *left, int32_t *above, int32_t *tree,
                           int32_t *best, candidate_t *forest) {
    int n = s->n, found = 0, before = -1;
    int64_t count = s->count;
    for (int x = 0; x < n; x++) above[x] = x;
    while (found > before) {
        int64_t kept = 0;
        before = found;
        for (int x = 0; x < n; x++) tree[x] = root_of(above, x), best[x] = -1;
        for (int64_t a = 0; a < count; a++) { /* in the order of rows: of equal ones the first */
            candidate_t row = left[a];
            int one = tree[row.i], other = tree[row.j];
            if (one == other) continue;
            if (best[one] < 0 || row.dual > left[best[one]].dual) best[one] = (int32_t)kept;
            if (best[other] < 0 || row.dual > left[best[other]].dual) best[other] = (int32_t)kept;
            left[kept++] = row;
        }
        count = kept;
        for (int x = 0; x < n; x++) {
            if (best[x] < 0) continue;
            candidate_t row = left[best[x]];
            int one = root_of(above, row.i), other = root_of(above, row.j);
            if (one == other) continue; /* the other tree took the same row */
            above[one] = other;
            forest[found++] = row;
        }
    }
    qsort(forest, (size_t)found, sizeof(candidate_t), by_dual);
    return found;
}

/* The rows of a forest as edges, with the rows of the other direction. head[x] is the first end of
 * an edge at x, 2 edge or 2 edge + 1, and after[end] the next one. */
static void link_forest(const block_t *s, const candidate_t *forest, int count, int32_t *head,
                        int32_t *after, tree_edge_t *edges) {
    for (int x = 0; x < s->n; x++) head[x] = -1;
    for (int a = 0; a < count; a++) {
        const candidate_t *row = forest + a;
        edges[a] = (tree_edge_t){{row->i, row->j}, {row->row, -1}, s->rows[row->row].decay};
        after[2 * a] = head[row->i], head[row->i] = 2 * a;
        after[2 * a + 1] = head[row->j], head[row->j] = 2 * a + 1;
    }
    for (int64_t r = 0; r < s->count; r++)
        for (int32_t h = head[s->rows[r].i]; h >= 0; h = after[h]) {
            tree_edge_t *edge = edges + h / 2;
            if (edge->end[0] == s->rows[r].j && edge->end[1] == s->rows[r].i)
                edge->row[1] = (int32_t)r;
        }
}

/* Send gains from the leaves to the roots: what is left over is sent on, what is missing is taken
 * from the next input. `flow` gets the multiplier of each row. */
static void flow_to_roots(const block_t *s, double *gain, const int32_t *head, const int32_t *after,
                          const tree_edge_t *edges, int32_t *degree, uint8_t *is_root,
                          int32_t *queue, double *flow) {
    int first = 0, last = 0;
    for (int x = 0; x < s->n; x++) {
        degree[x] = 0;
        for (int32_t h = head[x]; h >= 0; h = after[h]) degree[x]++;
        if (degree[x] == 1 && !is_root[x]) queue[last++] = x;
    }
    while (first < last) {
        int x = queue[first++];
        for (int32_t h = head[x]; h >= 0; h = after[h]) {
            const tree_edge_t *edge = edges + h / 2;
            int side = h % 2, next = edge->end[1 - side];
            if (degree[next] <= 0) continue; /* done, on the other side */
            int32_t row = gain[x] > 0.0 ? edge->row[1 - side] : edge->row[side];
            if (row >= 0 && gain[x] > 0.0) {
                flow[row] = gain[x] * (1.0 - 1e-14); /* slightly less, because of rounding */
                gain[next] += flow[row] * edge->decay;
            } else if (row >= 0 && gain[x] < 0.0 && edge->decay > 0.0) {
                flow[row] = -gain[x] / edge->decay * (1.0 + 1e-14);
                gain[next] -= flow[row];
            }
            degree[x] = 0;
            if (--degree[next] == 1 && !is_root[next]) queue[last++] = next;
            break;
        }
    }
}

/* How much is missing below the aim, in all. */
static double shortage(const double *reduced, const double *aim, int n) {
    double total = 0.0;
    for (int x = 0; x < n; x++) total += larger(aim[x] - reduced[x], 0.0);
    return total;
}

/* Replace multipliers by those of a forest if less is missing then. No memory: nothing changes. */
static void use_forest(const block_t *s, const double *aim, const double *cost, double *reduced,
                       double *multiplier) {
    int n = s->n;
    candidate_t *left = NEW(candidate_t, s->count), *forest = NEW(candidate_t, n);
    int32_t *whole = NEW(int32_t, 6 * (int64_t)n); /* above, head, after (2), degree, queue */
    tree_edge_t *edges = NEW(tree_edge_t, n);
    double *flow = NEW(double, s->count), *gain = NEW(double, 2 * (int64_t)n);
    uint8_t *is_root = NEW(uint8_t, n);
    if (!left || !forest || !whole || !edges || !flow || !gain || !is_root) goto end;
    int32_t *above = whole, *head = whole + n, *after = whole + 2 * n, *degree = whole + 4 * n;
    double *found = gain + n;
    for (int64_t r = 0; r < s->count; r++) { /* not a number: as if it were 0 */
        const row_t *row = s->rows + r;
        left[r] = (candidate_t){row->dual > 0.0 ? row->dual : 0.0, (int32_t)r, row->i, row->j};
    }
    int rows = spanning_forest(s, left, above, head, degree, forest);
    link_forest(s, forest, rows, head, after, edges);
    for (int a = n - 1; a >= 0; a--) { /* the root of a tree is its input nearest to the output */
        int root = root_of(above, s->farthest[a]);
        if (!(is_root[root] & 2)) is_root[root] |= 2, is_root[s->farthest[a]] |= 1;
    }
    for (int x = 0; x < n; x++) {
        is_root[x] &= 1;
        gain[x] = cost[x] - aim[x] - HAIR * fabs(cost[x]);
    }
    flow_to_roots(s, gain, head, after, edges, degree, is_root, whole + 5 * n, flow);
    for (int64_t r = 0; r < s->count; r++)
        if (!(flow[r] >= 0.0 && flow[r] <= 1e300)) goto end;
    sum_reduced(s, cost, flow, found);
    if (shortage(found, aim, n) < shortage(reduced, aim, n)) {
        memcpy(reduced, found, sizeof(double) * (size_t)n);
        memcpy(multiplier, flow, sizeof(double) * (size_t)s->count);
    }
end:
    free(left), free(forest), free(whole), free(edges), free(flow), free(gain), free(is_root);
}
