/* The greedy spanner: the fewest pairs along which no path is longer than `stretch` times d.
 *
 * Pairs are taken in the order of their length. A pair is kept if the path along the pairs kept so
 * far is too long. A new edge (u, v) can only shorten paths between the places nearer to u and those
 * nearer to v, so an update touches no other pair.
 *
 * Reference: Althofer, Das, Dobkin, Joseph, Soares: On sparse spanners of weighted graphs. Discrete
 * and Computational Geometry 9, 1993.
 */
#include "vectors.h"

/* Update the shortest paths for an edge; `work` has room for 4 n numbers. */
static void add_edge(int64_t n, double *paths, int64_t u, int64_t v, double length, double *work) {
    double *from_u = work, *from_v = work + n;
    int32_t *near_u = (int32_t *)(work + 2 * n), *near_v = (int32_t *)(work + 3 * n);
    int64_t count_u = 0, count_v = 0;
    memcpy(from_u, paths + u * n, sizeof(double) * (size_t)n);
    memcpy(from_v, paths + v * n, sizeof(double) * (size_t)n);
    for (int64_t x = 0; x < n; x++) {
        near_u[count_u] = near_v[count_v] = (int32_t)x;
        count_u += from_u[x] + length < from_v[x];
        count_v += from_v[x] + length < from_u[x];
    }
    for (int64_t a = 0; a < count_u; a++) {
        int64_t x = near_u[a];
        double so_far = from_u[x] + length;
        for (int64_t b = 0; b < count_v; b++) {
            int64_t y = near_v[b];
            double through = so_far + from_v[y];
            if (through < paths[x * n + y]) paths[x * n + y] = paths[y * n + x] = through;
        }
    }
}

int32_t WI_EXPORT(wi_spanner)(int32_t places, const double *metric, double stretch,
                              double time_limit_s, int32_t *edges, int64_t *count, double *paths) {
    int64_t n = places, pairs = n * (n - 1) / 2, at = 0;
    double end = now_s() + time_limit_s;
    if (n < 1 || n > 30000 || !metric || !edges || !count || !paths || !(stretch >= 1.0))
        return WI_BAD_SIZE;
    if (check_numbers(metric, n * n, 1)) return WI_BAD_NUMBER;
    keyed_t *sorted = NEW(keyed_t, pairs);
    double *work = NEW(double, 4.0 * (double)n);
    int32_t status = sorted && work ? WI_OK : WI_NO_MEMORY;
    *count = 0;
    if (!status) {
        for (int64_t x = 0; x < n; x++)
            for (int64_t y = x + 1; y < n; y++, at++)
                sorted[at] = (keyed_t){metric[x * n + y], x * n + y};
        qsort(sorted, (size_t)pairs, sizeof *sorted, by_key);
        for (int64_t a = 0; a < n * n; a++) paths[a] = a % (n + 1) ? INFINITY : 0.0;
    }
    for (int64_t a = 0; a < pairs && !status; a++) {
        int64_t pair = sorted[a].index, u = pair / n, v = pair % n;
        if (!(paths[pair] > metric[pair] * stretch)) continue;
        if (!(now_s() <= end)) status = WI_OUT_OF_TIME;
        edges[2 * *count] = (int32_t)u, edges[2 * *count + 1] = (int32_t)v;
        ++*count;
        add_edge(n, paths, u, v, metric[pair], work);
    }
    free(sorted), free(work);
    return status;
}
