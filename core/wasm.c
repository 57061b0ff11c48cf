/* The border between the core and JavaScript, in the WebAssembly module only.
 *
 * JavaScript passes numbers and addresses of arrays, and never the layout of a struct. The host
 * supplies two functions: env.now, a clock in seconds (threads.c), and env.progress. Arrays live in
 * memory that the host gets from malloc.
 */
#include "whereish.h"

#include <math.h>
#include <stddef.h>

#define EXPORT(name) __attribute__((export_name(#name))) name
#define IMPORT(name) __attribute__((import_module("env"), import_name(#name)))

static volatile uint8_t stop;
/* End the solve under way. The host may call this from env.now or env.progress. */
void EXPORT(wi_wasm_stop)(void) { stop = 1; }

/* Called at every iteration, with the fields of wi_progress. */
IMPORT(progress) extern void wi_host_progress(int32_t iteration, int32_t outputs, double rows,
                                              double loss, double bound, double gap);

static int32_t tell(void *context, const wi_progress *now) {
    (void)context;
    wi_host_progress(now->iteration, now->outputs, (double)now->rows, now->loss, now->bound,
                     now->gap);
    return stop;
}

/* Prepare a program, solve it and free it. Arrays are those of wi_program_new and wi_solve; the
 * result is NULL unless WI_OK is returned. A time limit that is not a number means none. */
int32_t EXPORT(wi_wasm_solve)(int32_t n, int32_t m, int32_t edges, const double *loss,
                              const int32_t *pairs, const double *exponents, const double *reach,
                              const double *prior, double tolerance, double time_limit_s,
                              wi_result **result) {
    wi_program *program = NULL;
    wi_options options = {
        .tolerance = tolerance,
        .time_limit_s = time_limit_s >= 0.0 ? time_limit_s : INFINITY,
        .threads = 1,
        .members = 1,
        .stop = &stop,
        .progress = tell,
    };
    stop = 0;
    *result = NULL;
    int32_t status = wi_program_new(n, m, edges, loss, pairs, exponents, reach, &program);
    if (status == WI_OK) status = wi_solve(program, prior, &options, result);
    wi_program_free(program);
    return status;
}

/* Solve the conic program of a lattice. Arrays are those of wi_cones; `numbers` gets loss, bound, gap,
 * seconds, iterations and the wi_stopped. A time limit that is not a number means none. */
int32_t EXPORT(wi_wasm_cones)(int32_t nx, int32_t ny, int32_t m, const double *xs, const double *ys,
                              const double *cost, double epsilon, double tolerance,
                              double time_limit_s, double *matrix, double *multipliers,
                              double *numbers) {
    wi_cone_report report = {0};
    wi_options options = {
        .tolerance = tolerance,
        .time_limit_s = time_limit_s >= 0.0 ? time_limit_s : INFINITY,
        .threads = 1,
        .stop = &stop,
        .progress = tell,
    };
    stop = 0;
    int32_t status =
        wi_cones(nx, ny, m, xs, ys, cost, epsilon, &options, matrix, multipliers, &report);
    if (status != WI_OK) return status;
    numbers[0] = report.loss, numbers[1] = report.bound, numbers[2] = report.gap;
    numbers[3] = report.seconds, numbers[4] = report.iterations, numbers[5] = report.stopped;
    return status;
}

/* The fields of a result. */
#define FIELD(type, name)                                                                          \
    type EXPORT(wi_wasm_##name)(const wi_result *result) { return result->name; }
FIELD(double, loss)
FIELD(double, bound)
FIELD(double, gap)
FIELD(double, seconds)
FIELD(int32_t, iterations)
FIELD(int32_t, stopped)
FIELD(int32_t, columns)
FIELD(const int32_t *, output)
FIELD(const double *, column)
FIELD(const int32_t *, row_output)
FIELD(const int32_t *, row_left)
FIELD(const int32_t *, row_right)
FIELD(const double *, row_value)
int32_t EXPORT(wi_wasm_multipliers)(const wi_result *result) {
    return (int32_t)result->multipliers; /* memory of 4 GiB holds fewer than 2^31 */
}
