/*
 * planted.h
 *	  Rules that a test can take out, to prove that it would notice.
 *
 * Only with -DMEZZ_PLANTED, which no shipped build has: then the setting
 * mezzanine.planted names the rule that is broken, and mezzanine.pause where a
 * session waits, and for what.  Otherwise every question is a constant false.
 * docs/reliability.md says which test sees which.
 */
#ifndef MEZZ_PLANTED_H
#define MEZZ_PLANTED_H

#ifdef MEZZ_PLANTED
extern bool mezz_without(const char *rule);
extern void mezz_pause_in(const char *place);
extern void mezz_define_planted(void);
#else
#define mezz_without(rule) false
#define mezz_pause_in(place) ((void) 0)
#endif

#endif							/* MEZZ_PLANTED_H */
