/* Checkpoints: the state of a member between two steps, as bytes.
 *
 * They hold the iterate, the snapshot, the incumbent and where the driver is. What follows from
 * these is computed again. A checkpoint belongs to one program, member and group: reading another
 * one is refused, and no index or size of it is trusted.
 */
#include "constants.h"
#include "vectors.h"

#define STATE_MAGIC 0x31534957 /* "WIS1" */

typedef struct {
    uint8_t *bytes;
    const uint8_t *from;
    int64_t at, room;
    int failed;
} stream_t;

/* Write or read so many bytes at the end of the stream. */
static void transfer(stream_t *t, void *data, int64_t bytes) {
    if (t->failed || bytes <= 0) return;
    if (t->from) {
        if (bytes > t->room - t->at) t->failed = WI_BAD_STATE;
        else memcpy(data, t->from + t->at, (size_t)bytes);
    } else {
        if (t->at + bytes > t->room) {
            int64_t room = 2 * (t->at + bytes);
            uint8_t *more = realloc(t->bytes, (size_t)room);
            if (!more) {
                t->failed = WI_NO_MEMORY;
                return;
            }
            t->bytes = more, t->room = room;
        }
        memcpy(t->bytes + t->at, data, (size_t)bytes);
    }
    t->at += bytes;
}
#define TRANSFER(t, value) transfer(t, &(value), sizeof(value))
#define TRANSFER_ARRAY(t, array, count) transfer(t, array, (int64_t)(count) * (int64_t)sizeof *(array))

/* A number that must be from low to high. */
static int transfer_count(stream_t *t, int64_t value, int64_t low, int64_t high) {
    TRANSFER(t, value);
    if (!t->failed && (value < low || value > high)) t->failed = WI_BAD_STATE;
    return t->failed ? 0 : (int)value;
}

typedef struct {
    double slack, infeasibility, dual;
    int32_t i, j;
} saved_row_t;

static void transfer_row(stream_t *t, solve_t *s, block_t *block, int64_t r) {
    saved_row_t saved = {0};
    const pairs_t *pairs = &s->p->pairs;
    if (!t->from)
        saved = (saved_row_t){block->rows[r].slack, block->rows[r].infeasibility,
                              block->rows[r].dual, block->rows[r].i, block->rows[r].j};
    TRANSFER(t, saved);
    if (!t->from || t->failed) return;
    if (saved.i < 0 || saved.i >= s->n) {
        t->failed = WI_BAD_STATE;
        return;
    }
    for (int64_t e = pairs->start[saved.i]; e < pairs->start[saved.i + 1]; e++)
        if (pairs->right[e] == saved.j && !block->active[e]) {
            row_t *row = add_row(block, pairs, e, saved.i);
            row->slack = saved.slack, row->dual = saved.dual;
            row->infeasibility = saved.infeasibility;
            return;
        }
    t->failed = WI_BAD_STATE;
}

static void transfer_blocks(stream_t *t, solve_t *s, block_t **blocks, int *count) {
    int blocks_count = transfer_count(t, *count, 0, s->m);
    for (int z = 0; z < blocks_count && !t->failed; z++) {
        int output = transfer_count(t, t->from ? 0 : blocks[z]->output, 0, s->m - 1);
        int part = transfer_count(t, t->from ? 0 : blocks[z]->part, s->low, s->high - 1);
        int64_t rows = transfer_count(t, t->from ? 0 : blocks[z]->count, 0, s->p->pairs.count);
        if (t->failed) return;
        if (t->from) {
            block_t *block = block_new(s->n, output, s->cost + (int64_t)output * s->n,
                                       s->p->farthest + (int64_t)output * s->n, &s->p->pairs);
            if (!block || rows_reserve(block, rows)) {
                block_free(block);
                t->failed = WI_NO_MEMORY;
                return;
            }
            block->part = part;
            blocks[(*count)++] = block;
        }
        TRANSFER_ARRAY(t, blocks[z]->k, 3 * (int64_t)s->width);
        for (int64_t r = 0; r < rows && !t->failed; r++) transfer_row(t, s, blocks[z], r);
    }
}

static void transfer_outputs(stream_t *t, solve_t *s, int32_t *used, int32_t *part, int *in_use) {
    *in_use = transfer_count(t, *in_use, 1, s->m);
    TRANSFER_ARRAY(t, used, *in_use);
    TRANSFER_ARRAY(t, part, *in_use);
    for (int a = 0; a < *in_use && !t->failed; a++)
        if (used[a] < 0 || used[a] >= s->m || part[a] < 0 || part[a] >= s->parts)
            t->failed = WI_BAD_STATE;
}

static void transfer_proofs(stream_t *t, solve_t *s) {
    int64_t limit = 3 * (int64_t)s->m;
    int count = transfer_count(t, s->proofs ? s->proofs->count : 0, 0, limit);
    if (t->failed || !count) return;
    if (t->from && !(s->proofs = proofs_new(count))) {
        t->failed = WI_NO_MEMORY;
        return;
    }
    for (int a = 0; a < count && !t->failed; a++) {
        proof_t *proof = s->proofs->each + a;
        int rows = transfer_count(t, proof->count, 0, (int64_t)s->n * s->n);
        if (t->failed || (t->from && proof_reserve(proof, rows))) {
            t->failed = t->failed ? t->failed : WI_NO_MEMORY;
            return;
        }
        TRANSFER_ARRAY(t, proof->output, rows);
        TRANSFER_ARRAY(t, proof->left, rows);
        TRANSFER_ARRAY(t, proof->right, rows);
        TRANSFER_ARRAY(t, proof->value, rows);
        proof->count = t->failed ? 0 : rows;
        for (int r = 0; r < rows && !t->failed; r++)
            if (proof->left[r] < 0 || proof->left[r] >= s->n || proof->right[r] < 0 ||
                proof->right[r] >= s->n)
                t->failed = WI_BAD_STATE;
    }
}

static void transfer_state(stream_t *t, solve_t *s) {
    int64_t identity[] = {STATE_MAGIC, s->n, s->m, s->p->edges, s->parts, s->options.members,
                          s->options.member};
    for (int a = 0; a < 7; a++) {
        int64_t value = identity[a];
        TRANSFER(t, value);
        if (!t->failed && value != identity[a]) t->failed = WI_BAD_STATE;
    }
    TRANSFER(t, s->iterations), TRANSFER(t, s->round), TRANSFER(t, s->stage);
    TRANSFER(t, s->descent), TRANSFER(t, s->closing), TRANSFER(t, s->target), TRANSFER(t, s->descent_bound);
    TRANSFER(t, s->mu), TRANSFER(t, s->best_loss), TRANSFER(t, s->best_bound);
    s->stage = transfer_count(t, s->stage, 0, 8);
    TRANSFER_ARRAY(t, s->kept, s->m);
    TRANSFER_ARRAY(t, s->b, s->width);
    transfer_outputs(t, s, s->used, s->part, &s->in_use);
    transfer_blocks(t, s, s->blocks, &s->count);
    s->snapshot.there = transfer_count(t, s->snapshot.there, 0, 1);
    if (s->snapshot.there) {
        transfer_outputs(t, s, s->snapshot.used, s->snapshot.part, &s->snapshot.in_use);
        transfer_blocks(t, s, s->snapshot.blocks, &s->snapshot.count);
        TRANSFER_ARRAY(t, s->snapshot.b, s->width);
        TRANSFER(t, s->snapshot.mu);
    }
    s->best_count = transfer_count(t, s->best_count, 0, s->m);
    TRANSFER_ARRAY(t, s->best_output, s->best_count);
    TRANSFER_ARRAY(t, s->best_column, (int64_t)s->best_count * s->n);
    for (int z = 0; z < s->best_count && !t->failed; z++)
        if (s->best_output[z] < 0 || s->best_output[z] >= s->m) t->failed = WI_BAD_STATE;
    transfer_proofs(t, s);
}

static void write_checkpoint(solve_t *s) {
    stream_t t = {0};
    transfer_state(&t, s);
    if (!t.failed) s->options.checkpoint(s->options.context, t.bytes, t.at, s->iterations);
    free(t.bytes);
}

/* Whether the blocks of this member are those that its list of outputs says. */
static int is_consistent(const solve_t *s, block_t *const *blocks, int count, const int32_t *used,
                         const int32_t *part, int in_use) {
    int at = 0;
    for (int a = 0; a < in_use; a++) {
        if (a && part[a] < part[a - 1]) return 0;
        if (part[a] < s->low || part[a] >= s->high) continue;
        if (at == count || blocks[at]->output != used[a] || blocks[at]->part != part[a]) return 0;
        at++;
    }
    return at == count;
}

static int summarise(solve_t *s);

static int read_checkpoint(solve_t *s, const uint8_t *state, int64_t bytes) {
    stream_t t = {.from = state, .room = bytes};
    s->in_use = 0;
    transfer_state(&t, s);
    if (!t.failed && (t.at != bytes ||
                      !is_consistent(s, s->blocks, s->count, s->used, s->part, s->in_use) ||
                      (s->snapshot.there &&
                       !is_consistent(s, s->snapshot.blocks, s->snapshot.count, s->snapshot.used,
                                      s->snapshot.part, s->snapshot.in_use))))
        t.failed = WI_BAD_STATE;
    if (t.failed) return t.failed;
    s->resumed = s->iterations;
    return summarise(s);
}
