/* The elastic metric: the passes that add edges, and the balls of the graph that they give.
 *
 * places/elastic.py explains the method and runs the passes. All searches are Dijkstra's, with a
 * heap of which every node has four children. A search ends as soon as its ball holds enough.
 *
 * References: Chatzikokolakis, Palamidessi, Stronati: Constructing elastic distinguishability
 * metrics for location privacy, PETS 2015. Dijkstra: A note on two problems in connexion with
 * graphs, Numerische Mathematik 1, 1959.
 */
#include "export.h"
#include "whereish.h"

#include <math.h>
#include <stdlib.h>

enum { CHILDREN = 4 };
static const double LN_2 = 0.69314718055994530942;
/* A new edge is shorter than the radius by a tenth, so that cells beyond it need none. */
static const double SHORTENED = 0.9;

typedef struct {
    double distance;
    int32_t cell;
} entry_t;

/* The cells that a search has seen; all arrays are for n cells, and `heap` grows. */
typedef struct {
    entry_t *heap;
    int64_t size, capacity;
    double *distance;  /* so far; infinite for a cell that was not seen */
    uint8_t *inside;   /* the distance is final */
    int32_t *seen;
    int64_t count;
} search_t;

static int search_new(search_t *s, int64_t n) {
    *s = (search_t){0};
    s->distance = malloc((size_t)n * sizeof *s->distance);
    s->inside = calloc((size_t)n, 1);
    s->seen = malloc((size_t)n * sizeof *s->seen);
    if (!s->distance || !s->inside || !s->seen) return 0;
    for (int64_t x = 0; x < n; x++) s->distance[x] = INFINITY;
    return 1;
}

static void search_free(search_t *s) {
    free(s->heap), free(s->distance), free(s->inside), free(s->seen);
}

/* Note that a cell is at this distance, if it was not nearer. */
static int search_push(search_t *s, int32_t cell, double distance) {
    if (!(distance < s->distance[cell])) return 1;
    if (s->size == s->capacity) {
        const int64_t more = 2 * s->capacity + 1024;
        entry_t *heap = realloc(s->heap, (size_t)more * sizeof *heap);
        if (!heap) return 0;
        s->heap = heap, s->capacity = more;
    }
    if (s->distance[cell] == INFINITY) s->seen[s->count++] = cell;
    s->distance[cell] = distance;
    int64_t at = s->size++;
    for (; at > 0 && s->heap[(at - 1) / CHILDREN].distance > distance; at = (at - 1) / CHILDREN)
        s->heap[at] = s->heap[(at - 1) / CHILDREN];
    s->heap[at] = (entry_t){distance, cell};
    return 1;
}

static void search_drop(search_t *s) {
    const entry_t last = s->heap[--s->size];
    int64_t at = 0;
    for (;;) {
        const int64_t first = CHILDREN * at + 1;
        const int64_t end = first + CHILDREN < s->size ? first + CHILDREN : s->size;
        int64_t best = first;
        if (first >= s->size) break;
        for (int64_t child = first + 1; child < end; child++)
            if (s->heap[child].distance < s->heap[best].distance) best = child;
        if (s->heap[best].distance >= last.distance) break;
        s->heap[at] = s->heap[best];
        at = best;
    }
    if (s->size > 0) s->heap[at] = last;
}

/* The nearest cell that is not inside; its cell is -1 if there is none. */
static entry_t search_top(search_t *s) {
    while (s->size > 0 && s->inside[s->heap[0].cell]) search_drop(s);
    return s->size > 0 ? s->heap[0] : (entry_t){INFINITY, -1};
}

static void search_clear(search_t *s) {
    for (int64_t at = 0; at < s->count; at++) {
        s->distance[s->seen[at]] = INFINITY;
        s->inside[s->seen[at]] = 0;
    }
    s->size = s->count = 0;
}

/* The nearest cell by the straight line that is neither inside nor in a fence; -1: none. */
static int32_t nearest_outside(const wi_elastic *e, const search_t *s, int32_t cell, int32_t *step) {
    const int32_t column = cell % e->columns, row = cell / e->columns;
    for (; *step < e->steps; ++*step) { /* the cells of earlier steps stay inside */
        const int32_t x = column + e->right[*step], y = row + e->up[*step];
        if (x < 0 || x >= e->columns || y < 0 || y >= e->rows) continue;
        const int32_t other = y * e->columns + x;
        if (!s->inside[other] && !e->fenced[other]) return other;
    }
    return -1;
}

static void add_edge(wi_elastic *e, int32_t a, int32_t b, double length) {
    const int32_t arc = (int32_t)(2 * e->edges);
    e->length[e->edges++] = length;
    e->to[arc] = b, e->next[arc] = e->first[a], e->first[a] = arc;
    e->to[arc + 1] = a, e->next[arc + 1] = e->first[b], e->first[b] = arc + 1;
}

/* Join cells to one cell. 1: its requirement holds up to the level. 0: no room. -1: no memory. */
static int grow(wi_elastic *e, search_t *s, int32_t cell) {
    double held = 0.0, radius = e->start;
    int32_t step = 0;
    if (!search_push(s, cell, 0.0)) return -1;
    for (;;) {
        const entry_t top = search_top(s);
        if (radius >= e->level && !(top.distance <= e->slack)) return 1;
        if (top.cell < 0 || !(top.distance <= radius)) {
            const int32_t other = nearest_outside(e, s, cell, &step);
            if (other < 0) return 1; /* all cells are inside */
            if (e->edges >= e->capacity) return 0;
            add_edge(e, cell, other, radius * SHORTENED);
            if (!search_push(s, other, radius * SHORTENED)) return -1;
            continue;
        }
        search_drop(s);
        s->inside[top.cell] = 1;
        if (top.distance <= e->slack) e->covered[top.cell] = 1;
        held += e->mass[top.cell];
        const double wide = (LN_2 * sqrt(held) - e->slack) * (1.0 - 1e-12);
        if (wide > radius) radius = wide;
        for (int32_t arc = e->first[top.cell]; arc >= 0; arc = e->next[arc]) {
            const double distance = top.distance + e->length[arc / 2];
            if (distance < e->level && !search_push(s, e->to[arc], distance)) return -1;
        }
    }
}

int64_t WI_EXPORT(wi_elastic_pass)(wi_elastic *e, int64_t count, const int32_t *cells) {
    search_t s;
    int64_t done = 0;
    int status = search_new(&s, (int64_t)e->columns * e->rows) ? 1 : -1;
    while (status == 1 && done < count) {
        if (!e->covered[cells[done]]) status = grow(e, &s, cells[done]);
        search_clear(&s);
        if (status == 1) done++;
    }
    search_free(&s);
    return status < 0 ? -1 : done;
}

int32_t WI_EXPORT(wi_elastic_balls)(int64_t low, int64_t high, int64_t n, const int32_t *cells,
                                    const double *mass, const int32_t *begin, const int32_t *to,
                                    const double *length, double limit, double enough,
                                    double *least, double *held) {
    search_t s;
    int status = search_new(&s, n) ? WI_OK : WI_NO_MEMORY;
    for (int64_t at = low; at < high && status == WI_OK; at++) {
        double all = 0.0, ratio = INFINITY;
        if (!search_push(&s, cells[at], 0.0)) status = WI_NO_MEMORY;
        while (status == WI_OK && all < enough) {
            const entry_t top = search_top(&s);
            if (top.cell < 0) break;
            search_drop(&s);
            s.inside[top.cell] = 1;
            const double needed = top.distance / LN_2;
            if (needed * needed * ratio > all) ratio = all / (needed * needed);
            all += mass[top.cell];
            for (int32_t arc = begin[top.cell]; arc < begin[top.cell + 1]; arc++) {
                const double distance = top.distance + length[arc];
                if (distance <= limit && !search_push(&s, to[arc], distance))
                    status = WI_NO_MEMORY;
            }
        }
        least[at] = ratio, held[at] = all;
        search_clear(&s);
    }
    search_free(&s);
    return status;
}
