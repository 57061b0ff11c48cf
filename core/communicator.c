/* The partition of the blocks over the members of a group, and sums that do not depend on it.
 *
 * Every output in use belongs to a part, and a member holds the blocks of consecutive parts. What is
 * added up over all blocks is added up as a binary tree over the parts: a member adds up the
 * subtrees that it holds, the all-reduce adds up the rest of the tree. So a solve gives the same
 * numbers, to the last bit, however many members there are, and however many threads each has.
 *
 * The members run the same driver (SPMD: single program, multiple data). Every decision depends on
 * reduced numbers only, so all members take the same one.
 */
#include "constants.h"
#include "vectors.h"

#define MAX_NODES 16 /* subtrees of a span of parts: at most 2 log2(64) */

typedef struct {
    int low, high;
} node_t;

/* The first part of a member's span. */
INLINE int span_start(int parts, int members, int member) {
    return (int)((int64_t)parts * member / members);
}

/* List the largest subtrees, under a node, of the parts from low to high. */
static int subtrees(int low, int high, node_t node, node_t *nodes, int count) {
    if (low >= high || node.low >= high || low >= node.high) return count;
    if (low <= node.low && node.high <= high) {
        nodes[count] = node;
        return count + 1;
    }
    int middle = (node.low + node.high) / 2;
    count = subtrees(low, high, (node_t){node.low, middle}, nodes, count);
    return subtrees(low, high, (node_t){middle, node.high}, nodes, count);
}

int32_t WI_EXPORT(wi_leaves)(int32_t parts, int32_t members, int32_t member) {
    node_t nodes[MAX_NODES];
    if (parts < 1 || parts > MANY_PARTS || members < 1 || member < 0 || member >= members) return 0;
    return subtrees(span_start(parts, members, member), span_start(parts, members, member + 1),
                    (node_t){0, parts}, nodes, 0);
}

/* Add up the sums under a node. `sums[a]` has those of known[a], the nodes in order; they are
 * overwritten. Return the index of the result, or -1 if there is none. */
static int fold(const node_t *known, double **sums, int count, node_t node, int64_t numbers) {
    for (int a = 0; a < count; a++)
        if (known[a].low == node.low && known[a].high == node.high) return a;
    if (node.high - node.low < 2) return -1;
    int middle = (node.low + node.high) / 2;
    int left = fold(known, sums, count, (node_t){node.low, middle}, numbers);
    int right = fold(known, sums, count, (node_t){middle, node.high}, numbers);
    if (left < 0 || right < 0) return left < 0 ? right : left;
    for (int64_t x = 0; x < numbers; x++) sums[left][x] += sums[right][x];
    return left;
}

int32_t WI_EXPORT(wi_reduce)(int32_t parts, int32_t members, const double *const *data,
                             int64_t sums, int64_t maxima, double *reduced) {
    if (parts < 1 || parts > MANY_PARTS || members < 1 || members > parts || sums < 0 || maxima < 0)
        return WI_BAD_SIZE;
    node_t nodes[MANY_PARTS + MAX_NODES];
    double *each[MANY_PARTS + MAX_NODES];
    int count = 0;
    for (int member = 0; member < members; member++)
        count = subtrees(span_start(parts, members, member), span_start(parts, members, member + 1),
                         (node_t){0, parts}, nodes, count);
    double *copy = NEW(double, (double)count * (double)sums);
    if (!copy) return WI_NO_MEMORY;
    for (int64_t x = 0; x < maxima; x++) reduced[sums + x] = -INFINITY;
    int at = 0;
    for (int member = 0; member < members; member++) {
        int own = WI_EXPORT(wi_leaves)(parts, members, member);
        memcpy(copy + at * sums, data[member], sizeof(double) * (size_t)(own * sums));
        const double *more = data[member] + own * sums;
        for (int64_t x = 0; x < maxima; x++)
            reduced[sums + x] = larger(more[x], reduced[sums + x]);
        at += own;
    }
    for (int a = 0; a < count; a++) each[a] = copy + a * sums;
    int root = fold(nodes, each, count, (node_t){0, parts}, sums);
    memcpy(reduced, each[root], sizeof(double) * (size_t)sums);
    free(copy);
    return WI_OK;
}
