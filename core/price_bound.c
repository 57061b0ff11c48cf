/* A lower bound from prices, and a mechanism from a coarser one, for many places.
 *
 * wi_cover looks for the multipliers that prove prices (the transport proof, docs/proofs/
 * price-bound.md). wi_relax moves columns towards privacy. Both are heuristics: code that shares
 * nothing with this file computes the bound from the multipliers and checks every ratio.
 */
#include "export.h"
#include "whereish.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    WIDE = 8,             /* floats of a vector; the compiler splits it where registers are shorter */
    POWER_8_UP_TO = 30,   /* rounds in which shares are bids to the power 8, ... */
    POWER_16_UP_TO = 60,  /* 16, and then 32 */
    SHARPER = 15,         /* rounds to cover nearly the same with the power 32 */
};

/* Bids aim a little above the need: otherwise a demand comes close to it and never reaches it. */
#define OVERSHOOT 1.003f
/* The first bid of all demands. The highest bid is scaled to it, so that one counts as unknown too:
 * where few demands compete, the bids for another output would be a worse start. */
#define UNKNOWN 1.0f
/* The share of the demands that the output before must have had. */
#define ALIKE 0.875
/* The share of the need that fewer flows may leave uncovered. */
#define NEARLY 1e-4

typedef float wide __attribute__((vector_size(4 * WIDE)));
typedef int32_t mask __attribute__((vector_size(4 * WIDE)));

static wide all(float value) { return value - (wide){0}; }
static wide load(const float *at) {
    wide v;
    memcpy(&v, at, sizeof v);
    return v;
}
static void store(float *at, wide v) { memcpy(at, &v, sizeof v); }
static wide larger(wide a, wide b) {
    const mask m = a > b;
    return (wide)(((mask)a & m) | ((mask)b & ~m));
}
static wide or_zero(wide v, wide least) { return (wide)((mask)v & (v >= least)); }

/* The working space of one call. */
typedef struct {
    int64_t n;
    double *gain;                   /* (n) cost - prices */
    int32_t *demand, *supply;       /* places with a negative and a positive gain */
    float *reach;                   /* (n) largest decay to a demand, then gain times that */
    float *bid, *best, *kept, *got, *need; /* (demands, padded) */
    float *row, *near;              /* shares of a supply; decay from each supply to each demand */
    float *last;                    /* (n) the bids for the output before, from which the next begin */
    int64_t near_size;
} space;

static int compare_down(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

/* Share a supply among the demands, by bid times decay to a power; put the shares into `row`. */
static void share_supply(const float *near, const float *bid, float *row, int64_t padded,
                         int squarings, float cut, float gain) {
    wide most = all(0.0f), sum = all(0.0f);
    for (int64_t c = 0; c < padded; c += WIDE) {
        const wide v = load(bid + c) * load(near + c);
        store(row + c, v);
        most = larger(v, most);
    }
    float best = 0.0f, total = 0.0f;
    for (int a = 0; a < WIDE; a++) best = most[a] > best ? most[a] : best;
    const wide scale = all(best > 0.0f ? 1.0f / best : 0.0f);
    for (int64_t c = 0; c < padded; c += WIDE) {
        wide v = load(row + c) * scale;
        for (int a = 0; a < squarings; a++) v *= v;
        v = or_zero(v, all(cut));
        store(row + c, v);
        sum += v;
    }
    for (int a = 0; a < WIDE; a++) total += sum[a];
    const wide flow = all(total > 0.0f ? gain / total : 0.0f);
    for (int64_t c = 0; c < padded; c += WIDE) store(row + c, load(row + c) * flow);
}

/* Serve all demands once: `got` is what reaches them. */
static void serve(const space *s, int64_t supplies, int64_t padded, int squarings, float cut,
                  const float *bid) {
    memset(s->got, 0, (size_t)padded * sizeof *s->got);
    for (int64_t a = 0; a < supplies; a++) {
        const float *near = s->near + a * padded;
        share_supply(near, bid, s->row, padded, squarings, cut, (float)s->gain[s->supply[a]]);
        for (int64_t c = 0; c < padded; c += WIDE)
            store(s->got + c, load(s->got + c) + load(s->row + c) * load(near + c));
    }
}

/* Find demands and supplies of an output, and the decay between them. Return -1 without memory. */
static int gather(space *s, const float *decay, float least, int64_t most_pairs, int64_t *demands,
                  int64_t *supplies) {
    const int64_t n = s->n;
    int64_t wanting = 0, having = 0;
    for (int64_t x = 0; x < n; x++)
        if (s->gain[x] < 0.0) s->demand[wanting++] = (int32_t)x;
    *demands = wanting, *supplies = 0;
    if (!wanting) return 0;
    memset(s->reach, 0, (size_t)n * sizeof *s->reach);
    for (int64_t c = 0; c < wanting; c++) {
        const float *row = decay + (int64_t)s->demand[c] * n;
        for (int64_t x = 0; x < n; x++) s->reach[x] = row[x] > s->reach[x] ? row[x] : s->reach[x];
    }
    for (int64_t x = 0; x < n; x++)
        if (s->gain[x] > 0.0 && s->reach[x] >= least) s->supply[having++] = (int32_t)x;
    const int64_t padded = (wanting + WIDE - 1) / WIDE * WIDE;
    if (having * padded > most_pairs) { /* keep the supplies that can give most */
        for (int64_t a = 0; a < having; a++)
            s->row[a] = s->near[a] = s->reach[s->supply[a]] * (float)s->gain[s->supply[a]];
        const int64_t room = most_pairs / padded > 0 ? most_pairs / padded : 1;
        qsort(s->row, (size_t)having, sizeof *s->row, compare_down);
        const float limit = s->row[room - 1];
        int64_t kept = 0;
        for (int64_t a = 0; a < having && kept < room; a++)
            if (s->near[a] >= limit) s->supply[kept++] = s->supply[a];
        having = kept;
    }
    if (having * padded > s->near_size) {
        float *more = realloc(s->near, (size_t)(having * padded) * sizeof *more);
        if (!more) return -1;
        s->near = more, s->near_size = having * padded;
    }
    for (int64_t a = 0; a < having; a++) {
        const float *row = decay + (int64_t)s->supply[a] * n;
        float *near = s->near + a * padded;
        for (int64_t c = 0; c < padded; c++) near[c] = c < wanting ? row[s->demand[c]] : 0.0f;
    }
    *supplies = having;
    return 0;
}

/* Begin with the bids for the output before, if most demands are the same, or else with equal bids. */
static void first_bids(space *s, int64_t demands, int64_t padded) {
    int64_t known = 0;
    for (int64_t c = 0; c < demands; c++) known += s->last[s->demand[c]] < UNKNOWN;
    const int alike = (double)known > ALIKE * (double)demands;
    for (int64_t c = 0; c < padded; c++)
        s->bid[c] = c >= demands ? 0.0f : alike ? s->last[s->demand[c]] : UNKNOWN;
}

/* Raise the bids of those in need until they are covered; return the squarings of the best round.
 * The bids and the first round are given: later rounds have higher powers, and fewer flows. */
static int settle(space *s, int64_t demands, int64_t supplies, int64_t padded, int first,
                  int rounds, double tolerance, float cut, double *uncovered) {
    double all_need = 0.0, least = INFINITY;
    int best_squarings = 3;
    for (int64_t c = 0; c < padded; c++) {
        s->best[c] = s->bid[c];
        s->need[c] = c < demands ? (float)-s->gain[s->demand[c]] : 0.0f;
        all_need += s->need[c];
    }
    for (int round = first; round < rounds; round++) {
        const int squarings = round < POWER_8_UP_TO ? 3 : round < POWER_16_UP_TO ? 4 : 5;
        serve(s, supplies, padded, squarings, cut, s->bid);
        double missing = 0.0;
        for (int64_t c = 0; c < demands; c++)
            if (s->got[c] < s->need[c]) missing += s->need[c] - s->got[c];
        if (missing < least) {
            least = missing, best_squarings = squarings;
            memcpy(s->best, s->bid, (size_t)padded * sizeof *s->bid);
        }
        if (missing <= tolerance * all_need) break;
        const float power = 1.2f / (float)(1 << squarings);
        float most = 0.0f;
        for (int64_t c = 0; c < demands; c++) {
            const float aim = OVERSHOOT * s->need[c], floor = 0.01f * aim;
            s->bid[c] *= powf(aim / (s->got[c] > floor ? s->got[c] : floor), power);
            if (s->bid[c] > most) most = s->bid[c];
        }
        for (int64_t c = 0; c < demands; c++) s->bid[c] /= most;
    }
    *uncovered = least;
    return best_squarings;
}

int64_t WI_EXPORT(wi_cover)(int64_t outputs, int64_t n, const double *cost, const double *prices,
                            const float *decay, double least_decay, int32_t rounds,
                            int64_t most_pairs, double tolerance, double cut, double *residual,
                            double *uncovered, int64_t capacity, int32_t *output, int32_t *left,
                            int32_t *right, double *value) {
    const int64_t padded_n = (n + WIDE - 1) / WIDE * WIDE;
    space s = {.n = n, .near_size = padded_n};
    const size_t floats = (size_t)padded_n * sizeof(float), ints = (size_t)n * sizeof(int32_t);
    s.gain = malloc((size_t)n * sizeof(double));
    s.demand = malloc(ints), s.supply = malloc(ints);
    s.reach = malloc(floats), s.bid = malloc(floats), s.best = malloc(floats), s.kept = malloc(floats);
    s.got = malloc(floats), s.need = malloc(floats), s.row = malloc(floats);
    s.near = malloc(floats), s.last = malloc(floats);
    int64_t count = 0;
    if (!s.gain || !s.demand || !s.supply || !s.reach || !s.bid || !s.best || !s.kept || !s.got || !s.need ||
        !s.row || !s.near || !s.last)
        count = -1;
    for (int64_t x = 0; x < n && !count; x++) s.last[x] = UNKNOWN;
    for (int64_t z = 0; z < outputs && count >= 0; z++) {
        int64_t demands, supplies;
        for (int64_t x = 0; x < n; x++) s.gain[x] = cost[z * n + x] - prices[x];
        uncovered[z] = 0.0;
        if (gather(&s, decay, (float)least_decay, most_pairs, &demands, &supplies)) {
            count = -1;
            break;
        }
        const int64_t padded = (demands + WIDE - 1) / WIDE * WIDE;
        if (demands) {
            first_bids(&s, demands, padded);
            int squarings = settle(&s, demands, supplies, padded, 0, rounds, tolerance, (float)cut,
                                   uncovered + z);
            for (int64_t x = 0; x < n; x++) s.last[x] = UNKNOWN;
            for (int64_t c = 0; c < demands; c++) s.last[s.demand[c]] = s.best[c];
            if (capacity > 0 && squarings < 5) { /* fewer flows, if they cover as much */
                double again, need = 0.0;
                for (int64_t c = 0; c < demands; c++) need += s.need[c];
                memcpy(s.bid, s.best, (size_t)padded * sizeof *s.bid);
                memcpy(s.kept, s.best, (size_t)padded * sizeof *s.bid);
                settle(&s, demands, supplies, padded, POWER_16_UP_TO, POWER_16_UP_TO + SHARPER,
                       tolerance, (float)cut, &again);
                if (again <= uncovered[z] + NEARLY * need)
                    squarings = 5, uncovered[z] = again;
                else
                    memcpy(s.best, s.kept, (size_t)padded * sizeof *s.bid);
            }
            serve(&s, supplies, padded, squarings, (float)cut, s.best);
            /* `need` becomes the share of what a demand got that it needs. */
            for (int64_t c = 0; c < demands; c++) {
                const double lack = s.got[c] - s.need[c];
                const int32_t x = s.demand[c];
                if (lack < 0.0 && lack < residual[x]) residual[x] = lack;
                if (lack >= 0.0 && residual[x] > 0.0) residual[x] = 0.0;
                s.need[c] = lack > 0.0 ? s.need[c] / s.got[c] : 1.0f;
            }
            for (int64_t a = 0; a < supplies; a++) {
                const int32_t x = s.supply[a];
                double rest = s.gain[x];
                share_supply(s.near + a * padded, s.best, s.row, padded, squarings, (float)cut,
                             (float)rest);
                for (int64_t c = 0; c < demands; c++) {
                    const double flow = (double)s.row[c] * s.need[c];
                    if (flow <= 0.0) continue;
                    rest -= flow;
                    if (count < capacity) {
                        output[count] = (int32_t)z, left[count] = s.demand[c];
                        right[count] = x, value[count] = flow;
                    }
                    if (capacity > 0) count++;
                }
                s.gain[x] = rest > 0.0 ? rest : 0.0;
            }
        }
        for (int64_t x = 0; x < n; x++)
            if (s.gain[x] >= 0.0 && s.gain[x] < residual[x]) residual[x] = s.gain[x];
    }
    free(s.gain), free(s.demand), free(s.supply), free(s.reach), free(s.bid), free(s.best), free(s.kept);
    free(s.got), free(s.need), free(s.row), free(s.near), free(s.last);
    return count;
}

void WI_EXPORT(wi_relax)(int64_t low, int64_t high, int64_t m, int64_t neighbours,
                         const double *logs, const int32_t *other, const double *exponent,
                         const double *share, double *relaxed) {
    for (int64_t x = low; x < high; x++) {
        const double *here = logs + x * m;
        for (int64_t first = 0; first < m; first += 64) {
            const int64_t count = m - first < 64 ? m - first : 64;
            double up[64] = {0}, down[64] = {0};
            for (int64_t e = x * neighbours; e < (x + 1) * neighbours; e++) {
                const double *there = logs + other[e] * m + first;
                const double part = share[e], room = part * exponent[e];
                for (int64_t z = 0; z < count; z++) {
                    const double moved = part * (there[z] - here[first + z]);
                    const double rise = moved - room, fall = -moved - room;
                    up[z] = rise > up[z] ? rise : up[z];
                    down[z] = fall > down[z] ? fall : down[z];
                }
            }
            for (int64_t z = 0; z < count; z++)
                relaxed[x * m + first + z] = here[first + z] + (up[z] - down[z]);
        }
    }
}
