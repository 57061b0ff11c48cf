/* Vectors of doubles, as wide as the registers. Every array of n numbers is padded to WIDTH. */
#ifndef WI_VECTORS_H
#define WI_VECTORS_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH 32 /* columns of a strip of a factor */
#define PANEL 4  /* rows that are eliminated together */
#define TURNS 3  /* systems that are solved in turns */

/* LANES doubles in a vector; TILE vectors x PANEL rows stay in registers. */
#if defined(__AVX512F__)
#define LANES 8
#define TILE 4
#elif defined(__AVX2__)
#define LANES 4
#define TILE 2
#elif defined(__aarch64__)
#define LANES 4
#define TILE 2
#else
#define LANES 2
#define TILE 2
#endif

typedef double vec __attribute__((vector_size(8 * LANES), aligned(8)));
typedef int64_t mask __attribute__((vector_size(8 * LANES), aligned(8)));
#define INLINE static inline __attribute__((always_inline))

INLINE vec load(const double *at) { return *(const vec *)at; }
INLINE void store(double *at, vec value) { *(vec *)at = value; }
INLINE double vec_sum(vec v) {
    double total = 0.0;
#pragma clang loop unroll(full)
    for (int lane = 0; lane < LANES; lane++) total += v[lane];
    return total;
}
INLINE double vec_max(vec v) {
    double most = v[0];
#pragma clang loop unroll(full)
    for (int lane = 1; lane < LANES; lane++) most = v[lane] > most ? v[lane] : most;
    return most;
}
/* The numbers of an array at LANES places. */
INLINE vec gather(const double *from, const int32_t *at) {
    vec v;
#pragma clang loop unroll(full)
    for (int lane = 0; lane < LANES; lane++) v[lane] = from[at[lane]];
    return v;
}
INLINE int padded(int n) { return (n + WIDTH - 1) / WIDTH * WIDTH; }
INLINE int least(int a, int b) { return a < b ? a : b; }
INLINE int most(int a, int b) { return a > b ? a : b; }
INLINE double smaller(double a, double b) { return a < b ? a : b; }
INLINE double larger(double a, double b) { return a > b ? a : b; }

/* Memory that a vector may be loaded from; zero-filled. NULL if there is none, or for too much. */
static void *allocate(double count, size_t size) {
    double bytes = (count + WIDTH) * (double)size;
    if (!(bytes >= 0 && bytes < (double)(SIZE_MAX / 4))) return NULL;
    return calloc((size_t)bytes, 1);
}
#define NEW(type, count) ((type *)allocate((double)(count), sizeof(type)))

#endif
