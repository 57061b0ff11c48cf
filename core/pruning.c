/* The loops of the pruning of a proof (release/pruning.py, docs/proofs/bound.md).
 *
 * Row j of an output sends y[j] from right[j]; gain[j] y[j] arrives at left[j]. The rows of output
 * z are first[z] <= j < first[z + 1]. Outputs low <= z < high are computed, so that threads can
 * share them. Cycle cancelling for generalised flows with free disposal: Ahuja, Magnanti, Orlin,
 * Network Flows (1993), chapter 15.
 */
#include "export.h"
#include "whereish.h"

#include <math.h>
#include <stdlib.h>

/* A row is kept as it is where a factor along its cycle is outside this range: no overflow. */
static const double SMALLEST = 1e-200, LARGEST = 1e200;

static int in_range(double factor) { return factor > SMALLEST && factor < LARGEST; }

/* Cancel all cycles of the rows of each output: what is left is a forest on the nodes. y is
 * changed; a row with y = 0 is not needed any more. */
int32_t WI_EXPORT(wi_cancel_cycles)(int64_t low, int64_t high, int64_t nodes, const int64_t *first,
                                    const int64_t *left, const int64_t *right, const double *gain,
                                    double *y) {
    int64_t *parent = malloc((size_t)nodes * 7 * sizeof *parent);
    double *change = malloc((size_t)nodes * 2 * sizeof *change);
    if (!parent || !change) {
        free(parent);
        free(change);
        return WI_NO_MEMORY;
    }
    /* The forest: the parent of each node, and the row between them. */
    int64_t *arc = parent + nodes, *seen = arc + nodes;
    /* The cycle: its rows in the forest, the lower end of each, and the change of each for every
     * unit that row j sends more. */
    int64_t *path = seen + nodes, *child = path + 2 * nodes;
    for (int64_t z = low; z < high; z++) {
        for (int64_t x = 0; x < nodes; x++) parent[x] = arc[x] = seen[x] = -1;
        for (int64_t j = first[z]; j < first[z + 1]; j++) {
            const int64_t source = right[j], sink = left[j];
            /* The apex is the first common ancestor of both ends, or -1 in two trees. */
            for (int64_t x = source; x >= 0; x = parent[x]) seen[x] = j;
            int64_t apex = sink;
            while (apex >= 0 && seen[apex] != j) apex = parent[apex];
            int64_t below = -1, start = sink, up = source;
            if (apex >= 0) {
                /* One unit more in row j arrives at the apex as `arriving`, by way of the sink. The
                 * source has to take `needed` from the apex for it. */
                int64_t length = 0;
                double arriving = gain[j], needed = 1.0;
                for (int64_t x = sink; x != apex; x = parent[x], length++) {
                    const int64_t a = arc[x];
                    if (right[a] == x) {
                        change[length] = arriving;
                        arriving *= gain[a];
                    } else {
                        arriving /= gain[a];
                        change[length] = -arriving;
                    }
                    path[length] = a;
                    child[length] = x;
                }
                const int64_t from_sink = length;
                for (int64_t x = source; x != apex; x = parent[x], length++) {
                    const int64_t a = arc[x];
                    if (left[a] == x) {
                        needed /= gain[a];
                        change[length] = needed;
                    } else {
                        change[length] = -needed;
                        needed *= gain[a];
                    }
                    path[length] = a;
                    child[length] = x;
                }
                if (!in_range(arriving) || !in_range(needed)) continue;
                /* In this direction more arrives at the apex than is needed there. */
                const double sign = arriving > needed ? 1.0 : -1.0;
                double step = sign > 0 ? INFINITY : y[j];
                int64_t blocking = -1;
                for (int64_t i = 0; i < length; i++) {
                    if (!(sign * change[i] < 0)) continue;
                    const double most = y[path[i]] / fabs(change[i]);
                    if (most < step) {
                        step = most;
                        blocking = i;
                    }
                }
                if (!(step < INFINITY)) continue; /* no row gets smaller: only by rounding */
                y[j] = fmax(y[j] + sign * step, 0.0);
                for (int64_t i = 0; i < length; i++)
                    y[path[i]] = fmax(y[path[i]] + sign * step * change[i], 0.0);
                if (blocking < 0) {
                    y[j] = 0.0;
                    continue;
                }
                /* Row j takes the place of the blocking row in the tree. */
                y[path[blocking]] = 0.0;
                below = child[blocking];
                if (blocking >= from_sink) {
                    start = source;
                    up = sink;
                }
            }
            /* Make `start` the root of its tree (of the part below the blocking row) and hang it
             * below the other end of row j. */
            for (int64_t x = start, a = j; x >= 0;) {
                const int64_t next_node = parent[x], next_arc = arc[x];
                parent[x] = up;
                arc[x] = a;
                if (x == below) break;
                up = x;
                a = next_arc;
                x = next_node;
            }
        }
    }
    free(parent);
    free(change);
    return WI_OK;
}

/* Let each output send no more than its n places need. spare[z, x] is what place x does not need. A
 * row to x is reduced by as much as that allows; its right place then has more to spare. The rows of
 * an output are a forest, or nearly so, with the smallest ones last. y and spare are changed. */
void WI_EXPORT(wi_return_spare)(int64_t low, int64_t high, int64_t n, double *spare,
                                const int64_t *first, const int64_t *left, const int64_t *right,
                                const double *gain, double *y) {
    for (int64_t z = low; z < high; z++) {
        double *here = spare + z * n;
        int changed = 1;
        for (int64_t round = 0; changed && round < n; round++) { /* a path of a forest is shorter */
            changed = 0;
            for (int64_t j = first[z + 1] - 1; j >= first[z]; j--) {
                const double more = here[left[j]];
                if (!(y[j] > 0 && more > 0)) continue;
                changed = 1;
                double less = more / gain[j];
                if (less >= y[j]) {
                    less = y[j];
                    here[left[j]] = fmax(more - gain[j] * less, 0.0);
                } else {
                    here[left[j]] = 0.0;
                }
                y[j] -= less;
                here[right[j]] += less;
            }
        }
    }
}
