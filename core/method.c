/* The whole method in one translation unit: it is compiled once for each instruction set. */
#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#undef near /* keywords of 16-bit compilers, which windows.h still defines */
#undef far
#undef NEAR
#undef FAR
#endif

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
#include "local.c"
#include "cones.c"
#include "cone_block.c"
#include "cone_step.c"
#include "cone_driver.c"
