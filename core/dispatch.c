/* The choice of the instruction set, when the library is loaded.
 *
 * x86-64: method.c, checks.c, pruning.c, price_bound.c and elastic.c are compiled for the levels v2,
 * v3 and v4 of the x86-64 psABI (System V Application Binary Interface, AMD64 Architecture Processor
 * Supplement, section 3.1.1). The exported functions forward to the highest level that processor and
 * operating system support. The environment variable WHEREISH_ISA = v2 or v3 chooses a lower level.
 * This file itself is compiled for any x86-64 processor.
 */
#include "whereish.h"

#include <stddef.h>

int32_t wi_version(void) { return WI_VERSION; }

#ifndef WI_DISPATCH

const char *wi_instruction_set(void) {
#if defined(__aarch64__)
    return "arm64";
#elif defined(__wasm__)
    return "wasm";
#elif defined(__x86_64__)
    return "x86-64";
#else
    return "other";
#endif
}

#else

#include <cpuid.h>
#include <stdlib.h>
#include <string.h>

/* Every exported function: type of the result, name, parameters, arguments. */
#define WI_FUNCTIONS(F)                                                                            \
    F(int32_t, wi_program_new,                                                                     \
      (int32_t n, int32_t m, int64_t edges, const double *loss, const int32_t *pairs,              \
       const double *exponents, const double *reach, wi_program **program),                        \
      (n, m, edges, loss, pairs, exponents, reach, program))                                       \
    F(void, wi_program_free, (wi_program * program), (program))                                    \
    F(int32_t, wi_solve,                                                                           \
      (const wi_program *program, const double *prior, const wi_options *options,                  \
       wi_result **result),                                                                        \
      (program, prior, options, result))                                                           \
    F(int32_t, wi_solve_local,                                                                     \
      (int32_t n, int32_t m, int64_t edges, const int32_t *pairs, const double *exponents,         \
       const int64_t *first, const int32_t *place, const double *cost, const double *reach,        \
       const double *amount, const wi_options *options, double *column, double *prices,            \
       wi_result **result),                                                                        \
      (n, m, edges, pairs, exponents, first, place, cost, reach, amount, options, column, prices,  \
       result))                                                                                    \
    F(void, wi_result_free, (wi_result * result), (result))                                        \
    F(int32_t, wi_leaves, (int32_t parts, int32_t members, int32_t member),                        \
      (parts, members, member))                                                                    \
    F(int32_t, wi_parts, (const wi_program *program, const double *prior), (program, prior))       \
    F(int32_t, wi_spanner,                                                                         \
      (int32_t n, const double *metric, double stretch, double time_limit_s, int32_t *edges,       \
       int64_t *count, double *paths),                                                             \
      (n, metric, stretch, time_limit_s, edges, count, paths))                                     \
    F(int32_t, wi_reduce,                                                                          \
      (int32_t parts, int32_t members, const double *const *data, int64_t sums, int64_t maxima,    \
       double *reduced),                                                                           \
      (parts, members, data, sums, maxima, reduced))                                               \
    F(int64_t, wi_cone_corners, (int32_t nx, int32_t ny), (nx, ny))                                \
    F(int32_t, wi_cones,                                                                           \
      (int32_t nx, int32_t ny, int32_t m, const double *xs, const double *ys, const double *cost,  \
       double epsilon, const wi_options *options, double *matrix, double *multipliers,             \
       wi_cone_report *report),                                                                    \
      (nx, ny, m, xs, ys, cost, epsilon, options, matrix, multipliers, report))                    \
    F(void, wi_worst_ratios,                                                                       \
      (int64_t low, int64_t high, int64_t n, int64_t m, const double *matrix,                      \
       const double *inverse, double *worst),                                                      \
      (low, high, n, m, matrix, inverse, worst))                                                   \
    F(void, wi_first_broken,                                                                       \
      (int64_t low, int64_t high, int64_t n, int64_t m, const uint64_t *counts,                    \
       const uint64_t *factor, const int64_t *shift, int64_t *worst),                              \
      (low, high, n, m, counts, factor, shift, worst))                                             \
    F(void, wi_lift,                                                                               \
      (int64_t low, int64_t high, int64_t n, int64_t m, const double *matrix,                      \
       const double *decay, double *lifted),                                                       \
      (low, high, n, m, matrix, decay, lifted))                                                    \
    F(void, wi_shortfalls,                                                                         \
      (int64_t low, int64_t high, int64_t n, int64_t m, const double *matrix,                      \
       const double *factors, double *shortfall),                                                  \
      (low, high, n, m, matrix, factors, shortfall))                                               \
    F(int32_t, wi_cancel_cycles,                                                                   \
      (int64_t low, int64_t high, int64_t nodes, const int64_t *first, const int64_t *left,        \
       const int64_t *right, const double *gain, double *y),                                       \
      (low, high, nodes, first, left, right, gain, y))                                             \
    F(void, wi_return_spare,                                                                       \
      (int64_t low, int64_t high, int64_t n, double *spare, const int64_t *first,                  \
       const int64_t *left, const int64_t *right, const double *gain, double *y),                  \
      (low, high, n, spare, first, left, right, gain, y))                                          \
    F(int64_t, wi_cover,                                                                           \
      (int64_t outputs, int64_t n, const double *cost, const double *prices, const float *decay,   \
       double least_decay, int32_t rounds, int64_t most_pairs, double tolerance, double cut,       \
       double *residual, double *uncovered, int64_t capacity, int32_t *output, int32_t *left,      \
       int32_t *right, double *value),                                                             \
      (outputs, n, cost, prices, decay, least_decay, rounds, most_pairs, tolerance, cut, residual, \
       uncovered, capacity, output, left, right, value))                                           \
    F(void, wi_relax,                                                                              \
      (int64_t low, int64_t high, int64_t m, int64_t neighbours, const double *logs,               \
       const int32_t *other, const double *exponent, const double *share, double *relaxed),        \
      (low, high, m, neighbours, logs, other, exponent, share, relaxed))                           \
    F(int64_t, wi_elastic_pass, (wi_elastic * passes, int64_t count, const int32_t *cells),        \
      (passes, count, cells))                                                                      \
    F(int32_t, wi_elastic_balls,                                                                   \
      (int64_t low, int64_t high, int64_t n, const int32_t *cells, const double *mass,             \
       const int32_t *begin, const int32_t *to, const double *length, double limit, double enough, \
       double *least, double *held),                                                               \
      (low, high, n, cells, mass, begin, to, length, limit, enough, least, held))                  \
    F(void, wi_program_order, (const wi_program *program, int32_t *order, uint8_t *first),         \
      (program, order, first))                                                                     \
    F(void, wi_program_paths, (const wi_program *program, double *lengths, int32_t *before),       \
      (program, lengths, before))                                                                  \
    F(int32_t, wi_envelope,                                                                        \
      (int32_t n, const double *matrix, const int32_t *first, double *right, int32_t skipped,      \
       const double *k, double *inverse),                                                          \
      (n, matrix, first, right, skipped, k, inverse))

/* One table of functions for each level. */
typedef struct {
    const char *name;
#define F(type, name, parameters, arguments) type(*name) parameters;
    WI_FUNCTIONS(F)
#undef F
} level;

#define F(type, name, parameters, arguments)                                                       \
    extern type name##_v2 parameters;                                                              \
    extern type name##_v3 parameters;                                                              \
    extern type name##_v4 parameters;
WI_FUNCTIONS(F)
#undef F

static const level levels[] = {
#define F(type, name, parameters, arguments) name##_v2,
    {"x86-64-v2", WI_FUNCTIONS(F)},
#undef F
#define F(type, name, parameters, arguments) name##_v3,
    {"x86-64-v3", WI_FUNCTIONS(F)},
#undef F
#define F(type, name, parameters, arguments) name##_v4,
    {"x86-64-v4", WI_FUNCTIONS(F)},
#undef F
};

/* The registers that the operating system saves (XCR0), or 0. */
static uint64_t saved_registers(unsigned leaf_1_ecx) {
    if (!(leaf_1_ecx & bit_OSXSAVE)) return 0;
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

/* 4, 3, 2, or 1 if the processor is older than level v2. */
static int supported(void) {
    unsigned a, b, c, d, b7 = 0, c81 = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return 1;
    const unsigned c1 = c;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) b7 = b;
    if (__get_cpuid(0x80000001, &a, &b, &c, &d)) c81 = c;

    const unsigned v2 = bit_SSE3 | bit_SSSE3 | bit_SSE4_1 | bit_SSE4_2 | bit_POPCNT | bit_CMPXCHG16B;
    if ((c1 & v2) != v2 || !(c81 & bit_LAHF_LM)) return 1;

    const uint64_t ymm = 0x06, zmm = 0xE6, saved = saved_registers(c1);
    const unsigned v3 = bit_AVX | bit_F16C | bit_FMA | bit_MOVBE, v3_7 = bit_AVX2 | bit_BMI | bit_BMI2;
    if ((c1 & v3) != v3 || (b7 & v3_7) != v3_7 || !(c81 & bit_LZCNT) || (saved & ymm) != ymm)
        return 2;

    const unsigned v4 = bit_AVX512F | bit_AVX512BW | bit_AVX512CD | bit_AVX512DQ | bit_AVX512VL;
    return (b7 & v4) == v4 && (saved & zmm) == zmm ? 4 : 3;
}

/* Chosen at the first call: the loader's, of wi_instruction_set. A second thread that comes at the
 * same time chooses the same. */
static const level *chosen(void) {
    static const level *choice;
    const level *now = __atomic_load_n(&choice, __ATOMIC_ACQUIRE);
    if (now) return now;
    int best = supported();
    const char *asked = getenv("WHEREISH_ISA");
    if (asked && !strcmp(asked, "v2") && best > 2) best = 2;
    if (asked && !strcmp(asked, "v3") && best > 3) best = 3;
    now = &levels[best < 2 ? 0 : best - 2];
    __atomic_store_n(&choice, now, __ATOMIC_RELEASE);
    return now;
}

/* NULL if the processor is older than level v2: no other function may be called then. */
const char *wi_instruction_set(void) { return supported() < 2 ? NULL : chosen()->name; }

#define F(type, name, parameters, arguments)                                                       \
    type name parameters { return chosen()->name arguments; }
WI_FUNCTIONS(F)
#undef F

#endif
