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

/* A positive number value * UNIT^units with 1 / ROOT <= value < ROOT. The factors of a long cycle
 * multiply to less than any double: exp(-eps d) is 1e-115 at eps 12 per km and 22 km. */
typedef struct {
    double value;
    int64_t units;
} wide_t;

static const double UNIT = 0x1p300, ROOT = 0x1p150;
static const int UNIT_EXPONENT = 300;
/* A change of the flow above this is not made. */
static const double LARGEST = 1e200;

static wide_t wide(double value, int64_t units) {
    if (!(value > 0.0)) return (wide_t){0.0, INT32_MIN};
    if (!(value < INFINITY)) return (wide_t){INFINITY, INT32_MAX};
    while (value < 1.0 / ROOT) value *= UNIT, units--;
    while (value >= ROOT) value /= UNIT, units++;
    return (wide_t){value, units};
}

static int wide_less(wide_t a, wide_t b) {
    return a.units != b.units ? a.units < b.units : a.value < b.value;
}

/* a b as a double: 0 or infinity where it is out of range. */
static double wide_product(wide_t a, wide_t b) {
    int64_t units = a.units + b.units;
    double product = a.value * b.value;
    if (units == 0 || product == 0.0) return product;
    return units < -8 ? 0.0 : units > 8 ? INFINITY : ldexp(product, UNIT_EXPONENT * (int)units);
}

/* A row of a cycle: the node below it in the tree, and how its flow changes for every unit that the
 * new row sends more. */
typedef struct {
    int64_t row, child;
    wide_t size;
    double sign, change;
} link_t;

/* Cancel all cycles of the rows of each output: what is left is a forest on the nodes. y is
 * changed; a row with y = 0 is not needed any more. */
int32_t WI_EXPORT(wi_cancel_cycles)(int64_t low, int64_t high, int64_t nodes, const int64_t *first,
                                    const int64_t *left, const int64_t *right, const double *gain,
                                    double *y) {
    int64_t *parent = malloc((size_t)nodes * 3 * sizeof *parent);
    link_t *cycle = malloc((size_t)nodes * 2 * sizeof *cycle);
    if (!parent || !cycle) {
        free(parent);
        free(cycle);
        return WI_NO_MEMORY;
    }
    /* The forest: the parent of each node, and the row between them. */
    int64_t *arc = parent + nodes, *seen = arc + nodes;
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
                wide_t arriving = wide(gain[j], 0), needed = wide(1.0, 0);
                for (int64_t x = sink; x != apex; x = parent[x], length++) {
                    const int64_t a = arc[x];
                    const wide_t before = arriving;
                    const int along = right[a] == x;
                    arriving = wide(along ? before.value * gain[a] : before.value / gain[a],
                                    before.units);
                    cycle[length] = (link_t){a, x, along ? before : arriving, along ? 1 : -1, 0};
                }
                const int64_t from_sink = length;
                for (int64_t x = source; x != apex; x = parent[x], length++) {
                    const int64_t a = arc[x];
                    const wide_t before = needed;
                    const int along = left[a] == x;
                    needed = wide(along ? before.value / gain[a] : before.value * gain[a],
                                  before.units);
                    cycle[length] = (link_t){a, x, along ? needed : before, along ? 1 : -1, 0};
                }
                /* In this direction more arrives at the apex than is needed there. */
                const double sign = wide_less(needed, arriving) ? 1.0 : -1.0;
                wide_t step = sign > 0 ? (wide_t){INFINITY, INT32_MAX} : wide(y[j], 0);
                int64_t blocking = -1;
                for (int64_t i = 0; i < length; i++) {
                    if (sign * cycle[i].sign > 0) continue;
                    const wide_t most =
                        wide(y[cycle[i].row] / cycle[i].size.value, -cycle[i].size.units);
                    if (wide_less(most, step)) {
                        step = most;
                        blocking = i;
                    }
                }
                /* All rows get larger, or one beyond all measure: only by rounding. Leave row j
                 * out; `prune` sees whether the rest still proves the bound. */
                double largest = wide_product(step, wide(1.0, 0));
                for (int64_t i = 0; i < length; i++) {
                    cycle[i].change = wide_product(step, cycle[i].size);
                    largest = fmax(largest, cycle[i].change);
                }
                if (!(largest < LARGEST)) {
                    y[j] = 0.0;
                    continue;
                }
                y[j] = fmax(y[j] + sign * wide_product(step, wide(1.0, 0)), 0.0);
                for (int64_t i = 0; i < length; i++) {
                    double *flow = y + cycle[i].row;
                    *flow = fmax(*flow + sign * cycle[i].sign * cycle[i].change, 0.0);
                }
                if (blocking < 0) {
                    y[j] = 0.0;
                    continue;
                }
                /* Row j takes the place of the blocking row in the tree. */
                y[cycle[blocking].row] = 0.0;
                below = cycle[blocking].child;
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
    free(cycle);
    return WI_OK;
}

/* Let each output send no more than its n places need. spare[z, x] is what place x does not need. A
 * row to x is reduced by as much as that allows; its right place then has more to spare. The rows of
 * an output are a forest with the smallest ones last. y and spare are changed. */
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
