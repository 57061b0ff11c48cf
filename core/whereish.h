/* The compiled core of Whereish: the structured solver and the checks of privacy.
 *
 * The structured solver minimises the expected loss  sum_x prior(x) sum_z loss(x, z) k(x, z)  over
 * all private mechanisms: k(x, z) <= exp(eps d(x, x')) k(x', z) on the pairs of a spanner, and
 * sum_z k(x, z) = 1 (Bordenabe, Chatzikokolakis, Palamidessi: Optimal geo-indistinguishable
 * mechanisms for location privacy, CCS 2014).
 *
 * All matrices are dense and row by row. A function that can refuse its input returns a `wi_status`.
 * No function keeps a pointer of its caller after it has returned. All functions may be called from
 * several threads at a time; a `wi_program` is not changed by a solve.
 */
#ifndef WHEREISH_H
#define WHEREISH_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32)
#define WI_PUBLIC __declspec(dllexport)
#else
#define WI_PUBLIC __attribute__((visibility("default")))
#endif

#define WI_VERSION 4

typedef enum {
    WI_OK = 0,
    WI_BAD_SIZE = 1,   /* a size is zero, negative or too large */
    WI_BAD_INDEX = 2,  /* a pair names a place that does not exist, one place twice, or comes twice */
    WI_BAD_NUMBER = 3, /* a number is NaN, infinite or negative, or the reach breaks a pair */
    WI_NO_MEMORY = 4,
    WI_BAD_STATE = 5,      /* a checkpoint that does not belong to this program */
    WI_COMMUNICATION = 6,  /* the all-reduce of a member failed */
    WI_OUT_OF_TIME = 7,    /* the time limit has passed, and there is no result */
} wi_status;

typedef enum {
    WI_SOLVED = 0,   /* the gap is below the tolerance */
    WI_TIME = 1,     /* the time limit has passed */
    WI_STOPPED = 2,  /* the caller asked: stop flag, progress callback or Ctrl-C */
    WI_NUMERICS = 3, /* rounding errors allow no further step */
} wi_stopped;

/* Everything about a program but the prior, prepared for many solves. */
typedef struct wi_program wi_program;

/* Prepare a program of n inputs and m outputs.
 *
 * loss       (n, m), not negative.
 * pairs      (edges, 2): both directions of each pair are constrained.
 * exponents  (edges): eps d of the pair, not negative.
 * reach      (n, n): eps d of all pairs of inputs, whose differences are at most twice the
 *            exponents of the pairs; it decides the starting point only.
 */
WI_PUBLIC int32_t wi_program_new(int32_t n, int32_t m, int64_t edges, const double *loss,
                                 const int32_t *pairs, const double *exponents,
                                 const double *reach, wi_program **program);
WI_PUBLIC void wi_program_free(wi_program *program);

/* Build the greedy spanner of a metric (n, n): `edges` has room for n (n - 1) / 2 pairs, of which
 * `count` are filled; `paths` (n, n) are the shortest paths along them, none of them longer than
 * `stretch` times the metric. */
WI_PUBLIC int32_t wi_spanner(int32_t n, const double *metric, double stretch, double time_limit_s,
                             int32_t *edges, int64_t *count, double *paths);

typedef struct {
    int32_t iteration;
    int32_t outputs; /* in use */
    int64_t rows;    /* privacy constraints in use, over all outputs */
    double loss;     /* of the private mechanism nearby */
    double bound;    /* over the outputs in use */
    double gap;      /* (loss - bound) / loss */
} wi_progress;

typedef struct {
    double tolerance;    /* the relative gap at which to end */
    double time_limit_s; /* infinity for none */
    int32_t threads;
    int32_t parts; /* leaves of the tree of sums: 1, 16 or 64, or 0 to choose by size */
    int32_t catch_interrupt;  /* let the first Ctrl-C of the process end the solve */
    const volatile uint8_t *stop; /* another thread sets this to 1 to end the solve; or NULL */

    /* Called at every iteration; a result other than 0 ends the solve. May be NULL. */
    int32_t (*progress)(void *context, const wi_progress *now);

    /* SPMD: the members of a group call wi_solve with the same arguments but `member`. Each holds
     * the blocks of some outputs. `all_reduce` is their only communication. Its data are
     * wi_leaves(...) x sums doubles, then `maxima` doubles. It replaces the first `sums` doubles by
     * the sums over all members and the `maxima` doubles by the maxima, as wi_reduce does.
     * A result other than 0 ends the solve with WI_COMMUNICATION. */
    int32_t members, member;
    int32_t (*all_reduce)(void *context, double *data, int64_t sums, int64_t maxima);

    /* Called every `checkpoint_every` iterations with the state of this member: `resume` with it
     * continues the solve from there. May be NULL. */
    void (*checkpoint)(void *context, const uint8_t *state, int64_t bytes, int32_t iteration);
    int32_t checkpoint_every;
    const uint8_t *resume;
    int64_t resume_bytes;

    void *context;
} wi_options;

typedef struct {
    double loss;  /* of the private mechanism */
    double bound; /* on the loss of every private mechanism */
    double gap;
    double seconds;
    int32_t iterations;
    int32_t stopped; /* a wi_stopped */
    int32_t parts;   /* leaves of the tree of sums; 1 if the program is too small to be shared */
    int32_t columns; /* outputs in use that this member holds */
    int32_t *output; /* (columns) */
    double *column;  /* (columns, n) probabilities */
    int64_t multipliers; /* of rows k(right, z) >= exp(-eps d) k(left, z), those of this member */
    int32_t *row_output, *row_left, *row_right;
    double *row_value;
} wi_result;

/* Find the private mechanism with the least loss. */
WI_PUBLIC int32_t wi_solve(const wi_program *program, const double *prior,
                           const wi_options *options, wi_result **result);
WI_PUBLIC void wi_result_free(wi_result *result);

/* Find good columns and prices where each output has a support of some places only (local.c).
 *
 * pairs, exponents  as above; pairs of places that are far apart may be left out.
 * first, place      the support of output z is place[first[z]] to place[first[z + 1] - 1], two places
 *                   at least. All of them are paired with the first one as well.
 * cost, reach       by support: prior(x) loss(x, z), and eps d(x, place[first[z]]).
 * amount            (n): what the columns of the supports add up to at each place, 1 at most.
 * options           tolerance, time_limit_s, threads, catch_interrupt, stop, progress and context.
 * column            by support: positive columns to begin with, overwritten by the result.
 * prices            (n): the price of each place, the multiplier of its sum.
 * result            has no columns; its multipliers are those of the rows of the supports. */
WI_PUBLIC int32_t wi_solve_local(int32_t n, int32_t m, int64_t edges, const int32_t *pairs,
                                 const double *exponents, const int64_t *first,
                                 const int32_t *place, const double *cost, const double *reach,
                                 const double *amount, const wi_options *options, double *column,
                                 double *prices, wi_result **result);

/* The number of subtree sums that a member sends for each sum. */
WI_PUBLIC int32_t wi_leaves(int32_t parts, int32_t members, int32_t member);
/* The number of parts of a solve with this program: each part is a leaf of the tree of sums. */
WI_PUBLIC int32_t wi_parts(const wi_program *program, const double *prior);
/* What an all-reduce computes from the data of all members, in this order: sums as a fixed binary
 * tree over the parts, so that they do not depend on the number of members, and maxima. */
WI_PUBLIC int32_t wi_reduce(int32_t parts, int32_t members, const double *const *data,
                            int64_t sums, int64_t maxima, double *reduced);

typedef struct {
    double loss;  /* of the matrix */
    double bound; /* on the loss of every matrix that obeys the cones */
    double gap;   /* (loss - bound) / |loss| */
    double seconds;
    int32_t iterations;
    int32_t stopped; /* a wi_stopped */
} wi_cone_report;

/* The number of corners of all cells of a lattice; 0 if a size is zero or too large. */
WI_PUBLIC int64_t wi_cone_corners(int32_t nx, int32_t ny);
/* Find the mechanism with the least cost sum over v, z of cost(v, z) k(v, z) on a rectangular
 * lattice whose bilinear interpolation is private at every point: k >= 0, sum_z k(v, z) = 1, and
 *
 *     ((k_a - k_v) / hx)^2 + ((k_b - k_v) / hy)^2 <= epsilon^2 k_v^2
 *
 * for every output, every cell and every corner v of it with the neighbours a and b in that cell.
 *
 * xs, ys       (nx), (ny) increasing, two vertices at least; vertex iy nx + ix. On a line (nx or ny
 *              is 1) the missing neighbour is left out of the cone.
 * cost         (n, m), of any sign.
 * options      tolerance, time_limit_s, threads, catch_interrupt, stop, progress and context.
 * matrix       (n, m): inside the cones and with rows that add up to 1, up to rounding.
 * multipliers  (m, corners, 3): the dual y of each cone, y0 >= |(y1, y2)|, by cells (iy, ix), each
 *              with its lower left, lower right, upper left and upper right corner. They prove the
 *              bound, the sum over v of the least cost(v, z) - (A'y)(v, z) over z. */
WI_PUBLIC int32_t wi_cones(int32_t nx, int32_t ny, int32_t m, const double *xs, const double *ys,
                           const double *cost, double epsilon, const wi_options *options,
                           double *matrix, double *multipliers, wi_cone_report *report);

/* Checks, over rows low <= x < high, so that threads can share them. */

/* worst[x, y] = the largest k(x, z) / k(y, z) over z; inverse is 1 / k, (m, n). */
WI_PUBLIC void wi_worst_ratios(int64_t low, int64_t high, int64_t n, int64_t m,
                               const double *matrix, const double *inverse, double *worst);
/* worst[x] = the first y m + z with counts[x, z] > factor[x, y] counts[y, z] / 2^shift[x, y], in
 * exact arithmetic; it is not changed if there is none. */
WI_PUBLIC void wi_first_broken(int64_t low, int64_t high, int64_t n, int64_t m,
                               const uint64_t *counts, const uint64_t *factor,
                               const int64_t *shift, int64_t *worst);
/* lifted[x, z] = the largest decay[x, y] k(y, z) over y, and k(x, z). */
WI_PUBLIC void wi_lift(int64_t low, int64_t high, int64_t n, int64_t m, const double *matrix,
                       const double *decay, double *lifted);
/* short[x, y] = max over z of k(x, z) - factors[x, y] k(y, z), not below 0. */
WI_PUBLIC void wi_shortfalls(int64_t low, int64_t high, int64_t n, int64_t m,
                             const double *matrix, const double *factors, double *shortfall);

/* Pruning of a proof, over outputs low <= z < high, so that threads can share them. Row j of an
 * output sends y[j] from right[j]; gain[j] y[j] arrives at left[j]. The rows of output z are
 * first[z] <= j < first[z + 1]. */

/* Cancel all cycles of the rows of each output: what is left is a forest on the nodes. y is
 * changed; a row with y = 0 is not needed any more. */
WI_PUBLIC int32_t wi_cancel_cycles(int64_t low, int64_t high, int64_t nodes, const int64_t *first,
                                   const int64_t *left, const int64_t *right, const double *gain,
                                   double *y);
/* Let each output send no more than its n places need: spare[z, x] is what place x does not need,
 * and rows to x are reduced by as much as that allows. y and spare are changed. */
WI_PUBLIC void wi_return_spare(int64_t low, int64_t high, int64_t n, double *spare,
                               const int64_t *first, const int64_t *left, const int64_t *right,
                               const double *gain, double *y);

/* Prices and columns for many places: price_bound.c. */

/* Look for flows that cover the negative gains cost - prices of each output with the positive ones.
 * cost is (outputs, n); decay is exp(-eps d), (n, n), and pairs below least_decay are left out.
 * Of the supplies of an output, those that can give most are used: at most most_pairs pairs of a
 * demand and a supply. tolerance: the share of the need that may stay uncovered. cut: smaller shares of a supply are
 * dropped. residual[x] is lowered to the least gain that is left at x, uncovered[z] is the need that
 * is left. With a capacity the flows are written: flow value from the place `right` to the place
 * `left`, for an output. Return the number of flows, which may exceed the capacity; -1: no memory. */
WI_PUBLIC int64_t wi_cover(int64_t outputs, int64_t n, const double *cost, const double *prices,
                           const float *decay, double least_decay, int32_t rounds,
                           int64_t most_pairs, double tolerance, double cut, double *residual,
                           double *uncovered, int64_t capacity, int32_t *output, int32_t *left,
                           int32_t *right, double *value);
/* Move logarithms of columns, (inputs, m), towards |log k(x, z) - log k(y, z)| <= exponent: x takes
 * `share` of the excess over each of its neighbours, of which only the largest counts. other,
 * exponent and share are (inputs, neighbours). Rows low <= x < high are computed. */
WI_PUBLIC void wi_relax(int64_t low, int64_t high, int64_t m, int64_t neighbours,
                        const double *logs, const int32_t *other, const double *exponent,
                        const double *share, double *relaxed);

/* The elastic metric: elastic.c. The caller checks its arguments. */

/* A grid, the edges so far as lists of arcs, and one pass. Arc 2 e and 2 e + 1 are edge e, in both
 * directions: to[arc] is where it ends, next[arc] the next arc from the same cell, -1 for none. */
typedef struct {
    int32_t columns, rows;
    const double *mass;      /* (n), positive */
    const uint8_t *fenced;   /* (n), 1: the cell is never joined */
    int32_t steps;           /* to other cells, the nearest by the straight line first */
    const int32_t *right, *up;
    double start, level;     /* the pass is for distances between them */
    double slack;            /* the requirement at l + slack is met within l */
    uint8_t *covered;        /* (n), 1: within slack of a cell that the pass has finished */
    int64_t edges, capacity;
    int32_t *first;          /* (n), the last arc that was added at a cell, -1 for none */
    int32_t *to, *next;      /* (2 capacity) */
    double *length;          /* (capacity) */
} wi_elastic;

/* Add edges until the mass within l of each of these cells is at least ((l + slack) / ln 2)^2, for
 * start <= l <= level, or all cells are within l. Cells that are covered are left out. Return the
 * number of cells done: fewer than `count` if there is no room for an edge; -1: no memory. */
WI_PUBLIC int64_t wi_elastic_pass(wi_elastic *passes, int64_t count, const int32_t *cells);
/* Measure the balls around cells[low] to cells[high - 1] in a graph of n cells: the arcs from x are
 * begin[x] <= arc < begin[x + 1]. held: the mass within `limit`; the search ends where it reaches
 * `enough`. least: the least mass(closer than d) / (d / ln 2)^2 over the distances d up to there. */
WI_PUBLIC int32_t wi_elastic_balls(int64_t low, int64_t high, int64_t n, const int32_t *cells,
                                   const double *mass, const int32_t *begin, const int32_t *to,
                                   const double *length, double limit, double enough,
                                   double *least, double *held);

/* Parts of the method, for its tests. */

/* The order of the inputs (n), and which pairs are constrained at first (edges). */
WI_PUBLIC void wi_program_order(const wi_program *program, int32_t *order, uint8_t *first);
/* Shortest paths along the pairs, in the order of the program: lengths (n, n), before (n, n). */
WI_PUBLIC void wi_program_paths(const wi_program *program, double *lengths, int32_t *before);
/* Factor a symmetric matrix (n, n) of which the entries outside the envelope first[j] <= i <= j are
 * zero; solve for `right` in place; put the lower triangle of diag(k) M^-1 diag(k), without row and
 * column `skipped` of the inverse, into `inverse` (n, n). Return 0 if the matrix can be factored. */
WI_PUBLIC int32_t wi_envelope(int32_t n, const double *matrix, const int32_t *first,
                              double *right, int32_t skipped, const double *k, double *inverse);

/* The instruction set in use: "x86-64-v2", "x86-64-v3", "x86-64-v4", "arm64", "wasm", ... */
WI_PUBLIC const char *wi_instruction_set(void);
WI_PUBLIC int32_t wi_version(void);

#ifdef __cplusplus
}
#endif
#endif
