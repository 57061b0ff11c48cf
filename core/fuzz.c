/* Wrong input for the border of the core: `tools/fuzz_core.py` builds this with sanitizers and runs
 * it. Usage: fuzz FIRST_SEED SECONDS. Each seed makes a small program, spoils some of its numbers,
 * indices, sizes, options or the bytes of its checkpoint, and calls the functions with it. A call
 * must return a status; what it returns with WI_OK must be a mechanism with a loss and a bound. */
#include "whereish.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 14 };

static uint64_t state;
static uint64_t next(void) { /* xorshift64*: Marsaglia 2003, Vigna 2016 */
    state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
    return state * 2685821657736338717u;
}
static int below(int count) { return (int)(next() % (uint64_t)count); }
static double uniform(void) { return (double)(next() >> 11) / 9007199254740992.0; }
static int one_in(int count) { return below(count) == 0; }

static double strange_number(void) {
    static const double strange[] = {
        NAN, INFINITY, -INFINITY, -1.0, -0.0, 0.0, 5e-324, 1e-300, 1e300, 1.7e308, 700.0, 1e5, -1e-9,
    };
    return one_in(4) ? ldexp(uniform(), below(2100) - 1070)
                     : strange[below(sizeof strange / sizeof *strange)];
}
static int32_t strange_size(void) {
    static const int32_t strange[] = {0, -1, 30001, INT32_MAX, INT32_MIN, -30000};
    return strange[below(sizeof strange / sizeof *strange)];
}
static int spoil(double *numbers, int64_t count) {
    if (count <= 0 || !one_in(8)) return 0;
    for (int a = 0; a <= below(3); a++) numbers[next() % (uint64_t)count] = strange_number();
    return 1;
}

/* What the callbacks of a solve see. */
typedef struct {
    uint8_t *saved;
    int64_t saved_bytes;
    int stop_after, members, member, parts, reductions, break_after;
} watch;

static int32_t on_progress(void *context, const wi_progress *now) {
    watch *w = context;
    return now->iteration > w->stop_after;
}
static void on_checkpoint(void *context, const uint8_t *bytes, int64_t count, int32_t iteration) {
    watch *w = context;
    (void)iteration;
    free(w->saved);
    w->saved = malloc((size_t)count + 1);
    w->saved_bytes = w->saved ? count : 0;
    if (w->saved) memcpy(w->saved, bytes, (size_t)count);
}
/* The other members send what this one sends, or nonsense, or the connection breaks. */
static int32_t on_all_reduce(void *context, double *data, int64_t sums, int64_t maxima) {
    watch *w = context;
    if (w->reductions++ >= w->break_after) return 1;
    const double **each = calloc((size_t)w->members, sizeof *each);
    double **sent = calloc((size_t)w->members, sizeof *sent);
    int status = !each || !sent;
    for (int a = 0; a < w->members && !status; a++) {
        const int leaves = wi_leaves(w->parts, w->members, a);
        const int64_t count = (int64_t)leaves * sums + maxima;
        sent[a] = calloc((size_t)count + 1, sizeof(double));
        if (!sent[a]) {
            status = 1;
            break;
        }
        if (a == w->member) memcpy(sent[a], data, sizeof(double) * (size_t)count);
        else if (one_in(200)) spoil(sent[a], count);
        each[a] = sent[a];
    }
    double *reduced = calloc((size_t)(sums + maxima) + 1, sizeof(double));
    if (!status && reduced) status = wi_reduce(w->parts, w->members, each, sums, maxima, reduced);
    if (!status && reduced) memcpy(data, reduced, sizeof(double) * (size_t)(sums + maxima));
    for (int a = 0; sent && a < w->members; a++) free(sent[a]);
    free(each), free(sent), free(reduced);
    return status;
}

static uint64_t seed_now;
#define REQUIRE(what)                                                                              \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            fprintf(stderr, "seed %llu: %s does not hold (line %d)\n",                             \
                    (unsigned long long)seed_now, #what, __LINE__);                                \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* The structure of a result holds for any input; its numbers do for a sensible program. */
static void check_result(const wi_result *r, int n, int m, int sensible) {
    REQUIRE(r != NULL);
    REQUIRE(r->columns >= 0 && r->columns <= m && r->multipliers >= 0);
    REQUIRE(r->stopped >= WI_SOLVED && r->stopped <= WI_NUMERICS);
    for (int a = 0; a < r->columns; a++) {
        REQUIRE(r->output[a] >= 0 && r->output[a] < m);
        for (int x = 0; x < n && sensible; x++) REQUIRE(r->column[(int64_t)a * n + x] >= 0.0);
    }
    for (int64_t a = 0; a < r->multipliers; a++) {
        REQUIRE(r->row_output[a] >= 0 && r->row_output[a] < m);
        REQUIRE(r->row_left[a] >= 0 && r->row_left[a] < n);
        REQUIRE(r->row_right[a] >= 0 && r->row_right[a] < n);
        REQUIRE(!sensible || isfinite(r->row_value[a]));
    }
    REQUIRE(!sensible || (r->bound <= r->loss * (1 + 1e-9) + 1e-12 && isfinite(r->loss)));
}

static void try_program(void) {
    const int n = 1 + below(MOST), m = 1 + below(MOST);
    double loss[MOST * MOST], reach[MOST * MOST], prior[MOST], east[MOST], north[MOST];
    double exponents[MOST * MOST];
    int32_t pairs[2 * MOST * MOST];
    const double scale = one_in(3) ? ldexp(1.0, below(20) - 10) : 1.0;
    for (int x = 0; x < n; x++) {
        east[x] = uniform() * scale, north[x] = uniform() * scale;
        prior[x] = one_in(5) ? 0.0 : uniform();
    }
    for (int a = 0; a < n * m; a++) loss[a] = uniform();
    int64_t edges = 0;
    for (int x = 0; x < n; x++)
        for (int y = 0; y < n; y++) {
            reach[x * n + y] = hypot(east[x] - east[y], north[x] - north[y]);
            if (x < y && !one_in(6)) {
                pairs[2 * edges] = x, pairs[2 * edges + 1] = y;
                exponents[edges++] = reach[x * n + y];
            }
        }
    const int spoilt = spoil(loss, (int64_t)n * m) | spoil(reach, (int64_t)n * n) |
                       spoil(exponents, edges) | spoil(prior, n);
    if (edges && one_in(8)) pairs[next() % (uint64_t)(2 * edges)] = (int32_t)next();
    if (edges && one_in(8)) pairs[next() % (uint64_t)(2 * edges)] = below(n + 2) - 1;
    const int32_t given_n = one_in(40) ? strange_size() : n;
    const int32_t given_m = one_in(40) ? strange_size() : m;
    const int64_t given_edges = one_in(40) ? -(int64_t)(next() >> 1) : edges;

    wi_program *program = NULL;
    int status = wi_program_new(given_n, given_m, given_edges, one_in(100) ? NULL : loss, pairs,
                                exponents, reach, &program);
    REQUIRE(status >= WI_OK && status <= WI_COMMUNICATION);
    REQUIRE((status == WI_OK) == (program != NULL));
    if (status != WI_OK) return;
    int32_t order[MOST], before[MOST * MOST];
    uint8_t first[MOST * MOST];
    double lengths[MOST * MOST];
    wi_program_order(program, order, first), wi_program_paths(program, lengths, before);

    static const volatile uint8_t flags[] = {0, 1};
    watch w = {.stop_after = one_in(6) ? below(8) : 1000, .break_after = 1 << 30};
    w.members = one_in(4) ? 2 + below(3) : 1, w.member = below(w.members);
    w.parts = wi_parts(program, prior);
    if (one_in(6)) w.break_after = below(30);
    wi_options options = {
        .tolerance = one_in(20) ? strange_number() : 1e-7,
        .time_limit_s = one_in(10) ? strange_number() : 0.3,
        .threads = one_in(20) ? below(9) - 4 : 1 + below(2),
        .stop = one_in(10) ? &flags[below(2)] : NULL,
        .progress = one_in(3) ? on_progress : NULL,
        .members = one_in(50) ? strange_size() : w.members,
        .member = one_in(50) ? strange_size() : w.member,
        .all_reduce = one_in(100) ? NULL : on_all_reduce,
        .checkpoint = one_in(2) ? on_checkpoint : NULL,
        .checkpoint_every = one_in(20) ? below(5) - 2 : 1 + below(6),
        .context = &w,
    };
    if (!(options.time_limit_s <= 0.3)) options.time_limit_s = one_in(2) ? NAN : 0.3;
    for (int round = 0; round < 3; round++) {
        wi_result *result = NULL;
        status = wi_solve(program, prior, &options, &result);
        REQUIRE(status >= WI_OK && status <= WI_COMMUNICATION);
        REQUIRE((status == WI_OK) == (result != NULL));
        if (status == WI_OK) check_result(result, n, m, !spoilt && !options.resume && w.members == 1);
        wi_result_free(result);
        if (!w.saved_bytes) break;
        /* Once more, from the checkpoint as it is or spoilt. */
        free((void *)options.resume);
        uint8_t *again = malloc((size_t)w.saved_bytes + 1);
        if (!again) break;
        memcpy(again, w.saved, (size_t)w.saved_bytes);
        options.resume = again, options.resume_bytes = w.saved_bytes;
        for (int a = below(4); a > 0; a--) {
            const uint64_t at = next() % (uint64_t)w.saved_bytes;
            if (one_in(3)) again[at] ^= (uint8_t)(1u << below(8));
            else if (one_in(2)) again[at] = (uint8_t)next();
            else if (at + 8 <= (uint64_t)w.saved_bytes) {
                const double strange = strange_number();
                memcpy(again + at / 8 * 8, &strange, 8);
            }
        }
        if (one_in(6)) options.resume_bytes = (int64_t)(next() % (uint64_t)(w.saved_bytes + 1));
        if (one_in(20)) options.resume_bytes = -1;
        w.reductions = 0;
    }
    free((void *)options.resume), free(w.saved);
    wi_program_free(program);
}

/* A lattice of any numbers gets a status; a sensible one gets a matrix inside its cones. */
static void try_cones(void) {
    enum { SIDE = 5, CORNERS = 4 * SIDE * SIDE };
    const int nx = 1 + below(SIDE), ny = 1 + below(SIDE), m = 1 + below(4), n = nx * ny;
    double xs[SIDE], ys[SIDE], cost[4 * SIDE * SIDE], epsilon = ldexp(uniform(), below(12) - 6);
    double matrix[4 * SIDE * SIDE], multipliers[4 * CORNERS * 3];
    for (int i = 0; i < SIDE; i++) xs[i] = i + 0.9 * uniform(), ys[i] = i + 0.9 * uniform();
    for (int a = 0; a < n * m; a++) cost[a] = one_in(4) ? 0.0 : uniform() - 0.2;
    int spoilt = spoil(xs, nx) | spoil(ys, ny) | spoil(cost, (int64_t)n * m);
    if (one_in(12)) epsilon = strange_number(), spoilt = 1;
    const int32_t given_nx = one_in(40) ? strange_size() : nx;
    const int32_t given_m = one_in(40) ? strange_size() : m;
    static const volatile uint8_t flags[] = {0, 1};
    watch w = {.stop_after = one_in(6) ? below(8) : 1000};
    wi_options options = {
        .tolerance = one_in(20) ? strange_number() : 1e-6,
        .time_limit_s = one_in(10) ? strange_number() : 0.3,
        .threads = one_in(20) ? below(9) - 4 : 1 + below(2),
        .stop = one_in(10) ? &flags[below(2)] : NULL,
        .progress = one_in(3) ? on_progress : NULL,
        .context = &w,
    };
    if (!(options.time_limit_s <= 0.3)) options.time_limit_s = one_in(2) ? NAN : 0.3;
    wi_cone_report report;
    const int status = wi_cones(given_nx, ny, given_m, xs, ys, one_in(100) ? NULL : cost, epsilon,
                                &options, matrix, multipliers, &report);
    REQUIRE(status >= WI_OK && status <= WI_NO_MEMORY);
    if (status != WI_OK) return;
    REQUIRE(report.stopped >= WI_SOLVED && report.stopped <= WI_NUMERICS);
    if (spoilt) return;
    REQUIRE(isfinite(report.loss) && report.bound <= report.loss + 1e-9);
    for (int v = 0; v < n; v++) {
        double total = 0.0;
        for (int z = 0; z < m; z++) {
            REQUIRE(matrix[v * m + z] >= 0.0);
            total += matrix[v * m + z];
        }
        REQUIRE(fabs(total - 1.0) < 1e-12);
    }
    for (int64_t a = 0; a < m * wi_cone_corners(nx, ny); a++) {
        const double *y = multipliers + 3 * a;
        REQUIRE(y[0] >= hypot(y[1], y[2]) * (1 - 1e-14));
    }
}

/* A program with supports of some places. `room` is how many numbers by support there are. */
typedef struct {
    int n, m;
    int64_t edges, room, first[MOST + 1];
    int32_t pairs[MOST * MOST], *place;
    double exponents[MOST * MOST], amount[MOST], *cost, *reach, *column;
} local_program;

/* Supports and columns that obey all pairs and add up to the amounts. */
static void make_local(local_program *p) {
    const int n = p->n;
    const double scale = one_in(3) ? ldexp(1.0, below(20) - 10) : 1.0;
    double east[MOST], north[MOST], most = 0.0;
    for (int x = 0; x < n; x++) {
        east[x] = uniform() * scale, north[x] = uniform() * scale, p->amount[x] = 0.0;
        for (int y = 0; y < x; y++)
            if (!one_in(6)) {
                p->pairs[2 * p->edges] = x, p->pairs[2 * p->edges + 1] = y;
                p->exponents[p->edges++] = hypot(east[x] - east[y], north[x] - north[y]);
            }
    }
    for (int z = 0; z < p->m; z++) {
        const int count = z == 0 && !one_in(6) ? n : (int)fmin(n, 2 + below(n)), begin = below(n);
        for (int x = 0; x < count; x++) {
            const int64_t a = p->first[z] + x;
            const int at = p->place[a] = (begin + x) % n;
            p->reach[a] = hypot(east[at] - east[begin], north[at] - north[begin]);
            p->cost[a] = one_in(5) ? 0.0 : uniform();
            p->column[a] = exp(-0.5 * p->reach[a]), p->amount[at] += p->column[a];
        }
        p->first[z + 1] = p->first[z] + count;
    }
    for (int x = 0; x < n; x++) most = fmax(p->amount[x], most);
    for (int x = 0; x < n; x++) p->amount[x] = p->amount[x] > 0.0 ? p->amount[x] / most : 1.0;
    for (int64_t a = 0; a < p->first[p->m]; a++) p->column[a] /= most;
}

/* Whether a program has a size, an index or a number that must be refused. */
static int is_wrong(const local_program *p) {
    int wrong = p->edges < 1 || p->first[0] != 0, covered[MOST] = {0};
    for (int64_t a = 0; a < 2 * p->edges; a++)
        wrong |= p->pairs[a] < 0 || p->pairs[a] >= p->n || p->pairs[a] == p->pairs[a ^ 1];
    for (int64_t e = 0; e < p->edges; e++) wrong |= !(p->exponents[e] >= 0.0);
    for (int x = 0; x < p->n; x++) wrong |= !(p->amount[x] > 0.0 && p->amount[x] <= 1.0);
    for (int z = 0; z < p->m && !wrong; z++) {
        const int64_t count = p->first[z + 1] - p->first[z];
        if (count < 2 || count > p->n) return 1;
        for (int64_t a = p->first[z]; a < p->first[z + 1] && !wrong; a++) {
            wrong |= p->place[a] < 0 || p->place[a] >= p->n;
            wrong |= !(p->cost[a] >= 0.0 && p->cost[a] <= 1e300) || !(p->reach[a] >= 0.0);
            wrong |= !(p->column[a] > 0.0 && p->column[a] <= 1e300);
            for (int64_t b = p->first[z]; b < a; b++) wrong |= p->place[a] == p->place[b];
            if (!wrong) covered[p->place[a]] = 1;
        }
    }
    for (int x = 0; x < p->n; x++) wrong |= !covered[x];
    return wrong;
}

/* The multipliers are of rows between two places of a support, the columns are probabilities. */
static void check_local_result(const local_program *p, const wi_result *r, int sensible) {
    double sum[MOST] = {0};
    check_result(r, p->n, p->m, 0);
    REQUIRE(r->columns == 0);
    for (int64_t a = 0; a < r->multipliers; a++) {
        int left = 0, right = 0;
        for (int64_t b = p->first[r->row_output[a]]; b < p->first[r->row_output[a] + 1]; b++)
            left += p->place[b] == r->row_left[a], right += p->place[b] == r->row_right[a];
        REQUIRE(left == 1 && right == 1 && r->row_left[a] != r->row_right[a]);
        REQUIRE(r->row_value[a] > 0.0 && isfinite(r->row_value[a]));
    }
    if (!sensible) return;
    REQUIRE(isfinite(r->loss) && isfinite(r->bound) && r->bound >= 0.0);
    REQUIRE(r->stopped != WI_SOLVED || r->bound <= r->loss * (1 + 1e-5) + 1e-9);
    for (int64_t a = 0; a < p->first[p->m]; a++) {
        REQUIRE(p->column[a] > 0.0);
        sum[p->place[a]] += p->column[a];
    }
    for (int x = 0; x < p->n; x++) REQUIRE(fabs(sum[x] - p->amount[x]) <= 1e-12);
}

static void spoil_indices(local_program *p, int wrong_first) {
    if (p->edges && one_in(8)) p->pairs[next() % (uint64_t)(2 * p->edges)] = (int32_t)next();
    if (p->edges && one_in(8)) p->pairs[next() % (uint64_t)(2 * p->edges)] = below(p->n + 2) - 1;
    if (one_in(8)) p->place[next() % (uint64_t)p->room] = (int32_t)next();
    if (one_in(8)) p->place[next() % (uint64_t)p->room] = below(p->n + 2) - 1; /* or one twice */
    if (!wrong_first) return;
    int64_t *at = p->first + below(p->m + 1);
    *at = one_in(2) ? *at + below(7) - 3 : (int64_t)next();
}

static void try_local(void) {
    local_program p = {.n = 1 + below(MOST), .m = 1 + below(MOST)};
    const int wrong_first = one_in(10);
    p.room = (int64_t)p.n * p.m;
    p.place = calloc((size_t)p.room, sizeof(int32_t));
    p.cost = calloc((size_t)p.room, sizeof(double));
    p.reach = calloc((size_t)p.room, sizeof(double));
    p.column = calloc((size_t)p.room, sizeof(double));
    if (!p.place || !p.cost || !p.reach || !p.column) goto end;
    make_local(&p);
    if (!wrong_first) { /* no number more than there must be: reading one more is found */
        p.room = p.first[p.m];
        p.place = realloc(p.place, sizeof(int32_t) * (size_t)p.room);
        p.cost = realloc(p.cost, sizeof(double) * (size_t)p.room);
        p.reach = realloc(p.reach, sizeof(double) * (size_t)p.room);
        p.column = realloc(p.column, sizeof(double) * (size_t)p.room);
        if (!p.place || !p.cost || !p.reach || !p.column) goto end;
    }
    spoil_indices(&p, wrong_first);
    const int spoilt = spoil(p.cost, p.room) | spoil(p.reach, p.room) | spoil(p.column, p.room) |
                       spoil(p.exponents, p.edges) | spoil(p.amount, p.n);
    const int32_t given_n = one_in(40) ? strange_size() : p.n;
    const int32_t given_m = one_in(40) ? strange_size() : p.m;
    const int64_t given_edges = one_in(40) ? -(int64_t)(next() >> 1) : p.edges;
    static const volatile uint8_t flags[] = {0, 1};
    watch w = {.stop_after = one_in(3) ? below(8) : 1000};
    wi_options options = {
        .tolerance = one_in(20) ? strange_number() : 1e-7,
        .time_limit_s = one_in(10) ? strange_number() : one_in(4) ? uniform() * 1e-3 : 0.3,
        .threads = one_in(20) ? below(9) - 4 : 1 + below(3),
        .stop = one_in(10) ? &flags[below(2)] : NULL,
        .progress = one_in(3) ? on_progress : NULL,
        .context = &w,
    };
    if (!(options.time_limit_s <= 0.3)) options.time_limit_s = one_in(2) ? NAN : 0.3;
    const int wrong = given_n != p.n || given_m != p.m || given_edges != p.edges ||
                      !(options.tolerance > 0.0) || is_wrong(&p);
    const int none = one_in(100); /* no array of columns */
    double *prices = calloc((size_t)p.n, sizeof(double));
    wi_result *result = NULL;
    const int status = wi_solve_local(given_n, given_m, given_edges, p.pairs, p.exponents, p.first,
                                      p.place, p.cost, p.reach, p.amount, &options,
                                      none ? NULL : p.column, prices, &result);
    REQUIRE(status >= WI_OK && status <= WI_NO_MEMORY);
    REQUIRE((status == WI_OK) == (result != NULL));
    REQUIRE((status == WI_OK) == !(wrong || none));
    if (status == WI_OK) check_local_result(&p, result, !spoilt);
    wi_result_free(result);
    free(prices);
end:
    free(p.place), free(p.cost), free(p.reach), free(p.column);
}

/* The checks get any numbers; sizes are their caller's. */
static void try_checks(void) {
    const int n = 1 + below(MOST), m = 1 + below(MOST);
    double matrix[MOST * MOST], square[MOST * MOST], result[MOST * MOST];
    uint64_t counts[MOST * MOST], factor[MOST * MOST];
    int64_t shift[MOST * MOST], worst[MOST];
    for (int a = 0; a < MOST * MOST; a++) {
        matrix[a] = one_in(20) ? strange_number() : uniform();
        square[a] = one_in(20) ? strange_number() : uniform();
        counts[a] = next() >> below(64), factor[a] = next() | (uint64_t)1 << 63;
        shift[a] = one_in(20) ? (int64_t)next() : below(64);
    }
    const int low = below(n), high = low + below(n - low + 1);
    wi_worst_ratios(low, high, n, m, matrix, square, result);
    wi_lift(low, high, n, m, matrix, square, result);
    wi_shortfalls(low, high, n, m, matrix, square, result);
    for (int x = 0; x < n; x++) worst[x] = -1;
    wi_first_broken(low, high, n, m, counts, factor, shift, worst);
    for (int x = 0; x < n; x++) REQUIRE(worst[x] >= -1 && worst[x] < (int64_t)n * m);
    for (int x = 0; x < n; x++) REQUIRE(worst[x] < 0 || (x >= low && x < high));
}

/* A spanner of any numbers has indices of places; one of a metric keeps its promise. */
static void try_spanner(void) {
    const int n = 1 + below(MOST);
    double metric[MOST * MOST], paths[MOST * MOST], east[MOST], north[MOST];
    int32_t edges[MOST * MOST];
    int64_t filled = 0;
    for (int x = 0; x < n; x++) east[x] = below(9), north[x] = uniform();
    for (int x = 0; x < n; x++)
        for (int y = 0; y < n; y++) metric[x * n + y] = hypot(east[x] - east[y], north[x] - north[y]);
    const int spoilt = spoil(metric, (int64_t)n * n);
    const double stretch = one_in(6) ? strange_number() : 1.0 + uniform();
    const double limit = one_in(10) ? strange_number() : 1.0;
    const int32_t given = one_in(20) ? strange_size() : n;
    const int status = wi_spanner(given, metric, stretch, limit, edges, &filled, paths);
    REQUIRE(status >= WI_OK && status <= WI_OUT_OF_TIME);
    if (status != WI_OK) return;
    REQUIRE(filled >= 0 && filled <= (int64_t)n * (n - 1) / 2);
    for (int64_t a = 0; a < 2 * filled; a++) REQUIRE(edges[a] >= 0 && edges[a] < n);
    for (int a = 0; a < n * n && !spoilt && isfinite(stretch); a++)
        REQUIRE(paths[a] <= stretch * metric[a] * (1 + 1e-12));
}

/* Prices and columns: any numbers, indices of places. */
static void try_prices(void) {
    enum { ROOM = 60 };
    const int n = 1 + below(MOST), outputs = 1 + below(MOST), capacity = below(ROOM);
    double cost[MOST * MOST], prices[MOST], residual[MOST], uncovered[MOST], value[ROOM];
    float decay[MOST * MOST];
    int32_t output[ROOM], left[ROOM], right[ROOM];
    for (int a = 0; a < outputs * n; a++) cost[a] = uniform();
    for (int x = 0; x < n; x++) prices[x] = uniform(), residual[x] = 1.0;
    for (int x = 0; x < n; x++)
        for (int y = 0; y < n; y++) decay[x * n + y] = (float)exp(-uniform() * abs(x - y));
    spoil(cost, (int64_t)outputs * n), spoil(prices, n);
    if (one_in(8)) decay[below(n * n)] = (float)strange_number();
    const int64_t flows = wi_cover(
        outputs, n, cost, prices, decay, one_in(8) ? strange_number() : 0.01, below(6),
        one_in(8) ? below(3) - 1 : 1 << 18, one_in(8) ? strange_number() : 1e-3,
        one_in(8) ? strange_number() : 1e-4, residual, uncovered, capacity, output, left, right,
        value);
    REQUIRE(flows >= -1);
    for (int64_t a = 0; a < flows && a < capacity; a++) {
        REQUIRE(output[a] >= 0 && output[a] < outputs);
        REQUIRE(left[a] >= 0 && left[a] < n && right[a] >= 0 && right[a] < n);
    }
    const int m = 1 + below(MOST), neighbours = below(MOST), low = below(n);
    double logs[MOST * MOST], exponent[MOST * MOST], share[MOST * MOST], relaxed[MOST * MOST];
    int32_t other[MOST * MOST];
    for (int a = 0; a < MOST * MOST; a++) {
        logs[a] = one_in(20) ? strange_number() : -uniform();
        exponent[a] = one_in(20) ? strange_number() : uniform(), share[a] = uniform();
        other[a] = below(n);
    }
    wi_relax(low, low + below(n - low + 1), m, neighbours, logs, other, exponent, share, relaxed);
}

/* Rows of a proof: any finite numbers that are not negative, indices of places. */
static void try_pruning(void) {
    enum { ROWS = 3 * MOST };
    const int n = 2 + below(MOST - 1), outputs = 1 + below(4);
    int64_t first[5] = {0}, left[4 * ROWS], right[4 * ROWS];
    double gain[4 * ROWS], y[4 * ROWS], spare[4 * MOST];
    for (int z = 0; z < outputs; z++) first[z + 1] = first[z] + below(ROWS);
    for (int64_t a = 0; a < first[outputs]; a++) {
        right[a] = below(n), left[a] = (right[a] + 1 + below(n - 1)) % n;
        gain[a] = uniform(), y[a] = one_in(8) ? 0.0 : uniform();
        if (one_in(40)) gain[a] = ldexp(uniform(), -below(1070));
        if (one_in(40)) y[a] = ldexp(uniform(), below(2000) - 1070);
    }
    for (int a = 0; a < outputs * n; a++) spare[a] = one_in(4) ? 0.0 : uniform();
    const int low = below(outputs), high = low + below(outputs - low + 1);
    REQUIRE(wi_cancel_cycles(low, high, n, first, left, right, gain, y) >= WI_OK);
    wi_return_spare(low, high, n, spare, first, left, right, gain, y);
    for (int64_t a = first[low]; a < first[high]; a++) REQUIRE(!(y[a] < 0));
}

/* The elastic metric on a small grid: positive masses of any size, any distances of a pass. */
static void try_elastic(void) {
    enum { SIDE = 5, CELLS = SIDE * SIDE, STEPS = 4 * CELLS, ROOM = 80 };
    const int columns = 1 + below(SIDE), rows = 1 + below(SIDE), n = columns * rows;
    double mass[CELLS], length[ROOM], lengths[2 * ROOM], least[CELLS], held[CELLS];
    uint8_t fenced[CELLS], covered[CELLS] = {0};
    int32_t right[STEPS], up[STEPS], first[CELLS], to[2 * ROOM], after[2 * ROOM], cells[CELLS];
    int32_t begin[CELLS + 1], ends[2 * ROOM];
    int32_t steps = 0;
    for (int far = 1; far <= 2 * SIDE * SIDE; far++) /* the nearest first */
        for (int u = -rows; u <= rows; u++)
            for (int r = -columns; r <= columns; r++)
                if (r * r + u * u == far && steps < STEPS) right[steps] = r, up[steps] = u, steps++;
    for (int x = 0; x < n; x++) {
        mass[x] = one_in(8) ? ldexp(0.5 + uniform() / 2, below(1900) - 950) : uniform() + 1e-9;
        fenced[x] = one_in(8), first[x] = -1, cells[x] = x;
    }
    const double start = one_in(8) ? strange_number() : uniform();
    wi_elastic passes = {
        columns, rows, mass, fenced, steps, right, up, start,
        one_in(8) ? strange_number() : start + uniform() * 3, uniform(), covered, 0, below(ROOM),
        first, to, after, length,
    };
    const int count = 1 + below(n);
    const int64_t done = wi_elastic_pass(&passes, count, cells);
    REQUIRE(done >= -1 && done <= count);
    REQUIRE(passes.edges >= 0 && passes.edges <= passes.capacity);
    int32_t filled = 0;
    for (int x = 0; x < n; x++) {
        begin[x] = filled;
        for (int32_t arc = first[x]; arc >= 0; arc = after[arc]) {
            REQUIRE(arc < 2 * passes.edges && to[arc] >= 0 && to[arc] < n && filled < 2 * ROOM);
            ends[filled] = to[arc], lengths[filled] = length[arc / 2], filled++;
        }
    }
    begin[n] = filled;
    const int status = wi_elastic_balls(
        0, n, n, cells, mass, begin, ends, lengths, one_in(8) ? strange_number() : uniform() * 4,
        one_in(8) ? strange_number() : uniform() * n, least, held);
    REQUIRE(status >= WI_OK);
}

int main(int count, char **words) {
    if (count != 3) return fprintf(stderr, "usage: fuzz FIRST_SEED SECONDS\n"), 2;
    const double seconds = atof(words[2]);
    const time_t begun = time(NULL);
    seed_now = strtoull(words[1], NULL, 10);
    uint64_t tried = 0;
    do {
        state = (seed_now + 1) * 0x9E3779B97F4A7C15u;
        FILE *note = getenv("FUZZ_SEED") ? fopen(getenv("FUZZ_SEED"), "w") : NULL;
        if (note) fprintf(note, "%llu\n", (unsigned long long)seed_now), fclose(note);
        for (int a = 0; a < 8; a++) next();
        try_program();
        try_checks();
        try_spanner();
        try_cones();
        try_local();
        try_prices();
        try_pruning();
        try_elastic();
        seed_now++, tried++;
    } while (difftime(time(NULL), begun) < seconds);
    return printf("%llu inputs, nothing found\n", (unsigned long long)tried), 0;
}
