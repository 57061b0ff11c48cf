/* The state of one solve, as one member of the group holds it. */
#include "constants.h"
#include "vectors.h"

/* What a thread needs for itself. */
typedef struct {
    double *strip;       /* (n, WIDTH), see add_inverse */
    double *dense;       /* see add_local_inverse */
    double *vectors;     /* VECTORS of them, padded */
    double *sums;        /* of subtrees, see factor_task */
    double *multiplier;  /* of the rows of a block */
    int32_t *links;
    int64_t room;        /* rows */
    double *near, *weights; /* of the transport proof */
    double *low;         /* the least reduced costs that this thread has seen */
} scratch_t;
#define VECTORS 12

typedef struct {
    const wi_program *p;
    wi_options options;
    pool_t pool;
    scratch_t *scratch;
    int n, m, width;
    double *prior, *cost;  /* (n); (m, n) prior(x) loss(x, z) */
    double *amount;        /* (n) what the probabilities of each input add up to: 1, but see local.c */
    double begun, deadline;
    int failed;            /* a wi_status: no memory, no communication */
    /* Partition. */
    int parts, low, high, nodes;
    node_t node[MAX_NODES];
    double *message;
    int64_t message_room;
    /* The blocks of this member, by part. */
    block_t **blocks;
    int count;
    /* All outputs in use, by part, and those that must not be merged. */
    int32_t *used, *part;
    int in_use;
    uint8_t *kept;
    /* The iterate: the prices of the inputs, and the complementarity. */
    double *b, mu;
    /* Summary of all blocks after a step. */
    double *least_reduced, *totals, *largest, loss;
    int64_t rows;
    factor_t schur;
    int64_t schur_numbers; /* of a sum of shares of the Schur complement */
    int is_local;          /* blocks have some of the places: see local.c */
    double *db, *try_db, *push;
    double *task_sums[MANY_PARTS];
    /* The iterate to which the method goes back when outputs join. */
    struct {
        int there;
        block_t **blocks;
        int count;
        int32_t *used, *part;
        int in_use;
        double *b, mu;
    } snapshot;
    /* The incumbent: the best private mechanism so far, and the best bound with its multipliers. */
    double best_loss, best_bound;
    int32_t *best_output;
    double *best_column;
    int best_count;
    struct proofs *proofs;
    /* Where the driver is. */
    int iterations, round, stage, descent, stopped;
    int resumed; /* the iteration of the checkpoint that was resumed, or -1 */
    double target, descent_bound;
    /* Whether the gap may be below the target: complementarity is near it. Before that no bound is
     * needed, and reduced costs are not cleaned. */
    int closing;
} solve_t;

/* Multipliers of some rows. */
typedef struct {
    int64_t count, room;
    int32_t *output, *left, *right;
    double *value;
} proof_t;

typedef struct proofs {
    proof_t *each;
    int64_t count;
} proofs_t;

static void proof_free(proof_t *proof) {
    free(proof->output), free(proof->left), free(proof->right), free(proof->value);
    *proof = (proof_t){0};
}

static void proofs_free(proofs_t *proofs) {
    if (!proofs) return;
    for (int64_t a = 0; a < proofs->count; a++) proof_free(proofs->each + a);
    free(proofs->each);
    free(proofs);
}

static proofs_t *proofs_new(int64_t count) {
    proofs_t *proofs = NEW(proofs_t, 1);
    if (!proofs) return NULL;
    proofs->each = NEW(proof_t, count), proofs->count = count;
    if (!proofs->each) return free(proofs), NULL;
    return proofs;
}

static int proof_reserve(proof_t *proof, int64_t room) {
    if (room <= proof->room) return 0;
    room += room / 4;
    int32_t *output = realloc(proof->output, sizeof(int32_t) * (size_t)room);
    if (output) proof->output = output;
    int32_t *left = realloc(proof->left, sizeof(int32_t) * (size_t)room);
    if (left) proof->left = left;
    int32_t *right = realloc(proof->right, sizeof(int32_t) * (size_t)room);
    if (right) proof->right = right;
    double *value = realloc(proof->value, sizeof(double) * (size_t)room);
    if (value) proof->value = value;
    if (!output || !left || !right || !value) return -1;
    proof->room = room;
    return 0;
}

/* The multipliers of the rows of a block, as a proof. */
static int proof_of_block(const block_t *s, const double *multiplier, proof_t *proof) {
    if (proof_reserve(proof, s->count)) return -1;
    for (int64_t r = 0; r < s->count; r++) {
        if (multiplier[r] == 0.0) continue;
        int64_t a = proof->count++;
        proof->output[a] = s->output, proof->value[a] = multiplier[r];
        proof->left[a] = s->rows[r].i, proof->right[a] = s->rows[r].j;
    }
    return 0;
}

/* Memory of a thread for blocks of so many rows. */
static int scratch_rows(scratch_t *own, int n, int64_t rows) {
    if (own->links && rows <= own->room) return 0;
    rows += rows / 4 + 1; /* some memory also for a block without rows */
    free(own->multiplier), free(own->links);
    own->multiplier = NEW(double, rows), own->links = NEW(int32_t, rows + n);
    int failed = !own->multiplier || !own->links;
    own->room = failed ? 0 : rows;
    return failed ? -1 : 0;
}

static int is_stopped(solve_t *s) {
    return (s->options.stop && *s->options.stop) || interrupted || now_s() > s->deadline;
}

/* Run a loop over `items`, on several threads if its work is worth it. */
static void run(solve_t *s, int64_t items, double work, loop_body body, void *context) {
    if (work >= WORTH_THREADS) pool_run(&s->pool, items, body, context);
    else
        for (int64_t item = 0; item < items; item++) body(context, item, 0);
}

/* Reduce over all members: `leaves` has `sums` numbers for each part of this member, and is
 * overwritten. The sums go to `out`, the maxima into `maxima` itself. */
static int reduce(solve_t *s, double *leaves, int64_t sums, double *out, double *maxima,
                  int64_t maxima_count) {
    int64_t needed = s->nodes * sums + maxima_count;
    if (needed > s->message_room) {
        free(s->message);
        s->message = NEW(double, needed);
        s->message_room = s->message ? needed : 0;
        if (!s->message) return s->failed = WI_NO_MEMORY;
    }
    for (int a = 0; a < s->nodes; a++) {
        node_t node = s->node[a];
        double *first = leaves + (node.low - s->low) * sums;
        for (int step = 1; step < node.high - node.low; step *= 2)
            for (int p = 0; p + step < node.high - node.low; p += 2 * step)
                for (int64_t x = 0; x < sums; x++)
                    first[p * sums + x] += first[(p + step) * sums + x];
        memcpy(s->message + a * sums, first, sizeof(double) * (size_t)sums);
    }
    if (s->options.members > 1) {
        double *rest = s->message + s->nodes * sums;
        if (maxima_count) memcpy(rest, maxima, sizeof(double) * (size_t)maxima_count);
        if (s->options.all_reduce(s->options.context, s->message, sums, maxima_count))
            return s->failed = WI_COMMUNICATION;
        if (maxima_count)
            memcpy(maxima, s->message + sums, sizeof(double) * (size_t)maxima_count);
    }
    if (sums) memcpy(out, s->message, sizeof(double) * (size_t)sums);
    return 0;
}
