/* The constants of the method, in one place. None of them decides whether a result is right: the
 * gap does. They decide how fast the gap closes. */
#ifndef WI_CONSTANTS_H
#define WI_CONSTANTS_H

/* The step (Mehrotra 1992; Gondzio 1996). */
#define STEP_TO_BOUNDARY 0.95  /* share of the way to the nearest bound that a step takes */
#define CORRECTORS 3           /* Gondzio correctors in a step, at most */
#define LONG_STEP 1.5          /* alpha_primal + alpha_dual from which no corrector is tried */
#define CORRECTOR_GAIN 0.02    /* a corrector is taken if it lengthens the steps by this */
#define CENTERING_FLOOR 1e-4   /* of the ratio that is cubed in Mehrotra's centering parameter */
#define CENTRAL_LOW 0.3        /* correctors pull products below this share of the target up ... */
#define CENTRAL_HIGH 3.0       /* ... and above this multiple of it down */
#define FIRST_MU 3.0           /* first complementarity, times loss / rows */

/* A block: one output. */
#define RIDGE 1e-13     /* relative shift of the diagonal of a block matrix */
#define NEAR 0.2        /* a pair is constrained below this share of the slack it could have */
#define FAR_OFF 2.0     /* a step may violate a pair not constrained yet by this factor */
#define GROWTH 10.0     /* and may not make an entry more than this many times larger */
#define FRESH 1e-5      /* slacks above this are computed from the column at every step */
#define FEASIBLE 0.2    /* a row whose true slack is above this share of its slack is feasible */
#define JOIN_SLACK 0.5  /* a row that joins has at least this share of the slack of its limit */
#define JOIN_DUAL 0.3   /* and a multiplier of at most this share of the price of its input, ... */
#define JOIN_LATE 0.003 /* ... or of this share, ... */
#define JOIN_GAP 0.05   /* ... in large programs, once the gap is below this: the bound is needed then */
#define HAIR 4e-15      /* relative margin of reduced costs, for another order of summation */
#define CLEAN_PASSES 4
#define TINY_MULTIPLIER 1e-140 /* of a cone, where no cost is above 1 */

/* Outputs in use. */
#define DYING 1e-4        /* an output whose column is below this everywhere is merged, ... */
#define DYING_GAP 1.5     /* ... or, in large programs, below this multiple of the gap, ... */
#define DYING_MOST 1e-2   /* ... if that is not above this, ... */
#define DYING_FROM 0.1    /* ... and the gap is below this: before, columns say little */
#define RETIRING 3.0      /* of a conic program: below this multiple of the gap, likewise; ... */
#define SPOILT 0.5        /* ... one whose reduced costs miss this share of the gap ... */
#define LATE 3            /* ... so many times in a row is taken back */
#define ALL_OUTPUTS 12    /* so few outputs are all in use */
#define NEARLY_BEST 0.02  /* so much worse than the best remap is nearly the best */
#define NEW_COLUMN 0.01   /* the largest entry of a column that joins */
#define STAGE_SMALL {1e-2}       /* gaps at which outputs left out are priced on the way: */
#define STAGE_LARGE {3e-2, 1e-3} /* one that is found late costs more */
#define LARGE 100         /* from this many inputs on */
#define DEEP 5e-7         /* before a smaller gap is tried, the result for this one is kept */
#define GO_BACK 0.3       /* outputs join an earlier iterate if mu has fallen below this share of it */
#define ROUNDS 30         /* of pricing, at most */
#define CONE_DIGITS 1e-14  /* loss and bound of a conic program, against the sum of costs */
#define CONE_ITERATIONS 200 /* of a conic program, at most */
#define ITERATIONS 300    /* between two rounds, at most */
#define PRICING_ITERATIONS 60
#define CLOSING 1.0       /* the gap is computed when complementarity is within this of the target */

/* The transport proof: bids are raised to the powers 8, 16, 32 up to these rounds. */
#define BID_ROUNDS_8 30
#define BID_ROUNDS_16 60
#define BID_ROUNDS 120
#define BID_SMALL 1e-5    /* smaller shares of a supply are dropped */

/* The start. */
#define NEIGHBOURS 4      /* first constrained: this many nearest pairs of each input */
#define LESS_EPSILON 0.8  /* the second tight-constraints mechanism is built at this share */
#define FAR 400.0         /* exponents of the starting point are cut here, ... */
#define LARGEST_EXPONENT 300.0 /* and those of the pairs here: exp(-300) is tiny, and not 0 */

/* Parallel work. */
#define PARTS 16          /* leaves of the tree of sums */
#define HUB 4.0           /* a place in this many times the mean number of supports is a hub */
#define LOCAL_PARTS 4     /* of a program with small supports: its sums are large */
#define MANY_PARTS 64     /* from this many inputs on: */
#define MANY_INPUTS 500
#define WORTH_THREADS 2e4 /* multiplications for which threads are worth their start */
#define WORTH_MEMBERS 4e6 /* and for which several machines are */
#define SPINS 2000        /* a thread looks so many times for work before it sleeps */

#endif
