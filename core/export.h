/* The names of exported functions.
 *
 * On x86-64 the sources are compiled once for each instruction set, with -DWI_ISA=v2, v3 or v4, and
 * WI_EXPORT(wi_solve) is wi_solve_v2, wi_solve_v3 or wi_solve_v4. dispatch.c defines wi_solve, which
 * calls one of them. On other processors there is one instruction set and WI_EXPORT(wi_solve) is
 * wi_solve. wi_version and wi_instruction_set are in dispatch.c, on every processor.
 */
#ifndef WI_EXPORT_H
#define WI_EXPORT_H

#ifdef WI_ISA
#define WI_PASTE_2(name, isa) name##_##isa
#define WI_PASTE(name, isa) WI_PASTE_2(name, isa)
#define WI_EXPORT(name) WI_PASTE(name, WI_ISA)
#else
#define WI_EXPORT(name) name
#endif

#endif
