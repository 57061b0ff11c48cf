/* The whole method in one translation unit: it is compiled once for each instruction set. */
#include "whereish.h"
#include "export.h"

#include "constants.h"
#include "vectors.h"

#include "threads.c"
#include "interrupt.c"
#include "envelope.c"
#include "block.c"
#include "program.c"
#include "spanner.c"
#include "communicator.c"
#include "solve.c"
#include "step.c"
#include "pricing.c"
#include "state.c"
#include "driver.c"
